// Datasets of HDF5 files as arrays of references to their bytes.
#include "driver/hdf5_references.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include <penstock/extend/json.h>
#include "base/checked.h"
#include "driver/hdf5_heap_store.h"
#include "driver/hdf5_heap_values.h"
#include "driver/hdf5_shown_values.h"
#include "driver/open_hdf5.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "engine/context_state.h"
#include "format/reference/reference_table.h"
#include "format/zarr/zarr_v2.h"
#include "store/chained_store.h"
#include "store/reference_store.h"

namespace penstock::inline v0 {
namespace {

// The name by which other programs find the file. In a store without a location, such as one in memory, only its key.
std::string location_of_file(const store& from, const std::string& key) {
  const std::string root = from.uri();
  return root.find("://") == std::string::npos ? key : child_uri(root, key + "/");
}

result<referenced_object> inlined_object(part bytes) {
  const std::shared_ptr<store> values = make_memory_store();
  PENSTOCK_TRY(values->put("inline", {&bytes, 1}, {}));
  referenced_object made;
  made.name = made.key = "inline";
  made.from = values;
  made.inlined = true;
  return made;
}

json numbers(const extents& of) { return json(json::array_t(of.begin(), of.end())); }

// The array of a dataset whose elements are references to heaps, in one chunk and without values.
hdf5_array of_elements(const hdf5_array& references, const extents& shape) {
  hdf5_array out;
  out.attributes = references.attributes;
  out.typed_attributes = references.typed_attributes;
  out.storage = references.storage;
  out.dimension_names = references.dimension_names;
  extents chunks;
  for (const std::uint64_t each : shape) chunks.push_back(std::max<std::uint64_t>(each, 1));
  const auto& items = references.variable->items;
  json codec(json::object_t{{"id", references.variable->utf8 ? "vlen-utf8" : "vlen-bytes"}});
  if (items) codec = json(json::object_t{{"id", "vlen-array"}, {"dtype", items->type}});
  out.zarray = json(json::object_t{{"zarr_format", std::uint64_t{2}},
                                   {"shape", numbers(shape)},
                                   {"chunks", numbers(chunks)},
                                   {"dtype", "|O"},
                                   {"order", "C"},
                                   {"compressor", json()},
                                   {"filters", json::array_t{std::move(codec)}},
                                   {"fill_value", items ? json() : json("")}});
  return out;
}

void set_chunks(hdf5_array& of, const extents& chunks) {
  json::object_t made;
  for (const auto& [name, value] : *of.zarray.as_object())
    made.emplace_back(name, name == "chunks" ? numbers(chunks) : value);
  of.zarray = json(std::move(made));
}

// The array with all of its values in memory, for manifests.
result<std::shared_ptr<const referenced_array>> with_values(referenced_array of, const hdf5_variable_cells& values) {
  PENSTOCK_ASSIGN(const std::vector<std::uint64_t> cells, values.cells());
  const auto too_many = [] {
    return error(errc::unsupported,
                 fmt::format("more than {} bytes of variable length are not held in memory", kMostHdf5VariableBytes));
  };
  constexpr std::uint64_t kLeastBytes = 4;  // of an element: its length
  const std::uint64_t elements = saturating_mul(cells.size(), hdf5_cell_elements(values.grid()));
  if (elements > kMostHdf5VariableBytes / kLeastBytes) return too_many();
  reference_table::columns columns;
  columns.cells = cells;
  std::vector<std::byte> all;
  const std::size_t together = hdf5_cells_together(values.grid());
  for (std::span<const std::uint64_t> left(cells); !left.empty();) {
    auto made = values.read_whole(left.first(std::min(together, left.size())));
    left = left.subspan(made.size());
    for (auto& each : made) {
      if (!each.ok()) return std::move(each).error();
      columns.offsets.push_back(all.size());
      columns.lengths.push_back(each->size());
      if (all.size() + each->size() > kMostHdf5VariableBytes) return too_many();
      all.insert(all.end(), each->begin(), each->end());
    }
  }
  of.objects.clear();
  if (!cells.empty()) {
    PENSTOCK_ASSIGN(referenced_object made, inlined_object(all));
    of.objects.push_back(std::move(made));
  }
  PENSTOCK_ASSIGN(of.table, reference_table::make(values.grid().cells(), columns));
  return std::make_shared<const referenced_array>(std::move(of));
}

}  // namespace

// The path of a local file; otherwise empty.
std::string hdf5_references::local_path() const {
  constexpr std::string_view kFile = "file://";
  const std::string root = from_->from()->uri();
  return root.starts_with(kFile) ? fmt::format("{}/{}", root.substr(kFile.size()), from_->key()) : std::string();
}

std::uint64_t hdf5_references::memory_limit() const { return context_->state().accounts().memory_limit(); }

// The files that contain a dataset's values.
result<> hdf5_references::name_external_files(const hdf5_array& from, referenced_array& what) const {
  const hdf5_neighbours neighbours(own_place());
  for (const hdf5_array::external_file& each : from.external) {
    PENSTOCK_ASSIGN(hdf5_file_place place, neighbours.find_external(each.name));
    referenced_object& made = what.objects.emplace_back();
    std::error_code ignored;
    made.pinned = !place.path.empty() && std::filesystem::is_regular_file(place.path, ignored);
    made.name = place.path.empty() ? location_of_file(*place.from, place.key) : place.path;
    made.path = std::move(place.path);
    made.from = std::move(place.from);
    made.key = std::move(place.key);
  }
  return {};
}

// Makes one object of the files, in which cells may begin and end anywhere.
result<> hdf5_references::gather_external_files(const hdf5_array& from, referenced_array& what) {
  std::vector<chained_store::link> links;
  std::map<std::string, reference_store::object> files;
  for (std::size_t i = 0; i < from.external.size(); ++i) {
    const referenced_object& each = what.objects[i];
    links.push_back({each.name, from.external[i].offset, from.external[i].bytes});
    const auto [at, added] = files.try_emplace(each.name);
    if (!added) continue;
    reference_store::object& made = at->second;
    made.name = each.name;
    made.from = each.from;
    made.key = each.key;
    if (!each.pinned || !each.from->traits().versions) continue;
    PENSTOCK_ASSIGN(const blocking_read now, read_and_wait(*each.from, each.key, {0, 0, false}, byte_range::kAll - 1));
    made.pinned = now.seen;
  }
  std::vector<reference_store::object> all;
  for (auto& [name, object] : files) all.push_back(std::move(object));
  PENSTOCK_ASSIGN(auto store_of_files, reference_store::make(std::move(all), what.uri));
  referenced_object gathered;
  gathered.name = gathered.key = "external files";
  const auto made = std::make_shared<const chained_store>(gathered.key, std::move(store_of_files), std::move(links));
  gathered.gathered_bytes = made->bytes();
  gathered.from = made;
  gathered.inlined = true;
  what.objects.clear();
  what.objects.push_back(std::move(gathered));
  return {};
}

namespace {

// A file may contain several parts of a dataset.
void share_objects(std::vector<std::uint32_t>& numbers, std::vector<referenced_object>& objects) {
  std::map<std::string, std::uint32_t, std::less<>> seen;
  std::vector<std::uint32_t> now;
  std::vector<referenced_object> kept;
  for (referenced_object& each : objects) {
    const auto [at, added] = seen.try_emplace(each.name, static_cast<std::uint32_t>(kept.size()));
    now.push_back(at->second);
    if (added) kept.push_back(std::move(each));
  }
  for (std::uint32_t& each : numbers) each = now[each];
  objects = std::move(kept);
}

}  // namespace

result<referenced_array> hdf5_references::describe(hdf5_array from, const std::string& uri, const hdf5_depth& depth,
                                                   const describe_hdf5_sources& sources) const {
  referenced_array what;
  PENSTOCK_ASSIGN(what.metadata, parse_zarr_v2_array(from.zarray, &from.attributes));
  what.documents = {{".zarray", from.zarray.dump()}, {".zattrs", from.attributes.dump()}};
  if (from.inline_bytes) {
    if (!from.offsets.empty()) {
      PENSTOCK_ASSIGN(referenced_object made, inlined_object(*from.inline_bytes));
      what.objects.push_back(std::move(made));
    }
  } else if (!from.external.empty()) {
    PENSTOCK_TRY(name_external_files(from, what));
    what.uri = uri;
    if (from.external_is_one) {
      PENSTOCK_TRY(gather_external_files(from, what));
    } else {
      share_objects(from.files, what.objects);
    }
  } else {  // also if nothing was written yet: a manifest then notices when something is
    what.objects.push_back(whole_object(from_->from(), from_->key(), from_->seen()));
  }
  for (hdf5_array::variant& each : from.variants)
    what.variants.push_back({std::move(each.skipped), std::move(each.shape)});
  what.index = std::move(from.index);
  reference_table::columns columns;
  columns.cells = std::move(from.cells);
  columns.offsets = std::move(from.offsets);
  columns.lengths = std::move(from.lengths);
  columns.chains = std::move(from.chains);
  columns.objects = std::move(from.files);
  if (!from.edges.empty()) {
    joined_axis rows;
    for (std::size_t i = 1; i < from.edges.size(); ++i) rows.decoded.push_back(from.edges[i] - from.edges[i - 1]);
    rows.edges = std::move(from.edges);
    what.joined.push_back(std::move(rows));
  }
  if (!what.index) {
    PENSTOCK_ASSIGN(what.table, reference_table::make(from.cell_count, std::move(columns)));
  }
  what.format = kHdf5Format;
  what.uri = uri;
  what.dimension_names = std::move(from.dimension_names);
  what.opened_for_reading = opened_for_reading_;
  what.hdf5 = std::make_shared<const hdf5_facts>(hdf5_facts{std::move(from.typed_attributes), std::move(from.storage)});
  if (!from.mapped) return what;
  const json* const inner = what.hdf5->storage.find("shape");
  return compose_virtual(std::move(what), std::move(*from.mapped), inner->as_array()->size(), own_place(), *context_,
                         depth, sources);
}

result<referenced_array> hdf5_references::describe_variable(hdf5_array from, const std::string& uri,
                                                            const hdf5_depth& depth,
                                                            const describe_hdf5_sources& sources) const {
  if (from.mapped) return describe_mapped(std::move(from), uri, depth, sources);
  PENSTOCK_ASSIGN(referenced_array elements, describe(from, uri, depth, sources));  // references to heaps
  PENSTOCK_ASSIGN(const array references, open_reference(context_, std::move(elements)));
  hdf5_array facts = of_elements(from, references.shape());
  const auto values =
      std::make_shared<const hdf5_heap_values>(from_, std::move(from), references.state().layout, memory_limit());
  return by_cells(std::move(facts), values, values->cell_shape(), uri, depth, sources);
}

// `facts` has no chunks.
result<referenced_array> hdf5_references::by_cells(hdf5_array facts,
                                                   const std::shared_ptr<const hdf5_variable_cells>& values,
                                                   const extents& cell, const std::string& uri, const hdf5_depth& depth,
                                                   const describe_hdf5_sources& sources) const {
  set_chunks(facts, cell);
  facts.cell_count = values->grid().cells();
  PENSTOCK_ASSIGN(referenced_array what, describe(std::move(facts), uri, depth, sources));
  what.read_table = [what, values] { return with_values(what, *values); };
  what.table = nullptr;
  what.cells = std::make_shared<const hdf5_heap_store>(values, context_);
  return what;
}

result<referenced_array> hdf5_references::describe_mapped(hdf5_array from, const std::string& uri,
                                                          const hdf5_depth& depth,
                                                          const describe_hdf5_sources& sources) const {
  // An address is valid only in the file of the source.
  const hdf5_element::outside what = from.variable->what;
  const bool has_references =
      from.variable->items ? from.variable->items->has_references() : what != hdf5_element::outside::text;
  if (has_references) return error(errc::unsupported, "virtual HDF5 datasets of references are not readable");
  hdf5_array::virtual_parts mapped = std::move(*from.mapped);
  from.mapped.reset();
  const std::vector<std::uint64_t>& stored = mapped.shape.extents;
  from.cell_count = std::find(stored.begin(), stored.end(), 0) == stored.end() ? 1 : 0;
  PENSTOCK_ASSIGN(referenced_array like, describe(from, uri, depth, sources));
  PENSTOCK_ASSIGN(const array references, open_reference(context_, like));
  PENSTOCK_ASSIGN(std::string fill, hdf5_heap_values(from_, from, references.state().layout, memory_limit()).fill());
  const json* const inner = from.storage.find("shape");
  PENSTOCK_ASSIGN(hdf5_shown_parts shown,
                  find_shown_parts(std::move(like), std::move(mapped), inner->as_array()->size(), own_place(),
                                   *context_, depth, sources));
  PENSTOCK_ASSIGN(const auto values, hdf5_shown_values::make(shown.shape, std::move(shown.parts), std::move(fill),
                                                             from.variable->items ? from.variable->items->type : json(),
                                                             context_, from_->from()->uri()));
  return by_cells(of_elements(from, shown.shape), values, values->cell_shape(), uri, depth, sources);
}

}  // namespace penstock::inline v0
