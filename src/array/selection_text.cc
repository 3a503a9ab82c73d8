#include <charconv>
#include <limits>
#include <string>

#include <fmt/format.h>

#include <penstock/selection.h>

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

std::string_view trimmed(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(kBlank);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

error refuse(std::string_view part) {
  constexpr std::size_t kMaxShown = 40;
  return error(errc::invalid_argument, fmt::format("a selection is made of ints, slices, '...' and None, found '{}{}'",
                                                   part.substr(0, kMaxShown), part.size() > kMaxShown ? "..." : ""));
}

enum class number : std::uint8_t { fits, beyond, none };

// A Python int. One beyond 64 bits is replaced by the nearest that fits, and marked as `beyond`.
number parse_int(std::string_view text, std::int64_t& out) noexcept {
  if (!text.empty() && text[0] == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text[0] == '-') return number::none;
  }
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, out);
  if (parsed.ec == std::errc::invalid_argument || parsed.ptr != end) return number::none;
  if (parsed.ec == std::errc()) return number::fits;
  out = text[0] == '-' ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
  return number::beyond;
}

bool parse_slice(std::string_view text, slice& out) {
  std::optional<std::int64_t>* const parts[] = {&out.start, &out.stop, &out.step};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto colon = text.find(':');
    const std::string_view part = trimmed(text.substr(0, colon));
    if (!part.empty() && part != "None") {
      std::int64_t value = 0;
      // Slices are clipped at the array's edge, so the nearest 64-bit number has the same meaning.
      if (parse_int(part, value) == number::none) return false;
      *parts[i] = value;
    }
    if (colon == text.npos) return true;
    text.remove_prefix(colon + 1);
  }
  return false;  // a third colon is an error
}

result<basic_item> parse_item(std::string_view text) {
  if (text == "...") return basic_item(ellipsis);
  if (text == "None") return basic_item(newaxis);
  if (text.find(':') != text.npos) {
    slice range;
    if (!parse_slice(text, range)) return refuse(text);
    return basic_item(range);
  }
  std::int64_t index = 0;
  switch (parse_int(text, index)) {
    case number::fits:
      return basic_item(index);
    case number::beyond:
      return error(errc::invalid_argument, fmt::format("index {:.40} does not fit in 64 bits", text));
    case number::none:
      break;
  }
  return refuse(text);
}

}  // namespace

result<basic_selection> parse_selection(std::string_view text) {
  std::string_view rest = trimmed(text);
  // The brackets of `a[0:10]`, the parentheses of a tuple, or both, nested as in Python.
  for (const std::string_view pair : {"[]", "()"}) {
    if (rest.empty() || rest.front() != pair[0]) continue;
    if (rest.size() < 2 || rest.back() != pair[1]) return refuse(rest);
    rest = trimmed(rest.substr(1, rest.size() - 2));
  }
  basic_selection out;
  if (rest.empty()) return out;  // the whole array: `()`, or an empty text
  for (;;) {
    const auto comma = rest.find(',');
    PENSTOCK_ASSIGN(basic_item item, parse_item(trimmed(rest.substr(0, comma))));
    out.items.push_back(item);
    if (comma == rest.npos) return out;
    rest = trimmed(rest.substr(comma + 1));
    if (rest.empty()) return out;  // a tuple may end with a comma
  }
}

std::string to_string(const basic_selection& which) {
  if (which.items.empty()) return "()";
  std::string text;
  for (const basic_item& item : which.items) {
    if (!text.empty()) text += ", ";
    if (const auto* const index = std::get_if<std::int64_t>(&item)) {
      text += std::to_string(*index);
    } else if (const auto* const range = std::get_if<slice>(&item)) {
      if (range->start) text += std::to_string(*range->start);
      text += ':';
      if (range->stop) text += std::to_string(*range->stop);
      if (range->step) text += ':' + std::to_string(*range->step);
    } else {
      text += std::holds_alternative<ellipsis_t>(item) ? "..." : "None";
    }
  }
  return text;
}

}  // namespace penstock::inline v0
