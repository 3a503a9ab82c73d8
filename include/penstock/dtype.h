#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/config.h>
#include <penstock/result.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

/// The families of element types. The width is separate (see `dtype::bits`).
enum class dtype_kind : std::uint8_t {
  boolean,
  signed_integer,
  unsigned_integer,
  floating,        ///< IEEE 754 binary16, binary32, binary64
  brain_float,     ///< bfloat16
  complex,         ///< two floating halves (see `dtype::format`); bits counts both
  raw,             ///< r*: opaque bytes
  fixed_bytes,     ///< null-padded bytes of one length
  fixed_utf32,     ///< UTF-32 code units of one length
  datetime,        ///< 64-bit count of a unit since 1970
  timedelta,       ///< 64-bit count of a unit
  variable_utf8,   ///< variable_item: UTF-8 text
  variable_bytes,  ///< variable_item: bytes
  small_float,     ///< floats of 8, 6 and 4 bits (see `dtype::format`)
  structured,      ///< named fields at fixed offsets
  object,          ///< variable_item: a Python object, created by the Python module only
  extended_float,  ///< x87's 80 bits in 16 bytes: `long double` on x86-64, NumPy's longdouble there
  variable_list,   ///< variable_item: items of another type, one after the other (see `dtype::item`)
};

/// The formats of floating-point numbers, named as ml_dtypes and the Zarr extension types name them.
enum class float_format : std::uint8_t {
  ieee,  ///< by width: binary16, binary32, binary64
  bfloat16,
  float8_e3m4,
  float8_e4m3,
  float8_e4m3b11fnuz,
  float8_e4m3fn,
  float8_e4m3fnuz,
  float8_e5m2,
  float8_e5m2fnuz,
  float8_e8m0fnu,
  float6_e2m3fn,
  float6_e3m2fn,
  float4_e2m1fn,
};

/// The unit of a datetime or timedelta. generic: NumPy's times without a unit.
enum class time_unit : std::uint8_t {
  generic,
  year,
  month,
  week,
  day,
  hour,
  minute,
  second,
  millisecond,
  microsecond,
  nanosecond,
  picosecond,
  femtosecond,
  attosecond,
};

/// NumPy's letters: `Y`, `M`, `W`, `D`, `h`, `m`, `s`, `ms`, `us`, `ns`, `ps`, `fs`, `as`, `generic`.
PENSTOCK_API std::string_view to_string(time_unit unit) noexcept;
/// \error unsupported  The unit does not exist; the message names it.
PENSTOCK_API result<time_unit> time_unit_from(std::string_view name);

struct dtype_field;
struct numpy_type;

/// An element type: a kind, a width in bits, and the further properties of the kind. A value; compares by content.
///
/// Widths below 8 (int4, ...) occupy one byte an element in memory, as ml_dtypes does; only a codec packs them.
/// Elements of variable length are `variable_item`s (<penstock/variable.h>) of 16 bytes.
class PENSTOCK_API dtype {
 public:
  dtype() noexcept = default;
  dtype(dtype_kind kind, std::uint32_t bits, float_format format = float_format::ieee) noexcept
      : kind_(kind), format_(format), bits_(bits) {}

  static dtype raw(std::uint32_t bytes) noexcept { return {dtype_kind::raw, bytes * 8}; }
  static dtype fixed_bytes(std::uint32_t bytes) noexcept { return {dtype_kind::fixed_bytes, bytes * 8}; }
  static dtype fixed_utf32(std::uint32_t characters) noexcept { return {dtype_kind::fixed_utf32, characters * 32}; }
  static dtype variable_utf8() noexcept { return {dtype_kind::variable_utf8, 0}; }
  static dtype variable_bytes() noexcept { return {dtype_kind::variable_bytes, 0}; }
  static dtype object() noexcept { return {dtype_kind::object, 0}; }
  /// One count is `scale` units: (second, 10) is NumPy's `M8[10s]`.
  static dtype datetime(time_unit unit, std::uint32_t scale = 1) noexcept;
  static dtype timedelta(time_unit unit, std::uint32_t scale = 1) noexcept;

  /// Lists, each of any number of items: ragged arrays. HDF5 has them; Zarr 2 if items have a fixed size (vlen-array).
  /// \param shape  Of items that are arrays, in C order, whose elements are of type `item`; empty: single items.
  /// \error unsupported  Items below a byte, objects, arrays of elements of variable length, over 32 levels; arrays
  /// beyond 2^28 bytes. \error invalid_argument  Items without bytes.
  static result<dtype> variable_list(dtype item, const extents& shape = {});

