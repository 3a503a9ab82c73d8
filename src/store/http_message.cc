#include "store/http_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "base/sha256.h"

namespace penstock::inline v0 {
namespace {

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r' || text.back() == '\n'))
    text.remove_suffix(1);
  return text;
}

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_strong_tag(std::string_view tag) noexcept { return tag.size() >= 2 && tag.front() == '"' && tag.back() == '"'; }

// A server's text for a message of one line: shortened, without control characters.
std::string shown(std::string_view text, std::size_t most) {
  std::string out;
  for (const char each : text.substr(0, most)) {
    const bool control = static_cast<unsigned char>(each) < 0x20 || each == '\x7f';
    if (control && (out.empty() || out.back() == ' ')) continue;
    out.push_back(control ? ' ' : each);
  }
  return std::string(trimmed(out));
}

// The text of S3's and GCS's error documents, or the text itself if it is short enough for a message.
std::string reason_in(std::string_view body) {
  const auto element = [&](std::string_view open, std::string_view close) -> std::string {
    const std::size_t begin = body.find(open);
    if (begin == std::string_view::npos) return {};
    const std::size_t from = begin + open.size();
    const std::size_t end = body.find(close, from);
    return end == std::string_view::npos ? std::string() : shown(body.substr(from, end - from), 200);
  };
  const std::string code = element("<Code>", "</Code>");
  if (!code.empty()) return fmt::format("{}: {}", code, element("<Message>", "</Message>"));
  if (body.find('<') != std::string_view::npos) return {};  // a page for people
  return shown(body, 200);
}

}  // namespace

std::string_view to_string(http_method method) noexcept {
  constexpr std::array<std::string_view, 5> kNames{"GET", "HEAD", "PUT", "POST", "DELETE"};
  return kNames[static_cast<std::size_t>(method)];
}

std::uint64_t size_of(std::span<const part> body) noexcept {
  std::uint64_t out = 0;
  for (const part& each : body) out += each.size();
  return out;
}

void http_head::clear() noexcept {
  status = 0;
  fields_.clear();
  bytes_ = 0;
}

bool http_head::add(std::string_view line) {
  bytes_ += line.size() + 1;
  if (bytes_ > kMaxBytes) return false;
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return true;
  std::string name(trimmed(line.substr(0, colon)));
  std::transform(name.begin(), name.end(), name.begin(), lower);
  fields_.emplace_back(std::move(name), trimmed(line.substr(colon + 1)));
  return true;
}

std::string_view http_head::find(std::string_view name) const noexcept {
  const auto at = std::find_if(fields_.rbegin(), fields_.rend(), [&](const auto& each) { return each.first == name; });
  return at == fields_.rend() ? std::string_view() : std::string_view(at->second);
}

std::optional<std::uint64_t> http_head::content_length() const noexcept { return parse_number(find("content-length")); }

