#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace penstock::inline v0 {

/// How remote storage is reached. Every field has a default that works for public data.
struct remote_options {
  // http: and https:, and the schemes that use them
  std::vector<std::pair<std::string, std::string>> headers;  ///< sent with each request, to the URI's own origin only
  std::string token;                                         ///< `Authorization: Bearer <token>`; also for gs:
  std::string netrc;      ///< a file of names and passwords; "~": `~/.netrc`; empty: none
  std::string ca_bundle;  ///< a file of certificates to trust; empty: the system's
  double connect_timeout_s = 10;
  double timeout_s = 30;  ///< how long a server may send less than 1 KiB a second, before and during an answer
  unsigned retries = 6;   ///< after failures that may be temporary: 408, 425, 429, 5xx, resets, truncation, timeouts

  // s3: and gs:
  bool anonymous = false;                  ///< do not sign
  std::string key, secret, session_token;  ///< credentials; empty: the environment's, then the profile's
  std::string profile;                     ///< name in the credentials file; empty: AWS_PROFILE, then `default`
  std::string region;                      ///< empty: the environment's or the profile's, then us-east-1
  std::string endpoint_url;                ///< of another service with the same protocol
  std::optional<bool> path_style;          ///< `endpoint/bucket/key`; none: gs:, an endpoint_url, names with dots
};

}  // namespace penstock::inline v0
