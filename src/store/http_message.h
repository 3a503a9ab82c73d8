#pragma once

#include <penstock/result.h>
#include <penstock/store.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::inline v0 {

enum class http_method : std::uint8_t { get, head, put, post, erase };
std::string_view to_string(http_method method) noexcept;

struct http_header {
  std::string name;
  std::string value;
  bool secret = false;  ///< not sent to another origin that a redirect names
};

/// The sent request. The body is borrowed until the exchange is over.
struct http_request {
  http_method method = http_method::get;
  std::string url;
  std::vector<http_header> headers;
  std::span<const part> body;
  std::string user;  ///< `name:password` for basic authentication, or empty
  bool follow_redirects = true;
  std::string redirect;  ///< where the URL redirected before: tried first, without secrets if it is another origin
  std::string region;    ///< of the bucket, as assumed by this request; or empty
};

std::uint64_t size_of(std::span<const part> body) noexcept;

/// Status and header fields of a response (RFC 9110). Bounded: too many of them are refused.
class http_head {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 10;

  void clear() noexcept;
  /// Adds a header line without its end; other lines are ignored. False: there are too many.
  bool add(std::string_view line);
  /// The value of the last field of that name (in lower case), or empty.
  std::string_view find(std::string_view name) const noexcept;

  /// `Content-Length`, if it is a number.
  std::optional<std::uint64_t> content_length() const noexcept;

  /// Whether the end of the body is marked: a connection that is merely closed may have been interrupted.
  bool tells_end() const noexcept {
    return !is_http1 || content_length() || find("transfer-encoding").find("chunked") != std::string_view::npos;
  }

  int status = 0;
  bool is_http1 = true;

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
  std::size_t bytes_ = 0;
};

/// `Content-Range: bytes first-last/total`, or `bytes */total`.
struct content_range {
  std::optional<std::pair<std::uint64_t, std::uint64_t>> part;  ///< offset and length; the length is never 0
  std::optional<std::uint64_t> total;
};
/// Returns nullopt if the text is not such a field or contradicts itself.
std::optional<content_range> parse_content_range(std::string_view text) noexcept;

/// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`, the form of dates that servers must send.
std::optional<std::int64_t> parse_http_date(std::string_view text) noexcept;
/// `Retry-After` of a response: seconds or a date, relative to the response's own `Date`.
std::optional<std::chrono::seconds> retry_after(const http_head& head) noexcept;

/// The object version of a response: its strong entity tag; else its modification time, if that is old enough to
/// distinguish versions; else not known. The validator's text is the version's pin.
version version_of(const http_head& head, const version* expected);
/// The text from which a version was made; empty if it is not known.
std::string_view text_of(const version& seen) noexcept;
/// The version for `text`, which `text_of` returned, perhaps in another process.
version version_of_text(std::string text);
/// The strong entity tag from which a version was made, with quotes; empty if there was none.
std::string_view entity_tag_of(const version& seen) noexcept;
/// The generation (`x-goog-generation`) that came with it, or empty.
std::string_view generation_of(const version& seen) noexcept;

/// The number of a text that consists of decimal digits; otherwise nullopt.
std::optional<std::uint64_t> parse_number(std::string_view text) noexcept;

/// The error for a status of 400 and above. `body` is the beginning of the response's body.
error error_of_status(const http_head& head, std::string_view body);

}  // namespace penstock::inline v0
