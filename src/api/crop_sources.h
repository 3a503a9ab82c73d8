#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/crops.h>
#include <penstock/plan.h>

namespace penstock::inline v0 {

/// What a read of crops is made of: a source for each array.
struct crop_sources {
  std::vector<source> sources;
  std::shared_ptr<const void> keep_alive;  ///< of all that the sources point to
  std::string note;                        ///< which arrays
};

/// The shape of all crops together.
/// \error  As `read_crops_async`, of the crops.
result<extents> crops_shape(std::span<const array_crop> crops);
/// `to` and `to_strides` are those of the tensor of all crops.
crop_sources sources_of(std::span<const array_crop> crops, std::byte* to, const strides& to_strides);

}  // namespace penstock::inline v0
