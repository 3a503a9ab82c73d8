#include "driver/plain_references.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "array/contiguous_blocks.h"
#include "base/checked.h"
#include "format/netcdf/netcdf_layout.h"
#include "format/zarr/zarr_fill_value.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

json list_of(const extents& lengths) {
  json::array_t out;
  for (const std::uint64_t each : lengths) out.emplace_back(each);
  return json(std::move(out));
}

// Adjacent values from `offset` on, or chunks at intervals of `step` bytes.
result<std::shared_ptr<const reference_table>> table_of(const extents& shape, const extents& chunks,
                                                        std::uint64_t item_bytes, std::uint64_t offset,
                                                        std::uint64_t step = 0) {
  std::uint64_t cells = 1, bytes = item_bytes;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    cells *= ceil_div(shape[d], chunks[d]);
    bytes *= chunks[d];
  }
  reference_table_builder builder(cells);
  reference_run run;
  run.count = run.inner = cells;
  run.offset = offset;
  run.offset_step = static_cast<std::int64_t>(step == 0 ? bytes : step);
  run.length = bytes;
  if (cells != 0) builder.add(run);
  return std::move(builder).finish();
}

}  // namespace

extents regular_chunks(const extents& shape, std::uint64_t item_bytes) {
  constexpr std::uint64_t kLeastBytes = std::uint64_t{64} << 10, kMostBytes = 4 * kBlockBytes,
                          kMostAtOnce = std::uint64_t{64} << 20;
  extents out;
  std::uint64_t row = item_bytes;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    out.push_back(std::max<std::uint64_t>(shape[d], 1));
    if (d != 0) row = saturating_mul(row, shape[d]);
  }
  if (shape.empty() || row == 0) return out;
  std::uint64_t rows = std::clamp<std::uint64_t>(kMostBytes / row, 1, out[0]);
  while (out[0] % rows != 0) --rows;
  const bool tiny = rows * row < kLeastBytes;
  if (!tiny || saturating_mul(out[0], row) > kMostAtOnce) out[0] = rows;
  return out;
}

result<std::shared_ptr<const referenced_array>> netcdf_references(const netcdf_layout& variable,
                                                                  const array_site& where, const array_facts& what) {
  const netcdf_file& file = *variable.file();
  const netcdf_variable& of = variable.variable();
  const extents& shape = variable.shape();
  auto out = std::make_shared<referenced_array>();
  const bool by_records = of.has_records && (variable.interleaved() || variable.block()[0] == 1);
  extents chunks = regular_chunks(shape, what.type.item_bytes());
  if (by_records) chunks[0] = 1;
  PENSTOCK_ASSIGN(json fill, write_v2_fill_value(what.fill_value, what.type, json("big")));
  const json zarray(json::object_t{{"zarr_format", std::uint64_t{2}},
                                   {"shape", list_of(shape)},
                                   {"chunks", list_of(chunks)},
                                   {"dtype", stored_type_of(of.type)},
                                   {"order", "C"},
                                   {"compressor", json()},
                                   {"filters", json()},
                                   {"fill_value", std::move(fill)}});
  PENSTOCK_ASSIGN(const json attributes, json::parse(what.attributes_json));
  PENSTOCK_ASSIGN(out->metadata, parse_zarr_v2_array(zarray, &attributes));
  out->documents = {{".zarray", zarray.dump()}, {".zattrs", what.attributes_json}};
  PENSTOCK_ASSIGN(out->table, table_of(shape, chunks, what.type.item_bytes(), of.offset,
                                       by_records ? file.header.record_bytes : 0));
  out->objects.push_back(whole_object(where.store, where.prefix + file.key, file.seen));
  out->format = "reference";
  out->uri = where.uri;
  out->dimension_names = what.dimension_names;
  out->opened_for_reading = where.opened_for_reading;
  return std::shared_ptr<const referenced_array>(std::move(out));
}

result<array> with_regular_chunks(const array& from) {
  const referenced_array* const what = from.state().references.get();
  const auto only_shorter = [](const chain_variant& each) {
    return each.shape && each.skipped.empty() && each.own.is_null();
  };
  if (what == nullptr || !what->table || what->variants.empty() || !what->joined.empty() ||
      what->metadata.zarr_format != 2 || !std::all_of(what->variants.begin(), what->variants.end(), only_shorter)) {
    return from;
  }
  const auto zarray = std::find_if(what->documents.begin(), what->documents.end(),
                                   [](const auto& each) { return each.first == ".zarray"; });
  if (zarray == what->documents.end()) return from;
  PENSTOCK_ASSIGN(json document, json::parse(zarray->second));
  for (const char* const codec : {"filters", "compressor"})
    if (const json* const found = document.find(codec); found != nullptr && !found->is_null()) return from;

  // All chunks must be adjacent in one object.
  const reference_table& table = *what->table;
  std::uint64_t begin = 0, end = 0;
  if (table.entries() != table.cells() || table.entries() == 0) return from;
  for (const reference_table::record& record : table.records()) {
    for (std::uint64_t i = 0; i < record.count; ++i) {
      const cell_reference each = table.at(record, i);
      const bool is_first = table.cell(record, i) == 0;
      if (is_first) begin = end = each.offset;
      if (each.object != 0 || each.length == byte_range::kAll || each.offset != end) return from;
      end += each.length;
    }
  }
  const std::uint64_t item = what->metadata.type.item_bytes();
  const extents& shape = what->metadata.shape;
  std::uint64_t bytes = item;
  for (const std::uint64_t each : shape) bytes = saturating_mul(bytes, each);
  if (end - begin != bytes) return from;

  referenced_array made = *what;
  const extents chunks = regular_chunks(shape, item);
  json::object_t members;
  for (const auto& [name, value] : *document.as_object())
    members.emplace_back(name, name == "chunks" ? list_of(chunks) : value);
  document = json(std::move(members));
  json attributes;
  for (auto& [name, text] : made.documents) {
    if (name == ".zarray") text = document.dump();
    if (name == ".zattrs") {
      PENSTOCK_ASSIGN(attributes, json::parse(text));
    }
  }
  PENSTOCK_ASSIGN(made.metadata, parse_zarr_v2_array(document, attributes.is_null() ? nullptr : &attributes));
  PENSTOCK_ASSIGN(made.table, table_of(shape, chunks, item, begin));
  made.variants.clear();
  return open_reference(from.state().context, std::move(made));
}

}  // namespace penstock::inline v0
