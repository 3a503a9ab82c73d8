#include "store/s3_listing.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "store/http_message.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kMaxDepth = 8;

error bad(std::string_view why) { return {errc::corrupt_data, fmt::format("the server's listing {}", why)}; }

void append_utf8(std::uint32_t code, std::string& out) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code >> 6)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    if (code >= 0x10000) out.push_back(static_cast<char>(0xF0 | (code >> 18)));
    out.push_back(static_cast<char>(code >= 0x10000 ? 0x80 | ((code >> 12) & 0x3F) : 0xE0 | (code >> 12)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

// `&#233;` and `&#xE9;`, without their '&' and ';'.
std::optional<std::uint32_t> character_of(std::string_view text) {
  std::uint32_t out = 0;
  text.remove_prefix(1);
  const bool hex = !text.empty() && text.front() == 'x';
  if (hex) text.remove_prefix(1);
  if (text.empty() || text.size() > 7) return std::nullopt;
  for (const char c : text) {
    std::uint32_t digit = 16;
    if (c >= '0' && c <= '9') digit = static_cast<std::uint32_t>(c - '0');
    if (hex && c >= 'a' && c <= 'f') digit = static_cast<std::uint32_t>(c - 'a' + 10);
    if (hex && c >= 'A' && c <= 'F') digit = static_cast<std::uint32_t>(c - 'A' + 10);
    if (digit > 15) return std::nullopt;
    out = out * (hex ? 16 : 10) + digit;
  }
  if (out == 0 || out > 0x10FFFF || (out >= 0xD800 && out < 0xE000)) return std::nullopt;
  return out;
}

std::optional<std::string> unescaped(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, char>, 5> kNamed{
      {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};
  std::string out;
  while (!text.empty()) {
    const std::size_t at = text.find('&');
    out.append(text.substr(0, at));
    if (at == std::string_view::npos) break;
    const std::size_t end = text.find(';', at);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view name = text.substr(at + 1, end - at - 1);
    text.remove_prefix(end + 1);
    if (!name.empty() && name.front() == '#') {
      const auto code = character_of(name);
      if (!code) return std::nullopt;
      append_utf8(*code, out);
      continue;
    }
    bool known = false;
    for (const auto& [entity, letter] : kNamed) {
      if (entity != name) continue;
      out.push_back(letter);
      known = true;
    }
    if (!known) return std::nullopt;
  }
  return out;
}

// Elements in order. Attributes, comments and declarations are skipped; these documents have no DTD, and one is
// refused.
class xml_reader {
 public:
  enum class event : std::uint8_t { open, close, end };
  explicit xml_reader(std::string_view text) noexcept : rest_(text) {}

  /// The next tag. `text()` is the text between it and the preceding one.
  result<event> next() {
    for (;;) {
      const std::size_t at = rest_.find('<');
      text_ = rest_.substr(0, at);
      if (at == std::string_view::npos) return event::end;
      rest_.remove_prefix(at);
      if (rest_.substr(0, 4) == "<!--") {
        const std::size_t end = rest_.find("-->");
        if (end == std::string_view::npos) return bad("is truncated");
        rest_.remove_prefix(end + 3);
        continue;
      }
      if (rest_.substr(0, 2) == "<!") return bad("contains a declaration");
      const std::size_t end = rest_.find('>');
      if (end == std::string_view::npos) return bad("is truncated");
      std::string_view tag = rest_.substr(1, end - 1);
      rest_.remove_prefix(end + 1);
      if (!tag.empty() && tag.front() == '?') continue;
      closes_itself_ = !tag.empty() && tag.back() == '/';
      const bool closes = !tag.empty() && tag.front() == '/';
      if (closes) tag.remove_prefix(1);
      name_ = tag.substr(0, tag.find_first_of(" \t\r\n/"));
      if (name_.empty()) return bad("has a tag without a name");
      return closes ? event::close : event::open;
    }
  }
  std::string_view name() const noexcept { return name_; }
  std::string_view text() const noexcept { return text_; }
  bool closes_itself() const noexcept { return closes_itself_; }

 private:
  std::string_view rest_, name_, text_;
  bool closes_itself_ = false;
};

// Handles an element that has just ended, by its position.
struct page_builder {
  s3_page page;
  std::string key, size;
  bool truncated = false;

  result<> close(const std::vector<std::string_view>& path, std::string text) {
    const std::size_t depth = path.size();
    if (depth == 2 && path[1] == "IsTruncated") truncated = text == "true";
    if (depth == 2 && path[1] == "NextContinuationToken") page.next = std::move(text);
    if (depth == 3 && path[1] == "Contents" && path[2] == "Key") key = std::move(text);
    if (depth == 3 && path[1] == "Contents" && path[2] == "Size") size = std::move(text);
    if (depth == 3 && path[1] == "CommonPrefixes" && path[2] == "Prefix") page.prefixes.push_back(std::move(text));
    if (depth == 2 && path[1] == "Contents") {
      const auto bytes = parse_number(size);
      if (key.empty() || !bytes) return bad("has an object without name or size");
      page.objects.emplace_back(std::move(key), *bytes);
      key.clear();
      size.clear();
    }
    return {};
  }
};

}  // namespace

result<s3_page> parse_s3_page(std::string_view xml) {
  xml_reader reader(xml);
  page_builder out;
  std::vector<std::string_view> path;
  bool seen = false;
  for (;;) {
    PENSTOCK_ASSIGN(const xml_reader::event what, reader.next());
    if (what == xml_reader::event::end) break;
    if (what == xml_reader::event::open) {
      if (path.size() == kMaxDepth) return bad("is nested too deeply");
      if (path.empty() && (seen || reader.name() != "ListBucketResult")) return bad("is not a listing");
      seen = true;
      path.push_back(reader.name());
      if (!reader.closes_itself()) continue;
      PENSTOCK_TRY(out.close(path, ""));
    } else {
      if (path.empty() || path.back() != reader.name()) return bad("is not well-formed");
      auto text = unescaped(reader.text());
      if (!text) return bad("has an invalid entity");
      PENSTOCK_TRY(out.close(path, std::move(*text)));
    }
    path.pop_back();
  }
  if (!seen || !path.empty()) return bad("is truncated");
  if (out.truncated == out.page.next.empty()) {
    if (out.truncated) return bad("is incomplete, but has no token");
    out.page.next.clear();
  }
  return std::move(out.page);
}

std::string first_element(std::string_view xml, std::string_view name) {
  const std::string open = fmt::format("<{}>", name), close = fmt::format("</{}>", name);
  const std::size_t begin = xml.find(open);
  if (begin == std::string_view::npos) return {};
  const std::size_t from = begin + open.size(), end = xml.find(close, from);
  if (end == std::string_view::npos) return {};
  return unescaped(xml.substr(from, end - from)).value_or("");
}

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char each : text) {
    if (each == '&') {
      out += "&amp;";
    } else if (each == '<') {
      out += "&lt;";
    } else if (each == '>') {
      out += "&gt;";
    } else {
      out.push_back(each);
    }
  }
  return out;
}

}  // namespace penstock::inline v0
