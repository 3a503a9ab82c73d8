#include <penstock/chunk_lengths.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include <penstock/extend/json.h>
#include "base/checked.h"
#include "base/counted.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kForms = "64,64, time=1,lat=-1, -1 or 8MiB";

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool parse_number(std::string_view text, std::int64_t& out) noexcept {
  text = trimmed(text);
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failed == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool is_length(std::int64_t length) noexcept { return length > 0 || length == -1; }

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t end = text.find(at);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

std::uint64_t bytes_of(const extents& lengths, std::uint64_t item_bytes) noexcept {
  std::uint64_t bytes = item_bytes;
  for (const std::uint64_t length : lengths) {
    if (!checked_mul(bytes, length, bytes)) return ~std::uint64_t{0};
  }
  return bytes;
}

}  // namespace

result<std::uint64_t> parse_bytes(std::string_view given) {
  const auto wrong = [&] {
    return error(errc::invalid_argument,
                 fmt::format("a size must be a number of bytes, or a text such as 2GiB, got '{}'", given));
  };
  const std::string_view text = trimmed(given);
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string unit(trimmed(text.substr(digits)));
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  std::uint64_t scale = 1;
  if (!unit.empty() && unit != "B") {
    constexpr std::string_view kLetters = "KMGTP";
    const std::size_t power = kLetters.find(unit.front());
    const std::string_view end = std::string_view(unit).substr(1);
    if (power == std::string_view::npos || (end != "" && end != "B" && end != "I" && end != "IB")) return wrong();
    for (std::size_t i = 0; i <= power; ++i) scale *= end.starts_with('I') ? 1024 : 1000;
  }
  const std::string_view number = text.substr(0, digits);
  std::uint64_t whole = 0, bytes = 0;
  const char* const last = number.data() + number.size();
  const auto [point, failed] = std::from_chars(number.data(), last, whole);
  if (failed != std::errc() || !checked_mul(whole, scale, bytes)) return wrong();
  if (point == last) return bytes;
  const std::string digits_after = "0" + std::string(point, last);  // alone: they round to at most one unit
  double part = 0;
  const char* const end_after = digits_after.data() + digits_after.size();
  const auto [end, unparsed] = std::from_chars(digits_after.data(), end_after, part, std::chars_format::fixed);
  if (end != end_after || unparsed != std::errc()) return wrong();
  const auto more = static_cast<std::uint64_t>(std::round(part * static_cast<double>(scale)));
  if (bytes > ~std::uint64_t{0} - more) return wrong();
  return bytes + more;
}

result<chunk_lengths> chunk_lengths::parse(std::string_view given, std::string_view option) {
  const auto wrong = [&](std::string_view why) {
    return error(errc::invalid_argument, fmt::format("{} accepts {}{}, got '{}'", option, kForms, why, given));
  };
  chunk_lengths out{std::string(option)};
  std::string_view text = trimmed(given);
  if (text.starts_with('{')) {
    PENSTOCK_ASSIGN(const json document, json::parse(text));
    out.by_name_ = true;
    for (const auto& [name, value] : *document.as_object()) {
      std::int64_t length = -1;
      if (!value.is_null() && (!value.get(length) || !is_length(length))) return wrong("");
      out.named_.emplace_back(name, length);
    }
    return out;
  }
  if (text.find('=') != std::string_view::npos) {
    out.by_name_ = true;
    for (const std::string_view each : split(text, ',')) {
      const std::size_t equals = each.rfind('=');
      std::int64_t length = 0;
      if (equals == std::string_view::npos || !parse_number(each.substr(equals + 1), length) || !is_length(length))
        return wrong("");
      const std::string name(trimmed(each.substr(0, equals)));
      const auto same = [&](const auto& known) { return known.first == name; };
      if (std::any_of(out.named_.begin(), out.named_.end(), same)) return wrong(fmt::format(", and '{}' once", name));
      out.named_.emplace_back(name, length);
    }
    return out;
  }
  const bool listed = text.starts_with('(') || text.starts_with('[');
  if (listed) {
    if (!text.ends_with(text.front() == '(' ? ')' : ']')) return wrong("");
    text = trimmed(text.substr(1, text.size() - 2));
    if (text.ends_with(',')) text.remove_suffix(1);
  }
  if (listed && text.empty()) return out;
  const char separator = text.find(',') != std::string_view::npos ? ',' : 'x';
  for (const std::string_view each : split(text, separator)) {
    std::int64_t length = 0;
    if (!parse_number(each, length)) {
      auto bytes = listed ? result<std::uint64_t>(wrong("")) : parse_bytes(text);
      if (!bytes.ok() || *bytes == 0) return wrong("");
      out.lengths_.clear();
      out.bytes_ = *bytes;
      return out;
    }
    if (!is_length(length) || out.lengths_.size() == kMaxRank) return wrong("");
    out.lengths_.push_back(length);
  }
  out.for_all_ = !listed && out.lengths_.size() == 1 && out.lengths_[0] == kWhole;
  return out;
}

