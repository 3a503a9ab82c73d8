#include "api/joined/virtual_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/counted.h"
#include "driver/drivers.h"
#include "driver/open_hdf5.h"
#include "driver/registry.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"
#include "format/netcdf/netcdf_layout.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kOnlyArray = "data";
constexpr std::string_view kZarray = ".zarray";
/// The most bytes of the coordinate of one file.
constexpr std::uint64_t kMostCoordinateBytes = std::uint64_t{64} << 20;

bool is_wanted(const virtual_options& how, const std::string& name) {
  const auto has = [&](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  return (how.variables.empty() || has(how.variables)) && !has(how.without);
}

bool has_coding_of(const virtual_variable& a, const virtual_variable& b) noexcept {
  return a.coding && b.coding && (a.coding == b.coding || a.coding->key == b.coding->key);
}

/// Names of all dimensions.
std::vector<std::string> all_names(const std::vector<std::optional<std::string>>& names, std::size_t rank) {
  std::vector<std::string> out;
  if (names.size() != rank) return out;
  for (const auto& each : names) out.push_back(each.value_or(""));
  return out;
}

bool equal(const variable_facts& a, const variable_facts& b) {
  return a.dimensions == b.dimensions && a.type == b.type && a.fill == b.fill && same_json(a.attributes, b.attributes);
}

/// Codecs without the parameters that only set the encoder's effort.
json without_effort(const json::array_t& filters) {
  constexpr std::array<std::string_view, 3> kEffort = {"level", "clevel", "acceleration"};
  json::array_t out;
  for (const json& each : filters) {
    json::object_t made;
    if (each.as_object() != nullptr)
      for (const auto& [name, value] : *each.as_object())
        if (std::find(kEffort.begin(), kEffort.end(), name) == kEffort.end()) made.emplace_back(name, value);
    out.emplace_back(std::move(made));
  }
  return json(std::move(out));
}

/// Takes the data for merge_references, if the references can be merged.
/// \param with_edges  Also if the chunks have unequal lengths along one axis.
void take_references(const referenced_array& from, virtual_variable& out, bool with_edges) {
  if (from.metadata.zarr_format != 2) return;
  const joined_axis* edges = nullptr;
  for (const joined_axis& each : from.joined) {
    if (each.edges.empty()) continue;
    if (edges != nullptr || !with_edges) return;
    edges = &each;
  }
  const auto text = std::find_if(from.documents.begin(), from.documents.end(),
                                 [](const auto& each) { return each.first == kZarray; });
  if (text == from.documents.end()) return;
  const auto parsed = json::parse(text->second);
  if (!parsed.ok() || parsed->as_object() == nullptr) return;
  const json* chunks = parsed->find("chunks");
  if (chunks == nullptr || chunks->as_array() == nullptr) return;
  out.part.chunks.reserve(chunks->as_array()->size());
  for (const json& each : *chunks->as_array()) {
    std::uint64_t length = 0;
    if (!each.get(length)) return;
    out.part.chunks.push_back(length);
  }
  auto coding = std::make_shared<variable_coding>();
  coding->codecs = codecs_of(*parsed);
  coding->order = from.metadata.f_order ? "F" : "C";
  coding->key = coding->codecs.dtype.dump() + coding->order + without_effort(coding->codecs.filters).dump();
  out.coding = std::move(coding);
  out.part.table = from.table;
  out.part.variants = from.variants;
  out.part.objects = from.objects;
  if (edges != nullptr) out.part.edges = std::make_shared<const joined_axis>(*edges);
}

// Whether reading by references is as fast as reading the array, which reads several short records of NetCDF together.
bool has_good_references(const array& of) {
  const auto* const netcdf = dynamic_cast<const netcdf_layout*>(of.state().layout.get());
  return netcdf == nullptr || !netcdf->interleaved() || netcdf->block()[0] == 1;
}

enum class references_taken : std::uint8_t { where_good, always };

result<virtual_variable> variable_of(std::string name, array opened, references_taken taken) {
  virtual_variable out;
  out.name = std::move(name);
  out.uri = opened.uri();
  out.part.shape.assign(opened.shape().begin(), opened.shape().end());
  auto facts = std::make_shared<variable_facts>();
  facts->dimensions = all_names(opened.dimension_names(), out.shape().size());
  facts->type = opened.type();
  const auto fill = opened.fill_value();
  facts->fill.assign(fill.begin(), fill.end());
  PENSTOCK_ASSIGN(facts->attributes, json::parse(opened.attributes_json()));
  out.facts = std::move(facts);
  if (taken == references_taken::always || has_good_references(opened)) {
    PENSTOCK_ASSIGN(out.what, references_of(opened));
    if (out.what) take_references(*out.what, out, true);
  }
  out.opened = std::move(opened);
  return out;
}

result<> add_hdf5(const location& at, const virtual_options& how, virtual_file& out) {
  PENSTOCK_ASSIGN(hdf5_contents contents, describe_hdf5_group(at, how.path));
  out.attributes_json = std::move(contents.attributes_json);
  out.facts = std::move(contents.facts);
  for (hdf5_contents::dataset& each : contents.datasets) {
    if (!is_wanted(how, each.name)) continue;
    if (each.failed) {
      return std::move(*each.failed).note(fmt::format("variable '{}'; 'without' omits it", each.name));
    }
    out.variables.push_back(variable_of(std::move(each.name), std::move(each.what)));
  }
  return {};
}

result<> add_node(const location& at, const virtual_options& how, virtual_file& out) {
  open_options options;
  options.context = at.context;
  options.mode = open_mode::read;
  PENSTOCK_ASSIGN(node found, open_location(at, options));
  if (!how.path.empty()) {
    const auto* const root = std::get_if<group>(&found);
    if (root == nullptr) return error(errc::not_found, fmt::format("an array has no group '{}'", how.path));
    PENSTOCK_ASSIGN(node inner, open(*root, how.path));
    found = std::move(inner);
  }
  if (auto* const alone = std::get_if<array>(&found)) {
    PENSTOCK_ASSIGN(virtual_variable made,
                    variable_of(std::string(kOnlyArray), std::move(*alone), references_taken::where_good));
    out.attributes_json = "{}";
    out.variables.push_back(std::move(made));
    return {};
  }
  const group& within = std::get<group>(found);
  out.attributes_json = within.attributes_json();
  PENSTOCK_ASSIGN(const auto members, open_members(within));
  for (const auto& [name, member] : members) {
    const auto* const one = std::get_if<array>(&member);
    if (one == nullptr || !is_wanted(how, name)) continue;
    PENSTOCK_ASSIGN(virtual_variable made, variable_of(name, *one, references_taken::where_good));
    out.variables.push_back(std::move(made));
  }
  return {};
}

result<> read_coordinate(const std::shared_ptr<context>& with, const virtual_variable& of,
                         std::vector<std::byte>& out) {
  const dtype& type = of.facts->type;
  if (of.shape().size() != 1 || !is_comparable(type)) return {};
  const std::uint64_t bytes = of.shape()[0] * type.item_bytes();
  if (of.shape()[0] > kMostCoordinateBytes || bytes > kMostCoordinateBytes)
    return error(errc::unsupported, fmt::format("a coordinate of {} values in one file", of.shape()[0]));
  out.resize(static_cast<std::size_t>(bytes));
  if (out.empty()) return {};
  PENSTOCK_ASSIGN(const array opened, open_virtual_variable(of, with));
  read_options how;
  how.threads = 1;
  return opened.read(tensor_view::contiguous(out.data(), type, opened.shape()), how);
}

result<> find_length(const virtual_options& how, virtual_file& file) {
  const virtual_variable* from = nullptr;
  for (const virtual_variable& each : file.variables) {
    const auto& dimensions = each.facts->dimensions;
    const auto at = std::find(dimensions.begin(), dimensions.end(), how.concat);
    if (at == dimensions.end()) continue;
    const std::uint64_t length = each.shape()[static_cast<std::size_t>(at - dimensions.begin())];
    if (file.length && *file.length != length) {
      return error(errc::invalid_argument,
                   fmt::format("'{}' has {} along '{}', '{}' has {}", from->name, counted(*file.length, "element"),
                               how.concat, each.name, length));
    }
    from = &each;
    file.length = length;
  }
  return {};
}

result<> read_all(const location& at, const virtual_options& how, virtual_file& out) {
  location known = at;
  if (!at.path.empty()) {
    // Opening a folder fails: then the node has documents.
    auto head = read_head(*at.from, at.path, head_bytes(*at.context, at.path));
    if (head.ok() && *head) known.head = std::make_shared<const object_head>(std::move(**head));
  }
  const bool is_hdf5 = known.head && driver_of(*at.context, *known.head, at.path).get() == &hdf5_driver();
  PENSTOCK_TRY(is_hdf5 ? add_hdf5(known, how, out) : add_node(known, how, out));
  PENSTOCK_TRY(find_length(how, out));
  if (const virtual_variable* const coordinate = out.find(how.concat)) {
    auto read = read_coordinate(at.context, *coordinate, out.coordinate);
    if (!read.ok()) return std::move(read).error().note(fmt::format("reading the coordinate '{}'", how.concat));
  }
  return {};
}

template <class Number>
long double number_at(const std::byte* from) noexcept {
  Number value;
  std::memcpy(&value, from, sizeof value);
  return static_cast<long double>(value);
}

}  // namespace

