#include "store/s3_write.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <penstock/extend/store.h>
#include "store/http_url.h"
#include "store/s3_listing.h"

namespace penstock::inline v0 {
namespace {

/// Parts of one object that are uploaded at the same time.
constexpr std::size_t kPartsTogether = 8;
/// The most that the protocol allows.
constexpr std::uint64_t kMaxParts = 10'000;

// The bytes [offset, offset + length) of a body that is given in parts.
std::vector<part> slice_of(std::span<const part> body, std::uint64_t offset, std::uint64_t length) {
  std::vector<part> out;
  for (const part& each : body) {
    const std::uint64_t skip = std::min<std::uint64_t>(offset, each.size());
    const std::uint64_t take = std::min<std::uint64_t>(length, each.size() - skip);
    if (take != 0) out.push_back(each.subspan(static_cast<std::size_t>(skip), static_cast<std::size_t>(take)));
    offset -= skip;
    length -= take;
  }
  return out;
}

// The fields that make a write conditional.
result<std::vector<http_header>> condition_fields(s3_flavour flavour, const write_condition& condition) {
  std::vector<http_header> out;
  const bool google = flavour == s3_flavour::google;
  switch (condition.what) {
    case write_condition::kind::none:
      break;
    case write_condition::kind::must_be_absent:
      out.push_back(google ? http_header{"x-goog-if-generation-match", "0"} : http_header{"If-None-Match", "*"});
      break;
    case write_condition::kind::must_match: {
      const std::string_view is = google ? generation_of(condition.expected) : entity_tag_of(condition.expected);
      if (is.empty()) return error(errc::invalid_argument, "a condition has no version to match");
      out.push_back({google ? "x-goog-if-generation-match" : "If-Match", std::string(is)});
      break;
    }
  }
  return out;
}

}  // namespace

void s3_write::start(std::shared_ptr<const s3_bucket> bucket, const s3_store_options& sizes, const byte_write& what,
                     write_sink& sink, std::stop_token stop) {
  const auto made = std::make_shared<s3_write>(std::move(bucket), what, sink, std::move(stop));
  auto ready = check_key(what.key);
  if (!ready.ok()) return made->end(std::move(ready).error());
  auto fields = condition_fields(made->bucket_->flavour(), what.condition);
  if (!fields.ok()) return made->end(std::move(fields).error());
  made->fields_ = std::move(*fields);
  if (what.erases) return made->conditional() ? made->look_first() : made->erase();
  if (made->bucket_->flavour() != s3_flavour::aws || size_of(what.parts) <= sizes.multipart_bytes)
    return made->put_whole();
  made->cut(sizes);
  made->begin_upload();
}

s3_request s3_write::request(http_method method) const {
  s3_request out;
  out.method = method;
  out.key = what_.key;
  return out;
}

// Without a response, the chain ends.
void s3_write::ask(const s3_request& what, next_step then) {
  bucket_->ask_then(what, stop_, [self = shared_from_this(), then](result<http_answer> answer) {
    if (!answer.ok()) return self->end(std::move(answer).error());
    ((*self).*then)(std::move(*answer));
  });
}

// --- an object in one request ---

void s3_write::put_whole() {
  s3_request put = request(http_method::put);
  put.headers = fields_;
  put.body = what_.parts;
  ask(put, &s3_write::put_answered);
}

void s3_write::put_answered(http_answer answer) {
  const int status = answer.head.status;
  if (is_success(answer)) {
    const std::string tag(answer.head.find("etag"));
    return learn_version(std::move(answer), tag);
  }
  if (conditional() && answer.doubtful && (status == 412 || status == 409)) return resolve_doubt();
  end(s3_refusal(answer, conditional()));
}

// The result of a put, as a later read will see it.
void s3_write::learn_version(http_answer answer, std::string_view tag) {
  if (!tag.empty()) answer.head.add(fmt::format("etag: {}", tag));
  version made = version_of(answer.head, nullptr);
  if (made.known()) return end(std::move(made));
  ask(request(http_method::head), &s3_write::version_answered);
}

void s3_write::version_answered(http_answer answer) { end(version_of(answer.head, nullptr)); }

// An attempt whose response was lost may have been executed: then the conflicting object is that of this write.
void s3_write::resolve_doubt() {
  s3_request look = request(http_method::get);
  look.max_answer_bytes = static_cast<std::size_t>(size_of(what_.parts));
  bucket_->ask_then(look, stop_,
                    [self = shared_from_this()](const result<http_answer>& seen) { self->doubt_answered(seen); });
}

void s3_write::doubt_answered(const result<http_answer>& seen) {
  bool is_mine = seen.ok() && is_success(*seen) && seen->body.size() == size_of(what_.parts);
  std::size_t at = 0;
  for (const part& each : what_.parts) {
    is_mine = is_mine && (each.empty() || std::memcmp(seen->body.data() + at, each.data(), each.size()) == 0);
    at += each.size();
  }
  if (is_mine) return end(version_of(seen->head, nullptr));
  error why = refused_ ? std::move(*refused_) : version_has_changed();
  if (upload_.empty()) return end(std::move(why));
  give_up(std::move(why));  // its parts may still be there
}

// --- an object in parts, which are one object at the end ---

void s3_write::cut(const s3_store_options& sizes) {
  const std::uint64_t size = size_of(what_.parts);
  const std::uint64_t each = std::max(sizes.part_bytes, (size + kMaxParts - 1) / kMaxParts);
  for (std::uint64_t offset = 0; offset < size; offset += each) {
    upload_part one;
    one.body = slice_of(what_.parts, offset, std::min(each, size - offset));
    one.hash = bucket_->hash_of(one.body);
    parts_.push_back(std::move(one));
  }
}

void s3_write::begin_upload() {
  s3_request begin = request(http_method::post);
  begin.query = "uploads=";
  ask(begin, &s3_write::upload_begun);
}

void s3_write::upload_begun(http_answer answer) {
  if (!is_success(answer)) return end(s3_refusal(answer, false));
  const std::string upload = first_element(answer.body, "UploadId");
  if (upload.empty()) return end(error(errc::io_error, "the server did not return the id of the new upload"));
  upload_ = "uploadId=" + percent_encode(upload, false);
  send_parts();
}

void s3_write::send_parts() {
  while (!failed_ && under_way_ < kPartsTogether && next_part_ < parts_.size()) {
    const std::size_t which = next_part_++;
    ++under_way_;
    s3_request one = request(http_method::put);
    one.query = fmt::format("partNumber={}&{}", which + 1, upload_);
    one.body = parts_[which].body;
    one.body_hash = parts_[which].hash;
    bucket_->ask_then(one, stop_, [self = shared_from_this(), which](result<http_answer> answer) {
      self->part_answered(which, std::move(answer));
    });
  }
}

void s3_write::part_answered(std::size_t which, result<http_answer> answer) {
  --under_way_;
  if (answer.ok() && is_success(*answer)) {
    parts_[which].tag = answer->head.find("etag");
  } else if (!failed_) {
    failed_ = answer.ok() ? s3_refusal(*answer, false) : std::move(answer).error();
  }
  if (!failed_) send_parts();
  if (under_way_ > 0) return;
  // A part that is still being uploaded would remain after the upload was cancelled.
  if (failed_) return give_up(std::move(*failed_));
  complete_upload();
}

void s3_write::complete_upload() {
  part_list_ = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (std::size_t i = 0; i < parts_.size(); ++i)
    part_list_ +=
        fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1, xml_escaped(parts_[i].tag));
  part_list_ += "</CompleteMultipartUpload>";
  document_ = std::as_bytes(std::span(part_list_));
  s3_request finish = request(http_method::post);
  finish.query = upload_;
  finish.headers = fields_;
  finish.headers.push_back({"Content-Type", "application/xml"});
  finish.body = {&document_, 1};
  finish.answers_early = true;
  bucket_->ask_then(finish, stop_, [self = shared_from_this()](result<http_answer> answer) {
    self->upload_answered(std::move(answer));
  });
}