std::optional<std::uint64_t> parse_number(std::string_view text) noexcept {
  std::uint64_t out = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (text.empty() || failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

std::optional<content_range> parse_content_range(std::string_view text) noexcept {
  text = trimmed(text);
  constexpr std::string_view kUnit = "bytes";
  if (text.size() < kUnit.size() ||
      !std::equal(kUnit.begin(), kUnit.end(), text.begin(), [](char a, char b) { return a == lower(b); }))
    return std::nullopt;
  text = trimmed(text.substr(kUnit.size()));
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view range = trimmed(text.substr(0, slash)), total = trimmed(text.substr(slash + 1));
  content_range out;
  if (total != "*") {
    out.total = parse_number(total);
    if (!out.total) return std::nullopt;
  }
  if (range == "*") return out;
  const std::size_t dash = range.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = parse_number(range.substr(0, dash)), last = parse_number(range.substr(dash + 1));
  if (!first || !last || *last < *first || *last == byte_range::kAll) return std::nullopt;
  if (out.total && *last >= *out.total) return std::nullopt;
  out.part.emplace(*first, *last - *first + 1);
  return out;
}

std::optional<std::int64_t> parse_http_date(std::string_view text) noexcept {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  text = trimmed(text);
  const std::size_t comma = text.find(", ");
  if (comma == std::string_view::npos) return std::nullopt;
  text.remove_prefix(comma + 2);  // `06 Nov 1994 08:49:37 GMT`
  if (text.size() != 24 || text.substr(20) != " GMT" || text[2] != ' ' || text[6] != ' ' || text[11] != ' ' ||
      text[14] != ':' || text[17] != ':')
    return std::nullopt;
  const auto day = parse_number(text.substr(0, 2)), year = parse_number(text.substr(7, 4));
  const auto hour = parse_number(text.substr(12, 2)), minute = parse_number(text.substr(15, 2));
  const auto second = parse_number(text.substr(18, 2));
  const std::size_t name = kMonths.find(text.substr(3, 3));
  if (!day || !year || !hour || !minute || !second || name == std::string_view::npos || name % 3 != 0)
    return std::nullopt;
  // Days since 1970 of a date (H. Hinnant, chrono-compatible low-level date algorithms).
  const auto month = static_cast<std::int64_t>(name / 3 + 1);
  const std::int64_t y = static_cast<std::int64_t>(*year) - (month <= 2 ? 1 : 0);
  const std::int64_t era = (y >= 0 ? y : y - 399) / 400;
  const std::int64_t of_era = y - era * 400;
  const std::int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + static_cast<std::int64_t>(*day) - 1;
  const std::int64_t days = era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
  return days * 86400 + static_cast<std::int64_t>(*hour * 3600 + *minute * 60 + *second);
}

std::optional<std::chrono::seconds> retry_after(const http_head& head) noexcept {
  const std::string_view text = head.find("retry-after");
  constexpr std::uint64_t kDay = 86400;
  if (const auto seconds = parse_number(text)) return std::chrono::seconds(std::min(*seconds, kDay));
  const auto then = parse_http_date(text), now = parse_http_date(head.find("date"));
  if (!then || !now) return std::nullopt;
  return std::chrono::seconds(std::clamp<std::int64_t>(*then - *now, 0, static_cast<std::int64_t>(kDay)));
}

namespace {

version words_of(std::string_view text) noexcept {
  const sha256::digest name = sha256::of(text);
  version out;
  std::memcpy(out.word, name.data(), sizeof(out.word));
  return out;
}

}  // namespace

version version_of(const http_head& head, const version* expected) {
  std::string text(head.find("etag"));
  if (!is_strong_tag(text)) {
    // Such a date is exact to a second: an object that was modified just now may be modified again within it.
    const std::string_view modified = head.find("last-modified");
    const auto then = parse_http_date(modified), now = parse_http_date(head.find("date"));
    constexpr std::int64_t kSurely = 2;
    if (!then || !now || *now - *then < kSurely) return {};
    text = modified;
  }
  // Google's storage replaces objects on condition of their generation, not of their tag.
  if (const std::string_view generation = head.find("x-goog-generation"); !generation.empty() && text.front() == '"')
    text.append("\n").append(generation);
  version out = words_of(text);
  if (expected != nullptr && *expected == out) return *expected;  // shares the pin
  out.pin = std::make_shared<const std::string>(std::move(text));
  return out;
}

version version_of_text(std::string text) {
  version out = words_of(text);
  out.pin = std::make_shared<const std::string>(std::move(text));
  return out;
}

std::string_view text_of(const version& seen) noexcept {
  if (!seen.known() || seen.pin == nullptr) return {};
  return *static_cast<const std::string*>(seen.pin.get());
}

std::string_view entity_tag_of(const version& seen) noexcept {
  if (!seen.known() || seen.pin == nullptr) return {};
  std::string_view text = *static_cast<const std::string*>(seen.pin.get());
  text = text.substr(0, text.find('\n'));
  return is_strong_tag(text) ? text : std::string_view();
}

std::string_view generation_of(const version& seen) noexcept {
  if (!seen.known() || seen.pin == nullptr) return {};
  const std::string_view text = *static_cast<const std::string*>(seen.pin.get());
  const std::size_t line = text.find('\n');
  return line == std::string_view::npos ? std::string_view() : text.substr(line + 1);
}

error error_of_status(const http_head& head, std::string_view body) {
  errc code = errc::io_error;
  if (head.status == 404 || head.status == 410) code = errc::not_found;
  if (head.status == 401 || head.status == 403 || head.status == 407) code = errc::permission_denied;
  if (head.status == 412) code = errc::version_changed;
  std::string why = reason_in(body);
  // A missing bucket is not a bucket of absent objects.
  if (why.compare(0, 12, "NoSuchBucket") == 0) code = errc::io_error;
  if (code == errc::not_found) return {code, "no such object"};
  if (code == errc::version_changed) return {code, "the object is no longer the one that was expected"};
  return {code, fmt::format("the server answered {}{}{}", head.status, why.empty() ? "" : ": ", why)};
}

}  // namespace penstock::inline v0
