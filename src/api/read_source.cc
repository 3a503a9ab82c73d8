#include "api/read_source.h"

#include <algorithm>

#include "array/selection_checks.h"
#include "base/checked.h"
#include "codec/codec_chain.h"
#include "plan/indexed_selection.h"

namespace penstock::inline v0 {
namespace {

/// A selection is sparse if it needs less than this fraction of the cells that it touches.
constexpr std::uint64_t kLittle = 32;
/// The bytes that a local file returns in the time that one more request takes.
constexpr std::uint64_t kRequestBytes = std::uint64_t{16} << 10;

// The layout whose cells a selection names; null if it belongs to another array.
const chunk_layout* layout_of(const array_state& state, const resolved_selection& which) {
  if (!which.indexed || which.indexed->grid() == state.layout->grid()) return state.layout.get();
  const chunk_layout* const finer = state.layout->finer();
  return finer != nullptr && which.indexed->grid() == finer->grid() ? finer : nullptr;
}

struct resolver {
  const array_state& state;

  template <class Which>
  result<resolved_selection> operator()(const Which& which) const {
    return select_among(*state.layout, which);
  }
  result<resolved_selection> operator()(const basic_selection& which) const { return box(resolve(which, state.shape)); }
  result<resolved_selection> operator()(const block_selection& which) const {
    return box(resolve(which, state.layout->write_grid()));
  }

 private:
  static result<resolved_selection> box(result<resolved_basic> from) {
    if (!from.ok()) return std::move(from).error();
    resolved_selection out;
    static_cast<resolved_basic&>(out) = std::move(*from);
    return out;
  }
};

strides axis_strides(const resolved_basic& which, const strides& result_strides) {
  strides out(which.axis.size());
  for (std::size_t d = 0; d < which.axis.size(); ++d)
    out[d] = which.axis[d] < 0 ? 0 : result_strides[static_cast<std::size_t>(which.axis[d])];
  return out;
}

source plain_source(const array_state& state, std::byte* to) {
  source out;
  out.layout = state.layout.get();
  out.store = state.store.get();
  out.prefix = state.prefix;
  out.to = to;
  out.fill = state.fill_value.data();
  out.uid = state.caches_indexes ? state.uid : 0;
  return out;
}

}  // namespace

bool is_sparse(const chunk_layout& layout, const resolved_selection& which) {
  if (!which.indexed || layout.chains().empty()) return false;
  const codec_chain& chain = layout.chains()[0];
  std::uint64_t wanted = std::max<std::uint64_t>(1, chain.type().item_bytes());
  for (const std::uint64_t each : which.shape) wanted = saturating_mul(wanted, each);
  return wanted < saturating_mul(which.indexed->cells(), chain.decoded_bytes()) / kLittle;
}

bool costs_less(const resolved_selection& finer, const chunk_layout& layout, const resolved_selection& which) {
  if (!finer.indexed || !which.indexed) return false;
  return saturating_mul(finer.indexed->cells(), kRequestBytes) <
         saturating_mul(which.indexed->cells(), layout.chains()[0].decoded_bytes());
}

result<resolved_selection> resolve_any(const array_state& state, const selection& which) {
  return std::visit(resolver{state}, which);
}

result<> check_selection(const array_state& state, const resolved_selection& which) {
  if (layout_of(state, which) != nullptr) return {};
  return error(errc::invalid_argument, "the selection was made for an array of another shape or other chunks");
}

source source_of(const array_state& state, const resolved_basic& which, const strides& result_strides, std::byte* to) {
  source out = plain_source(state, to);
  out.from = which.from;
  out.to_strides = axis_strides(which, result_strides);
  return out;
}

source source_of(const array_state& state, const resolved_selection& which, const strides& result_strides,
                 std::byte* to) {
  if (!which.indexed) return source_of(state, static_cast<const resolved_basic&>(which), result_strides, to);
  source out = plain_source(state, to);
  out.layout = layout_of(state, which);
  if (out.layout != state.layout.get()) out.uid = 0;  // caches identify cells by their numbers
  out.indexed = which.indexed.get();
  out.to_strides = which.indexed->places_axes() ? axis_strides(which, result_strides) : result_strides;
  return out;
}

}  // namespace penstock::inline v0
