// Many files as one group.
#include <fmt/format.h>
#include <penstock/open.h>
#include <penstock/place.h>
#include <penstock/shards.h>
#include <penstock/virtual.h>

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "api/joined/time_units.h"
#include "api/joined/virtual_file.h"
#include "base/checked.h"
#include "driver/for_each_file.h"
#include "driver/join_as.h"
#include "driver/reference_tree.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kFormat = "virtual";
constexpr std::string_view kWild = "*?[";
constexpr std::size_t kErrorsNamed = 3;
/// Attributes that declare some stored values missing, or give them a meaning of their own.
constexpr std::array<std::string_view, 6> kMeaningOfSome = {"valid_min",   "valid_max",  "valid_range",
                                                            "flag_values", "flag_masks", "flag_meanings"};

constexpr std::string_view kUnits = "units", kCalendar = "calendar";
/// Attributes of a time that name variables with the same units.
constexpr std::array<std::string_view, 2> kRelated = {"bounds", "climatology"};
/// Attributes of a time that change its stored numbers before its units apply.
constexpr std::array<std::string_view, 2> kNotConverted = {"scale_factor", "add_offset"};
/// Attributes of a time that name a number which is not a time.
constexpr std::array<std::string_view, 2> kNoNumber = {"_FillValue", "missing_value"};

struct virtual_source {
  std::shared_ptr<const store> from;
  std::string key;
};

error other(std::string text) { return {errc::invalid_argument, std::move(text)}; }

std::string names_text(const std::vector<std::string>& names) {
  std::string out = "(";
  for (const std::string& each : names) out += (out.size() == 1 ? "" : ", ") + each;
  return out + ")";
}

/// The references of arrays that follow each other along `axis`, as those of one array.
/// \param first  The array whose attributes the result has, one of `parts`.
/// \error unsupported  One table of references cannot describe them.
result<std::shared_ptr<const referenced_array>> merged_references(const std::string& name,
                                                                  const std::vector<array>& parts, std::size_t first,
                                                                  std::size_t axis, const std::string& uri) {
  std::vector<virtual_variable> all;
  all.reserve(parts.size());
  for (const array& each : parts) {
    PENSTOCK_ASSIGN(virtual_variable made, referenced_variable(name, each));
    all.push_back(std::move(made));
  }
  const error refused(errc::unsupported, fmt::format("'{}' is made of arrays that are stored differently: one table of "
                                                     "references cannot describe it",
                                                     uri));
  const std::shared_ptr<const referenced_array> like = all[first].what;
  const auto coding = all[first].coding;
  if (!like || !coding) return refused.clone();
  std::vector<reference_part*> merged;
  for (virtual_variable& each : all) {
    if (!make_part_like(all[first], each)) return refused.clone();
    merged.push_back(&each.part);
  }
  PENSTOCK_ASSIGN(std::optional<referenced_array> made, merge_references(*like, merged, axis));
  if (!made) return refused.clone();
  made->uri = uri;
  return std::make_shared<const referenced_array>(std::move(*made));
}

/// The references of a joined array, created when they are needed, like those of its parts. Null if the parts'
/// references were not merged.
result<std::shared_ptr<const referenced_array>> later_references(const std::string& name,
                                                                 const std::vector<array>& parts, std::size_t first,
                                                                 std::size_t axis, const std::string& uri) {
  auto out = std::make_shared<referenced_array>();
  for (const array& each : parts) {
    const referenced_array* const what = each.state().references.get();
    if (what == nullptr || what->table || what->index || !what->read_table)
      return std::shared_ptr<const referenced_array>();
    out->objects.insert(out->objects.end(), what->objects.begin(), what->objects.end());
  }
  out->uri = uri;
  out->read_table = [=] { return merged_references(name, parts, first, axis, uri); };
  return std::shared_ptr<const referenced_array>(std::move(out));
}

/// Compares files with each other, sorts them and joins their variables.
class virtual_group {
 public:
  virtual_group(const virtual_options& how, std::vector<virtual_file> files) : how_(how), files_(std::move(files)) {}

