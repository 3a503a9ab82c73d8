#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/result.h>
#include <penstock/tiff_header.h>

namespace penstock::inline v0 {

/// The tags of one directory as values.
///
/// If several tags have one number, the first one that was read counts, as in libtiff. A view: the tags must outlive
/// it.
class tiff_values {
 public:
  tiff_values(const std::vector<tiff_tag>& tags, bool big_endian) noexcept : tags_(&tags), big_endian_(big_endian) {}
  /// The tags of the image's own directory, or of its page, which has the georeferencing of its overviews and masks.
  static tiff_values of_image(const tiff_details& from) noexcept { return {from.tags, from.big_endian}; }
  static tiff_values of_page(const tiff_details& from) noexcept {
    return {from.page_tags.empty() ? from.tags : from.page_tags, from.big_endian};
  }

  /// Null if the tag does not exist, or its value was not read.
  const tiff_tag* find(std::uint16_t number) const noexcept;
  bool has(std::uint16_t number) const noexcept { return find(number) != nullptr; }

  /// Text up to its first NUL; nothing if the tag is missing or of another type.
  std::optional<std::string_view> text(std::uint16_t number) const noexcept;
  /// The first value; `absent` if the tag is missing. \error corrupt_data  It is not an integer.
  result<std::int64_t> integer(std::uint16_t number, std::int64_t absent) const;
  /// The first `at_most` values as numbers; nothing if the tag is missing. Ratios by 0 are NaN.
  /// \error corrupt_data  The tag has text or bytes; with `only_integers`, ratios or floats too.
  result<std::optional<std::vector<double>>> numbers(
      std::uint16_t number, bool only_integers = false,
      std::uint64_t at_most = std::numeric_limits<std::uint64_t>::max()) const;
  /// The i-th number of a tag of numbers.
  double number(const tiff_tag& of, std::uint64_t i) const noexcept;

  /// `tag 33550 (ModelPixelScale) is not numbers but 'x'`.
  error refuse(std::uint16_t number, std::string_view wanted) const;

 private:
  const std::vector<tiff_tag>* tags_;
  bool big_endian_;
};

/// Red, green and blue of each value of an image with a palette, 0 to 65535: first all of red, then green, then blue.
/// Empty: the image has no palette.
/// \error corrupt_data  Its tag has a wrong number of values. Source: TIFF 6.0, section 5 (ColorMap).
result<std::vector<std::uint16_t>> tiff_colormap(const tiff_values& image);

/// Types of text (ASCII), of bytes without a meaning, of integers, and of ratios and floats. Source: TIFF 6.0, 2;
/// BigTIFF.
bool is_text_type(std::uint16_t type) noexcept;
bool is_integer_type(std::uint16_t type) noexcept;
bool is_real_type(std::uint16_t type) noexcept;

/// Text up to its first NUL.
std::string_view text_of(const tiff_tag& from) noexcept;

}  // namespace penstock::inline v0
