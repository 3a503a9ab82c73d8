#include "driver/export_references.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/base64.h"
#include "base/checked.h"
#include "base/json_bytes.h"
#include "driver/missing_value.h"
#include "driver/open_hdf5.h"
#include "driver/open_reference.h"
#include "driver/plain_references.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "format/reference/location_rule.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kMaxLevels = 32;
constexpr std::uint64_t kMaxReferences = 10'000'000;
constexpr std::string_view kDimensions = "_ARRAY_DIMENSIONS";

result<const referenced_array*> table_of(const array& from) {
  const referenced_array* const what = from.state().references.get();
  if (what == nullptr)
    return error(errc::invalid_argument, fmt::format("'{}' is not an array of references", from.state().uri));
  return what;
}

/// \error conflict  A local file changed since it was opened: its references may name other bytes now.
result<> check_version(const referenced_object& of) {
  if (of.path.empty() || !of.seen.known()) return {};
  auto read = read_and_wait(*of.from, of.key, {0, 0, false}, 0, &of.seen);
  if (!read.ok() && read.error().code() == errc::version_changed)
    return error(errc::conflict, fmt::format("'{}' changed after it was opened", of.name));
  return {};
}

class exporter {
 public:
  result<> add(const group& from, const std::string& prefix, std::size_t level) {
    const group_state& state = from.state();
    if (!state.members)
      return error(errc::invalid_argument, fmt::format("'{}' is {}, not references", state.uri, state.format));
    if (level == kMaxLevels) return error(errc::unsupported, "references of more than 32 levels of groups");
    PENSTOCK_ASSIGN(json attributes, json::parse(state.attributes_json));
    made_.documents.emplace_back(prefix + std::string(kZgroupKey), R"({"zarr_format":2})");
    made_.documents.emplace_back(prefix + std::string(kZattrsKey), dump_json_with_bytes(attributes));
    PENSTOCK_ASSIGN(const auto names, state.members->keys(state.prefix));
    if (!names) return error(errc::unsupported, fmt::format("the members of '{}' are not listed", state.uri));
    for (const std::string& name : *names) {
      auto opened = state.members->open(state.prefix + name);
      if (!opened.ok() && state.format == kHdf5Format && opened.error().code() == errc::unsupported) {
        omit(prefix + name, opened.error());
        continue;
      }
      PENSTOCK_ASSIGN(const node member, std::move(opened));
      if (const auto* const below = std::get_if<group>(&member)) {
        PENSTOCK_TRY(add(*below, prefix + name + "/", level + 1));
        continue;
      }
      auto added = add(std::get<array>(member), prefix + name);
      if (!added.ok()) return std::move(added).error().note(fmt::format("exporting '{}{}'", prefix, name));
    }
    return {};
  }

  result<exported_group> take() && {
    if (made_.arrays.empty() && first_)
      return std::move(*first_).note(fmt::format("exporting '{}'", made_.omitted.front().first));
    return std::move(made_);
  }

 private:
  result<> add(const array& given, const std::string& path) {
    PENSTOCK_ASSIGN(const array listed, with_references(given));
    PENSTOCK_ASSIGN(const array from, with_regular_chunks(listed));
    PENSTOCK_ASSIGN(const referenced_array* const what, table_of(from));
    if (std::any_of(what->joined.begin(), what->joined.end(), [](const auto& each) { return !each.edges.empty(); }))
      return error(errc::unsupported, "chunks of unequal lengths have no counterpart in Zarr 2: save_manifest has");
    for (const referenced_object& each : what->objects) {
      if (checked_.insert(each.path).second) {
        PENSTOCK_TRY(check_version(each));
      }
    }
    if (const auto expressed = check_codecs(*what); !expressed.ok()) {
      if (expressed.error().code() != errc::unsupported) return expressed.error().clone();
      omit(path, expressed.error());
      return {};
    }
    PENSTOCK_TRY(add_documents(*what, path + "/"));
    const chunk_grid& grid = from.state().layout->grid();
    std::vector<std::uint64_t> cells;
    for (std::size_t d = 0; d < grid.rank(); ++d) cells.push_back(grid.axis(d).cells());
    made_.arrays.push_back({path, from, std::move(cells), what->metadata.keys.separator});
    return {};
  }