  result<group> make(const std::shared_ptr<const store>& from) {
    uri_ = "virtual:" + files_.front().name;
    if (files_.size() > 1) uri_ += " ... " + files_.back().name.substr(files_.back().name.rfind('/') + 1);
    first_ = &files_.front();
    PENSTOCK_TRY(check_lengths());
    auto converted = convert_coordinates();
    if (!converted.ok()) return std::move(converted).error().note(fmt::format("opening '{}'", uri_));
    const std::vector<std::string> names = names_of_all();
    std::vector<result<>> checked(names.size());
    side_by_side(names.size(), *how_.context, [&](std::size_t i) { checked[i] = check(names[i]); });
    for (result<>& each : checked)
      if (!each.ok()) return std::move(each).error().note(fmt::format("opening '{}'", uri_));
    auto ordered = order();
    if (!ordered.ok()) return std::move(ordered).error().note(fmt::format("opening '{}'", uri_));
    std::vector<std::optional<result<array>>> made(names.size());
    side_by_side(names.size(), *how_.context, [&](std::size_t i) { made[i].emplace(joined(names[i])); });
    std::map<std::string, array, std::less<>> arrays;
    for (std::size_t i = 0; i < names.size(); ++i) {
      result<array>& each = *made[i];
      if (!each.ok()) return std::move(each).error().note(fmt::format("variable '{}' of '{}'", names[i], uri_));
      arrays.emplace(names[i], std::move(*each));
    }
    return group_of({std::string(kFormat), uri_, first_->attributes_json, first_->facts}, std::move(arrays), from,
                    how_.context);
  }

 private:
  result<> check_lengths() const {
    for (const virtual_file& each : files_) {
      if (!each.length) return other(fmt::format("no variable of '{}' has the dimension '{}'", each.name, how_.concat));
    }
    return {};
  }

  std::vector<std::string> names_of_all() const {
    std::vector<std::string> out;
    std::set<std::string_view> seen;
    for (const virtual_file& file : files_)
      for (const virtual_variable& each : file.variables)
        if (seen.insert(each.name).second) out.push_back(each.name);
    return out;
  }

  // The first file that has a variable; others are compared with it.
  const virtual_file& first_with(const std::string& name) const {
    return *std::find_if(files_.begin(), files_.end(),
                         [&](const virtual_file& each) { return each.find(name) != nullptr; });
  }

  std::optional<std::size_t> axis_of(const virtual_variable& of) const {
    const auto& dimensions = of.facts->dimensions;
    const auto at = std::find(dimensions.begin(), dimensions.end(), how_.concat);
    if (at == dimensions.end()) return std::nullopt;
    return static_cast<std::size_t>(at - dimensions.begin());
  }

  result<> check(const std::string& name) const {
    const virtual_file& like = first_with(name);
    const virtual_variable& first = *like.find(name);
    for (const virtual_file& file : files_) {
      const virtual_variable* const each = file.find(name);
      if (each == nullptr) {
        if (how_.missing == virtual_missing::fill && name != how_.concat) continue;
        return other(
            fmt::format("'{}' has no variable '{}', '{}' has: missing=\"fill\" or a list of variables opens them",
                        file.name, name, like.name));
      }
      PENSTOCK_TRY(compare(name, like, first, file, *each));
    }
    if (how_.compare_values && !axis_of(first)) return compare_values(name, like, first);
    return {};
  }