// \param reported  The result of `status_in` for the body of a success.
error s3_write::end_refusal(http_answer& answer, int reported) const {
  const bool may_conflict = conditional() || answer.doubtful;  // 404: an earlier attempt ended the upload
  const bool has_status = reported >= 300 && (may_conflict || reported != 404);
  if (reported != 0 && !has_status)
    return {errc::io_error, fmt::format("the server could not combine the parts: {}: {}",
                                        first_element(answer.body, "Code"), first_element(answer.body, "Message"))};
  if (has_status) answer.head.status = reported;
  return s3_refusal(answer, may_conflict);
}

void s3_write::upload_answered(result<http_answer> answer) {
  if (!answer.ok()) return give_up(std::move(answer).error());
  // A success may turn into a failure while the server works on it: then the document reports this.
  const int reported = is_success(*answer) ? status_in(answer->body) : 0;
  if (!is_success(*answer) || reported != 0) {
    error why = end_refusal(*answer, reported);
    if (!answer->doubtful) return give_up(std::move(why));
    refused_ = std::move(why);
    return resolve_doubt();
  }
  const std::string tag = first_element(answer->body, "ETag");
  learn_version(std::move(*answer), tag);
}

// Parts of an unfinished upload cost money until they are removed: this includes those of a cancelled one.
void s3_write::give_up(error why) {
  s3_request drop = request(http_method::erase);
  drop.query = upload_;
  const auto reason = std::make_shared<error>(std::move(why));
  bucket_->ask_then(drop, {},
                    [self = shared_from_this(), reason](const result<http_answer>&) { self->end(std::move(*reason)); });
}

// --- erasing ---

void s3_write::look_first() { ask(request(http_method::head), &s3_write::looked); }

void s3_write::looked(http_answer answer) {
  if (answer.head.status == 404) return end(version());
  if (!is_success(answer)) return end(s3_refusal(answer, false));
  const version present = version_of(answer.head, &what_.condition.expected);
  auto holds = check_condition(what_.condition, &present);
  if (!holds.ok()) return end(std::move(holds).error());
  erase();
}

void s3_write::erase() {
  s3_request erase = request(http_method::erase);
  erase.headers = fields_;
  ask(erase, &s3_write::erase_answered);
}

void s3_write::erase_answered(http_answer answer) {
  if (is_success(answer) || answer.head.status == 404) return end(version());
  end(s3_refusal(answer, conditional()));
}

}  // namespace penstock::inline v0