  result<> add_documents(const referenced_array& what, const std::string& prefix) {
    if (what.metadata.zarr_format != 2) return error(errc::unsupported, "references of Zarr 3 arrays are not exported");
    bool has_attributes = false;
    json attributes;
    for (const auto& [name, text] : what.documents) {
      if (name != kZattrsKey) continue;
      PENSTOCK_ASSIGN(attributes, json::parse(text));
    }
    for (const auto& [name, text] : what.documents) {
      PENSTOCK_ASSIGN(json document, json::parse(text));
      if (name == kZarrayKey) {
        const bool has_gaps = what.table->entries() != what.table->cells();
        document = with_member(document, "fill_value", fill_value_of_references(what.metadata, attributes, has_gaps));
        document = with_numcodecs_shuffle(document, what.metadata.type.item_bytes());
      }
      if (name == kZattrsKey) {
        has_attributes = true;
        document = with_dimensions(std::move(document), what);
      }
      made_.documents.emplace_back(prefix + name, dump_json_with_bytes(document));
    }
    if (!has_attributes)
      made_.documents.emplace_back(prefix + std::string(kZattrsKey),
                                   dump_json_with_bytes(with_dimensions(json(json::object_t()), what)));
    return {};
  }

  // HDF5's shuffle equals numcodecs' if its input is whole elements: as the first filter, on the bytes of a chunk.
  static json with_numcodecs_shuffle(const json& zarray, std::uint64_t item_bytes) {
    const json *const filters = zarray.find("filters"), *const chunks = zarray.find("chunks");
    if (filters == nullptr || filters->as_array() == nullptr || filters->as_array()->empty() || chunks == nullptr ||
        chunks->as_array() == nullptr)
      return zarray;
    std::uint64_t bytes = item_bytes, element = 0;
    for (const json& each : *chunks->as_array()) {
      std::uint64_t length = 0;
      if (!each.get(length) || !checked_mul(bytes, length, bytes)) return zarray;
    }
    json::array_t codecs = *filters->as_array();
    const json *const id = codecs[0].find("id"), *const size = codecs[0].find("elementsize");
    const bool fits = id != nullptr && *id == json("hdf5.shuffle") && size != nullptr && size->get(element) &&
                      element != 0 && bytes % element == 0;
    if (!fits) return zarray;
    codecs[0] = json(json::object_t{{"id", "shuffle"}, {"elementsize", element}});
    return with_member(zarray, "filters", json(std::move(codecs)));
  }

  static json with_member(const json& of, std::string_view name, json value) {
    if (of.as_object() == nullptr) return of;
    json::object_t out = *of.as_object();
    for (auto& [each, old] : out)
      if (each == name) old = value;
    return json(std::move(out));
  }

  void omit(const std::string& path, const error& why) {
    if (!first_) first_ = why.clone();
    made_.omitted.emplace_back(path, why.message());
  }

  /// \error unsupported  numcodecs cannot decode the elements.
  static result<> check_codecs(const referenced_array& what) {
    for (const auto& [name, text] : what.documents) {
      if (name != kZarrayKey) continue;
      PENSTOCK_ASSIGN(const json document, json::parse(text));
      PENSTOCK_TRY(check_codecs(with_numcodecs_shuffle(document, what.metadata.type.item_bytes())));
    }
    return {};
  }

  static result<> check_codecs(const json& zarray) {
    std::vector<const json*> codecs;
    if (const json* const filters = zarray.find("filters"); filters != nullptr && filters->as_array() != nullptr)
      for (const json& each : *filters->as_array()) codecs.push_back(&each);
    if (const json* const compressor = zarray.find("compressor")) codecs.push_back(compressor);
    for (const json* const each : codecs) {
      const json* const id = each->find("id");
      if (id == nullptr || id->as_string() == nullptr) continue;
      const json* const items = each->find("dtype");
      if (*id == json("vlen-array") && items != nullptr && items->as_string() == nullptr)
        return error(
            errc::unsupported,
            "numcodecs' lists of variable length have single numbers or bytes as items; a manifest has all lists");
      if (id->as_string()->find('.') != std::string::npos)
        return error(errc::unsupported, fmt::format("the codec '{}' is not one of numcodecs", *id->as_string()));
    }
    return {};
  }

  static json with_dimensions(json attributes, const referenced_array& what) {
    const auto& names = what.dimension_names;
    const bool named = names.size() == what.metadata.shape.size() &&
                       std::all_of(names.begin(), names.end(), [](const auto& each) { return each.has_value(); });
    if (!named || attributes.as_object() == nullptr || attributes.find(kDimensions) != nullptr) return attributes;
    json::object_t out = *attributes.as_object();
    json::array_t list;
    for (const auto& each : names) list.emplace_back(*each);
    out.emplace_back(std::string(kDimensions), json(std::move(list)));
    return json(std::move(out));
  }

  exported_group made_;
  std::optional<error> first_;                  // of what is omitted
  std::set<std::string, std::less<>> checked_;  // paths of files
};

std::string key_of(std::uint64_t cell, const exported_array& in) {
  std::string out;
  for (std::size_t d = in.grid.size(); d-- > 0; cell /= in.grid[d]) {
    const std::string number = std::to_string(cell % in.grid[d]);
    out = out.empty() ? number : number + in.separator + out;
  }
  return out.empty() ? "0" : out;
}

