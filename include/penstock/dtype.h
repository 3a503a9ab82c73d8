#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <penstock/config.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

/// The families of element types. Width is kept apart (see `dtype::bits`).
enum class dtype_kind : std::uint8_t {
  boolean,
  signed_integer,
  unsigned_integer,
  floating,        ///< IEEE 754 binary16, binary32, binary64
  brain_float,     ///< bfloat16
  complex,         ///< two floating halves; bits counts both
  raw,             ///< r*: opaque bytes
  fixed_bytes,     ///< null-padded bytes of one length
  fixed_utf32,     ///< UTF-32 code units of one length
  datetime,        ///< 64-bit count of a unit since 1970
  timedelta,       ///< 64-bit count of a unit
  variable_utf8,   ///< variable length: offsets + UTF-8 data
  variable_bytes,  ///< variable length: offsets + data
};

/// An element type: a kind and a width in bits. A value; compares by content.
///
/// Widths below 8 (int4, ...) occupy one byte an element in memory, as ml_dtypes does; only a codec packs them.
/// Variable-length kinds have no item size: a chunk of them is offsets (n + 1 of int64) and data.
class PENSTOCK_API dtype {
 public:
  constexpr dtype() noexcept = default;
  constexpr dtype(dtype_kind kind, std::uint32_t bits) noexcept : kind_(kind), bits_(bits) {}

  /// Parses a Zarr v3 name (`int32`, `float16`, `complex64`, `bool`, `r24`, `string`, ...).
  /// \error unsupported  No such type, by name.
  static result<dtype> from_name(std::string_view name);

  dtype_kind kind() const noexcept { return kind_; }
  std::uint32_t bits() const noexcept { return bits_; }
  bool variable_length() const noexcept {
    return kind_ == dtype_kind::variable_utf8 || kind_ == dtype_kind::variable_bytes;
  }
  /// Bytes that one element takes in memory; 0 for variable-length kinds.
  std::uint32_t item_bytes() const noexcept { return variable_length() ? 0 : (bits_ + 7) / 8; }
  /// Bytes within which byte order matters: half of a complex item, 4 for UTF-32, 1 for raw, else the item.
  std::uint32_t swap_bytes() const noexcept;
  /// The Zarr v3 name.
  std::string name() const;
  /// NumPy's type string in native byte order, such as `<f4`, `|b1`, `<c8`; empty where NumPy has none.
  std::string numpy_typestr() const;

  friend bool operator==(const dtype&, const dtype&) = default;

 private:
  dtype_kind kind_ = dtype_kind::unsigned_integer;
  std::uint32_t bits_ = 8;
};

}  // namespace penstock::inline v0
