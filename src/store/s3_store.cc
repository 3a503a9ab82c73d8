#include "store/s3_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "base/sha256.h"
#include "base/waiting.h"
#include "store/byte_extent.h"
#include "store/http_store.h"
#include "store/http_url.h"
#include "store/path_key.h"
#include "store/s3_listing.h"

namespace penstock::inline v0 {
namespace {

/// A page has a thousand keys of at most 1024 bytes, each perhaps an entity.
constexpr std::size_t kMaxPage = std::size_t{16} << 20;
/// Parts that are under way together, and so the parts that one put can be waiting for.
constexpr std::size_t kPartsTogether = 8;
/// The most that the protocol takes.
constexpr std::uint64_t kMaxParts = 10'000;

std::string hash_of(std::span<const part> body) {
  sha256 hash;
  for (const part& each : body) hash.add(each);
  return to_hex(hash.finish());
}

bool is_success(const http_answer& answer) noexcept { return answer.head.status < 300; }

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

}  // namespace

struct s3_store::outgoing {
  http_method method = http_method::get;
  std::string_view key;
  std::string query;
  std::vector<http_header> headers;
  std::span<const part> body;
};

s3_store::s3_store(std::shared_ptr<http_transport> through, std::shared_ptr<s3_account> account,
                   const remote_options& options, const s3_store_options& sizes)
    : through_(std::move(through)), account_(std::move(account)), sizes_(sizes) {
  auto made = std::make_shared<http_objects>();
  made->settings = http_settings_of(options);
  made->address = [account = account_](std::string_view key, http_request& out) {
    return account->address(key, "", kUnsignedPayload, out);
  };
  made->learn = [account = account_](const http_head& head) { return account->learn_region(head); };
  if (!account_->is_signed()) {
    made->unsigned_note =
        account_->flavour() == s3_flavour::google
            ? "requests are not signed: no `key` and `secret`, no `token` was given; gcsfs or obstore "
              "takes `token=\"google_default\"` or GOOGLE_APPLICATION_CREDENTIALS"
        : options.anonymous ? "requests are not signed, because anon=True or skip_signature=True was given"
                            : "requests are not signed: there are no credentials in options, environment or profile";
  }
  objects_ = std::move(made);
}

store_traits s3_store::traits() const {
  store_traits out = http_traits();
  out.writable = true;
  return out;
}

void s3_store::read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const {
  start_http_reads(*through_, objects_, reads, sink, stop);
}

std::string s3_store::uri() const {
  return fmt::format("{}://{}", account_->flavour() == s3_flavour::google ? "gs" : "s3", account_->bucket());
}

// Borrows the body and the key; the rest is copied, for each attempt is signed anew.
http_question s3_store::question(const outgoing& what) const {
  http_question out;
  const std::string hash =
      account_->is_encrypted() || !account_->is_signed() ? std::string(kUnsignedPayload) : hash_of(what.body);
  out.max_body_bytes = kMaxPage;
  out.prepare = [account = account_, what, hash](http_request& request) {
    request.method = what.method;
    request.headers = what.headers;
    request.body = what.body;
    return account->address(what.key, what.query, hash, request);
  };
  return out;
}

result<http_answer> s3_store::ask_bucket(const outgoing& what) const {
  auto answer = ask(*through_, objects_->settings, question(what));
  if (answer.ok() && answer->head.status >= 300 && account_->learn_region(answer->head))
    answer = ask(*through_, objects_->settings, question(what));
  return answer;
}

namespace {

// What a refusal means to a writer.
error refusal(const http_answer& answer, bool conditional) {
  const int status = answer.head.status;
  // 409: another conditional write was faster. 404: the object that was to be replaced is gone.
  if (conditional && (status == 412 || status == 409 || status == 404)) return version_has_changed();
  error out = error_of_status(answer.head, answer.body);
  if (out.code() != errc::not_found) return out;
  return {errc::io_error, fmt::format("the server answered {} to a write", status)};
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
      if (is.empty()) return error(errc::invalid_argument, "a condition names no version to match");
      out.push_back({google ? "x-goog-if-generation-match" : "If-Match", std::string(is)});
      break;
    }
  }
  return out;
}

}  // namespace