virtual_variable variable_of(std::string name, std::shared_ptr<const referenced_array> what) {
  virtual_variable out;
  out.name = std::move(name);
  out.uri = what->uri;
  out.part.shape.assign(what->metadata.shape.begin(), what->metadata.shape.end());
  const auto& names = what->dimension_names.empty() ? what->metadata.dimension_names : what->dimension_names;
  out.facts = std::make_shared<const variable_facts>(variable_facts{
      all_names(names, out.shape().size()), what->metadata.type, what->metadata.fill_value, what->metadata.attributes});
  take_references(*what, out, false);  // a manifest of a virtual dataset would not notice changes of its file
  out.what = std::move(what);
  return out;
}

virtual_variable* virtual_file::find(std::string_view wanted) noexcept {
  const auto at = std::find_if(variables.begin(), variables.end(),
                               [&](const virtual_variable& each) { return each.name == wanted; });
  return at == variables.end() ? nullptr : &*at;
}

const virtual_variable* virtual_file::find(std::string_view wanted) const noexcept {
  return const_cast<virtual_file*>(this)->find(wanted);
}

result<virtual_file> read_virtual_file(std::shared_ptr<const store> from, const std::string& key,
                                       const virtual_options& how) {
  virtual_file out;
  location at;
  at.context = how.context;
  at.path = key;
  at.uri = child_uri(from->uri(), key + "/");
  at.from = std::move(from);
  out.name = at.uri;
  while (out.name.ends_with('/')) out.name.pop_back();
  auto read = read_all(at, how, out);
  if (!read.ok()) return std::move(read).error().note(fmt::format("opening '{}' as one of many files", out.name));
  return out;
}

