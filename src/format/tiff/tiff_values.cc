#include "format/tiff/tiff_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/counted.h"
#include "format/tiff/tiff_names.h"
#include "format/tiff/tiff_tags.h"

namespace penstock::inline v0 {
namespace {

double ratio(double top, double bottom) noexcept {
  return bottom == 0 ? std::numeric_limits<double>::quiet_NaN() : top / bottom;
}

}  // namespace

bool is_text_type(std::uint16_t type) noexcept { return type == 2; }
bool is_integer_type(std::uint16_t type) noexcept {
  return type == 1 || type == 3 || type == 4 || type == 6 || type == 8 || type == 9 || type == 13 ||
         (type >= 16 && type <= 18);
}
bool is_real_type(std::uint16_t type) noexcept { return type == 5 || (type >= 10 && type <= 12); }

std::string_view text_of(const tiff_tag& from) noexcept {
  const auto* const data = reinterpret_cast<const char*>(from.value.data());
  return {data, ::strnlen(data, from.value.size())};
}

const tiff_tag* tiff_values::find(std::uint16_t number) const noexcept {
  auto at = std::lower_bound(tags_->begin(), tags_->end(), number,
                             [](const tiff_tag& each, std::uint16_t wanted) { return each.tag < wanted; });
  for (; at != tags_->end() && at->tag == number; ++at) {
    if (!at->value.empty()) return &*at;
  }
  return nullptr;
}

std::optional<std::string_view> tiff_values::text(std::uint16_t number) const noexcept {
  const tiff_tag* const found = find(number);
  return found != nullptr && is_text_type(found->type) ? std::optional(text_of(*found)) : std::nullopt;
}

double tiff_values::number(const tiff_tag& of, std::uint64_t i) const noexcept {
  const std::byte* const data = of.value.data();
  const auto word = [&](std::uint64_t at) { return tiff_number<std::uint32_t>(data + 4 * at, big_endian_); };
  switch (of.type) {
    case 3:
      return tiff_number<std::uint16_t>(data + 2 * i, big_endian_);
    case 4:
    case 13:
      return word(i);
    case 5:
      return ratio(word(2 * i), word(2 * i + 1));
    case 6:
      return static_cast<std::int8_t>(data[i]);
    case 8:
      return static_cast<std::int16_t>(tiff_number<std::uint16_t>(data + 2 * i, big_endian_));
    case 9:
      return static_cast<std::int32_t>(word(i));
    case 10:
      return ratio(static_cast<std::int32_t>(word(2 * i)), static_cast<std::int32_t>(word(2 * i + 1)));
    case 11:
      return static_cast<double>(std::bit_cast<float>(word(i)));
    case 12:
      return std::bit_cast<double>(tiff_number<std::uint64_t>(data + 8 * i, big_endian_));
    case 16:
    case 18:
      return static_cast<double>(tiff_number<std::uint64_t>(data + 8 * i, big_endian_));
    case 17:
      return static_cast<double>(static_cast<std::int64_t>(tiff_number<std::uint64_t>(data + 8 * i, big_endian_)));
    default:
      return static_cast<std::uint8_t>(data[i]);
  }
}

result<std::int64_t> tiff_values::integer(std::uint16_t number_of, std::int64_t absent) const {
  const tiff_tag* const found = find(number_of);
  if (found == nullptr) return absent;
  if (!is_integer_type(found->type)) return refuse(number_of, "an integer");
  if (tiff_type_bytes(found->type) < 8) return static_cast<std::int64_t>(number(*found, 0));
  return static_cast<std::int64_t>(tiff_number<std::uint64_t>(found->value.data(), big_endian_));
}

result<std::optional<std::vector<double>>> tiff_values::numbers(std::uint16_t number_of, bool only_integers,
                                                                std::uint64_t at_most) const {
  const tiff_tag* const found = find(number_of);
  if (found == nullptr) return std::optional<std::vector<double>>();
  if (!is_integer_type(found->type) && (only_integers || !is_real_type(found->type)))
    return refuse(number_of, only_integers ? "integers" : "numbers");
  std::vector<double> out(std::min(found->count, at_most));
  for (std::uint64_t i = 0; i < out.size(); ++i) out[i] = number(*found, i);
  return std::optional(std::move(out));
}

result<std::vector<std::uint16_t>> tiff_colormap(const tiff_values& image) {
  constexpr std::uint16_t kColorMap = 320;
  const tiff_tag* const found = image.find(kColorMap);
  std::vector<std::uint16_t> out;
  const bool is_numbers = found != nullptr && !is_text_type(found->type) && found->type != 7;
  if (!is_numbers || found->count < 2 || found->count % 3 != 0) return out;
  for (std::uint64_t i = 0; i < found->count; ++i) {
    const double color = image.number(*found, i);
    if (!is_integer_type(found->type) || color < 0 || color > 65535)
      return image.refuse(kColorMap, "integers of 16 bits");
    out.push_back(static_cast<std::uint16_t>(color));
  }
  return out;
}

error tiff_values::refuse(std::uint16_t number_of, std::string_view wanted) const {
  constexpr std::uint64_t kShown = 8;
  constexpr std::size_t kLongest = 60;
  const std::string_view name = tiff_tag_name(number_of);
  std::string shown;
  if (const tiff_tag* const found = find(number_of)) {
    if (is_text_type(found->type)) {
      shown = fmt::format("'{}'", text_of(*found).substr(0, kLongest));
    } else if (found->type == 7) {
      shown = counted(found->value.size(), "byte");
    } else {
      for (std::uint64_t i = 0; i < std::min(found->count, kShown); ++i)
        shown += fmt::format("{}{}", i == 0 ? "" : ", ", number(*found, i));
      if (found->count > kShown) shown += ", ...";
      if (found->count > 1) shown = "(" + shown + ")";
    }
  }
  return error(errc::corrupt_data, fmt::format("tag {} ({}) is not {} but {}", number_of,
                                               name.empty() ? "without a name" : name, wanted, shown));
}

}  // namespace penstock::inline v0
