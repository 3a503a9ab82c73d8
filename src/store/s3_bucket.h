#pragma once

#include <penstock/remote.h>
#include <penstock/store.h>

#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/http_read.h"
#include "store/http_transport.h"
#include "store/s3_account.h"

namespace penstock::inline v0 {

/// A request for one object of a bucket, or (empty key) for the bucket. Key and body are borrowed until the response.
struct s3_request {
  http_method method = http_method::get;
  std::string_view key;
  std::string query;
  std::vector<http_header> headers;
  std::span<const part> body;
  std::string body_hash;  ///< the result of `s3_bucket::hash_of` for the body; empty: computed with the request
  /// A page of a listing has a thousand keys of at most 1024 bytes, each byte perhaps an entity.
  std::size_t max_answer_bytes = std::size_t{16} << 20;
  /// The server begins its response, with status 200, before it has executed the request: the body may report an error.
  bool answers_early = false;
};

/// Requests to one bucket, signed for its account. Thread-safe.
class s3_bucket {
 public:
  s3_bucket(std::shared_ptr<http_transport> through, std::shared_ptr<s3_account> account,
            std::shared_ptr<const http_settings> settings) noexcept
      : through_(std::move(through)), account_(std::move(account)), settings_(std::move(settings)) {}

  http_transport& through() const noexcept { return *through_; }
  s3_flavour flavour() const noexcept { return account_->flavour(); }
  const std::string& name() const noexcept { return account_->bucket(); }

  /// Sends and waits; repeats once if the response names another region of the bucket.
  result<http_answer> ask(const s3_request& what) const;
  /// As `ask`, but returns at once; the bucket lives until `then` was called, as described at `penstock::ask_then`.
  void ask_then(const s3_request& what, std::stop_token stop, answer_taker then) const;

  /// The hash with which a request signs its body: of its bytes, if the connection does not protect them.
  std::string hash_of(std::span<const part> body) const;

 private:
  http_question question(const s3_request& what) const;

  std::shared_ptr<http_transport> through_;
  std::shared_ptr<s3_account> account_;
  std::shared_ptr<const http_settings> settings_;
};

inline bool is_success(const http_answer& answer) noexcept { return answer.head.status < 300; }
/// The status that the body of a response reports in place of 200, to a request with `answers_early`; 200 if it reports
/// a code without a status, and 0 if it reports no error.
int status_in(std::string_view body);
/// The meaning of a refusal for a writer.
error s3_refusal(const http_answer& answer, bool conditional);

}  // namespace penstock::inline v0
