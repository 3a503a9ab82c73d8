#include "driver/open_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/counted.h"
#include "driver/chunk_codecs.h"
#include "driver/hdf5_heap_store.h"
#include "driver/shard_table.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "format/hdf5/hdf5_chunk_layout.h"
#include "format/reference/reference_layout.h"
#include "format/zarr/zarr_grid.h"
#include "format/zarr/zarr_layout.h"
#include "format/zarr/zarr_v2.h"
#include "store/reference_store.h"

namespace penstock::inline v0 {
namespace {

// Compiles the codecs as those of a `.zarray` that has only such chunks.
result<codec_chain> compile(const chunk_codecs& codecs, const zarr_metadata& metadata, const extents& shape,
                            const codec_chain_options& options) {
  json::array_t lengths;
  for (const std::uint64_t each : shape) lengths.emplace_back(each);
  const json zarray(json::object_t{{"zarr_format", std::uint64_t{2}},
                                   {"shape", lengths},
                                   {"chunks", lengths},
                                   {"dtype", codecs.dtype},
                                   {"order", metadata.f_order ? "F" : "C"},
                                   {"compressor", json()},
                                   {"filters", json(codecs.filters)},
                                   {"fill_value", json()}});
  PENSTOCK_ASSIGN(const zarr_metadata parsed, parse_zarr_v2_array(zarray, nullptr));
  if (!(parsed.type == metadata.type))
    return error(errc::corrupt_data, fmt::format("codecs of references make {}, the array has {}", parsed.type.name(),
                                                 metadata.type.name()));
  return codec_chain::compile(parsed.codecs.chain, metadata.type, shape, options);
}

result<std::vector<codec_chain>> chains_of(const referenced_array& what, const zarr_metadata& metadata,
                                           codec_chain_options options, const extents& cell) {
  const bool is_v2 = metadata.zarr_format == 2;
  options.stored_order_filters = is_v2;
  std::vector<codec_chain> out;
  if (what.variants.empty()) return out;
  chunk_codecs usual;
  if (is_v2) {
    PENSTOCK_ASSIGN(usual, usual_codecs(what));
  }
  for (const chain_variant& variant : what.variants) {
    const extents& shape = variant.shape ? *variant.shape : cell;
    if (is_v2) {
      PENSTOCK_ASSIGN(codec_chain made, compile(codecs_of(variant, usual), metadata, shape, options));
      out.push_back(std::move(made));
      continue;
    }
    if (!variant.own.is_null() || !variant.skipped.empty())
      return error(errc::corrupt_data, "references of an array that is not of Zarr 2 have codecs of their own");
    PENSTOCK_ASSIGN(codec_chain made, codec_chain::compile(metadata.codecs.chain, metadata.type, shape, options));
    out.push_back(std::move(made));
  }
  return out;
}

result<version> version_now(const referenced_object& of) {
  auto seen = read_and_wait(*of.from, of.key, {0, 0, false}, byte_range::kAll - 1);
  if (!seen.ok()) return std::move(seen).error().note(read_note(of.name, {}));
  return seen->seen;
}

result<std::shared_ptr<const store>> store_of(const referenced_array& what) {
  if (what.cells) return std::shared_ptr<const store>(what.cells);
  std::vector<reference_store::object> objects;
  objects.reserve(what.objects.size());
  for (const referenced_object& each : what.objects) {
    reference_store::object made;
    made.name = each.name;
    made.from = each.from;
    made.key = each.key;
    made.may_vanish = what.missing_is_fill;
    made.pinned = each.seen;
    made.held = each.held;
    if (each.pinned && each.from->traits().versions) {
      PENSTOCK_ASSIGN(made.pinned, version_now(each));
    }
    objects.push_back(std::move(made));
  }
  PENSTOCK_ASSIGN(std::shared_ptr<const store> made, reference_store::make(std::move(objects), what.uri));
  return made;
}

bool has_edges(const referenced_array& what) {
  return std::any_of(what.joined.begin(), what.joined.end(),
                     [](const joined_axis& each) { return !each.edges.empty(); });
}

result<chunk_grid> joined_grid(const chunk_grid& plain, const std::vector<joined_axis>& joined) {
  std::vector<grid_axis> axes;
  for (std::size_t d = 0; d < plain.rank(); ++d) axes.push_back(plain.axis(d));
  for (const joined_axis& each : joined) {
    if (each.axis >= plain.rank())
      return error(errc::corrupt_data,
                   fmt::format("arrays of {}, joined along {}", counted(plain.rank(), "dimension"), each.axis));
    if (each.edges.empty()) continue;
    PENSTOCK_ASSIGN(axes[each.axis], grid_axis::edges(axes[each.axis].extent(), each.edges, each.decoded));
  }
  return chunk_grid::make(std::move(axes));
}

std::shared_ptr<const shard_table> checksums_of(const referenced_array& what) {
  const auto has_one = [](const referenced_object& each) { return each.crc32c.has_value(); };
  if (std::none_of(what.objects.begin(), what.objects.end(), has_one)) return nullptr;
  auto out = std::make_shared<shard_table>();
  for (const referenced_object& each : what.objects) {
    out->parts.push_back({each.name, 0, 0, {}});
    out->checksums.push_back(each.crc32c);
  }
  return out;
}

// The layout that finds the cells of an array.
result<std::shared_ptr<const chunk_layout>> layout_of(const referenced_array& what,
                                                      const std::shared_ptr<const zarr_layout>& cells,
                                                      const codec_chain_options& codecs) {
  if (what.cells) return std::shared_ptr<const chunk_layout>(cells);
  PENSTOCK_ASSIGN(std::vector<codec_chain> more_chains, chains_of(what, what.metadata, codecs, cells->chunks()));
  if (what.index) {
    hdf5_chunk_layout::settings settings;
    settings.masked_chains = std::move(more_chains);
    settings.object = what.objects.at(0).name;
    PENSTOCK_ASSIGN(std::shared_ptr<const chunk_layout> made,
                    hdf5_chunk_layout::make(cells, what.index, std::move(settings)));
    return made;
  }
  reference_layout::settings settings;
  settings.more_chains = std::move(more_chains);
  for (const referenced_object& each : what.objects) settings.objects.push_back(each.name);
  settings.missing_is_fill = what.missing_is_fill;
  if (has_edges(what)) {
    PENSTOCK_ASSIGN(settings.grid, joined_grid(cells->grid(), what.joined));
  }
  PENSTOCK_ASSIGN(std::shared_ptr<const chunk_layout> made,
                  reference_layout::make(cells, what.table, std::move(settings)));
  return made;
}

result<array> open_parts(const std::shared_ptr<context>& with, referenced_array what) {
  if (what.metadata.kind != zarr_node_kind::array)
    return error(errc::corrupt_data, "the references have no metadata of an array");
  codec_chain_options codecs;
  codecs.external = with->state().codecs();
  codecs.padded_streams = true;
  PENSTOCK_ASSIGN(const std::shared_ptr<const zarr_layout> cells, zarr_layout::make(what.metadata, codecs));
  PENSTOCK_ASSIGN(std::shared_ptr<const chunk_layout> layout, layout_of(what, cells, codecs));

  node_place at;
  at.context = with;
  PENSTOCK_ASSIGN(at.from, store_of(what));
  at.uri = what.uri;
  at.opened_for_reading = what.opened_for_reading;
  array_facts facts = facts_of(what.metadata);
  facts.chunks = cells->chunks();
  facts.codecs_text = cells->describe_codecs();
  facts.files = checksums_of(what);
  facts.format = what.format;
  if (!what.dimension_names.empty()) facts.dimension_names = what.dimension_names;
  facts.references = std::make_shared<const referenced_array>(std::move(what));
  return array(std::make_shared<const array_state>(site_of(std::move(at)), std::move(layout), std::move(facts)));
}

}  // namespace

result<chunk_grid> grid_of(const referenced_array& what) {
  PENSTOCK_ASSIGN(const chunk_grid plain, object_grid(what.metadata.grid, what.metadata.shape));
  return joined_grid(plain, what.joined);
}

result<> check_gathered(const referenced_object& of) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 28;
  if (of.gathered_bytes <= kMost) return {};
  return error(errc::unsupported,
               fmt::format("the {} have {} bytes, manifests hold at most {} of files that end inside "
                           "a row of the array",
                           of.name, of.gathered_bytes, kMost));
}

referenced_object whole_object(std::shared_ptr<const store> from, std::string key, version seen) {
  constexpr std::string_view kFile = "file://";
  const std::string root = from->uri();
  referenced_object out;
  if (root.starts_with(kFile)) {
    out.path = out.name = fmt::format("{}/{}", root.substr(kFile.size()), key);
  } else {
    out.name = root.find("://") == std::string::npos ? key : child_uri(root, key + "/");
  }
  out.from = std::move(from);
  out.key = std::move(key);
  out.seen = std::move(seen);
  return out;
}

result<std::shared_ptr<const referenced_array>> references_of(const array& from) {
  const std::shared_ptr<const referenced_array>& what = from.state().references;
  if (!what || what->table) return what;
  return what->read_table();
}

result<array> with_references(const array& from) {
  if (!from.state().references || from.state().references->table) return from;
  PENSTOCK_ASSIGN(const auto what, references_of(from));
  return open_reference(from.state().context, *what);
}

result<array> open_reference(const std::shared_ptr<context>& with, referenced_array what) {
  const std::string uri = what.uri;
  auto made = open_parts(with, std::move(what));
  if (!made.ok()) return std::move(made).error().note("opening '" + uri + "'");
  return made;
}

}  // namespace penstock::inline v0