result<json> value_of(const exported_object& object, std::uint64_t offset, std::uint64_t length) {
  if (!object.bytes) {
    if (length == 0) return json(json::array_t{json(object.location)});
    return json(json::array_t{json(object.location), json(offset), json(length)});
  }
  std::span<const std::byte> bytes = *object.bytes;
  if (length != 0) {
    if (offset > bytes.size() || length > bytes.size() - offset)
      return error(errc::corrupt_data, "a reference exceeds the bytes in memory");
    bytes = bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
  }
  return json("base64:" + base64_encode(bytes));
}

result<> add_references(const exported_array& from, std::uint64_t& left, json::object_t& out) {
  const std::uint64_t entries = from.from.state().references->table->entries();
  if (entries > left)
    return error(errc::unsupported,
                 fmt::format("more than {} references in a JSON document: Parquet holds more", kMaxReferences));
  left -= entries;
  PENSTOCK_ASSIGN(const std::vector<exported_object> objects, exported_objects_of(from.from));
  PENSTOCK_ASSIGN(const exported_rows rows,
                  exported_rows_of(from.from, 0, from.from.state().references->table->cells()));
  for (std::size_t i = 0; i < rows.cells.size(); ++i) {
    PENSTOCK_ASSIGN(json value, value_of(objects[rows.objects[i]], rows.offsets[i], rows.lengths[i]));
    out.emplace_back(from.path + "/" + key_of(rows.cells[i], from), std::move(value));
  }
  return {};
}

}  // namespace

result<exported_group> exported_of(const group& from) {
  exporter made;
  PENSTOCK_TRY(made.add(from, "", 0));
  return std::move(made).take();
}

result<exported_rows> exported_rows_of(const array& from, std::uint64_t begin, std::uint64_t end) {
  PENSTOCK_ASSIGN(const referenced_array* const what, table_of(from));
  exported_rows out;
  const std::vector<reference_table::record>& records = what->table->records();
  auto at = std::upper_bound(records.begin(), records.end(), begin,
                             [](std::uint64_t cell, const auto& record) { return cell < record.cell; });
  if (at != records.begin()) --at;
  for (; at != records.end() && at->cell < end; ++at) {
    const reference_table::record& record = *at;
    std::uint64_t i = 0, last = record.count;  // entries of a record ascend: the first one of the cells
    while (i < last) {
      const std::uint64_t middle = i + (last - i) / 2;
      if (what->table->cell(record, middle) < begin) {
        i = middle + 1;
      } else {
        last = middle;
      }
    }
    for (; i < record.count; ++i) {
      const std::uint64_t cell = what->table->cell(record, i);
      if (cell >= end) break;
      const cell_reference each = what->table->at(record, i);
      if (each.chain != 0)
        return error(errc::unsupported, "chunks with codecs of their own have no counterpart in such references");
      out.cells.push_back(cell);
      out.objects.push_back(each.object);
      const bool whole = each.length == byte_range::kAll;
      out.offsets.push_back(whole ? 0 : each.offset);
      out.lengths.push_back(whole ? 0 : each.length);
    }
  }
  return out;
}

result<std::vector<exported_object>> exported_objects_of(const array& from) {
  PENSTOCK_ASSIGN(const referenced_array* const what, table_of(from));
  std::vector<exported_object> out;
  out.reserve(what->objects.size());
  for (const referenced_object& each : what->objects) {
    exported_object made{each.path.empty() ? each.name : each.path, std::nullopt};
    if (each.inlined) {
      PENSTOCK_TRY(check_gathered(each));
      auto read = read_and_wait(*each.from, each.key, {}, byte_range::kAll - 1);
      if (!read.ok()) return std::move(read).error().note(read_note(each.key, {}));
      made.bytes = std::move(read->bytes);
    } else if (each.path.empty() && is_local_location(each.name)) {
      return error(errc::unsupported,
                   fmt::format("'{}' is in a store without a location that other programs can open", each.name));
    }
    out.push_back(std::move(made));
  }
  return out;
}

result<kerchunk_document> kerchunk_json_of(const group& from) {
  PENSTOCK_ASSIGN(exported_group made, exported_of(from));
  json::object_t references;
  for (const auto& [key, text] : made.documents) references.emplace_back(key, json(text));
  std::uint64_t left = kMaxReferences;
  for (const exported_array& each : made.arrays) {
    auto added = add_references(each, left, references);
    if (!added.ok()) return std::move(added).error().note(fmt::format("exporting '{}'", each.path));
  }
  std::string text =
      dump_json_with_bytes(json(json::object_t{{"version", std::uint64_t{1}}, {"refs", json(std::move(references))}}));
  return kerchunk_document{std::move(text), std::move(made.omitted)};
}

}  // namespace penstock::inline v0