result<version> s3_store::put(std::string_view key, std::span<const part> parts, const write_condition& condition) {
  PENSTOCK_TRY(check_key(key));
  outgoing what;
  what.method = http_method::put;
  what.key = key;
  what.body = parts;
  const std::uint64_t size = size_of(parts);
  const bool in_parts = account_->flavour() == s3_flavour::aws && size > sizes_.multipart_bytes;
  PENSTOCK_ASSIGN(what.headers, condition_fields(account_->flavour(), condition));
  return in_parts ? put_in_parts(what, condition) : put_whole(what, condition);
}

result<version> s3_store::put_whole(const outgoing& what, const write_condition& condition) {
  PENSTOCK_ASSIGN(const http_answer answer, ask_bucket(what));
  const bool conditional = condition.what != write_condition::kind::none;
  if (is_success(answer)) return version_put(what, answer, answer.head.find("etag"));
  if (conditional && answer.doubtful && (answer.head.status == 412 || answer.head.status == 409))
    return resolve_doubt(what);
  return refusal(answer, conditional);
}

// What a put made, as a later read will see it.
result<version> s3_store::version_put(const outgoing& what, const http_answer& answer, std::string_view tag) const {
  http_head head = answer.head;
  if (!tag.empty()) head.add(fmt::format("etag: {}", tag));
  version out = version_of(head, nullptr);
  if (out.known()) return out;
  outgoing look;
  look.method = http_method::head;
  look.key = what.key;
  PENSTOCK_ASSIGN(const http_answer seen, ask_bucket(look));
  return version_of(seen.head, nullptr);
}

// An attempt whose answer was lost may have been carried out: then the object that is in the way is our own.
result<version> s3_store::resolve_doubt(const outgoing& what) const {
  outgoing look;
  look.key = what.key;
  http_question ours = question(look);
  ours.max_body_bytes = static_cast<std::size_t>(size_of(what.body));
  const auto seen = ask(*through_, objects_->settings, std::move(ours));
  if (!seen.ok() || !is_success(*seen) || seen->body.size() != size_of(what.body)) return version_has_changed();
  std::size_t at = 0;
  for (const part& each : what.body) {
    if (!each.empty() && std::memcmp(seen->body.data() + at, each.data(), each.size()) != 0)
      return version_has_changed();
    at += each.size();
  }
  return version_of(seen->head, nullptr);
}

result<version> s3_store::put_in_parts(const outgoing& what, const write_condition& condition) {
  outgoing begin;
  begin.method = http_method::post;
  begin.key = what.key;
  begin.query = "uploads=";
  PENSTOCK_ASSIGN(const http_answer begun, ask_bucket(begin));
  if (!is_success(begun)) return refusal(begun, false);
  const std::string upload = first_element(begun.body, "UploadId");
  if (upload.empty()) return error(errc::io_error, "the server did not name the upload that it began");
  const std::string query = "uploadId=" + percent_encode(upload, false);

  auto tags = put_parts(what, query);
  const auto give_up = [&] {
    // Parts of an upload that nobody ends are paid for until somebody sweeps: an interrupted one too.
    const interruptible_waits::join uninterrupted(nullptr);
    outgoing drop;
    drop.method = http_method::erase;
    drop.key = what.key;
    drop.query = query;
    static_cast<void>(ask_bucket(drop));
  };
  if (!tags.ok()) {
    give_up();
    return std::move(tags).error();
  }
  std::string list = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (std::size_t i = 0; i < tags->size(); ++i)
    list += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1, xml_escaped((*tags)[i]));
  list += "</CompleteMultipartUpload>";
  const part text = std::as_bytes(std::span(list));
  outgoing finish;
  finish.method = http_method::post;
  finish.key = what.key;
  finish.query = query;
  finish.headers = what.headers;
  finish.headers.push_back({"Content-Type", "application/xml"});
  finish.body = {&text, 1};
  auto done = ask_bucket(finish);
  if (!done.ok()) {
    give_up();
    return std::move(done).error();
  }
  const bool conditional = condition.what != write_condition::kind::none;
  if (done->doubtful && !is_success(*done)) return resolve_doubt(what);
  if (!is_success(*done)) {
    give_up();
    return refusal(*done, conditional);
  }
  // Success may turn out to be a failure while the server is at it: then the document says so.
  if (const std::string code = first_element(done->body, "Code"); !code.empty()) {
    give_up();
    if (conditional && code == "PreconditionFailed") return version_has_changed();
    return error(errc::io_error, fmt::format("the server could not put the parts together: {}: {}", code,
                                             first_element(done->body, "Message")));
  }
  return version_put(what, *done, first_element(done->body, "ETag"));
}