  result<> compare(const std::string& name, const virtual_file& like, const virtual_variable& first,
                   const virtual_file& file, const virtual_variable& each) const {
    const auto refuse = [&](std::string_view what, std::string_view here, std::string_view there) {
      return other(
          fmt::format("variable '{}' has {} {} in '{}' and {} in '{}'", name, what, here, file.name, there, like.name));
    };
    const variable_facts &here = *each.facts, &there = *first.facts;
    if (here.dimensions != there.dimensions)
      return refuse("the dimensions", names_text(here.dimensions), names_text(there.dimensions));
    if (!(here.type == there.type)) return refuse("the dtype", here.type.name(), there.type.name());
    const auto axis = axis_of(first);
    for (std::size_t d = 0; d < first.shape().size(); ++d) {
      if (axis != d && each.shape()[d] != first.shape()[d])
        return refuse("the shape", to_string(extents_of(each.shape())), to_string(extents_of(first.shape())));
    }
    if (&here == &there) return {};
    const bool is_in_memory = name == how_.concat && coordinate() != nullptr;  // all its values are known
    if (here.fill != there.fill && axis && !there.type.variable_length() && !is_in_memory) {
      return other(
          fmt::format("variable '{}' has another fill value in '{}' than in '{}'", name, file.name, like.name));
    }
    if (how_.attributes == virtual_attributes::all && !same_json(here.attributes, there.attributes))
      return refuse("the attributes", here.attributes.dump(), there.attributes.dump());
    const auto same = [&](std::string_view attribute) -> result<> {
      const json* const a = here.attributes.find(attribute);
      const json* const b = there.attributes.find(attribute);
      if (a == nullptr ? b == nullptr : b != nullptr && same_json(*a, *b)) return {};
      error refused = refuse(fmt::format("the attribute '{}'", attribute), value_text(a), value_text(b));
      if (attribute == kUnits && units_of(each) && units_of(first))
        refused.note(
            fmt::format("only the coordinate '{}' is converted to the units of the first file: omit '{}', or "
                        "open the files with xarray.open_mfdataset",
                        how_.concat, name));
      return refused;
    };
    for (const std::string_view attribute : kMeaning) PENSTOCK_TRY(same(attribute));
    for (const std::string_view attribute : kMeaningOfSome) PENSTOCK_TRY(same(attribute));
    return {};
  }

  static std::string text_of(const json& attributes, std::string_view name) {
    const json* const found = attributes.find(name);
    return found != nullptr && found->as_string() != nullptr ? *found->as_string() : std::string();
  }

  static std::optional<time_units> units_of(const virtual_variable& of) {
    return parse_time_units(text_of(of.facts->attributes, kUnits), text_of(of.facts->attributes, kCalendar));
  }

  // Times of files with another reference date, in the units of the first file.
  result<> convert_coordinates() {
    const virtual_variable* const first = coordinate();
    if (first == nullptr) return {};
    const auto to = units_of(*first);
    if (!to) return {};
    for (virtual_file& file : files_) {
      const auto each = std::find_if(file.variables.begin(), file.variables.end(),
                                     [&](const virtual_variable& one) { return one.name == how_.concat; });
      if (&file == first_ || each == file.variables.end() || each->facts == first->facts) continue;
      const auto from = units_of(*each);
      const bool differs = text_of(each->facts->attributes, kUnits) != text_of(first->facts->attributes, kUnits);
      if (!from || !differs || !(each->facts->type == first->facts->type)) continue;  // `compare` refuses differences
      if (!same_calendar(*each, *first)) continue;
      PENSTOCK_TRY(convert(file, *each, *first, *from, *to));
    }
    return {};
  }

  static bool same_calendar(const virtual_variable& a, const virtual_variable& b) {
    return text_of(a.facts->attributes, kCalendar) == text_of(b.facts->attributes, kCalendar);
  }

  // Integers exactly: a double cannot hold every 64-bit fill value.
  static std::optional<long double> number_of(const json& from) {
    std::int64_t signed_number = 0;
    std::uint64_t number = 0;
    double real = 0;
    if (from.get(signed_number)) return static_cast<long double>(signed_number);
    if (from.get(number)) return static_cast<long double>(number);
    if (from.get(real)) return static_cast<long double>(real);
    return std::nullopt;
  }

  // Whether a time is a number that an attribute of `of` excludes. (NaN is not changed.)
  static bool has_missing(const virtual_file& file, const virtual_variable& of) {
    const dtype& type = of.facts->type;
    for (const std::string_view name : kNoNumber) {
      const json* const found = of.facts->attributes.find(name);
      const auto number = found == nullptr ? std::nullopt : number_of(*found);
      if (!number) continue;
      for (std::size_t i = 0; (i + 1) * type.item_bytes() <= file.coordinate.size(); ++i)
        if (value_at(type, file.coordinate, i) == *number) return true;
    }
    return false;
  }

