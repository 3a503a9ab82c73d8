#include "array/check_view.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/counted.h"

namespace penstock::inline v0 {

result<> check_odd_view(const tensor_view& of, std::string_view what) {
  const std::size_t rank = of.extents.size();
  if (of.strides.size() != rank)
    return error(errc::invalid_argument, fmt::format("{} has {} and {}: each dimension needs a stride", what,
                                                     counted(rank, "dimension"), counted(of.strides.size(), "stride")));
  const bool empty = std::find(of.extents.begin(), of.extents.end(), 0U) != of.extents.end();
  if (of.data == nullptr && !empty && of.type.item_bytes() != 0)
    return error(errc::invalid_argument, fmt::format("{} has no memory", what));
  return {};
}

}  // namespace penstock::inline v0
