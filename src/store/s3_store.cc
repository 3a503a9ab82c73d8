#include "store/s3_store.h"

#include <fmt/format.h>

#include <utility>

#include <penstock/extend/store.h>
#include "store/http_store.h"
#include "store/http_url.h"
#include "store/s3_listing.h"
#include "store/write_now.h"

namespace penstock::inline v0 {
namespace {

// Servers that skip deleted objects return some pages without keys in a row.
constexpr std::uint64_t kMostPagesWithoutKeys = 10000;

}  // namespace

s3_store::s3_store(std::shared_ptr<http_transport> through, std::shared_ptr<s3_account> account,
                   const remote_options& options, const s3_store_options& sizes)
    : sizes_(sizes) {
  auto made = std::make_shared<http_objects>();
  made->settings = http_settings_of(options);
  made->address = [account](std::string_view key, http_request& out) {
    return account->address(key, "", kUnsignedPayload, out);
  };
  made->learn = [account](const http_head& head, std::string_view region) {
    return account->learn_region(head, region);
  };
  if (!account->is_signed()) {
    made->unsigned_note =
        account->flavour() == s3_flavour::google
            ? "requests are not signed: no `key` and `secret`, no `token` was given; gcsfs or obstore "
              "takes `token=\"google_default\"` or GOOGLE_APPLICATION_CREDENTIALS"
        : options.anonymous ? "requests are not signed, because anon=True or skip_signature=True was given"
                            : "requests are not signed: there are no credentials in options, environment or profile";
  }
  bucket_ = std::make_shared<s3_bucket>(std::move(through), std::move(account), made->settings);
  objects_ = std::move(made);
}

store_traits s3_store::traits() const {
  store_traits out = http_traits();
  out.writable = true;
  out.inline_writes = false;
  return out;
}

void s3_store::read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const {
  start_http_reads(bucket_->through(), objects_, reads, sink, stop);
}

std::string s3_store::uri() const {
  return fmt::format("{}://{}", bucket_->flavour() == s3_flavour::google ? "gs" : "s3", bucket_->name());
}

void s3_store::write(std::span<const byte_write> writes, write_sink& sink, std::stop_token stop) {
  for (const byte_write& each : writes) s3_write::start(bucket_, sizes_, each, sink, stop);
}

result<version> s3_store::put(std::string_view key, std::span<const part> parts, const write_condition& condition) {
  byte_write what;
  what.key = key;
  what.parts = parts;
  what.condition = condition;
  return write_now(*this, what);
}

result<> s3_store::erase(std::string_view key, const write_condition& condition) {
  byte_write what;
  what.key = key;
  what.erases = true;
  what.condition = condition;
  PENSTOCK_TRY(write_now(*this, what));
  return {};
}

result<> s3_store::list(std::string_view prefix, listing what, key_sink& sink) const {
  PENSTOCK_TRY(check_prefix(prefix));
  const bool children = what == listing::children;
  // Pages that repeat in a cycle, of any length, come to `seen` (a token) or `seen_name` (of a page's first object or
  // folder) again: both are replaced after 1, 2, 4, ... pages.
  std::string next, seen, seen_name;
  std::uint64_t pages = 0, replaced_at = 1, without_keys = 0;
  do {
    s3_request page;
    page.query = fmt::format("list-type=2&prefix={}", percent_encode(prefix, false));
    if (children) page.query += "&delimiter=%2F";
    if (!next.empty()) page.query += "&continuation-token=" + percent_encode(next, false);
    PENSTOCK_ASSIGN(const http_answer answer, bucket_->ask(page));
    if (!is_success(answer)) {
      error why = error_of_status(answer.head, answer.body);
      return why.code() == errc::not_found ? error(errc::io_error, "the server cannot list") : std::move(why);
    }
    PENSTOCK_ASSIGN(s3_page found, parse_s3_page(answer.body));
    // Folder objects of other programs, with a final '/', and keys that are not valid here are skipped.
    for (const auto& [key, size] : found.objects) {
      const bool below = key.size() > prefix.size() && std::string_view(key).substr(0, prefix.size()) == prefix;
      if (below && check_key(key).ok() && !sink.key(key, size)) return {};
    }
    for (const std::string& each : found.prefixes) {
      if (children && check_prefix(each).ok() && each.size() > prefix.size() && !sink.key(each, 0)) return {};
    }
    std::string name;
    if (!found.objects.empty())
      name = std::move(found.objects[0].first);
    else if (!found.prefixes.empty())
      name = std::move(found.prefixes[0]);
    without_keys = name.empty() ? without_keys + 1 : 0;
    if (without_keys == kMostPagesWithoutKeys)
      return error(errc::corrupt_data, fmt::format("the server's listing has {} pages without keys", without_keys));
    next = std::move(found.next);
    if (!next.empty() && (next == seen || (!name.empty() && name == seen_name)))
      return error(errc::corrupt_data, "the server's listing repeats a page");
    if (++pages == replaced_at) {
      seen = next;
      seen_name = std::move(name);
      replaced_at *= 2;
    }
  } while (!next.empty());
  return {};
}

}  // namespace penstock::inline v0
