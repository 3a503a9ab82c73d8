#pragma once

#include <penstock/result.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/fork_local.h"
#include "store/http_message.h"

namespace penstock::inline v0 {

/// How requests of one store travel.
struct http_settings {
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::seconds stall_timeout{30};  ///< of less than 1 KiB a second, the wait for an answer among it
  unsigned retries = 6;                    ///< after an attempt that failed for a reason that may pass
  std::string ca_bundle;                   ///< a file of certificates; empty: the system's
  std::string netrc;                       ///< a file of passwords (`~/.netrc` where it is "~"), or empty
};

/// One question and its answer, perhaps asked several times. Called on the transport's thread, one call at a time;
/// nothing here may wait.
class http_exchange {
 public:
  virtual ~http_exchange() = default;
  /// Fills a fresh request, before every attempt; what an earlier attempt brought is void.
  virtual result<> prepare(http_request& out) = 0;
  /// The head of an answer below 400 that is no redirect. An error ends the exchange.
  virtual result<> head(const http_head& head) = 0;
  enum class appetite : std::uint8_t { more, enough };
  /// A piece of its body. `enough`: the rest is not wanted. An error ends the exchange.
  virtual result<appetite> body(std::span<const std::byte> bytes) = 0;
  enum class ending : std::uint8_t { whole, again };
  /// The answer has ended. `again`: it was cut off, ask once more.
  virtual result<ending> end() = 0;
  /// An answer of 300 and above that time will not change, with the beginning of its body: an error, or `whole` where
  /// it is an answer after all. `doubtful`: an earlier attempt failed and may have been carried out.
  virtual result<ending> failed(const http_head& head, std::string_view body, bool doubtful) {
    static_cast<void>(doubtful);
    return error_of_status(head, body);
  }
  /// The request was answered at `url`, where its own URL led; or (empty) what was answered there before no longer is.
  virtual void led_to(const std::string& url) { static_cast<void>(url); }
  /// Whether what arrived lets the next attempt ask for less.
  virtual bool has_progressed() { return false; }
  /// Last, once. Afterwards the exchange is destroyed.
  virtual void finish(result<> outcome) noexcept = 0;
};

/// Connections to HTTP servers, and the one thread that drives them; both start when first needed.
///
/// Thread-safe. A forked child gets its own thread and connections; exchanges of the parent are the parent's. Retries
/// (with backoff, jitter and what `Retry-After` says), redirects, timeouts and cancellation stand here, once, for all
/// that speak HTTP.
class http_transport {
 public:
  /// \param connections  Exchanges under way at the same time; more wait for their turn.
  /// \error unsupported  This build or this machine has no libcurl.
  static result<std::shared_ptr<http_transport>> make(unsigned connections);
  ~http_transport();
  http_transport(const http_transport&) = delete;
  http_transport& operator=(const http_transport&) = delete;

  /// Begins an exchange; `finish` is called in any case, perhaps before this returns. `settings` is shared.
  void start(std::unique_ptr<http_exchange> what, std::shared_ptr<const http_settings> settings, std::stop_token stop);

 private:
  explicit http_transport(unsigned connections);
  struct running;
  fork_local<running> running_;
};

/// A request whose answer fits in memory.
struct http_answer {
  http_head head;
  std::string body;
  bool doubtful = false;  ///< of a refusal: an earlier attempt may have been carried out
};
struct http_question {
  std::function<result<>(http_request&)> prepare;
  std::size_t max_body_bytes = std::size_t{64} << 20;  ///< a longer answer is `corrupt_data`
};
/// Takes an answer, or why there is none. Called once, on the transport's thread or inside `ask_then`; may not wait,
/// and may ask again. Every status of 300 and above that time will not change comes as an answer.
using answer_taker = std::function<void(result<http_answer>)>;
/// Asks, and returns at once.
void ask_then(http_transport& through, const std::shared_ptr<const http_settings>& settings, http_question question,
              std::stop_token stop, answer_taker then);
/// Asks and waits.
result<http_answer> ask(http_transport& through, const std::shared_ptr<const http_settings>& settings,
                        http_question question);

}  // namespace penstock::inline v0
