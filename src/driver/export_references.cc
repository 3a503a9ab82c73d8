#include "driver/export_references.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "base/base64.h"
#include "base/checked.h"
#include "base/json_bytes.h"
#include "driver/open_reference.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kMaxLevels = 32;
constexpr std::uint64_t kMaxReferences = 10'000'000;
constexpr std::string_view kDimensions = "_ARRAY_DIMENSIONS";

class exporter {
 public:
  result<> add(const group& from, const std::string& prefix, std::size_t level) {
    const group_state& state = from.state();
    if (!state.members)
      return error(errc::invalid_argument, fmt::format("'{}' is {}, not references", state.uri, state.format));
    if (level == kMaxLevels) return error(errc::unsupported, "references of more than 32 levels of groups");
    PENSTOCK_ASSIGN(json attributes, json::parse(state.attributes_json));
    refs_.emplace_back(prefix + std::string(kZgroupKey), json(R"({"zarr_format":2})"));
    refs_.emplace_back(prefix + std::string(kZattrsKey), dump_json_with_bytes(attributes));
    PENSTOCK_ASSIGN(const auto names, state.members->keys(state.prefix));
    if (!names) return error(errc::unsupported, fmt::format("the members of '{}' are not listed", state.uri));
    for (const std::string& name : *names) {
      PENSTOCK_ASSIGN(const node member, state.members->open(state.prefix + name));
      if (const auto* const below = std::get_if<group>(&member)) {
        PENSTOCK_TRY(add(*below, prefix + name + "/", level + 1));
        continue;
      }
      auto added = add(std::get<array>(member), prefix + name + "/");
      if (!added.ok()) return std::move(added).error().note(fmt::format("exporting '{}{}'", prefix, name));
    }
    return {};
  }

  std::string text() && {
    return dump_json_with_bytes(json(json::object_t{{"version", std::uint64_t{1}}, {"refs", json(std::move(refs_))}}));
  }

 private:
  result<> add(const array& from, const std::string& prefix) {
    const referenced_array* const what = from.state().references.get();
    if (what == nullptr)
      return error(errc::invalid_argument, fmt::format("'{}' is not an array of references", from.state().uri));
    if (what->joined && !what->joined->edges.empty()) return unequal();
    PENSTOCK_TRY(add_documents(*what, prefix));
    if (what->table->entries() > kMaxReferences - count_)
      return error(errc::unsupported, fmt::format("more than {} references in a JSON document", kMaxReferences));
    count_ += what->table->entries();
    std::map<std::uint32_t, std::vector<std::byte>> inlined;
    const chunk_grid& grid = from.state().layout->grid();
    for (const auto& record : what->table->records()) {
      for (std::uint64_t i = 0; i < record.count; ++i) {
        const cell_reference each = what->table->at(record, i);
        if (each.chain != 0)
          return error(errc::unsupported, "chunks with codecs of their own have no counterpart in such references");
        dim_vector<std::uint64_t> at;
        grid.coordinates(what->table->cell(record, i), at);
        PENSTOCK_ASSIGN(json value, value_of(*what, each, inlined));
        refs_.emplace_back(prefix + key_of(at, what->metadata.keys.separator), std::move(value));
      }
    }
    return {};
  }

  static error unequal() {
    return {errc::unsupported, "chunks of unequal lengths have no counterpart in Zarr 2: save_manifest has"};
  }

  static std::string key_of(const dim_vector<std::uint64_t>& at, char separator) {
    std::string out;
    for (std::size_t d = 0; d < at.size(); ++d) {
      if (d != 0) out += separator;
      out += std::to_string(at[d]);
    }
    return out.empty() ? "0" : out;
  }

  result<> add_documents(const referenced_array& what, const std::string& prefix) {
    if (what.metadata.zarr_format != 2) return error(errc::unsupported, "references of Zarr 3 arrays are not exported");
    bool has_attributes = false;
    for (const auto& [name, text] : what.documents) {
      PENSTOCK_ASSIGN(json document, json::parse(text));
      if (name == kZarrayKey) {
        document = with_numcodecs_shuffle(document, what.metadata.type.item_bytes());
        PENSTOCK_TRY(check_codecs(document));
      }
      if (name == kZattrsKey) {
        has_attributes = true;
        document = with_dimensions(std::move(document), what);
      }
      refs_.emplace_back(prefix + name, dump_json_with_bytes(document));
    }
    if (!has_attributes)
      refs_.emplace_back(prefix + std::string(kZattrsKey),
                         dump_json_with_bytes(with_dimensions(json(json::object_t()), what)));
    return {};
  }

  // HDF5's shuffle is numcodecs' where its input is whole elements: as the first filter, of the bytes of a chunk.
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
    json::object_t out = *zarray.as_object();
    for (auto& [name, value] : out)
      if (name == "filters") value = json(codecs);
    return json(std::move(out));
  }

  static result<> check_codecs(const json& zarray) {
    std::vector<const json*> codecs;
    if (const json* const filters = zarray.find("filters"); filters != nullptr && filters->as_array() != nullptr)
      for (const json& each : *filters->as_array()) codecs.push_back(&each);
    if (const json* const compressor = zarray.find("compressor")) codecs.push_back(compressor);
    for (const json* const each : codecs) {
      const json* const id = each->find("id");
      if (id == nullptr || id->as_string() == nullptr) continue;
      if (id->as_string()->find('.') != std::string::npos)
        return error(errc::unsupported, fmt::format("the codec '{}' is not one of numcodecs", *id->as_string()));
    }
    return {};
  }

  static json with_dimensions(json attributes, const referenced_array& what) {
    const auto& names = what.dimension_names;
    const bool named =
        !names.empty() && std::all_of(names.begin(), names.end(), [](const auto& each) { return each.has_value(); });
    if (!named || attributes.as_object() == nullptr || attributes.find(kDimensions) != nullptr) return attributes;
    json::object_t out = *attributes.as_object();
    json::array_t list;
    for (const auto& each : names) list.emplace_back(*each);
    out.emplace_back(std::string(kDimensions), json(std::move(list)));
    return json(std::move(out));
  }

  static result<json> value_of(const referenced_array& what, const cell_reference& each,
                               std::map<std::uint32_t, std::vector<std::byte>>& inlined) {
    const referenced_object& object = what.objects[each.object];
    if (!object.inlined) {
      const std::string& name = object.path.empty() ? object.name : object.path;
      if (each.length == byte_range::kAll) return json(json::array_t{json(name)});
      return json(json::array_t{json(name), json(each.offset), json(each.length)});
    }
    auto found = inlined.find(each.object);
    if (found == inlined.end()) {
      auto read = read_and_wait(*object.from, object.key, {}, byte_range::kAll - 1);
      if (!read.ok()) return std::move(read).error().note(read_note(object.key, {}));
      found = inlined.emplace(each.object, std::move(read->bytes)).first;
    }
    std::span<const std::byte> bytes = found->second;
    if (each.length != byte_range::kAll) {
      if (each.offset > bytes.size() || each.length > bytes.size() - each.offset)
        return error(errc::corrupt_data, "a reference leaves the bytes in memory");
      bytes = bytes.subspan(static_cast<std::size_t>(each.offset), static_cast<std::size_t>(each.length));
    }
    return json("base64:" + base64_encode(bytes));
  }

  json::object_t refs_;
  std::uint64_t count_ = 0;
};

}  // namespace

result<std::string> kerchunk_json_of(const group& from) {
  exporter made;
  PENSTOCK_TRY(made.add(from, "", 0));
  return std::move(made).text();
}

}  // namespace penstock::inline v0
