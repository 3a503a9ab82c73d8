#include "dimensions.h"

#include <utility>

#include "array/utf8.h"
#include "driver/netcdf.h"
#include "driver/open_hdf5.h"
#include "engine/array_state.h"

namespace penstock::inline v0::cli {

result<std::optional<std::vector<dimension>>> dimension_lists::of(const opened_group& of) {
  using listed = std::optional<std::vector<dimension>>;
  const group* const own = of.own();
  if (own == nullptr) return listed();
  const group_state& state = own->state();
  std::vector<dimension> out;
  if (const auto file = netcdf_file_of(state)) {
    for (const netcdf_dimension& each : file->header.dimensions)
      out.push_back({as_utf8(each.name), each.length, each.is_record});
    return listed(std::move(out));
  }
  if (state.format != kHdf5Format) return listed();
  auto known = files_.find(state.members.get());
  if (known == files_.end()) {
    PENSTOCK_ASSIGN(hdf5_dimension_names names, hdf5_dimensions_of(state));
    known = files_.emplace(state.members.get(), std::move(names)).first;
  }
  std::string path = state.prefix;
  while (!path.empty() && path.back() == '/') path.pop_back();
  if (const auto first = known->second.links.find(path); first != known->second.links.end()) path = first->second;
  if (const auto found = known->second.groups.find(path); found != known->second.groups.end())
    for (const hdf5_dimension& each : found->second) out.push_back({each.name, each.length, each.is_unlimited});
  return listed(std::move(out));
}

void collected_dimensions::add(const array& from) {
  for (std::size_t d = 0; d < from.dimension_names().size(); ++d) {
    const auto& name = from.dimension_names()[d];
    if (!name) continue;
    const auto [at, is_new] = lengths_.emplace(*name, length{from.shape()[d], false});
    if (is_new) {
      order_.push_back(*name);
    } else {
      at->second.differs = at->second.differs || at->second.elements != from.shape()[d];
    }
  }
}

std::vector<dimension> collected_dimensions::take() const {
  std::vector<dimension> out;
  for (const std::string& name : order_)
    if (const length& found = lengths_.at(name); !found.differs) out.push_back({name, found.elements, false});
  return out;
}

json::array_t to_json(const std::vector<dimension>& dimensions) {
  json::array_t out;
  for (const dimension& each : dimensions)
    out.emplace_back(json::object_t{{"name", each.name}, {"length", each.length}, {"unlimited", each.is_unlimited}});
  return out;
}

json most_json(const array& of) {
  const hdf5_facts* const facts = hdf5_facts_of(of.state());
  const json* const most = facts == nullptr ? nullptr : facts->storage.find("maxshape");
  const json* const chunks = facts == nullptr ? nullptr : facts->storage.find("chunks");
  const bool grows = most != nullptr && chunks != nullptr && chunks->as_array() != nullptr;
  if (!grows) return {};
  for (std::size_t d = 0; d < most->as_array()->size(); ++d)
    if ((*most->as_array())[d] != json(of.shape()[d])) return *most;
  return {};
}

}  // namespace penstock::inline v0::cli