result<array> open_virtual_variable(const virtual_variable& of, const std::shared_ptr<context>& with) {
  if (of.opened) return *of.opened;
  return open_reference(with, *of.what);
}

bool same_json(const json& a, const json& b) { return a == b || a.dump() == b.dump(); }

std::string value_text(const json* value) { return value == nullptr ? "none" : value->dump(); }

result<virtual_variable> referenced_variable(std::string name, array opened) {
  return variable_of(std::move(name), std::move(opened), references_taken::always);
}

bool make_part_like(const virtual_variable& like, virtual_variable& of) {
  if (!like.coding || !of.coding || like.coding->order != of.coding->order) return false;
  of.part.codecs =
      has_coding_of(like, of) ? nullptr : std::shared_ptr<const chunk_codecs>(of.coding, &of.coding->codecs);
  return true;
}

void share_with(const virtual_variable& first, virtual_variable& other) {
  if (!has_coding_of(first, other) || !other.what || first.facts->fill != other.facts->fill) return;
  other.coding = first.coding;
  if (equal(*first.facts, *other.facts)) other.facts = first.facts;
  if (*first.part.table == *other.part.table) other.part.table = first.part.table;
  other.what = nullptr;
}

virtual_variable restored(const virtual_variable& first, const virtual_variable& of) {
  virtual_variable out = of;
  if (out.what || out.opened) return out;
  auto made = std::make_shared<referenced_array>(*first.what);
  for (auto& [name, text] : made->documents) {
    if (name != ".zarray") continue;
    json::object_t document;
    const auto parsed = json::parse(text);
    json::array_t shape, chunks;
    for (const std::uint64_t each : of.shape()) shape.emplace_back(each);
    for (const std::uint64_t each : of.part.chunks) chunks.emplace_back(each);
    if (parsed.ok() && parsed->as_object() != nullptr)
      for (const auto& [member, value] : *parsed->as_object())
        document.emplace_back(member, member == "shape" ? json(shape) : member == "chunks" ? json(chunks) : value);
    text = json(std::move(document)).dump();
  }
  if (auto metadata = parse_array_documents(made->documents); metadata.ok()) made->metadata = std::move(*metadata);
  made->uri = of.uri;
  made->table = of.part.table;
  made->variants = of.part.variants;
  made->objects = of.part.objects;
  made->joined.clear();
  if (of.part.edges) made->joined.push_back(*of.part.edges);
  out.what = std::move(made);
  return out;
}

bool is_comparable(const dtype& type) noexcept {
  switch (type.kind()) {
    case dtype_kind::signed_integer:
    case dtype_kind::unsigned_integer:
      return type.bits() >= 8;
    case dtype_kind::floating:
      return type.bits() >= 32;
    default:
      return false;
  }
}

long double value_at(const dtype& type, const std::vector<std::byte>& values, std::size_t i) noexcept {
  const std::byte* const from = values.data() + i * type.item_bytes();
  const bool has_sign = type.kind() == dtype_kind::signed_integer;
  if (type.kind() == dtype_kind::floating) return type.bits() == 32 ? number_at<float>(from) : number_at<double>(from);
  switch (type.bits()) {
    case 8:
      return has_sign ? number_at<std::int8_t>(from) : number_at<std::uint8_t>(from);
    case 16:
      return has_sign ? number_at<std::int16_t>(from) : number_at<std::uint16_t>(from);
    case 32:
      return has_sign ? number_at<std::int32_t>(from) : number_at<std::uint32_t>(from);
    default:
      return has_sign ? number_at<std::int64_t>(from) : number_at<std::uint64_t>(from);
  }
}

}  // namespace penstock::inline v0
