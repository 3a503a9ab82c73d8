#include "format/npy/python_literal.h"

#include <fmt/format.h>

#include <charconv>
#include <span>
#include <string>
#include <utility>

#include "array/utf8.h"

namespace penstock::inline v0 {
namespace {

constexpr unsigned kMaxDepth = 32;
/// The most entries of a dictionary. A header has three, and each is compared with those before it.
constexpr std::size_t kMaxMembers = 64;

class reader {
 public:
  reader(std::string_view text, text_encoding encoding) : text_(text), encoding_(encoding) {}

  result<json> document() {
    PENSTOCK_ASSIGN(json out, value(0));
    space();
    if (at_ != text_.size()) return bad("text after the literal");
    return out;
  }

 private:
  error bad(std::string_view what) const {
    return error(errc::corrupt_data, fmt::format("{} at byte {} of the literal", what, at_));
  }
  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool take(char c) {
    space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  result<json> value(unsigned depth) {
    if (depth > kMaxDepth) return bad("nesting that is too deep");
    space();
    if (at_ == text_.size()) return bad("an early end");
    const char c = text_[at_];
    if (c == '{') return dictionary(depth);
    if (c == '(' || c == '[') return sequence(depth);
    if (c == '\'' || c == '"') return string();
    if (c == 'u' && at_ + 1 < text_.size() && (text_[at_ + 1] == '\'' || text_[at_ + 1] == '"')) {
      ++at_;
      return string();
    }
    if (take_word("True")) return json(true);
    if (take_word("False")) return json(false);
    if (take_word("None")) return json();
    return number();
  }

  result<json> number() {
    std::int64_t out = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, failed] = std::from_chars(begin, text_.data() + text_.size(), out);
    if (failed != std::errc()) return bad("no literal, or a number beyond 63 bits,");
    at_ += static_cast<std::size_t>(end - begin);
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;
    return json(out);
  }

  result<json> sequence(unsigned depth) {
    const bool tuple = text_[at_++] == '(';
    const char close = tuple ? ')' : ']';
    json::array_t out;
    bool comma = true;
    while (!take(close)) {
      if (!comma) return bad("no comma between values");
      PENSTOCK_ASSIGN(json each, value(depth + 1));
      out.push_back(std::move(each));
      comma = take(',');
    }
    if (tuple && out.size() == 1 && !comma) return json(std::move(out[0]));  // parentheses
    return json(std::move(out));
  }

  result<json> dictionary(unsigned depth) {
    ++at_;
    json::object_t out;
    bool comma = true;
    while (!take('}')) {
      if (!comma) return bad("no comma between members");
      PENSTOCK_ASSIGN(const json key, value(depth + 1));
      const std::string* name = key.as_string();
      if (name == nullptr) return bad("a key that is not a string");
      if (out.size() == kMaxMembers) return bad("a dictionary of too many members");
      for (const auto& [other, unused] : out)
        if (other == *name) return bad("a duplicate key");
      if (!take(':')) return bad("no colon after a key");
      PENSTOCK_ASSIGN(json each, value(depth + 1));
      out.emplace_back(*name, std::move(each));
      comma = take(',');
    }
    return json(std::move(out));
  }

  result<json> string() {
    const char quote = text_[at_++];
    std::string out;
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      const char c = text_[at_];
      if (c == '\n') return bad("a line's end within a string");
      if (c == '\\') {
        if (++at_ == text_.size()) break;
        PENSTOCK_TRY(escape(out));
      } else if (encoding_ == text_encoding::latin1) {
        append(out, static_cast<unsigned char>(c));
      } else {
        out.push_back(c);
      }
    }
    if (at_ == text_.size()) return bad("a string without an end");
    ++at_;
    if (!is_utf8(std::as_bytes(std::span(out)))) return bad("a string that is not UTF-8 ends");
    return json(std::move(out));
  }

  // The escapes of repr(). at_ remains on the last character.
  result<> escape(std::string& out) {
    const char c = text_[at_];
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits != 0) {
      std::uint32_t code = 0;
      const std::string_view hex = text_.substr(at_ + 1, digits);
      const auto [end, failed] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
      if (hex.size() != digits || failed != std::errc() || end != hex.data() + hex.size() || code > 0x10FFFF)
        return bad("an escape that is not a character");
      append(out, code);
      at_ += digits;
      return {};
    }
    constexpr std::string_view kNames = "\\'\"ntr", kMeans = "\\'\"\n\t\r";
    const std::size_t which = kNames.find(c);
    if (which == std::string_view::npos) return bad("an unknown escape");
    out.push_back(kMeans[which]);
    return {};
  }

  static void append(std::string& out, std::uint32_t code) {
    const auto tail = [&](unsigned shift) { out.push_back(static_cast<char>(0x80 | (code >> shift & 0x3F))); };
    if (code < 0x80) {
      out.push_back(static_cast<char>(code));
    } else if (code < 0x800) {
      out.push_back(static_cast<char>(0xC0 | code >> 6));
      tail(0);
    } else if (code < 0x10000) {
      out.push_back(static_cast<char>(0xE0 | code >> 12));
      tail(6);
      tail(0);
    } else {
      out.push_back(static_cast<char>(0xF0 | code >> 18));
      tail(12);
      tail(6);
      tail(0);
    }
  }

  std::string_view text_;
  text_encoding encoding_;
  std::size_t at_ = 0;
};

}  // namespace

result<json> parse_python_literal(std::string_view text, text_encoding encoding) {
  return reader(text, encoding).document();
}

}  // namespace penstock::inline v0
