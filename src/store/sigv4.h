#pragma once

#include <string>
#include <string_view>

#include "store/http_message.h"

namespace penstock::inline v0 {

/// A name and a secret for signing requests.
struct s3_credentials {
  std::string key, secret;
  std::string session_token;  ///< of temporary credentials, or empty
};

/// Used in place of the hash of a body that is not hashed: TLS protects it.
inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";

/// Signs `request` (AWS Signature Version 4): adds `x-amz-date`, `x-amz-security-token`, `Authorization`.
///
/// Signs the method, the URL, the host, `range`, `date`, and the headers that begin with `x-amz-`: proxies may change
/// others.
/// \param when          `20150830T123600Z`.
/// \param service       `s3`.
/// \param payload_hash  In hexadecimal digits; also sent as `x-amz-content-sha256` if the service is s3. \source
/// docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
result<> sign_v4(http_request& request, const s3_credentials& with, std::string_view when, std::string_view region,
                 std::string_view service, std::string_view payload_hash);

/// Now, in the form for `sign_v4`.
std::string signing_time();

}  // namespace penstock::inline v0
