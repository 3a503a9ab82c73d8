#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace penstock::inline v0 {

/// A number as a type string names it: `<i2`, `>f8`, `|u1`.
struct hdf5_cast_type {
  char kind = 'i';  ///< i, u or f
  std::uint8_t bytes = 1;
  bool big_endian = false;

  /// nullopt: not the type of an integer or of a float.
  static std::optional<hdf5_cast_type> of(std::string_view typestr) noexcept;
};

/// A number as HDF5's library converts it: integers are clipped to the range of the other type, floats lose their
/// fraction, and NaN becomes 0. To little-endian bytes.
/// \pre `to` is not a float of 2 bytes.
/// Source: HDF5 Reference Manual, H5Tconvert; HDF5 User Guide, 6.10 (data conversion).
void hdf5_cast(const hdf5_cast_type& from, std::span<const std::byte> item, const hdf5_cast_type& to,
               std::span<std::byte> out) noexcept;

}  // namespace penstock::inline v0
