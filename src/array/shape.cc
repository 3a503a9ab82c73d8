#include <penstock/shape.h>

#include "base/checked.h"

namespace penstock::inline v0 {

result<std::uint64_t> element_count(const extents& shape) {
  // An empty dimension makes any product 0, also if other factors exceed 64 bits.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return std::uint64_t{0};
  std::uint64_t count = 1;
  for (const std::uint64_t size : shape) {
    if (!checked_mul(count, size, count))
      return error(errc::out_of_range, "the number of elements does not fit in 64 bits in shape " + to_string(shape));
  }
  return count;
}

std::string to_string(const extents& shape) {
  std::string text = "(";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d != 0) text += ", ";
    text += std::to_string(shape[d]);
  }
  text += shape.size() == 1 ? ",)" : ")";
  return text;
}

strides c_order_strides(const extents& shape, std::uint64_t item_bytes) noexcept {
  strides out(shape.size());
  std::uint64_t step = item_bytes;  // unsigned: a product that is too large wraps instead of being undefined
  for (std::size_t d = shape.size(); d-- > 0;) {
    out[d] = static_cast<std::int64_t>(step);
    step *= shape[d];
  }
  return out;
}

}  // namespace penstock::inline v0
