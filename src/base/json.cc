#include <penstock/extend/json.h>

#include "base/json_bytes.h"
#include "base/json_numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <system_error>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace penstock::inline v0 {

struct long_integers {
  static json of(std::string digits) {
    json out;
    out.value_ = json::long_integer{std::move(digits)};
    return out;
  }
};

namespace {

constexpr std::size_t kMaxDepth = 128;

/// Characters that represent bytes of a string that are not UTF-8.
enum class odd_bytes : std::uint8_t {
  replace,  ///< U+FFFD; bytes in the pattern of UTF-8 of a half of a pair are its escape, `\ud800` to `\udfff`
  escape,   ///< `\udc80` to `\udcff`
};

struct literal {
  std::string_view spelling;
  double value;
};
/// Python's json module writes these for numbers that JSON does not have.
constexpr literal kLiterals[] = {
    {"NaN", std::numeric_limits<double>::quiet_NaN()},
    {"Infinity", std::numeric_limits<double>::infinity()},
    {"-Infinity", -std::numeric_limits<double>::infinity()},
};

/// The document as the library reads it, byte by byte.
///
/// Each of Python's literals is passed as an empty string, and `pending` records which it was. The library reports a
/// string as soon as it has read the closing quote, before it reads further bytes, so the two cannot be confused.
struct text_source {
  std::string_view text;
  std::size_t at = 0;
  bool in_string = false;
  bool escaped = false;
  bool close_quote = false;  // the second half of a literal's empty string is due
  std::optional<double> pending = std::nullopt;

  const literal* literal_here() const noexcept {
    for (const literal& each : kLiterals) {
      if (text.substr(at, each.spelling.size()) == each.spelling) return &each;
    }
    return nullptr;
  }

  bool ended() const noexcept { return at == text.size() && !close_quote; }

  char current() const noexcept {
    if (close_quote || (!in_string && literal_here() != nullptr)) return '"';
    return text[at];
  }

  void advance() noexcept {
    if (close_quote) {
      close_quote = false;
      return;
    }
    if (!in_string) {
      if (const literal* const found = literal_here()) {
        at += found->spelling.size();
        pending = found->value;
        close_quote = true;
        return;
      }
    }
    const char c = text[at++];
    if (!in_string) {
      in_string = c == '"';
    } else if (escaped) {
      escaped = false;
    } else if (c == '\\') {
      escaped = true;
    } else {
      in_string = c != '"';
    }
  }
};

class text_iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit text_iterator(text_source* source) noexcept : source_(source) {}
  char operator*() const noexcept { return source_->current(); }
  text_iterator& operator++() noexcept {
    source_->advance();
    return *this;
  }
  text_iterator operator++(int) noexcept {
    text_iterator before = *this;
    source_->advance();
    return before;
  }
  // Only ever compared with the end, which has no source.
  friend bool operator==(const text_iterator& a, const text_iterator& b) noexcept {
    const text_source* const source = a.source_ != nullptr ? a.source_ : b.source_;
    return a.source_ == b.source_ || source->ended();
  }
  friend bool operator!=(const text_iterator& a, const text_iterator& b) noexcept { return !(a == b); }

 private:
  text_source* source_;
};

/// The four digits of an escape (`\u12ab`) that begins at `at`; nullopt if none does.
std::optional<unsigned> escape_at(std::string_view text, std::size_t at) noexcept {
  unsigned code = 0;
  if (text.substr(at, 2) != "\\u" || text.size() < at + 6) return std::nullopt;
  const char* const begin = text.data() + at + 2;
  if (std::from_chars(begin, begin + 4, code, 16).ptr != begin + 4) return std::nullopt;
  return code;
}

constexpr bool is_half(unsigned code) noexcept { return code >= 0xd800 && code < 0xe000; }

/// The text without escapes of halves of pairs (`\ud800` to `\udfff`) that are not part of one, which the library
/// refuses: each is a NUL and its four digits, and so is each NUL. nullopt if it has no such half.
std::optional<std::string> marked(std::string_view text) {
  std::string out;
  bool has_halves = false;
  std::size_t kept = 0;
  for (std::size_t at = text.find('\\'); at != text.npos; at = text.find('\\', at)) {
    const auto code = escape_at(text, at);
    if (!code) {
      at += 2;  // another escape, of one character
      continue;
    }
    const auto next = escape_at(text, at + 6);
    if (is_half(*code) && *code < 0xdc00 && next && is_half(*next) && *next >= 0xdc00) {
      at += 12;
      continue;
    }
    if (is_half(*code) || *code == 0) {
      has_halves = has_halves || is_half(*code);
      out.append(text.substr(kept, at - kept)).append(fmt::format("\\u0000{:04x}", *code));
      kept = at + 6;
    }
    at += 6;
  }
  if (!has_halves) return std::nullopt;
  out.append(text.substr(kept));
  return out;
}

