#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

/// The first of `count` adjacent elements in which two arrays differ. All NaNs are equal: a chunk of NaN is stored as
/// the fill value, regardless of the other bits of its NaNs.
std::optional<std::uint64_t> first_difference(const std::byte* a, const std::byte* b, std::uint64_t count,
                                              const dtype& type) noexcept;

/// The position in the array of an element of a block in C order: "0, 1, 2".
std::string position_in(const box& block, std::uint64_t element);

}  // namespace penstock::inline v0
