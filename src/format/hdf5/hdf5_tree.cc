#include "format/hdf5/hdf5_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "format/hdf5/hdf5_targets.h"
#include "format/hdf5/hdf5_values.h"

namespace penstock::inline v0 {
namespace {

constexpr unsigned kMostSoftSteps = 16;
constexpr std::string_view kRenamed = "_nc4_non_coord_";
constexpr std::string_view kStandIn = "This is a netCDF dimension but not a netCDF variable";

// Each group once, the inner ones first: a path may lead through a group many times.
std::vector<std::uint64_t> inner_first(const std::vector<std::uint64_t>& groups) {
  std::vector<std::uint64_t> out;
  std::set<std::uint64_t> seen;
  for (std::size_t i = groups.size(); i-- > 0;)
    if (seen.insert(groups[i]).second) out.push_back(groups[i]);
  return out;
}

// Attributes that netCDF and dimension scales use internally.
bool is_hidden(const hdf5_attribute& of, bool of_scale) noexcept {
  static constexpr std::array<std::string_view, 6> kHidden = {"DIMENSION_LIST", "REFERENCE_LIST",      "_Netcdf4Dimid",
                                                              "_NCProperties",  "_Netcdf4Coordinates", "_nc3_strict"};
  if (of.name == "CLASS" || of.name == "NAME") return of_scale;
  return std::find(kHidden.begin(), kHidden.end(), of.name) != kHidden.end();
}

bool is_same_enumeration(const hdf5_type& a, const hdf5_type& b) {
  if (a.what != hdf5_type::kind::enumeration || b.what != a.what || a.bytes != b.bytes) return false;
  const hdf5_type &x = a.base[0], &y = b.base[0];
  if (x.what != y.what || x.is_signed != y.is_signed || x.big_endian != y.big_endian || x.precision != y.precision)
    return false;
  const std::set left(a.values.begin(), a.values.end()), right(b.values.begin(), b.values.end());
  return left == right;
}

}  // namespace

// The same criterion as in libhdf5, so that a dataset with a damaged header is still a dataset.
bool is_hdf5_dataset(const std::vector<hdf5_message>& header) noexcept {
  return find_message(header, hdf5_message::data_layout) != nullptr ||
         (find_message(header, hdf5_message::datatype) != nullptr &&
          find_message(header, hdf5_message::dataspace) != nullptr);
}

result<const std::vector<hdf5_message>*> hdf5_tree::header(std::uint64_t object) {
  if (const auto known = headers_.find(object); known != headers_.end()) return &known->second;
  PENSTOCK_ASSIGN(std::vector<hdf5_message> made, read_hdf5_object(file_, object));
  PENSTOCK_TRY(resolve_hdf5_shared(file_, made));
  return &headers_.insert_or_assign(object, std::move(made)).first->second;
}

result<const std::vector<hdf5_link>*> hdf5_tree::links(std::uint64_t group) {
  if (const auto known = links_.find(group); known != links_.end()) return &known->second;
  PENSTOCK_ASSIGN(const auto* messages, header(group));
  PENSTOCK_ASSIGN(std::vector<hdf5_link> made, list_hdf5_links(file_, *messages));
  return &links_.insert_or_assign(group, std::move(made)).first->second;
}

// Null: the group has no such link.
result<const hdf5_link*> hdf5_tree::link(std::uint64_t group, std::string_view name) {
  if (const auto listed = links_.find(group); listed != links_.end()) return listed_link(group, listed->second, name);
  const auto key = std::pair(group, std::string(name));
  if (const auto known = looked_up_.find(key); known != looked_up_.end()) return &known->second;
  PENSTOCK_ASSIGN(const auto* messages, header(group));
  PENSTOCK_ASSIGN(std::optional<hdf5_link> found, look_up_hdf5_link(file_, *messages, name));
  if (found) return &looked_up_.insert_or_assign(key, std::move(*found)).first->second;
  PENSTOCK_ASSIGN(const auto* listed, links(group));
  return listed_link(group, *listed, name);
}

// All links of a group are looked up when its members are listed.
const hdf5_link* hdf5_tree::listed_link(std::uint64_t group, const std::vector<hdf5_link>& listed,
                                        std::string_view name) {
  const auto [of_group, is_new] = by_name_.try_emplace(group);
  if (is_new)
    for (const hdf5_link& each : listed) of_group->second.try_emplace(each.name, &each);
  const auto found = of_group->second.find(name);
  return found == of_group->second.end() ? nullptr : found->second;
}

result<const std::vector<hdf5_attribute>*> hdf5_tree::attributes(std::uint64_t object) {
  if (const auto known = attributes_.find(object); known != attributes_.end()) return &known->second;
  PENSTOCK_ASSIGN(const auto* messages, header(object));
  PENSTOCK_ASSIGN(std::vector<hdf5_attribute> made, list_hdf5_attributes(file_, *messages));
  return &attributes_.insert_or_assign(object, std::move(made)).first->second;
}

result<json> hdf5_tree::attributes_json(std::uint64_t object) {
  PENSTOCK_ASSIGN(const auto* listed, attributes(object));
  const hdf5_path_finder find = [this](std::uint64_t target) { return path_of(target); };
  const auto scale = is_scale(object);
  json::object_t out;
  for (const hdf5_attribute& each : *listed) {
    if (is_hidden(each, scale.ok() && *scale)) continue;
    auto value = hdf5_attribute_json(file_, heap_, each, &find);
    if (!value.ok()) {
      if (file_.waiting()) continue;
      if (value.error().code() != errc::unsupported)
        return std::move(value).error().note(fmt::format("attribute '{}'", hdf5_text(each.name)));
      value = json(fmt::format("<not readable: {}>", hdf5_text(value.error().message())));
    }
    out.emplace_back(hdf5_text(each.name), std::move(*value));
  }
  return json(std::move(out));
}

// The text of a reference. A file may have any number of objects, so only the first ones are searched.
std::string hdf5_tree::path_of(std::uint64_t object) {
  constexpr std::size_t kMostObjects = 4096;
  if (!paths_) paths_ = std::make_shared<hdf5_path_search>(file_, *this);
  if (paths_->run(object, kMostObjects)) return hdf5_path_of(paths_->found(), object);
  return "<HDF5 object reference>";
}

result<std::vector<hdf5_typed_value>> hdf5_tree::typed_attributes(std::uint64_t object) {
  PENSTOCK_ASSIGN(const auto* listed, attributes(object));
  const auto scale = is_scale(object);
  std::vector<hdf5_typed_value> out;
  for (const hdf5_attribute& each : *listed) {
    if (is_hidden(each, scale.ok() && *scale)) continue;
    if (auto made = hdf5_typed(each)) out.push_back(std::move(*made));
  }
  return out;
}

result<const hdf5_attribute*> hdf5_tree::attribute(std::uint64_t object, std::string_view name) {
  PENSTOCK_ASSIGN(const auto* listed, attributes(object));
  for (const hdf5_attribute& each : *listed)
    if (each.name == name) return &each;
  return nullptr;
}

result<std::string> hdf5_tree::text_attribute(std::uint64_t object, std::string_view name) {
  PENSTOCK_ASSIGN(const hdf5_attribute* const found, attribute(object, name));
  if (found == nullptr || found->space.null || !found->space.shape.extents.empty()) return std::string();
  const hdf5_type& type = found->type;
  if (type.what != hdf5_type::kind::text && !(type.what == hdf5_type::kind::variable && type.is_text))
    return std::string();
  PENSTOCK_ASSIGN(const json value, hdf5_attribute_json(file_, heap_, *found));
  const std::string* const text = value.as_string();
  return text == nullptr ? std::string() : *text;
}

result<bool> hdf5_tree::is_scale(std::uint64_t object) {
  PENSTOCK_ASSIGN(const std::string kind, text_attribute(object, "CLASS"));
  return kind == "DIMENSION_SCALE";
}

// Whether a link leads to netCDF's stand-in for a dimension without a variable.
result<bool> hdf5_tree::is_stand_in(const hdf5_place& group, const hdf5_link& link) {
  hdf5_place at = group;
  soft_links_ = 0;
  PENSTOCK_TRY(step(at, link.name));
  PENSTOCK_ASSIGN(const auto* messages, header(at.object));
  if (!is_hdf5_dataset(*messages)) return false;
  PENSTOCK_ASSIGN(const std::string text, text_attribute(at.object, "NAME"));
  return text.starts_with(kStandIn);
}

result<std::string> hdf5_tree::stored_name(const hdf5_place& group, std::string_view name) {
  PENSTOCK_ASSIGN(const hdf5_link* const plain, link(group.object, name));
  if (plain != nullptr) {
    auto marks = is_stand_in(group, *plain);
    if (!marks.ok() && file_.waiting()) return std::move(marks).error();
    if (!marks.ok() || !*marks) return std::string(name);  // if it is damaged, opening it fails
  }
  std::string renamed = std::string(kRenamed) + std::string(name);
  PENSTOCK_ASSIGN(const hdf5_link* const other, link(group.object, renamed));
  return other == nullptr ? std::string(name) : renamed;
}

result<> hdf5_tree::step(hdf5_place& at, std::string_view name) {
  PENSTOCK_ASSIGN(const hdf5_link* const found, link(at.object, name));
  if (found == nullptr) return error(errc::not_found, fmt::format("the file has no '{}'", hdf5_text(name)));
  at.groups.push_back(at.object);
  at.name = found->name;
  switch (found->what) {
    case hdf5_link::kind::hard:
      at.object = found->object;
      return {};
    case hdf5_link::kind::soft: {
      if (++soft_links_ > kMostSoftSteps) {
        return error(errc::not_found,
                     fmt::format("'{}' is reached over more than {} soft links", hdf5_text(name), kMostSoftSteps));
      }
      const std::string target = found->target;
      PENSTOCK_TRY(file_.spend(target.size()));  // any number of links may lead over one long path
      at.object = at.groups.back();
      at.groups.pop_back();
      if (target.starts_with('/')) at = {file_.root(), {}, {}};
      PENSTOCK_TRY(follow(at, target));
      at.name = found->name;  // a scale has the name of the link to it
      return {};
    }
    case hdf5_link::kind::external:
      exit_ = hdf5_exit{found->file, found->target};
      return hdf5_unknown(fmt::format("'{}' is a link to '{}' in the file '{}'; open that file", hdf5_text(name),
                                      hdf5_text(found->target), hdf5_text(found->file)));
    case hdf5_link::kind::user:
      break;
  }
  return hdf5_unknown(fmt::format("'{}' is a user-defined link of class {}", hdf5_text(name), found->user_class));
}

// The stored names of a path, as in links.
result<> hdf5_tree::follow(hdf5_place& at, std::string_view path) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (name.empty() || name == ".") continue;
    auto done = step(at, name);
    if (!done.ok()) return with_rest(std::move(done).error(), path);
  }
  return {};
}