  result<> convert(virtual_file& file, virtual_variable& each, const virtual_variable& first, const time_units& from,
                   const time_units& to) const {
    const auto refuse = [&](const std::string& why) {
      return other(fmt::format("'{}' counts '{}' in '{}', '{}' in '{}': {}", file.name, each.name,
                               text_of(each.facts->attributes, kUnits), first_->name,
                               text_of(first.facts->attributes, kUnits), why));
    };
    for (const std::string_view name : kRelated) {
      const std::string related = text_of(each.facts->attributes, name);
      if (!related.empty() && file.find(related) != nullptr)
        return refuse(
            fmt::format("'{}' counts in the same units and is not converted: omit it (drop_variables)", related));
    }
    for (const std::string_view name : kNotConverted) {
      if (each.facts->attributes.find(name) != nullptr || first.facts->attributes.find(name) != nullptr)
        return refuse(fmt::format("times with the attribute '{}' are not converted", name));
    }
    const std::string_view lacks = "a time that is missing is not converted";
    if (has_missing(file, each)) return refuse(std::string(lacks));
    auto converted = convert_times(each.facts->type, from, to, file.coordinate);
    if (converted.ok() && has_missing(file, first)) return refuse(std::string(lacks));
    if (!converted.ok())
      return refuse(converted.error().message() + ": write the files with one unit, or omit the variable");
    variable_facts facts = *each.facts;
    json::object_t attributes = *facts.attributes.as_object();
    for (auto& [name, value] : attributes)
      if (name == kUnits) value = json(text_of(first.facts->attributes, kUnits));
    facts.attributes = json(std::move(attributes));
    each.facts = std::make_shared<const variable_facts>(std::move(facts));
    return {};
  }

  result<std::vector<std::byte>> values_of(const virtual_file& file, const virtual_variable& of) const {
    virtual_variable whole = restored(of);
    const dtype& type = of.facts->type;
    if (type.variable_length())
      return error(errc::unsupported, fmt::format("values of variable length of '{}' are not compared", of.name));
    PENSTOCK_ASSIGN(const array opened, open_virtual_variable(whole, how_.context));
    std::uint64_t bytes = type.item_bytes();
    for (const std::uint64_t length : of.shape())
      if (!checked_mul(bytes, length, bytes)) return error(errc::unsupported, "more than 2^64 bytes");
    std::vector<std::byte> out(static_cast<std::size_t>(bytes));
    auto read = opened.read(tensor_view::contiguous(out.data(), type, opened.shape()));
    if (!read.ok()) return std::move(read).error().note(fmt::format("comparing '{}' of '{}'", of.name, file.name));
    return out;
  }

  result<> compare_values(const std::string& name, const virtual_file& like, const virtual_variable& first) const {
    PENSTOCK_ASSIGN(const std::vector<std::byte> expected, values_of(like, first));
    for (const virtual_file& file : files_) {
      const virtual_variable* const each = file.find(name);
      if (each == nullptr || &file == &like) continue;
      PENSTOCK_ASSIGN(const std::vector<std::byte> values, values_of(file, *each));
      if (values != expected)
        return other(fmt::format("variable '{}' has other values in '{}' than in '{}'", name, file.name, like.name));
    }
    return {};
  }

  const virtual_variable* coordinate() const {
    const virtual_variable* const found = files_.front().find(how_.concat);
    return found != nullptr && found->shape().size() == 1 && axis_of(*found) && is_comparable(found->facts->type)
               ? found
               : nullptr;
  }

  // Sorts the files and checks the order of the coordinate.
  result<> order() {
    if (how_.order == virtual_order::unchecked) return {};
    const virtual_variable* const of = coordinate();
    if (of == nullptr) {
      if (how_.order == virtual_order::given) return {};
      return other(
          fmt::format("files are put in order by the coordinate '{}': '{}' has no such variable of one "
                      "dimension and numbers",
                      how_.concat, files_.front().name));
    }
    const dtype type = of->facts->type;
    if (how_.order == virtual_order::values) sort_by(type);
    return check_order(type);
  }

