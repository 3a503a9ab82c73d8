#include "engine/closed_parts.h"

#include <algorithm>
#include <utility>

namespace penstock::inline v0 {

closed_parts::closed_parts(std::size_t axis, std::vector<std::uint64_t> ends, opener open)
    : axis_(axis), ends_(std::move(ends)), open_(std::move(open)) {}

result<closed_parts::joined> closed_parts::needed(std::uint64_t low, std::uint64_t high) const {
  const auto part_of = [this](std::uint64_t at) {
    return static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), at) - ends_.begin());
  };
  return open(part_of(low), part_of(high) + 1);
}

result<array> closed_parts::all() const {
  PENSTOCK_ASSIGN(joined made, open(0, ends_.size()));
  return std::move(made.of);
}

result<closed_parts::joined> closed_parts::open(std::size_t first, std::size_t end) const {
  const mutex_lock lock(mutex_);
  const bool has_all = last_ && last_->first == 0 && last_->end == ends_.size();
  if (!has_all && !(last_ && last_->first == first && last_->end == end)) {
    PENSTOCK_ASSIGN(array made, open_(first, end));
    last_.emplace(range{first, end, std::move(made)});
  }
  return joined{last_->of, last_->first == 0 ? 0 : ends_[last_->first - 1]};
}

}  // namespace penstock::inline v0