/// The string with NULs and halves instead of their digits. Halves are three bytes each, in the pattern of UTF-8.
std::string unmarked(std::string_view text, odd_bytes odd) {
  std::string out;
  for (std::size_t at = text.find('\0'); at != text.npos; at = text.find('\0')) {
    unsigned code = 0;
    const std::string_view digits = text.substr(at + 1, 4);
    std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    out.append(text.substr(0, at));
    if (code == 0 || (odd == odd_bytes::escape && code >= 0xdc80 && code <= 0xdcff)) {
      out += static_cast<char>(code & 0xffU);
    } else {
      for (const unsigned byte : {0xedU, 0x80U | ((code >> 6U) & 0x3fU), 0x80U | (code & 0x3fU)})
        out += static_cast<char>(byte);
    }
    text.remove_prefix(at + 1 + digits.size());
  }
  return out.append(text);
}

/// Builds the value bottom up on a stack of its own, so that depth does not use the machine stack.
class builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  /// \param marks          What escapes of halves become in text of `marked`; nullopt: it is not marked.
  /// \param keeps_numbers  Numbers that are not integers become strings of their text.
  builder(text_source& source, std::optional<odd_bytes> marks, bool keeps_numbers) noexcept
      : source_(source), marks_(marks), keeps_numbers_(keeps_numbers) {}

  bool null() override { return add(json()); }
  bool boolean(bool value) override { return add(json(value)); }
  bool number_integer(number_integer_t value) override { return add(json(std::int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override { return add(json(std::uint64_t{value})); }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_not_of("-0123456789") == text.npos) return add(long_integers::of(text));
    return add(keeps_numbers_ ? json(text) : json(value));
  }
  bool string(string_t& value) override {
    if (source_.pending) return add(json(*std::exchange(source_.pending, std::nullopt)));
    return add(json(marks_ ? unmarked(value, *marks_) : std::move(value)));
  }
  bool binary(binary_t&) override { return fail("binary data"); }

  bool start_object(std::size_t) override { return open(true); }
  bool key(string_t& name) override {
    if (source_.pending) return fail("a number where a member's name was expected");
    open_.back().names.push_back(marks_ ? unmarked(name, *marks_) : std::move(name));
    return true;
  }
  bool end_object() override {
    level done = std::move(open_.back());
    open_.pop_back();
    if (const std::string* const twice = repeated(done.names))
      return fail(fmt::format("duplicate member '{}'", *twice));
    json::object_t members;
    members.reserve(done.names.size());
    for (std::size_t i = 0; i < done.names.size(); ++i)
      members.emplace_back(std::move(done.names[i]), std::move(done.values[i]));
    return add(json(std::move(members)));
  }
  bool start_array(std::size_t) override { return open(false); }
  bool end_array() override {
    json::array_t values = std::move(open_.back().values);
    open_.pop_back();
    return add(json(std::move(values)));
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& why) override {
    // The library's sentence begins with its own error number and ends with its own position.
    std::string_view text = why.what();
    if (const auto colon = text.find(": "); colon != text.npos) text.remove_prefix(colon + 2);
    return fail(std::string(text));
  }

  json& root() noexcept { return root_; }
  const std::optional<std::string>& failure() const noexcept { return failure_; }

 private:
  struct level {
    bool object;
    std::vector<std::string> names;
    json::array_t values;
  };

  bool fail(std::string what) {
    if (!failure_) failure_ = std::move(what);
    return false;
  }
  bool open(bool object) {
    if (open_.size() == kMaxDepth) return fail(fmt::format("more than {} levels of nesting", kMaxDepth));
    open_.push_back({object, {}, {}});
    return true;
  }
  bool add(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else {
      open_.back().values.push_back(std::move(value));
    }
    return true;
  }
  static const std::string* repeated(const std::vector<std::string>& names) {
    std::unordered_set<std::string_view> seen;
    seen.reserve(names.size());
    for (const std::string& each : names) {
      if (!seen.insert(each).second) return &each;
    }
    return nullptr;
  }

  text_source& source_;
  const std::optional<odd_bytes> marks_;
  const bool keeps_numbers_;
  std::vector<level> open_;
  json root_;
  std::optional<std::string> failure_;
};