  void sort_by(const dtype& type) {
    bool descends = false;
    for (const virtual_file& each : files_) {
      if (each.coordinate.size() < 2 * type.item_bytes()) continue;
      descends = value_at(type, each.coordinate, 1) < value_at(type, each.coordinate, 0);
      break;
    }
    std::vector<std::size_t> at(files_.size());
    std::iota(at.begin(), at.end(), std::size_t{0});
    std::stable_sort(at.begin(), at.end(), [&](std::size_t a, std::size_t b) {
      const auto &x = files_[a].coordinate, &y = files_[b].coordinate;
      if (x.empty() || y.empty()) return !y.empty() && x.empty();
      const long double i = value_at(type, x, 0), k = value_at(type, y, 0);
      return descends ? i > k : i < k;
    });
    // The first named file remains the one whose attributes are shown.
    std::vector<virtual_file> sorted;
    sorted.reserve(files_.size());
    for (const std::size_t i : at) sorted.push_back(std::move(files_[i]));
    const std::size_t first = static_cast<std::size_t>(std::find(at.begin(), at.end(), 0u) - at.begin());
    files_ = std::move(sorted);
    first_ = &files_[first];
  }

  result<> check_order(const dtype& type) const {
    int direction = 0;
    std::optional<long double> before;
    const virtual_file* last = nullptr;
    for (const virtual_file& file : files_) {
      const std::size_t count = file.coordinate.size() / type.item_bytes();
      for (std::size_t i = 0; i < count; ++i) {
        const long double now = value_at(type, file.coordinate, i);
        if (before) {
          const int step = now > *before ? 1 : now < *before ? -1 : 0;
          const bool ordered = now == *before || (step != 0 && (direction == 0 || step == direction));
          if (!ordered) {
            const std::string where = last == &file ? fmt::format("within '{}'", file.name)
                                                    : fmt::format("from '{}' to '{}'", last->name, file.name);
            return other(fmt::format("the coordinate '{}' is not in order: {} and then {} {}{}", how_.concat,
                                     static_cast<double>(*before), static_cast<double>(now), where,
                                     how_.order == virtual_order::given
                                         ? ": sort=\"values\" puts files in order, sort=False accepts them unchanged"
                                         : ""));
          }
          if (step != 0) direction = step;
        }
        before = now;
        last = &file;
      }
    }
    return {};
  }

  virtual_variable restored(const virtual_variable& of) const {
    const virtual_variable* const first = first_->find(of.name);
    return first == nullptr ? of : penstock::restored(*first, of);
  }

  result<array> joined(const std::string& name) {
    const virtual_file& like = first_->find(name) != nullptr ? *first_ : first_with(name);
    const virtual_variable whole = restored(*like.find(name));
    const auto axis = axis_of(whole);
    if (!axis) return open_virtual_variable(whole, how_.context);
    if (name == how_.concat && coordinate() != nullptr) return inlined_coordinate(whole);
    PENSTOCK_ASSIGN(std::optional<array> merged, merge(name, whole, *axis));
    if (merged) return std::move(*merged);
    return join_all(name, whole, *axis);
  }

  // Moves the references of the variable out of the files, if it merges them.
  result<std::optional<array>> merge(const std::string& name, const virtual_variable& whole, std::size_t axis) {
    const referenced_array* const like = whole.what.get();
    if (like == nullptr || !whole.coding) return std::optional<array>();
    std::vector<reference_part*> parts;
    parts.reserve(files_.size());
    std::deque<reference_part> filled;
    for (virtual_file& file : files_) {
      virtual_variable* const each = file.find(name);
      if (each == nullptr) {
        reference_part& made = filled.emplace_back();
        made.shape = whole.shape();
        made.shape[axis] = *file.length;
        made.chunks = whole.part.chunks;
        parts.push_back(&made);
        continue;
      }
      if (!make_part_like(whole, *each)) return std::optional<array>();
      parts.push_back(&each->part);
    }
    PENSTOCK_ASSIGN(std::optional<referenced_array> made, merge_references(*like, parts, axis));
    if (!made) return std::optional<array>();
    made->uri = fmt::format("{}/{}", uri_, name);
    PENSTOCK_ASSIGN(array out, open_reference(how_.context, std::move(*made)));
    return std::optional<array>(std::move(out));
  }

