#pragma once

#include <cstddef>
#include <cstdint>

#include "array/conversion.h"

namespace penstock::inline v0 {

/// The conversion of a band's stored values: value * scale + offset, rounded after each step; NaN if the stored value
/// is the band's nodata.
struct number_unpacking {
  bool scales = false;  ///< false: values are only converted
  double scale = 1, offset = 0;
  bool has_nodata = false;
  alignas(16) std::byte nodata[16] = {};  ///< one stored item; if it is NaN, each NaN is nodata
};

/// The type of unpacked values. Floats and complex numbers keep their type if no band has a scale or an offset; all
/// other types become float64 (or complex128), or float32 if that holds all values of the type.
/// \param scales  Whether a band has a scale or an offset.
dtype unpacked_type(const dtype& packed, bool scales);

/// As `conversion_of`, for `convert_items` with `conversion::unpack`, also for equal types.
/// \error invalid_argument, unsupported  Other types than integers, floats and complex numbers; results that are not
/// floats or complex numbers.
result<conversion> unpacking_of(const dtype& from, const dtype& to);

/// `count` adjacent elements, in native byte order; any alignment.
/// \param how  From `unpacking_of`. If values are scaled, its target is float64 or complex128.
void unpack_items(const conversion& how, const number_unpacking& with, const std::byte* from, std::byte* to,
                  std::uint64_t count) noexcept;

}  // namespace penstock::inline v0
