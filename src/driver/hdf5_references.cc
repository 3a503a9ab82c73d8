// Datasets of HDF5 files as arrays of references to their bytes.
#include "driver/hdf5_references.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <penstock/extend/json.h>
#include "driver/hdf5_text.h"
#include "driver/open_hdf5.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"
#include "format/reference/reference_table.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

// By which others find the file; its key alone in a store that has no location, such as one in memory.
std::string location_of_file(const store& from, const std::string& key) {
  const std::string root = from.uri();
  return root.find("://") == std::string::npos ? key : child_uri(root, key + "/");
}

}  // namespace

// Of a file of this machine; else empty.
std::string hdf5_references::local_path() const {
  constexpr std::string_view kFile = "file://";
  const std::string root = from_->from()->uri();
  return root.starts_with(kFile) ? fmt::format("{}/{}", root.substr(kFile.size()), from_->key()) : std::string();
}

// The files that have a dataset's values.
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

result<referenced_array> hdf5_references::describe(hdf5_array from, const std::string& uri, const hdf5_depth& depth,
                                                   const describe_hdf5_sources& sources) const {
  referenced_array what;
  PENSTOCK_ASSIGN(what.metadata, parse_zarr_v2_array(from.zarray, &from.attributes));
  what.documents = {{".zarray", from.zarray.dump()}, {".zattrs", from.attributes.dump()}};
  if (from.inline_bytes) {
    if (!from.offsets.empty()) {
      const std::shared_ptr<store> values = make_memory_store();
      const part bytes(*from.inline_bytes);
      auto put = values->put("inline", {&bytes, 1}, {});
      if (!put.ok()) return std::move(put).error();
      referenced_object& made = what.objects.emplace_back();
      made.name = made.key = "inline";
      made.from = values;
      made.inlined = true;
    }
  } else if (!from.external.empty()) {
    PENSTOCK_TRY(name_external_files(from, what));
  } else {  // also where nothing was written yet: a manifest then notices that something was
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

result<std::vector<std::byte>> hdf5_references::read_text(const hdf5_array& from, const array& pointers) const {
  return from_->parse([&](hdf5_file& file) { return read_hdf5_text(file, from, *pointers.state().layout); });
}

result<referenced_array> hdf5_references::describe_text(hdf5_array from, const std::string& uri,
                                                        const hdf5_depth& depth,
                                                        const describe_hdf5_sources& sources) const {
  auto mapped = std::exchange(from.mapped, std::nullopt);
  if (mapped) from.cell_count = 1;
  PENSTOCK_ASSIGN(referenced_array elements, describe(from, uri, depth, sources));  // references to a global heap
  referenced_array like;
  if (mapped) like = elements;
  PENSTOCK_ASSIGN(const array pointers, open_reference(context_, std::move(elements)));
  extents shape = pointers.shape();
  const auto has_items = [&] { return std::find(shape.begin(), shape.end(), 0) == shape.end(); };
  std::vector<std::byte> values;
  if (!from.offsets.empty() || (has_items() && !from.text->fill.empty())) {
    PENSTOCK_ASSIGN(values, read_text(from, pointers));
  }
  if (mapped) {
    const std::vector<std::string> stored = unpack_hdf5_text(values);
    const std::string fill = stored.empty() ? std::string() : stored.front();
    PENSTOCK_ASSIGN(hdf5_virtual_text shown, read_virtual_text(std::move(like), std::move(*mapped), own_place(),
                                                               *context_, depth, sources, fill));
    shape = shown.shape;
    values = pack_hdf5_text(shown.values);
  }
  hdf5_array text;
  if (has_items() && !values.empty()) {
    text.offsets = {0};
    text.lengths = {values.size()};
    text.inline_bytes = std::move(values);
  }
  json::array_t lengths, chunks;
  for (const std::uint64_t each : shape) {
    lengths.emplace_back(each);
    chunks.emplace_back(std::max<std::uint64_t>(each, 1));
  }
  text.cell_count = has_items() ? 1 : 0;
  const char* const codec = from.text->utf8 ? "vlen-utf8" : "vlen-bytes";
  text.zarray = json(json::object_t{{"zarr_format", std::uint64_t{2}},
                                    {"shape", std::move(lengths)},
                                    {"chunks", std::move(chunks)},
                                    {"dtype", "|O"},
                                    {"order", "C"},
                                    {"compressor", json()},
                                    {"filters", json::array_t{json(json::object_t{{"id", codec}})}},
                                    {"fill_value", ""}});
  text.attributes = std::move(from.attributes);
  text.typed_attributes = std::move(from.typed_attributes);
  text.storage = std::move(from.storage);
  text.dimension_names = std::move(from.dimension_names);
  return describe(std::move(text), uri, depth, sources);
}

}  // namespace penstock::inline v0