// The rest of a path is looked up at the target of the link.
error hdf5_tree::with_rest(error failed, std::string_view rest) {
  if (exit_ && !rest.empty()) exit_->path += "/" + std::string(rest);
  return failed;
}

result<hdf5_place> hdf5_tree::find(std::string_view path) {
  hdf5_place at{file_.root(), {}, {}};
  exit_.reset();
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (name.empty() || name == ".") continue;
    auto next = member(at, name);
    if (!next.ok()) return with_rest(std::move(next).error(), path);
    at = std::move(*next);
  }
  return at;
}

result<hdf5_place> hdf5_tree::member(const hdf5_place& group, std::string_view name) {
  hdf5_place at = group;
  PENSTOCK_ASSIGN(const std::string stored, stored_name(at, name));
  exit_.reset();  // from a link that was only inspected
  soft_links_ = 0;
  PENSTOCK_TRY(step(at, stored));
  return at;
}

result<std::vector<hdf5_member_name>> hdf5_tree::members(const hdf5_place& group) {
  PENSTOCK_ASSIGN(std::vector<hdf5_member_name> out, members_in_file_order(group));
  std::erase_if(out, [](const hdf5_member_name& each) { return each.is_stand_in || each.leads_back; });
  std::sort(out.begin(), out.end(),
            [](const hdf5_member_name& a, const hdf5_member_name& b) { return a.name < b.name; });
  return out;
}

