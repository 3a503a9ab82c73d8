#include "api/read_source.h"

namespace penstock::inline v0 {

result<resolved_basic> resolve_any(const array_state& state, const selection& which) {
  if (const auto* basic = std::get_if<basic_selection>(&which)) return resolve(*basic, state.shape);
  if (const auto* blocks = std::get_if<block_selection>(&which)) return resolve(*blocks, state.shape, state.chunks);
  return error(errc::unsupported,
               "reads take basic and block selections; orthogonal, coordinate and mask ones do not read yet");
}

source source_of(const array_state& state, const resolved_basic& which, const strides& result_strides, std::byte* to) {
  source out;
  out.layout = state.layout.get();
  out.store = state.store.get();
  out.prefix = state.prefix;
  out.from = which.from;
  out.to = to;
  out.to_strides.resize(which.from.size());
  for (std::size_t d = 0; d < which.from.size(); ++d)
    out.to_strides[d] = which.axis[d] < 0 ? 0 : result_strides[static_cast<std::size_t>(which.axis[d])];
  out.fill = state.fill_value.data();
  out.uid = state.caches_indexes ? state.uid : 0;
  return out;
}

}  // namespace penstock::inline v0
