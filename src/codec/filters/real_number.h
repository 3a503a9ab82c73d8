#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include <penstock/dtype.h>
#include "codec/filters/number.h"

namespace penstock::inline v0 {

/// Any type of real numbers, one value at a time: those of `number`, and integers of 2 and 4 bits, bfloat16 and floats
/// of 8, 6 and 4 bits, of one byte each (bfloat16: two).
///
/// long double holds every value of all of them: x86's has 64 bits of precision, others have more.
class real_number {
 public:
  /// Returns nullopt for types that are not real numbers, including booleans.
  static std::optional<real_number> of(const numpy_type& type) noexcept;

  const dtype& type() const noexcept { return type_; }
  std::uint32_t item_bytes() const noexcept { return type_.item_bytes(); }
  bool is_integer() const noexcept;
  bool is_signed() const noexcept { return type_.kind() == dtype_kind::signed_integer; }

  std::uint64_t load_bits(const std::byte* item) const noexcept;
  void store_bits(std::byte* item, std::uint64_t bits) const noexcept;
  long double value_of(std::uint64_t bits) const noexcept;
  /// Of an integer that the type holds.
  std::uint64_t bits_of_integer(long double value) const noexcept;
  /// Of the float closest to `value`, ties to even; beyond the largest as `bits_from_double`.
  std::uint64_t bits_of_float(double value) const noexcept;

 private:
  explicit real_number(const dtype& type, bool swapped) : type_(type), swapped_(swapped) {}

  dtype type_;
  bool swapped_ = false;
};

/// `0x7fc00001`: the bits of a float in metadata. Returns nullopt if `text` is not such a text, or has more than
/// `width` bits. Source: Zarr v3 core specification, "Fill value".
std::optional<std::uint64_t> bits_of_text(std::string_view text, unsigned width) noexcept;

/// The rounding of a value between two numbers of a type, and of one beyond all of them (codec `cast_value`).
enum class rounding : std::uint8_t { nearest_even, towards_zero, towards_positive, towards_negative, nearest_away };
enum class beyond : std::uint8_t { error, clamp, wrap };

/// The whole number to which a finite value is rounded.
template <class Wide>
Wide round_whole(Wide value, rounding rule) noexcept {
  switch (rule) {
    case rounding::nearest_even:
      return std::rint(value);
    case rounding::towards_zero:
      return std::trunc(value);
    case rounding::towards_positive:
      return std::ceil(value);
    case rounding::towards_negative:
      return std::floor(value);
    case rounding::nearest_away:
      break;
  }
  return std::round(value);
}

/// The bits of `value` in `type`; nullopt if the rules allow none.
std::optional<std::uint64_t> round_to(const real_number& type, long double value, rounding rule,
                                      beyond out_of_range) noexcept;

}  // namespace penstock::inline v0