// Some parts at a time; gives their tags.
result<std::vector<std::string>> s3_store::put_parts(const outgoing& what, const std::string& upload) {
  const std::uint64_t size = size_of(what.body);
  const std::uint64_t each = std::max(sizes_.part_bytes, (size + kMaxParts - 1) / kMaxParts);
  std::vector<std::string> tags;
  for (std::uint64_t offset = 0; offset < size;) {
    std::vector<std::vector<part>> bodies;
    std::vector<http_question> questions;
    for (std::size_t i = 0; i < kPartsTogether && offset < size; ++i, offset += each)
      bodies.push_back(slice_of(what.body, offset, std::min(each, size - offset)));
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      outgoing one;
      one.method = http_method::put;
      one.key = what.key;
      one.query = fmt::format("partNumber={}&{}", tags.size() + i + 1, upload);
      one.body = bodies[i];
      questions.push_back(question(one));
    }
    for (auto& answer : ask_all(*through_, objects_->settings, std::move(questions))) {
      if (!answer.ok()) return std::move(answer).error();
      if (!is_success(*answer)) return refusal(*answer, false);
      tags.emplace_back(answer->head.find("etag"));
    }
  }
  return tags;
}

result<> s3_store::erase(std::string_view key, const write_condition& condition) {
  PENSTOCK_TRY(check_key(key));
  outgoing what;
  what.key = key;
  if (condition.what != write_condition::kind::none) {
    PENSTOCK_ASSIGN(what.headers, condition_fields(account_->flavour(), condition));
    outgoing look;
    look.method = http_method::head;
    look.key = key;
    PENSTOCK_ASSIGN(const http_answer seen, ask_bucket(look));
    if (seen.head.status == 404) return {};
    if (!is_success(seen)) return refusal(seen, false);
    const version present = version_of(seen.head, &condition.expected);
    PENSTOCK_TRY(check_condition(condition, &present));
  }
  what.method = http_method::erase;
  PENSTOCK_ASSIGN(const http_answer answer, ask_bucket(what));
  if (is_success(answer) || answer.head.status == 404) return {};
  return refusal(answer, condition.what != write_condition::kind::none);
}

result<> s3_store::list(std::string_view prefix, listing what, key_sink& sink) const {
  PENSTOCK_TRY(check_prefix(prefix));
  const bool children = what == listing::children;
  std::string next;
  do {
    outgoing page;
    page.query = fmt::format("list-type=2&prefix={}", percent_encode(prefix, false));
    if (children) page.query += "&delimiter=%2F";
    if (!next.empty()) page.query += "&continuation-token=" + percent_encode(next, false);
    PENSTOCK_ASSIGN(const http_answer answer, ask_bucket(page));
    if (!is_success(answer)) {
      error why = error_of_status(answer.head, answer.body);
      return why.code() == errc::not_found ? error(errc::io_error, "the server cannot list") : std::move(why);
    }
    PENSTOCK_ASSIGN(s3_page found, parse_s3_page(answer.body));
    // What other programs put there as folders, with a final '/', and keys that are none of ours, are passed over.
    for (const auto& [key, size] : found.objects) {
      const bool below = key.size() > prefix.size() && std::string_view(key).substr(0, prefix.size()) == prefix;
      if (below && check_key(key).ok() && !sink.key(key, size)) return {};
    }
    for (const std::string& each : found.prefixes) {
      if (children && check_prefix(each).ok() && each.size() > prefix.size() && !sink.key(each, 0)) return {};
    }
    if (found.next == next && !next.empty()) return error(errc::corrupt_data, "the server's listing goes in a circle");
    next = std::move(found.next);
  } while (!next.empty());
  return {};
}

}  // namespace penstock::inline v0