result<std::vector<hdf5_member_name>> hdf5_tree::members_in_file_order(const hdf5_place& group) {
  PENSTOCK_ASSIGN(const auto* listed, links(group.object));
  std::vector<hdf5_member_name> out;
  for (const hdf5_link& each : *listed) {
    hdf5_place at = group;
    soft_links_ = 0;
    exit_.reset();
    auto found = step(at, each.name);
    std::optional<hdf5_exit> exit = exit_;
    if (!found.ok() && found.error().code() == errc::not_found) continue;
    const bool leads_back = at.object == group.object ||
                            std::find(group.groups.begin(), group.groups.end(), at.object) != group.groups.end();
    bool group_there = false, stands_in = false, shown = true;
    if (found.ok()) {
      auto read = header(at.object);
      if (read.ok()) {
        group_there = !is_hdf5_dataset(**read) && is_hdf5_group(**read);
        shown = is_hdf5_dataset(**read) || find_message(**read, hdf5_message::datatype) == nullptr;
        if (is_hdf5_dataset(**read)) {
          auto marks = is_stand_in(group, each);
          stands_in = marks.ok() && *marks;
        }
      }
    }
    if (!shown) continue;
    std::string name = each.name;
    if (name.starts_with(kRenamed) && name.size() > kRenamed.size()) {
      const std::string given = name.substr(kRenamed.size());
      auto stored = stored_name(group, given);
      if (stored.ok() && *stored == name) name = given;
    }
    out.push_back({std::move(name), group_there, stands_in, found.ok() && leads_back, std::move(exit)});
  }
  return out;
}

