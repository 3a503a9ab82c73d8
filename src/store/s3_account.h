#pragma once

#include <penstock/remote.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/http_message.h"
#include "store/sigv4.h"

namespace penstock::inline v0 {

enum class s3_flavour : std::uint8_t {
  aws,     ///< Amazon S3 and services with the same protocol
  google,  ///< Cloud Storage through its XML API: keys for HMAC, or a bearer token
};

/// The location of one bucket's objects, and the credentials. Thread-safe.
///
/// Credentials are the options', else the environment's, else the profile's (`~/.aws/credentials`, `~/.aws/config`);
/// without any of them, requests are not signed. They are read once.
class s3_account {
 public:
  /// \error invalid_argument  No bucket name; not a URL for an endpoint; a key without a secret; a profile that does
  /// not exist.
  static result<std::shared_ptr<s3_account>> make(s3_flavour flavour, std::string bucket,
                                                  const remote_options& options);

  const std::string& bucket() const noexcept { return bucket_; }
  s3_flavour flavour() const noexcept { return flavour_; }
  /// The URL of the service; empty: Amazon's own.
  const std::string& endpoint() const noexcept { return endpoint_; }
  bool is_signed() const noexcept { return credentials_.has_value() || !token_.empty(); }
  /// Whether the connection protects the bytes, so that a body's hash need not be in the signature.
  bool is_encrypted() const noexcept { return endpoint_.compare(0, 6, "https:") == 0 || endpoint_.empty(); }

  /// Makes `out` a request for an object (empty: for the bucket), with `query`, signed; its method and headers are set.
  result<> address(std::string_view key, std::string_view query, std::string_view payload_hash,
                   http_request& out) const;
  /// Whether `head` is a refusal because the bucket is in another region than the one that was asked: then that region
  /// is used from now on.
  bool learn_region(const http_head& head, std::string_view asked);

 private:
  s3_account(s3_flavour flavour, std::string bucket) noexcept : flavour_(flavour), bucket_(std::move(bucket)) {}
  std::string region() const {
    const std::lock_guard lock(mutex_);
    return region_;
  }

  const s3_flavour flavour_;
  const std::string bucket_;
  std::string endpoint_;  // empty: Amazon's own, by region
  bool path_style_ = false;
  std::optional<s3_credentials> credentials_;
  std::string token_;
  std::vector<std::pair<std::string, std::string>> headers_;
  mutable std::mutex mutex_;
  std::string region_;
};

/// The value of `name` in section `section` of the text of an AWS configuration file; nullopt if it does not exist.
std::optional<std::string> find_in_ini(std::string_view text, std::string_view section, std::string_view name);

}  // namespace penstock::inline v0
