#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace penstock::test {

/// An HTTP/1.1 server of this process, on a free port of 127.0.0.1: objects by path, byte ranges, entity tags,
/// keep-alive. It also implements S3's protocol, without buckets' properties: PUT, DELETE, ListObjectsV2, uploads in
/// parts, each on condition of tags. A script determines its faults. Each connection has a thread; it ends with the
/// server.
class http_server {
 public:
  struct request {
    std::string method, target, body;
    std::map<std::string, std::string> fields;  ///< names in lower case
    std::uint64_t number = 0;                   ///< counts from 1
    std::uint64_t connection = 0;               ///< number of its connection
    std::string field(const std::string& name) const {
      const auto at = fields.find(name);
      return at == fields.end() ? "" : at->second;
    }
  };
  struct reply {
    int status = 200;
    std::vector<std::pair<std::string, std::string>> fields;
    std::string body;
    std::optional<std::string> length_field;  ///< sent instead of the body's length; empty: not sent
    bool chunked = false;
    std::optional<std::size_t> cut_after;  ///< the connection is closed after so many bytes of the body
    bool no_answer = false;                ///< the connection is closed at once
    std::chrono::milliseconds delay{0};    ///< pause before the head
    std::chrono::milliseconds drip{0};     ///< pause between pieces of 64 bytes
    bool no_body = false;                  ///< responses to HEAD

    void set(const std::string& name, std::string value);
    void remove(const std::string& name);
  };
  /// Called for every request with the right reply, on the connection's thread; may change it.
  using script = std::function<void(const request&, reply&)>;

  http_server();
  ~http_server();
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;

  /// The stored objects, by path.
  std::map<std::string, std::string> objects() const;
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  void set(const std::string& path, std::string bytes);
  void remove(const std::string& path);
  void on_request(script what);
  std::vector<request> log() const;
  void clear_log();

 private:
  struct object {
    std::string bytes, tag;
  };
  struct connection {
    std::thread thread;
    int socket = -1;
  };

  void accept_all();
  void serve(int socket, std::uint64_t which);
  static bool receive(int socket, std::string& buffer, request& out);
  reply answer(const request& asked);
  reply answer_write(const request& asked, const std::string& path, const std::string& query);  // http_server_s3.cc
  reply answer_list(const std::string& bucket, const std::string& query) const;
  static bool send_reply(int socket, const reply& what);

  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::map<std::string, object> objects_;
  std::map<std::string, std::map<int, std::string>> uploads_;
  std::uint64_t generation_ = 0, requests_ = 0;
  script script_;
  std::vector<request> log_;
  std::list<connection> connections_;
  std::thread acceptor_;
};

std::string percent_decoded(std::string_view text);

}  // namespace penstock::test
