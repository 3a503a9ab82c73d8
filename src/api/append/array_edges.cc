#include <mutex>
#include <vector>

#include "api/append/append_claim.h"
#include "api/fenced_write.h"
#include "api/read_source.h"
#include "array/chunk_grid.h"
#include "base/checked.h"
#include "driver/metadata_edit.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"

namespace penstock::inline v0 {
namespace {

class stored_edges final : public edge_watch {
 public:
  explicit stored_edges(const array_state& state) : state_(state), versions_(state.store->traits().versions) {}

  bool quiet() override {
    const std::lock_guard lock(mutex_);
    if (versions_) {
      // An owner that has erased its claim has stored its metadata before.
      const auto claim = read_and_wait(*state_.store, state_.prefix + std::string(kClaimKey), {}, kMaxClaimBytes);
      if (claim.ok() || claim.error().code() != errc::not_found) return false;
    }
    if (key_.empty() || !seen_.known() ||
        !read_and_wait(*state_.store, key_, {0, 0, false}, kMaxMetadataBytes, &seen_).ok())
      return look();
    return true;
  }

 private:
  bool look() {
    auto metadata = read_stored_metadata(state_);
    if (!metadata.ok()) return false;
    const auto shape = shape_of(*metadata);
    if (!shape.ok() || !(*shape == state_.shape)) return false;
    key_ = metadata->key;
    seen_ = metadata->seen;
    return true;
  }

  const array_state& state_;
  const bool versions_;
  std::mutex mutex_;
  std::string key_;  // key of the metadata, and the version that had the shape of this array
  version seen_;
};

// All elements beyond the edge are to be kept.
class kept_edges final : public edge_watch {
 public:
  bool quiet() override { return false; }
};

}  // namespace

result<> clear_beyond_edges(const array_state& state, std::uint32_t axes, write_fence& fence) {
  PENSTOCK_ASSIGN(const stored_metadata metadata, read_stored_metadata(state));
  PENSTOCK_ASSIGN(const extents shape, shape_of(metadata));
  if (is_empty(shape)) return {};  // an empty array has no object
  PENSTOCK_ASSIGN(const array stored, open_as(state, metadata));
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if ((axes >> d & 1) == 0) continue;
    const grid_axis& axis = stored.state().layout->write_grid().axis(d);
    const std::uint64_t last = axis.cell_of(shape[d] - 1);
    extents padded = shape;
    if (!checked_add(axis.origin(last), axis.codec_length(last), padded[d]) || padded[d] <= shape[d]) continue;
    stored_metadata longer = metadata;
    PENSTOCK_TRY(set_shape(longer, padded));
    PENSTOCK_ASSIGN(const array whole, open_resized(state, longer, padded));
    basic_selection beyond;
    for (std::size_t i = 0; i < d; ++i) beyond.items.emplace_back(slice{});
    beyond.items.emplace_back(slice{static_cast<std::int64_t>(shape[d]), static_cast<std::int64_t>(padded[d]), {}});
    std::vector<std::byte> fill = whole.state().fill_value;
    extents counts = shape;
    counts[d] = padded[d] - shape[d];
    const tensor_view value{fill.data(), state.type, counts, strides(shape.size(), 0), memory_space::host};
    PENSTOCK_TRY(write_fenced(whole, beyond, value, {}, fence, true));
  }
  return {};
}

std::unique_ptr<edge_watch> watch_edges(const array_state& state, bool lists) {
  if (state.after_writes == beyond_edge::kept || (lists && state.after_writes == beyond_edge::kept_by_lists))
    return std::make_unique<kept_edges>();
  return std::make_unique<stored_edges>(state);
}

}  // namespace penstock::inline v0