  /// A structure of `fields`.
  ///
  /// \param item_bytes  0: the fields follow one another without gaps, and their offsets are computed. Otherwise the
  ///                    size of an item, which holds the fields at their offsets.
  /// \error invalid_argument  Two fields with the same name, or that overlap, a field beyond the item, no fields, or an
  /// empty name.
  /// \error unsupported  A field of variable length; an item beyond 2^28 bytes; structures nested deeper than 32.
  static result<dtype> structured(std::vector<dtype_field> fields, std::uint32_t item_bytes = 0);

  /// Parses a Zarr v3 name that needs no configuration (`int32`, `float16`, `complex64`, `bool`, `r24`, `string`,
  /// `float8_e4m3fn`, `complex_bfloat16`, ...).
  /// \error unsupported  The type is not known; the message names it.
  static result<dtype> from_name(std::string_view name);

  /// Parses NumPy's type string: `<f4`, `|b1`, `>M8[10ns]`, `|S5`, `<U3`, `|V7`, `|O`.
  /// \error corrupt_data  Not a type string. \error unsupported  A type that is not supported, such as `<c32`; `<f16`
  /// is supported on x86-64 only.
  static result<numpy_type> from_numpy(std::string_view typestr);

  dtype_kind kind() const noexcept { return kind_; }
  std::uint32_t bits() const noexcept { return bits_; }
  /// For a floating kind, or for the halves of a complex number.
  float_format format() const noexcept { return format_; }
  /// For datetime and timedelta.
  time_unit unit() const noexcept { return unit_; }
  std::uint32_t scale() const noexcept { return scale_; }
  /// For a structure, by offset; else empty.
  std::span<const dtype_field> fields() const noexcept;
  /// For lists of variable length, the type of their items, or of the elements of items that are arrays; else null.
  const dtype* item() const noexcept;
  /// For lists of arrays, the shape of an item; else empty.
  std::span<const std::uint64_t> item_shape() const noexcept;
  /// For lists of items of a fixed size, the bytes of an item; else 0.
  std::uint64_t list_item_bytes() const noexcept;
  /// Null if no field has that name.
  const dtype_field* field(std::string_view name) const noexcept;

  /// Elements are `variable_item`s, whose bytes are stored elsewhere.
  bool variable_length() const noexcept {
    return kind_ == dtype_kind::variable_utf8 || kind_ == dtype_kind::variable_bytes || kind_ == dtype_kind::object ||
           kind_ == dtype_kind::variable_list;
  }
  /// Bytes that one element takes in memory.
  std::uint32_t item_bytes() const noexcept { return variable_length() ? 16 : (bits_ + 7) / 8; }
  /// Bytes within which byte order matters: half of a complex item, 4 for UTF-32, 1 for raw, else the item. 1 for
  /// structures, whose fields differ: see `has_byte_order`.
  std::uint32_t swap_bytes() const noexcept;
  /// Whether the bytes of an item depend on the byte order.
  bool has_byte_order() const noexcept;
  /// The Zarr v3 name.
  std::string name() const;
  /// NumPy's type string in native byte order, such as `<f4`, `|b1`, `<c8`; empty if NumPy has none.
  std::string numpy_typestr(bool big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) const;
  /// The argument of numpy.dtype(), as Python text: `'<f4'`, or `[('a', '<i4'), ('', '|V4'), ('b', '<f8', (2, 3))]`.
  /// Empty if NumPy itself does not have the type.
  std::string numpy_descr(bool big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) const;

  friend PENSTOCK_API bool operator==(const dtype& a, const dtype& b) noexcept;

 private:
  using field_list = std::vector<dtype_field>;

  dtype_kind kind_ = dtype_kind::unsigned_integer;
  float_format format_ = float_format::ieee;
  time_unit unit_ = time_unit::generic;
  std::uint32_t bits_ = 8;
  std::uint32_t scale_ = 1;
  std::shared_ptr<const field_list> fields_;  // of a structure; for lists, one: the type and shape of their items
};

/// A field of a structure: `type`, or a C-order block of `shape` of them.
struct PENSTOCK_API dtype_field {
  std::string name;
  dtype type;
  std::uint32_t offset = 0;  ///< in bytes, from the start of the item
  extents shape;             ///< shape of a block; empty: a single item

  /// Bytes of the whole field.
  std::uint64_t bytes() const noexcept;
  friend bool operator==(const dtype_field&, const dtype_field&) = default;
};

/// The type of a type string, and the byte order of its items.
struct numpy_type {
  dtype type;
  bool big_endian = false;  ///< false also if order does not matter
};

}  // namespace penstock::inline v0