result<std::string> hdf5_tree::enumeration_name(const hdf5_place& dataset, const hdf5_type& type) {
  for (const std::uint64_t group : inner_first(dataset.groups)) {
    PENSTOCK_ASSIGN(const auto* listed, links(group));
    for (const hdf5_link& each : *listed) {
      if (each.what != hdf5_link::kind::hard) continue;
      const auto found = header(each.object);
      if (!found.ok() || is_hdf5_dataset(**found) || is_hdf5_group(**found)) continue;
      const hdf5_message* const message = find_message(**found, hdf5_message::datatype);
      if (message == nullptr) continue;
      hdf5_cursor cursor(message->body);
      const auto named = parse_hdf5_type(cursor);
      if (named.ok() && is_same_enumeration(*named, type)) return hdf5_text(each.name);
    }
  }
  return std::string();
}

// For each dimension, the address of the scale that was attached last, or 0. Empty: the dataset has no list of scales.
result<std::vector<std::uint64_t>> hdf5_tree::attached_scales(std::uint64_t dataset, std::size_t rank) {
  std::vector<std::uint64_t> out;
  PENSTOCK_ASSIGN(const hdf5_attribute* const found, attribute(dataset, "DIMENSION_LIST"));
  if (found == nullptr || found->space.null) return out;
  const hdf5_type& type = found->type;
  const bool fits = found->space.shape.extents == std::vector<std::uint64_t>{rank} &&
                    type.what == hdf5_type::kind::variable && !type.is_text &&
                    type.base[0].what == hdf5_type::kind::reference &&
                    type.base[0].refers_to == hdf5_type::target::object && type.base[0].bytes == file_.offset_bytes() &&
                    type.bytes == 4 + file_.offset_bytes() + 4;
  if (!fits) return out;
  out.assign(rank, 0);
  hdf5_cursor cursor(found->bytes);
  for (std::uint64_t& address : out) {
    const std::uint64_t count = cursor.number(4), collection = cursor.number(file_.offset_bytes()),
                        index = cursor.number(4);
    if (count == 0) continue;
    auto object = heap_.object(collection, index);
    if (!object.ok()) continue;  // a scale that does not exist gives no name; going on requests all heaps of one round
    if (object->size() / file_.offset_bytes() < count) continue;
    hdf5_cursor last(object->subspan((count - 1) * file_.offset_bytes()));
    address = last.number(file_.offset_bytes());
    if (file_.undefined(address)) address = 0;
  }
  return out;
}