  result<array> join_all(const std::string& name, const virtual_variable& whole, std::size_t axis) const {
    std::vector<array> parts;
    std::size_t first = 0;
    for (const virtual_file& file : files_) {
      const virtual_variable* const each = file.find(name);
      if (&file == first_) first = parts.size();
      if (each == nullptr)
        return error(errc::unsupported, fmt::format("'{}' has no such variable, and the others are stored differently: "
                                                    "rows of the fill value need arrays of one kind",
                                                    file.name));
      PENSTOCK_ASSIGN(array opened, open_virtual_variable(restored(*each), how_.context));
      parts.push_back(std::move(opened));
    }
    joined_facts what;
    what.uri = fmt::format("{}/{}", uri_, name);
    what.attributes_json = whole.facts->attributes.dump();
    for (const std::string& each : whole.facts->dimensions)
      what.dimension_names.push_back(each.empty() ? std::nullopt : std::optional(each));
    PENSTOCK_ASSIGN(what.references, later_references(name, parts, first, axis, what.uri));
    return join_as(parts, axis, std::move(what), how_.context);
  }

  // All values of the coordinate, in memory.
  result<array> inlined_coordinate(const virtual_variable& whole) const {
    std::vector<std::byte> values;
    for (const virtual_file& each : files_) values.insert(values.end(), each.coordinate.begin(), each.coordinate.end());
    const dtype& of = whole.facts->type;
    const std::uint64_t count = values.size() / of.item_bytes();
    const char kind = of.kind() == dtype_kind::floating ? 'f' : of.kind() == dtype_kind::signed_integer ? 'i' : 'u';
    constexpr char kOrder = std::endian::native == std::endian::little ? '<' : '>';
    const std::uint64_t item = of.item_bytes();
    const std::string type = fmt::format("{}{}{}", item == 1 ? '|' : kOrder, kind, item);
    const json zarray(json::object_t{{"zarr_format", std::uint64_t{2}},
                                     {"shape", json::array_t{count}},
                                     {"chunks", json::array_t{std::max<std::uint64_t>(count, 1)}},
                                     {"dtype", type},
                                     {"order", "C"},
                                     {"compressor", json()},
                                     {"filters", json()},
                                     {"fill_value", json()}});
    referenced_array what;
    what.documents = {{".zarray", zarray.dump()}, {".zattrs", whole.facts->attributes.dump()}};
    PENSTOCK_ASSIGN(what.metadata, parse_array_documents(what.documents));
    reference_table::columns columns;
    if (count != 0) {
      const std::shared_ptr<store> memory = make_memory_store();
      const part bytes(values);
      auto put = memory->put("inline", {&bytes, 1}, {});
      if (!put.ok()) return std::move(put).error();
      referenced_object& object = what.objects.emplace_back();
      object.name = object.key = "inline";
      object.from = memory;
      object.inlined = true;
      columns.offsets = {0};
      columns.lengths = {values.size()};
    }
    PENSTOCK_ASSIGN(what.table, reference_table::make(count == 0 ? 0 : 1, columns));
    const referenced_array* const like = whole.what.get();
    what.format = like != nullptr ? like->format : std::string(kFormat);
    if (like != nullptr) what.hdf5 = like->hdf5;
    what.uri = fmt::format("{}/{}", uri_, how_.concat);
    what.dimension_names = {how_.concat};
    what.opened_for_reading = true;
    return open_reference(how_.context, std::move(what));
  }

  const virtual_options& how_;
  std::vector<virtual_file> files_;
  const virtual_file* first_ = nullptr;  // the file whose attributes are shown
  std::string uri_;
};

// Whether the joined coordinate consists of exactly the values that were read with the metadata.
bool has_all_values(const virtual_options& how, const virtual_file& file, const virtual_variable& of) {
  return !file.coordinate.empty() && of.facts->dimensions == std::vector<std::string>{how.concat};
}

void drop_references(virtual_variable& of) {
  of.part.table = nullptr;
  of.part.variants = {};
  of.part.objects = {};
  of.part.edges = nullptr;
}

result<> check_options(const virtual_options& how, const std::vector<virtual_source>& sources) {
  if (how.concat.empty()) return other("concat must name the dimension to concatenate the files along");
  if (sources.empty()) return other("the list of files is empty");
  std::set<std::pair<const store*, std::string_view>> seen;
  for (const virtual_source& each : sources)
    if (!seen.emplace(each.from.get(), each.key).second) return other(fmt::format("'{}' is given twice", each.key));
  return {};
}