chunk_lengths chunk_lengths::of(const extents& lengths) {
  chunk_lengths out("chunks");
  for (const std::uint64_t length : lengths) out.lengths_.push_back(static_cast<std::int64_t>(length));
  return out;
}

result<std::vector<std::int64_t>> chunk_lengths::lengths_for(const extents& shape,
                                                             std::span<const std::optional<std::string>> names) const {
  if (for_all_) return std::vector<std::int64_t>(shape.size(), lengths_[0]);
  if (!by_name_) {
    if (lengths_.size() != shape.size()) {
      return error(errc::invalid_argument,
                   fmt::format("{} ({}) are for {}, the array has {}", option_, fmt::join(lengths_, ", "),
                               counted(lengths_.size(), "dimension"), shape.size()));
    }
    return lengths_;
  }
  std::vector<std::int64_t> out(shape.size(), kWhole);
  for (const auto& [name, length] : named_) {
    std::int64_t number = -1;
    const auto at = std::find(names.begin(), names.end(), name);
    if (at != names.end()) {
      out[static_cast<std::size_t>(at - names.begin())] = length;
    } else if (parse_number(name, number) && number >= 0 && static_cast<std::uint64_t>(number) < out.size()) {
      out[static_cast<std::size_t>(number)] = length;
    }
  }
  return out;
}

result<extents> chunk_lengths::resolve(const extents& shape, std::span<const std::optional<std::string>> names,
                                       std::uint64_t item_bytes) const {
  extents out(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) out[d] = std::max<std::uint64_t>(shape[d], 1);
  if (bytes_) {
    if (item_bytes == 0) {
      return error(errc::invalid_argument,
                   fmt::format("{}: a size in bytes needs elements of one size; give lengths", option_));
    }
    while (bytes_of(out, item_bytes) > *bytes_) {
      const auto longest = std::max_element(out.begin(), out.end());
      if (longest == out.end() || *longest == 1) break;
      *longest = (*longest + 1) / 2;
    }
    return out;
  }
  PENSTOCK_ASSIGN(const std::vector<std::int64_t> lengths, lengths_for(shape, names));
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (lengths[d] != kWhole) out[d] = static_cast<std::uint64_t>(lengths[d]);
  }
  return out;
}

result<extents> chunk_lengths::resolve_shards(const extents& shape, std::span<const std::optional<std::string>> names,
                                              std::uint64_t item_bytes, const extents& chunks) const {
  const auto whole = [&](std::size_t d) {
    return ceil_div(std::max<std::uint64_t>(shape[d], 1), std::max<std::uint64_t>(chunks[d], 1));
  };
  extents out = chunks;
  if (bytes_) {  // the last dimensions first, so that a shard is as nearly contiguous as possible
    for (std::size_t d = shape.size(); d-- > 0;) {
      const std::uint64_t one = std::max<std::uint64_t>(bytes_of(out, std::max<std::uint64_t>(item_bytes, 1)), 1);
      out[d] = chunks[d] * std::min(whole(d), std::max<std::uint64_t>(*bytes_ / one, 1));
    }
    return out;
  }
  PENSTOCK_ASSIGN(const std::vector<std::int64_t> lengths, lengths_for(shape, names));
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (lengths[d] != kWhole) {
      out[d] = static_cast<std::uint64_t>(lengths[d]);
    } else if (!checked_mul(whole(d), chunks[d], out[d])) {
      return error(errc::invalid_argument, fmt::format("{}: dimension {} is too long for one shard", option_, d));
    }
  }
  return out;
}

std::vector<std::string> chunk_lengths::names() const {
  std::vector<std::string> out;
  for (const auto& [name, length] : named_) out.push_back(name);
  return out;
}

bool chunk_lengths::has_dimension(std::string_view name, std::size_t rank,
                                  std::span<const std::optional<std::string>> names) noexcept {
  const auto same = [&](const std::optional<std::string>& each) { return each && *each == name; };
  std::int64_t number = -1;
  return std::any_of(names.begin(), names.end(), same) ||
         (parse_number(name, number) && number >= 0 && static_cast<std::uint64_t>(number) < rank);
}

std::string chunk_lengths::to_string() const {
  if (bytes_) return fmt::format("{}B", *bytes_);
  if (for_all_) return fmt::format("{}", lengths_[0]);
  if (by_name_) {
    json::object_t out;
    for (const auto& [name, length] : named_) out.emplace_back(name, json(length));
    return json(std::move(out)).dump();
  }
  json::array_t out;
  for (const std::int64_t length : lengths_) out.emplace_back(length);
  return json(std::move(out)).dump();
}

}  // namespace penstock::inline v0