// Length of the well-formed UTF-8 sequence that begins at `text`, or 0.
std::size_t utf8_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  std::size_t length = 0;
  unsigned lowest = 0x80, highest = 0xbf;  // of the second byte: excludes overlong forms, surrogates and > U+10FFFF
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) lowest = 0xa0;
    if (lead == 0xed) highest = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) lowest = 0x90;
    if (lead == 0xf4) highest = 0x8f;
  }
  if (length == 0 || text.size() < length || byte(1) < lowest || byte(1) > highest) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

// The half of a pair whose three bytes begin at `text`, or 0.
unsigned half_at(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.size() < 3 || byte(0) != 0xed || (byte(1) & 0xe0U) != 0xa0U || (byte(2) & 0xc0U) != 0x80U) return 0;
  return 0xd000U | ((byte(1) & 0x3fU) << 6U) | (byte(2) & 0x3fU);
}

void write_string(std::string& out, std::string_view text, odd_bytes odd) {
  out += '"';
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = utf8_length(text);
    const unsigned half = odd == odd_bytes::replace && length == 0 ? half_at(text) : 0;
    if (half != 0) {
      out += fmt::format("\\u{:04x}", half);
      text.remove_prefix(2);
    } else if (length == 0 && odd == odd_bytes::escape) {
      out += fmt::format("\\udc{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else if (length == 0) {
      out += "\xef\xbf\xbd";  // U+FFFD: a file's name may hold any bytes, JSON may not
    } else if (length > 1) {
      out += text.substr(0, length);
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  out += '"';
}

void write_double(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value < 0 ? "-Infinity" : "Infinity";
  } else {
    char digits[32];
    const auto written = std::to_chars(digits, digits + sizeof digits, value);
    const std::string_view text(digits, static_cast<std::size_t>(written.ptr - digits));
    out += text;
    // Without this it would be parsed as an integer.
    if (text.find_first_of(".e") == text.npos) out += ".0";
  }
}

/// How a document is written.
struct text_form {
  int indent;
  odd_bytes odd;
};

// Whether the text is a number of JSON (RFC 8259), which also has a fraction or an exponent or is long.
bool is_number_text(std::string_view text) noexcept {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const std::size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - begin;
  };
  const bool begins_with_zero = text.substr(at).starts_with('0');
  if (const std::size_t whole = digits(); whole == 0 || (begins_with_zero && whole > 1)) return false;
  if (text.substr(at).starts_with('.')) {
    ++at;
    if (digits() == 0) return false;
  }
  if (text.substr(at).starts_with('e') || text.substr(at).starts_with('E')) {
    ++at;
    if (text.substr(at).starts_with('+') || text.substr(at).starts_with('-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

// The text of a number in a document before its change, if it has this value. A string with such a text has it, too.
const std::string* text_before(const json* before, double value) noexcept {
  const std::string* const text = before == nullptr ? nullptr : before->as_string();
  if (text == nullptr || !is_number_text(*text)) return nullptr;
  double known = 0;
  const auto read = std::from_chars(text->data(), text->data() + text->size(), known);
  return read.ec == std::errc() && known == value && std::signbit(known) == std::signbit(value) ? text : nullptr;
}

// The same member, or null.
const json* member_before(const json* before, std::size_t position, std::string_view name) noexcept {
  const json::object_t* const members = before == nullptr ? nullptr : before->as_object();
  if (members == nullptr) return nullptr;
  if (position < members->size() && (*members)[position].first == name) return &(*members)[position].second;
  return before->find(name);
}

const json* item_before(const json* before, std::size_t position) noexcept {
  const json::array_t* const items = before == nullptr ? nullptr : before->as_array();
  return items != nullptr && position < items->size() ? &(*items)[position] : nullptr;
}

// `before`: the value before a change, from a parser that keeps numbers; or null.
void write(std::string& out, const json& value, text_form form, std::size_t depth, const json* before = nullptr);

template <class Items, class WriteItem>
void write_items(std::string& out, const Items& items, std::string_view brackets, text_form form, std::size_t depth,
                 WriteItem write_item) {
  out += brackets[0];
  bool first = true;
  for (const auto& each : items) {
    if (!first) out += ',';
    first = false;
    if (form.indent >= 0) out.append("\n").append((depth + 1) * static_cast<std::size_t>(form.indent), ' ');
    write_item(each);
  }
  if (form.indent >= 0 && !items.empty()) out.append("\n").append(depth * static_cast<std::size_t>(form.indent), ' ');
  out += brackets[1];
}

void write(std::string& out, const json& value, text_form form, std::size_t depth, const json* before) {
  std::int64_t whole = 0;
  std::uint64_t large = 0;
  double number = 0;
  if (value.is_null()) {
    out += "null";
  } else if (const bool* const flag = value.as_bool()) {
    out += *flag ? "true" : "false";
  } else if (value.get(whole)) {
    out += std::to_string(whole);
  } else if (value.get(large)) {
    out += std::to_string(large);
  } else if (const std::string* const digits = value.as_long_integer()) {
    out += *digits;
  } else if (value.get(number)) {
    if (const std::string* const known = text_before(before, number)) {
      out += *known;
    } else {
      write_double(out, number);
    }
  } else if (const std::string* const text = value.as_string()) {
    write_string(out, *text, form.odd);
  } else if (const json::array_t* const items = value.as_array()) {
    std::size_t position = 0;
    write_items(out, *items, "[]", form, depth,
                [&](const json& each) { write(out, each, form, depth + 1, item_before(before, position++)); });
  } else if (const json::object_t* const members = value.as_object()) {
    std::size_t position = 0;
    write_items(out, *members, "{}", form, depth, [&](const auto& each) {
      write_string(out, each.first, form.odd);
      out += form.indent >= 0 ? ": " : ":";
      write(out, each.second, form, depth + 1, member_before(before, position++, each.first));
    });
  }
}

}  // namespace

namespace {

result<json> parse_text(std::string_view text, odd_bytes odd, bool keeps_numbers = false) {
  const std::optional<std::string> with_marks = marked(text);
  text_source source;
  source.text = with_marks ? *with_marks : text;
  builder target(source, with_marks ? std::optional(odd) : std::nullopt, keeps_numbers);
  const bool parsed = nlohmann::json::sax_parse(text_iterator(&source), text_iterator(nullptr), &target);
  if (!parsed || target.failure()) {
    return error(errc::corrupt_data, fmt::format("JSON is malformed near byte {}: {}", source.at,
                                                 target.failure().value_or("unexpected end")));
  }
  return std::move(target.root());
}

}  // namespace

result<json> json::parse(std::string_view text) { return parse_text(text, odd_bytes::replace); }
result<json> parse_json_with_bytes(std::string_view text) { return parse_text(text, odd_bytes::escape); }

bool json::is_number() const noexcept {
  double any = 0;
  return get(any);
}

bool json::get(std::int64_t& out) const noexcept {
  if (const auto* const value = std::get_if<std::int64_t>(&value_)) {
    out = *value;
    return true;
  }
  return false;  // an unsigned value is stored as int64 if it fits
}

bool json::get(std::uint64_t& out) const noexcept {
  if (const auto* const value = std::get_if<std::uint64_t>(&value_)) {
    out = *value;
    return true;
  }
  const auto* const value = std::get_if<std::int64_t>(&value_);
  if (value == nullptr || *value < 0) return false;
  out = static_cast<std::uint64_t>(*value);
  return true;
}

bool json::get(double& out) const noexcept {
  if (const auto* const value = std::get_if<double>(&value_)) {
    out = *value;
  } else if (const auto* const whole = std::get_if<std::int64_t>(&value_)) {
    out = static_cast<double>(*whole);
  } else if (const auto* const large = std::get_if<std::uint64_t>(&value_)) {
    out = static_cast<double>(*large);
  } else if (const std::string* const digits = as_long_integer()) {
    out = 0;
    std::from_chars(digits->data(), digits->data() + digits->size(), out);  // the parser refuses more than a double has
  } else {
    return false;
  }
  return true;
}

const std::string* json::as_long_integer() const noexcept {
  const auto* const value = std::get_if<long_integer>(&value_);
  return value == nullptr ? nullptr : &value->digits;
}

const json* json::find(std::string_view name) const noexcept {
  const object_t* const members = as_object();
  if (members == nullptr) return nullptr;
  for (const auto& each : *members) {
    if (each.first == name) return &each.second;
  }
  return nullptr;
}

std::string_view json::kind_name() const noexcept {
  if (is_null()) return "null";
  if (as_bool() != nullptr) return "boolean";
  if (is_number()) return "number";
  if (as_string() != nullptr) return "string";
  return as_array() != nullptr ? "array" : "object";
}

std::string json::dump(int indent) const {
  std::string out;
  write(out, *this, {indent, odd_bytes::replace}, 0);
  return out;
}

std::string dump_like(const json& value, std::string_view before, int indent) {
  const auto known = parse_text(before, odd_bytes::replace, true);
  std::string out;
  write(out, value, {indent, odd_bytes::replace}, 0, known.ok() ? &*known : nullptr);
  return out;
}

std::string dump_json_with_bytes(const json& value) {
  std::string out;
  write(out, value, {-1, odd_bytes::escape}, 0);
  return out;
}

}  // namespace penstock::inline v0
