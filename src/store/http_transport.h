#pragma once

#include <penstock/result.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/fork_local.h"
#include "store/http_message.h"

namespace penstock::inline v0 {

/// The version of libcurl; nothing if this build does not use it, or this machine does not have a suitable one.
std::optional<std::string> curl_version_text();

/// Transport settings of one store's requests.
struct http_settings {
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::seconds stall_timeout{30};  ///< with less than 1 KiB a second, including the wait for a response
  unsigned retries = 6;                    ///< after an attempt that failed for a possibly temporary reason
  std::string ca_bundle;                   ///< a file of certificates; empty: the system's
  std::string netrc;                       ///< a file of passwords (`~/.netrc` if it is "~"), or empty
};

/// One request and its response, possibly attempted several times. Called on the transport's thread, one call at a
/// time; nothing here may wait.
class http_exchange {
 public:
  virtual ~http_exchange() = default;
  /// Fills a new request, before every attempt; the content of an earlier attempt is void.
  virtual result<> prepare(http_request& out) = 0;
  /// The head of a response below 400 that is not a redirect. An error ends the exchange.
  virtual result<> head(const http_head& head) = 0;
  enum class appetite : std::uint8_t { more, enough };
  /// A part of its body. `enough`: the rest is not needed. An error ends the exchange.
  virtual result<appetite> body(std::span<const std::byte> bytes) = 0;
  enum class ending : std::uint8_t { whole, again, otherwise };
  /// The response has ended. `again`: it was interrupted, try once more. `otherwise`: the next request differs, and is
  /// sent at once, also without retries.
  virtual result<ending> end() = 0;
  /// A permanent response of 300 and above, with the beginning of its body: an error, or `whole` if it is a response
  /// after all. `doubtful`: an earlier attempt failed and may have been executed.
  virtual result<ending> failed(const http_head& head, std::string_view body, bool doubtful) {
    static_cast<void>(doubtful);
    return error_of_status(head, body);
  }
  /// A temporary failure that a response below 300 reports in its body, queried before `end`: the request is repeated,
  /// as after status 503.
  virtual std::optional<error> temporary_failure() { return std::nullopt; }
  /// The request succeeded at `url`, to which its own URL redirected; or (empty) an earlier target no longer works.
  virtual void led_to(const std::string& url) { static_cast<void>(url); }
  /// Whether the response is short: it takes little more than the latency, and no bandwidth. Constant.
  virtual bool is_short() const noexcept { return false; }
  /// Whether this attempt got further than all before it, by more than a little. Called once after an attempt.
  virtual bool has_progressed() { return false; }
  /// Called last, once. Afterwards the exchange is destroyed.
  virtual void finish(result<> outcome) noexcept = 0;
};

/// Connections to HTTP servers, and the one thread that drives them; both start at first use.
///
/// Thread-safe. A forked child gets its own thread and connections; exchanges of the parent stay with the parent.
/// Retries (with backoff, jitter and `Retry-After`), redirects, timeouts and cancellation are implemented here for all
/// users of HTTP.
class http_transport {
 public:
  /// \param connections  Exchanges that run at the same time; more wait for their turn.
  /// \param short_ones   More of them, as long as the next one is short; `connections` at least.
  /// \error unsupported  libcurl is not available in this build or on this machine.
  static result<std::shared_ptr<http_transport>> make(unsigned connections, unsigned short_ones = 0);
  ~http_transport();
  http_transport(const http_transport&) = delete;
  http_transport& operator=(const http_transport&) = delete;

  /// Begins an exchange; `finish` is called in any case, perhaps before this returns. `settings` is shared.
  void start(std::unique_ptr<http_exchange> what, std::shared_ptr<const http_settings> settings, std::stop_token stop);

 private:
  http_transport(unsigned connections, unsigned short_ones);
  struct running;
  fork_local<running> running_;
};

/// A request whose response fits in memory.
struct http_answer {
  http_head head;
  std::string body;
  std::string region;     ///< that of the request
  bool doubtful = false;  ///< an earlier attempt may have been executed
};
struct http_question {
  std::function<result<>(http_request&)> prepare;
  std::size_t max_body_bytes = std::size_t{64} << 20;  ///< a longer response is `corrupt_data`
  /// As `http_exchange::temporary_failure`; empty: no body reports one.
  std::function<std::optional<error>(std::string_view body)> temporary_failure;
};
/// Receives a response, or the error. Called once, on the transport's thread or inside `ask_then`; must not wait, and
/// may make another request. Every permanent status of 300 and above is a response.
using answer_taker = std::function<void(result<http_answer>)>;
/// Sends a request, and returns at once.
void ask_then(http_transport& through, const std::shared_ptr<const http_settings>& settings, http_question question,
              std::stop_token stop, answer_taker then);
/// Sends a request and waits.
result<http_answer> ask(http_transport& through, const std::shared_ptr<const http_settings>& settings,
                        http_question question);

}  // namespace penstock::inline v0
