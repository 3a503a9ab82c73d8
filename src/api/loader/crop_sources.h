#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/crops.h>
#include <penstock/plan.h>

namespace penstock::inline v0 {

/// The input of a read of crops: a source for each array.
struct crop_sources {
  std::vector<source> sources;
  std::shared_ptr<const void> keep_alive;  ///< of all memory that the sources refer to
  std::string note;                        ///< arrays that the sources read
};

/// The shape of all crops together.
/// \error  As `read_crops_async`, for the crops.
result<extents> crops_shape(std::span<const array_crop> crops);
/// `to` and `to_strides` belong to the tensor of all crops.
crop_sources sources_of(std::span<const array_crop> crops, std::byte* to, const strides& to_strides);

}  // namespace penstock::inline v0
