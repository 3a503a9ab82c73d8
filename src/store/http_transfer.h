#pragma once

#include "store/curl_library.h"

#ifdef PENSTOCK_CURL_HEADERS

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "store/http_transport.h"

namespace penstock::inline v0 {

/// One running exchange: its attempts, redirects and the content of the current response. Used by one thread.
class http_transfer {
 public:
  using clock = std::chrono::steady_clock;

  http_transfer(const curl_library& curl, std::unique_ptr<http_exchange> exchange,
                std::shared_ptr<const http_settings> settings, std::stop_token stop) noexcept
      : curl_(curl), exchange_(std::move(exchange)), settings_(std::move(settings)), stop_(std::move(stop)) {}
  ~http_transfer();
  http_transfer(const http_transfer&) = delete;
  http_transfer& operator=(const http_transfer&) = delete;

  /// Calls `wake` when the exchange is to be stopped.
  template <class Wake>
  void on_stop(Wake wake) {
    if (stop_.stop_possible()) watch_ = std::make_unique<watch<Wake>>(stop_, std::move(wake));
  }
  bool stop_requested() const noexcept { return stop_.stop_requested(); }
  bool is_short() const noexcept { return exchange_->is_short(); }

  /// Prepares `handle` for the next attempt. After an error the exchange is over.
  result<> begin(CURL* handle);

  enum class verdict : std::uint8_t {
    finished,  ///< the exchange has been notified
    again,     ///< begin once more at `due()`
  };
  /// The attempt on `handle` has ended.
  verdict ended(CURL* handle, CURLcode code);
  clock::time_point due() const noexcept { return due_; }

  void finish(result<> outcome) noexcept;

 private:
  struct watch_base {
    virtual ~watch_base() = default;
  };
  template <class Wake>
  struct watch final : watch_base {
    watch(const std::stop_token& stop, Wake wake) : callback(stop, std::move(wake)) {}
    std::stop_callback<Wake> callback;
  };

  static std::size_t take_header(char* text, std::size_t one, std::size_t size, void* self);
  static std::size_t take_body(char* bytes, std::size_t one, std::size_t size, void* self);
  static std::size_t give_body(char* to, std::size_t one, std::size_t size, void* self);
  static int rewind_body(void* self, curl_off_t offset, int origin);

  // Return the number of bytes that were taken; fewer than given end the transfer.
  std::size_t add_header(const char* text, std::size_t all);
  std::size_t add_body(std::span<const std::byte> bytes);
  void set_options(CURL* handle);
  bool end_of_head();
  bool is_redirect() const noexcept;
  // Whether the URL itself may lead to another target than before.
  bool is_outdated() const noexcept;
  bool takes_body() const noexcept { return head_is_whole_ && head_.status < 300; }
  verdict retry(error why, std::optional<std::chrono::seconds> wait, unsigned most);
  verdict redirect(CURL* handle);
  // For the request's own URL, at once.
  verdict ask_anew();
  // As the exchange wishes, at once.
  verdict ask_otherwise();
  verdict network_failed(CURLcode code);
  verdict over(result<> outcome);

  const curl_library& curl_;
  std::unique_ptr<http_exchange> exchange_;
  std::shared_ptr<const http_settings> settings_;
  std::stop_token stop_;
  std::unique_ptr<watch_base> watch_;

  http_request request_;
  curl_slist* headers_ = nullptr;
  std::string redirect_;     // target of the next attempt instead of the request's URL
  bool remembered_ = false;  // the target that the exchange remembered
  bool asks_anew_ = false;   // the remembered target is no longer valid
  unsigned attempts_ = 0, redirects_ = 0;
  bool doubtful_ = false;
  clock::time_point due_;
  std::size_t part_ = 0, part_offset_ = 0;  // position in the request's body

  http_head head_;
  bool head_is_whole_ = false;
  bool has_enough_ = false;
  bool has_no_memory_ = false;
  std::optional<error> refused_;  // the error that the exchange returned
  std::string error_body_;
  std::array<char, CURL_ERROR_SIZE> reason_{};
};

/// Statuses that mean "later".
bool is_worth_another_try(int status) noexcept;

}  // namespace penstock::inline v0

#endif
