#include "support/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

namespace penstock::test {
namespace {

std::string lowered(std::string text) {
  for (char& each : text)
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
  return text;
}

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

// Offset and end of a `Range: bytes=` field within `size` bytes; nothing if it cannot be satisfied.
std::optional<std::pair<std::uint64_t, std::uint64_t>> range_of(const std::string& field, std::uint64_t size) {
  const std::string text = field.substr(field.find('=') + 1);
  const std::size_t dash = text.find('-');
  if (dash == 0) {
    const std::uint64_t last = std::stoull(text.substr(1));
    if (last == 0 || size == 0) return std::nullopt;
    return std::pair(size - std::min(last, size), size);
  }
  const std::uint64_t first = std::stoull(text.substr(0, dash)), last = std::stoull(text.substr(dash + 1));
  if (first >= size) return std::nullopt;
  return std::pair(first, last >= size ? size : last + 1);
}

}  // namespace

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out.push_back(static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16)));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

void http_server::reply::set(const std::string& name, std::string value) {
  remove(name);
  fields.emplace_back(name, std::move(value));
}
void http_server::reply::remove(const std::string& name) {
  std::erase_if(fields, [&](const auto& each) { return each.first == name; });
}

http_server::http_server() {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 256) != 0 || ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no socket for a test server");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

http_server::~http_server() {
  stopping_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  ::close(listener_);
  for (connection& each : connections_) ::shutdown(each.socket, SHUT_RDWR);
  for (connection& each : connections_) {
    each.thread.join();
    ::close(each.socket);
  }
}

void http_server::set(const std::string& path, std::string bytes) {
  const std::lock_guard lock(mutex_);
  std::string tag = "\"";
  tag.append(std::to_string(++generation_)).append("\"");
  objects_[path] = {std::move(bytes), std::move(tag)};
}
void http_server::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  objects_.erase(path);
}
void http_server::on_request(script what) {
  const std::lock_guard lock(mutex_);
  script_ = std::move(what);
}
std::vector<http_server::request> http_server::log() const {
  const std::lock_guard lock(mutex_);
  return log_;
}
void http_server::clear_log() {
  const std::lock_guard lock(mutex_);
  log_.clear();
}

void http_server::accept_all() {
  for (std::uint64_t which = 1; !stopping_; ++which) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    const int now = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
    connections_.push_back({});
    connections_.back().socket = socket;
    connections_.back().thread = std::thread([this, socket, which] { serve(socket, which); });
  }
}

void http_server::serve(int socket, std::uint64_t which) {
  std::string buffer;
  for (;;) {
    request asked;
    if (!receive(socket, buffer, asked)) break;
    asked.connection = which;
    script changes;
    {
      const std::lock_guard lock(mutex_);
      asked.number = ++requests_;
      log_.push_back(asked);
      changes = script_;
    }
    reply out = answer(asked);
    if (changes) changes(asked, out);
    if (!send_reply(socket, out)) break;
  }
  ::shutdown(socket, SHUT_RDWR);
}

bool http_server::receive(int socket, std::string& buffer, request& out) {
  std::size_t end = std::string::npos;
  char piece[16384];
  const auto more = [&] {
    const ssize_t got = ::recv(socket, piece, sizeof(piece), 0);
    if (got <= 0) return false;
    buffer.append(piece, static_cast<std::size_t>(got));
    return true;
  };
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos)
    if (!more()) return false;
  std::string head = buffer.substr(0, end + 2);
  buffer.erase(0, end + 4);
  std::size_t at = head.find("\r\n");
  const std::string first = head.substr(0, at);
  const std::size_t space = first.find(' ');
  out.method = first.substr(0, space);
  out.target = first.substr(space + 1, first.rfind(' ') - space - 1);
  for (at += 2; at < head.size();) {
    const std::size_t eol = head.find("\r\n", at);
    const std::string line = head.substr(at, eol - at);
    at = eol + 2;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t value = line.find_first_not_of(' ', colon + 1);
    out.fields[lowered(line.substr(0, colon))] = value == std::string::npos ? "" : line.substr(value);
  }
  const std::size_t size = std::stoull("0" + out.field("content-length"));
  while (buffer.size() < size)
    if (!more()) return false;
  out.body = buffer.substr(0, size);
  buffer.erase(0, size);
  return true;
}

std::map<std::string, std::string> http_server::objects() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> out;
  for (const auto& [path, found] : objects_) out.emplace(path, found.bytes);
  return out;
}

http_server::reply http_server::answer(const request& asked) {
  reply out;
  out.no_body = asked.method == "HEAD";
  const std::string path = percent_decoded(asked.target.substr(0, asked.target.find('?')));
  const std::string query =
      asked.target.find('?') == std::string::npos ? "" : asked.target.substr(asked.target.find('?') + 1);
  const std::lock_guard lock(mutex_);
  if (asked.method != "GET" && asked.method != "HEAD") return answer_write(asked, path, query);
  if (query.find("list-type=2") != std::string::npos) return answer_list(path, query);
  const auto at = objects_.find(path);
  if (at == objects_.end()) {
    out.status = 404;
    out.body = "nothing here";
    return out;
  }
  const object& found = at->second;
  out.set("ETag", found.tag);
  const std::string wanted = asked.field("if-match");
  if (!wanted.empty() && wanted != found.tag) {
    out.status = 412;
    return out;
  }
  out.body = found.bytes;
  const std::string range = asked.field("range");
  if (range.empty()) return out;
  const auto bytes = range_of(range, found.bytes.size());
  const std::string total = "/" + std::to_string(found.bytes.size());
  if (!bytes) {
    out.status = 416;
    out.set("Content-Range", "bytes *" + total);
    out.body.clear();
    return out;
  }
  out.status = 206;
  out.body = found.bytes.substr(bytes->first, bytes->second - bytes->first);
  out.set("Content-Range", "bytes " + std::to_string(bytes->first) + "-" + std::to_string(bytes->second - 1) + total);
  return out;
}

bool http_server::send_reply(int socket, const reply& what) {
  std::this_thread::sleep_for(what.delay);
  if (what.no_answer) return false;
  std::string head = "HTTP/1.1 " + std::to_string(what.status) + " X\r\n";
  for (const auto& [name, value] : what.fields) head += name + ": " + value + "\r\n";
  std::string body = what.body;
  if (what.chunked) {
    head += "Transfer-Encoding: chunked\r\n";
    char size[32];
    std::snprintf(size, sizeof(size), "%zx\r\n", body.size());
    body = body.empty() ? "0\r\n\r\n" : size + body + "\r\n0\r\n\r\n";
  } else if (const std::string length = what.length_field.value_or(std::to_string(body.size())); !length.empty()) {
    head += "Content-Length: " + length + "\r\n";
  }
  if (!send_all(socket, head + "\r\n")) return false;
  if (what.no_body) return true;
  std::string_view rest = std::string_view(body).substr(0, what.cut_after.value_or(body.size()));
  if (what.drip.count() == 0) {
    if (!send_all(socket, rest)) return false;
  } else {
    while (!rest.empty()) {
      if (!send_all(socket, rest.substr(0, 64))) return false;
      rest.remove_prefix(std::min<std::size_t>(rest.size(), 64));
      std::this_thread::sleep_for(what.drip);
    }
  }
  // If the length was not sent, or is wrong, only the end of the connection ends the response.
  return !what.cut_after && (what.chunked || !what.length_field);
}

}  // namespace penstock::test
