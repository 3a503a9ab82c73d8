#include "store/s3_bucket.h"

#include <fmt/format.h>

#include <optional>

#include <penstock/extend/store.h>
#include "base/sha256.h"
#include "store/s3_listing.h"

namespace penstock::inline v0 {

std::string s3_bucket::hash_of(std::span<const part> body) const {
  if (account_->is_encrypted() || !account_->is_signed()) return std::string(kUnsignedPayload);
  sha256 hash;
  for (const part& each : body) hash.add(each);
  return to_hex(hash.finish());
}

// The request is copied, because each attempt has a new signature.
http_question s3_bucket::question(const s3_request& what) const {
  http_question out;
  out.max_body_bytes = what.max_answer_bytes;
  if (what.answers_early) {
    out.temporary_failure = [](std::string_view body) -> std::optional<error> {
      const int status = status_in(body);
      if (status != 500 && status != 503) return std::nullopt;
      http_head head;
      head.status = status;
      return error_of_status(head, body);
    };
  }
  s3_request mine = what;
  if (mine.body_hash.empty()) mine.body_hash = hash_of(mine.body);
  out.prepare = [account = account_, mine = std::move(mine)](http_request& request) {
    request.method = mine.method;
    request.headers = mine.headers;
    request.body = mine.body;
    return account->address(mine.key, mine.query, mine.body_hash, request);
  };
  return out;
}

result<http_answer> s3_bucket::ask(const s3_request& what) const {
  auto answer = penstock::ask(*through_, settings_, question(what));
  if (answer.ok() && !is_success(*answer) && account_->learn_region(answer->head, answer->region))
    answer = penstock::ask(*through_, settings_, question(what));
  return answer;
}

void s3_bucket::ask_then(const s3_request& what, std::stop_token stop, answer_taker then) const {
  http_question first = question(what), again = first;
  penstock::ask_then(
      *through_, settings_, std::move(first), stop,
      [this, again = std::move(again), stop, then = std::move(then)](result<http_answer> answer) mutable {
        if (answer.ok() && !is_success(*answer) && account_->learn_region(answer->head, answer->region)) {
          penstock::ask_then(*through_, settings_, std::move(again), stop, std::move(then));
        } else {
          then(std::move(answer));
        }
      });
}

// Source: Amazon S3 API Reference, CompleteMultipartUpload, and "Error responses".
int status_in(std::string_view body) {
  const std::string code = first_element(body, "Code");
  if (code.empty()) return 0;
  if (code == "InternalError") return 500;
  if (code == "SlowDown" || code == "ServiceUnavailable") return 503;
  if (code == "PreconditionFailed") return 412;
  if (code == "ConditionalRequestConflict" || code == "OperationAborted") return 409;
  if (code == "NoSuchUpload" || code == "NoSuchKey") return 404;
  if (code == "AccessDenied") return 403;
  return 200;
}

error s3_refusal(const http_answer& answer, bool conditional) {
  const int status = answer.head.status;
  // 409: another conditional write was faster. 404: the object to be replaced no longer exists.
  if (conditional && (status == 412 || status == 409 || status == 404)) return version_has_changed();
  error out = error_of_status(answer.head, answer.body);
  if (out.code() != errc::not_found) return out;
  return {errc::io_error, fmt::format("the server answered {} to a write", status)};
}

}  // namespace penstock::inline v0