result<group> open_sources(const std::vector<virtual_source>& sources, virtual_options how) {
  if (!how.context) {
    PENSTOCK_ASSIGN(how.context, context::make());
  }
  PENSTOCK_TRY(check_options(how, sources));
  std::vector<virtual_file> files(sources.size());
  std::vector<std::optional<error>> failed(sources.size());
  const auto read = [&](std::size_t i) {
    auto made = read_virtual_file(sources[i].from, sources[i].key, how);
    if (!made.ok()) {
      failed[i] = std::move(made).error();
      return;
    }
    files[i] = std::move(*made);
    if (i == 0) return;
    files[i].attributes_json.clear();  // only the first file's attributes are shown
    files[i].facts = nullptr;
    for (virtual_variable& each : files[i].variables) {
      const virtual_variable* const first = files[0].find(each.name);
      if (first == nullptr) continue;
      share_with(*first, each);
      if (each.name == how.concat && has_all_values(how, files[i], each)) drop_references(each);
    }
  };
  read(0);
  if (!failed[0]) {
    for_each_file(sources.size() - 1, *sources[0].from, *how.context, [&](std::size_t i) { read(i + 1); });
  }
  const auto bad = static_cast<std::size_t>(
      std::count_if(failed.begin(), failed.end(), [](const auto& each) { return each.has_value(); }));
  if (bad != 0) {
    const auto first = std::find_if(failed.begin(), failed.end(), [](const auto& each) { return each.has_value(); });
    if (bad == 1) return std::move(**first);
    std::string more;
    std::size_t named = 0;
    for (auto each = first + 1; each != failed.end() && named < kErrorsNamed; ++each) {
      if (!*each) continue;
      ++named;
      more +=
          fmt::format("{}'{}'", more.empty() ? "" : ", ", sources[static_cast<std::size_t>(each - failed.begin())].key);
    }
    return std::move(**first).note(fmt::format("{} of {} files cannot be read, also {}", bad, sources.size(), more));
  }
  return virtual_group(how, std::move(files)).make(sources.front().from);
}

}  // namespace

result<group> open_virtual(std::shared_ptr<const store> from, std::vector<std::string> keys,
                           const virtual_options& options) {
  std::vector<virtual_source> sources;
  sources.reserve(keys.size());
  for (std::string& each : keys) sources.push_back({from, std::move(each)});
  return open_sources(sources, options);
}

result<group> open_virtual(std::span<const std::string> files, const virtual_options& options) {
  virtual_options how = options;
  if (!how.context) {
    PENSTOCK_ASSIGN(how.context, context::make());
  }
  reference_stores stores(how.context);
  std::vector<virtual_source> sources;
  sources.reserve(files.size());
  for (const std::string& each : files) {
    std::string location = each;
    if (each.find("://") == std::string::npos) location = std::filesystem::absolute(each).lexically_normal().string();
    while (location.size() > 1 && location.ends_with('/')) location.pop_back();
    PENSTOCK_ASSIGN(referenced_object found, stores.object(location));
    sources.push_back({std::move(found.from), std::move(found.key)});
  }
  return open_sources(sources, std::move(how));
}

result<group> open_virtual(std::string_view pattern, const virtual_options& options) {
  virtual_options how = options;
  if (!how.context) {
    PENSTOCK_ASSIGN(how.context, context::make());
  }
  std::string whole(pattern);
  if (whole.find("://") == std::string::npos) whole = std::filesystem::absolute(whole).lexically_normal().string();
  const std::size_t wild = whole.find_first_of(kWild);
  if (wild == std::string::npos) return open_virtual(std::span<const std::string>(&whole, 1), how);
  const std::size_t slash = whole.rfind('/', wild);
  if (slash == std::string::npos) return other(fmt::format("'{}' has no folder", pattern));
  PENSTOCK_ASSIGN(place folder, find_place(slash == 0 ? "/" : whole.substr(0, slash), {how.context, {}}));
  const std::string prefix = prefix_of(folder.path);
  std::string escaped;
  for (const char c : prefix) {
    if (kWild.find(c) != std::string_view::npos || c == '\\') escaped += '\\';
    escaped += c;
  }
  PENSTOCK_ASSIGN(std::vector<std::string> keys,
                  find_shards(*folder.store, escaped + whole.substr(slash + 1), shard_gaps::allow));
  return open_virtual(std::move(folder.store), std::move(keys), how);
}

}  // namespace penstock::inline v0