// Names of objects by address: from the links of these groups, the inner ones first; then from all links of the file.
result<std::map<std::uint64_t, std::string>> hdf5_tree::names_of(const std::vector<std::uint64_t>& groups,
                                                                 std::vector<std::uint64_t> objects) {
  std::map<std::uint64_t, std::string> out;
  std::sort(objects.begin(), objects.end());
  objects.erase(std::unique(objects.begin(), objects.end()), objects.end());
  const auto take = [&](std::uint64_t group, const std::vector<hdf5_link>& listed) {
    if (!by_name_.contains(group)) {
      for (const hdf5_link& each : listed)
        if (each.what == hdf5_link::kind::hard && std::binary_search(objects.begin(), objects.end(), each.object))
          out.emplace(each.object, each.name);
      return;
    }
    // The members of the group are listed: many of them need names.
    const auto [of_group, is_new] = by_object_.try_emplace(group);
    if (is_new)
      for (const hdf5_link& each : listed)
        if (each.what == hdf5_link::kind::hard) of_group->second.try_emplace(each.object, &each);
    for (const std::uint64_t each : objects)
      if (const auto found = of_group->second.find(each); found != of_group->second.end())
        out.emplace(each, found->second->name);
  };
  for (const std::uint64_t group : inner_first(groups)) {
    if (out.size() == objects.size()) break;
    PENSTOCK_ASSIGN(const auto* listed, links(group));
    take(group, *listed);
  }
  std::vector<std::uint64_t> level{file_.root()};
  std::set<std::uint64_t> seen{file_.root()};
  while (!level.empty() && out.size() < objects.size()) {
    std::vector<std::uint64_t> next;
    for (const std::uint64_t each : level) {
      auto messages = header(each);
      if (!messages.ok() || is_hdf5_dataset(**messages) || !is_hdf5_group(**messages)) continue;
      auto listed = links(each);
      if (!listed.ok()) continue;  // damaged groups provide no names
      take(each, **listed);
      for (const hdf5_link& link : **listed)
        if (link.what == hdf5_link::kind::hard && seen.insert(link.object).second) next.push_back(link.object);
    }
    level = std::move(next);
  }
  return out;
}

// The names for a coordinate variable with several dimensions, from netCDF's numbers, which other scales also have.
result<> hdf5_tree::coordinate_names(const hdf5_place& scale, names& out) {
  PENSTOCK_ASSIGN(const hdf5_attribute* const found, attribute(scale.object, "_Netcdf4Coordinates"));
  if (found == nullptr || !found->unreadable.empty()) return {};
  PENSTOCK_ASSIGN(const json numbers, hdf5_attribute_json(file_, heap_, *found));
  const json::array_t* const list = numbers.as_array();
  if (list == nullptr || list->size() != out.size()) return {};
  std::map<std::uint64_t, std::string> by_number;
  for (const std::uint64_t group : inner_first(scale.groups)) {
    PENSTOCK_ASSIGN(const auto* listed, links(group));
    for (const hdf5_link& each : *listed) {
      if (each.what != hdf5_link::kind::hard) continue;
      auto number = attribute(each.object, "_Netcdf4Dimid");
      if (!number.ok() || *number == nullptr) continue;
      auto value = hdf5_attribute_json(file_, heap_, **number);
      std::uint64_t id = 0;
      if (value.ok() && value->get(id)) by_number.emplace(id, each.name);
    }
  }
  for (std::size_t d = 0; d < out.size(); ++d) {
    std::uint64_t id = 0;
    if (!(*list)[d].get(id)) continue;
    if (const auto known = by_number.find(id); known != by_number.end()) out[d] = hdf5_text(known->second);
  }
  return {};
}

result<std::vector<std::optional<std::string>>> hdf5_tree::dimension_names(const hdf5_place& dataset,
                                                                           std::size_t rank) {
  names out(rank);
  if (rank == 0) return names();
  PENSTOCK_ASSIGN(const std::vector<std::uint64_t> scales, attached_scales(dataset.object, rank));
  std::vector<std::uint64_t> wanted;
  for (const std::uint64_t each : scales)
    if (each != 0) wanted.push_back(each);
  if (!wanted.empty()) {
    PENSTOCK_ASSIGN(const auto by_address, names_of(dataset.groups, wanted));
    for (std::size_t d = 0; d < scales.size(); ++d) {
      const auto found = by_address.find(scales[d]);
      if (found == by_address.end()) continue;
      PENSTOCK_TRY(file_.spend(found->second.size()));  // any number of dimensions may have one scale
      out[d] = hdf5_text(found->second);
    }
  }
  PENSTOCK_ASSIGN(const bool scale, is_scale(dataset.object));
  if (scale && rank == 1) out[0] = hdf5_text(dataset.name);
  if (scale && rank > 1) PENSTOCK_TRY(coordinate_names(dataset, out));
  if (std::none_of(out.begin(), out.end(), [](const auto& each) { return each.has_value(); })) out.clear();
  return out;
}

}  // namespace penstock::inline v0
