#pragma once

#include <penstock/result.h>

#include <string>
#include <string_view>

namespace penstock::inline v0 {

/// The parts of an http(s) URL (RFC 3986), without a fragment.
struct http_url {
  std::string scheme;     ///< `http` or `https`
  std::string user;       ///< `name:password`, decoded, or empty
  std::string authority;  ///< host and port, in lower case; without the port that the scheme implies
  std::string path;       ///< begins with '/', or is empty; as given
  std::string query;      ///< without its '?', as given

  /// `https://host:8080`: the scope of credentials.
  std::string origin() const { return scheme + "://" + authority; }
  /// The host without its port.
  std::string_view host() const noexcept;

  /// \error invalid_argument  Not an http(s) URL with a host; it has control characters or spaces.
  static result<http_url> parse(std::string_view text);
};

/// Every character except letters, digits and `-._~` becomes `%XX`; '/' too, unless `keep_slashes`.
std::string percent_encode(std::string_view text, bool keep_slashes);
/// The reverse; a '%' without two digits is not changed.
std::string percent_decode(std::string_view text);

/// Whether a URL continues after an encoded '/' (`%2F`): one within a name, which is not the '/' between names.
bool ends_with_encoded_slash(std::string_view url) noexcept;

/// `text` without the parts after '?' and before '@': for messages.
std::string without_secrets(std::string_view url);

}  // namespace penstock::inline v0
