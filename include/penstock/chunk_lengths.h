#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/result.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

/// A number of bytes: `100`, `2GiB`, `128 MB`, `1.5G`. GB is 1000^3, GiB is 1024^3; upper or lower case.
/// Fractions are rounded to whole bytes.
/// \error invalid_argument  Any other text, and numbers beyond 64 bits.
PENSTOCK_API result<std::uint64_t> parse_bytes(std::string_view text);

/// Lengths of chunks or shards in the form in which users write them. They are resolved for each array, because the
/// arrays of a group differ in shape.
///
/// Either one length for each dimension, or lengths by dimension name (or number), or one length for all dimensions, or
/// a size in bytes. A length of -1 is the whole dimension.
class PENSTOCK_API chunk_lengths {
 public:
  /// Parses `64,64`, `(64, -1)`, `64x64`, `-1`, `time=1,lat=-1` or `8MiB`; JSON, as `[64, -1]` and `{"time": 1}`,
  /// allows names with commas.
  ///
  /// \param option  The start of each error message, such as `--chunks`.
  /// \error invalid_argument
  static result<chunk_lengths> parse(std::string_view text, std::string_view option);

  /// One length for each dimension.
  static chunk_lengths of(const extents& lengths);

  /// The lengths for an array.
  ///
  /// Names that are not dimensions of the array are ignored; callers check them with `names` over all arrays.
  /// Dimensions without a length get one chunk. A size in bytes halves the longest dimension until a chunk has at most
  /// that size.
  ///
  /// \param names       The array's dimension names; may be empty.
  /// \param item_bytes  Bytes of one element; 0 if elements differ in size.
  /// \error invalid_argument  The number of lengths is not the rank; a size in bytes for elements without one size.
  result<extents> resolve(const extents& shape, std::span<const std::optional<std::string>> names,
                          std::uint64_t item_bytes) const;

  /// As `resolve`, for shards: whole dimensions, and sizes in bytes, become multiples of `chunks`, whose rank is that
  /// of `shape`. Given lengths are not changed.
  result<extents> resolve_shards(const extents& shape, std::span<const std::optional<std::string>> names,
                                 std::uint64_t item_bytes, const extents& chunks) const;

  /// The dimensions that are named, in the given order; empty if lengths are not by name.
  std::vector<std::string> names() const;

  /// True if a dimension of this name, or of this number, exists.
  static bool has_dimension(std::string_view name, std::size_t rank,
                            std::span<const std::optional<std::string>> names) noexcept;

  /// Text that `parse` accepts: JSON, or a number with the unit B.
  std::string to_string() const;

  friend bool operator==(const chunk_lengths&, const chunk_lengths&) = default;

 private:
  static constexpr std::int64_t kWhole = -1;

  explicit chunk_lengths(std::string option) : option_(std::move(option)) {}
  result<std::vector<std::int64_t>> lengths_for(const extents& shape,
                                                std::span<const std::optional<std::string>> names) const;

  std::string option_;
  bool for_all_ = false;               ///< `lengths_` has one element, which applies to every dimension
  std::vector<std::int64_t> lengths_;  ///< one for each dimension
  std::vector<std::pair<std::string, std::int64_t>> named_;
  bool by_name_ = false;
  std::optional<std::uint64_t> bytes_;
};

}  // namespace penstock::inline v0
