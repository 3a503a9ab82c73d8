#include "api/read_source.h"

#include "array/selection_checks.h"
#include "plan/indexed_selection.h"

namespace penstock::inline v0 {
namespace {

struct resolver {
  const array_state& state;

  template <class Which>
  result<resolved_selection> operator()(const Which& which) const {
    return select(which, state.layout->grid());
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

result<resolved_selection> resolve_any(const array_state& state, const selection& which) {
  return std::visit(resolver{state}, which);
}

result<> check_selection(const array_state& state, const resolved_selection& which) {
  if (!which.indexed || which.indexed->grid() == state.layout->grid()) return {};
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
  out.indexed = which.indexed.get();
  out.to_strides = which.indexed->places_axes() ? axis_strides(which, result_strides) : result_strides;
  return out;
}

}  // namespace penstock::inline v0
