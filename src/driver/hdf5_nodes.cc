// Groups and datasets of HDF5 files, and the links between them.
#include "driver/hdf5_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "driver/drivers.h"
#include "driver/open_reference.h"
#include "driver/registry.h"
#include "driver/shard_names.h"
#include "driver/zarr_nodes.h"
#include "format/hdf5/hdf5_compound.h"
#include "format/hdf5/hdf5_group.h"
#include "format/hdf5/hdf5_values.h"
#include "store/http_url.h"
#include "store/read_only_store.h"

namespace penstock::inline v0 {
namespace {

constexpr unsigned kMostExternalLinks = 16;  // the most links in a chain, as in libhdf5

/// The kind of an object of a file, and its properties.
struct hdf5_object_facts {
  std::optional<hdf5_array> dataset;               ///< otherwise a group
  json attributes;                                 ///< of a group
  std::vector<hdf5_typed_value> typed_attributes;  ///< of a group
  std::string identity;                            ///< of a group: equal for all links to it
  bool is_compound = false;                        ///< a group that represents a dataset of compounds
};

/// \param with_links  Also requests the links of a group, if other bytes are waited for: a list needs them next.
result<hdf5_object_facts> read_facts(hdf5_file& file, hdf5_tree& tree, std::string_view path,
                                     hdf5_chunk_listing listing, bool with_links) {
  PENSTOCK_ASSIGN(const hdf5_part_place found, find_hdf5_part(file, tree, path));
  const hdf5_place& at = found.at;
  const hdf5_field* const field = found.field ? &*found.field : nullptr;
  PENSTOCK_ASSIGN(const auto* header, tree.header(at.object));
  hdf5_object_facts out;
  out.identity = fmt::format("{:x}", at.object);
  if (found.is_member_group()) {
    out.is_compound = true;
    out.attributes = json(json::object_t());
    if (field != nullptr) {
      out.identity += "/" + field->path;
      return out;
    }
    PENSTOCK_ASSIGN(out.attributes, tree.attributes_json(at.object));
    PENSTOCK_ASSIGN(out.typed_attributes, tree.typed_attributes(at.object));
    return out;
  }
  if (is_hdf5_dataset(*header)) {
    PENSTOCK_ASSIGN(out.dataset, read_hdf5_array(file, tree, at, listing, field));
    return out;
  }
  if (!is_hdf5_group(*header)) {
    return error(errc::unsupported, fmt::format("'{}' is {}, not an array", path,
                                                find_message(*header, hdf5_message::datatype) != nullptr
                                                    ? "a named type"
                                                    : "an object of an unknown kind"));
  }
  PENSTOCK_ASSIGN(out.attributes, tree.attributes_json(at.object));
  PENSTOCK_ASSIGN(out.typed_attributes, tree.typed_attributes(at.object));
  if (with_links && file.waiting()) static_cast<void>(tree.links(at.object));  // if they are damaged, the list fails
  return out;
}

// Used for a file whose first bytes are not known.
result<std::shared_ptr<hdf5_reader>> open_reader(const std::shared_ptr<const store>& from, const std::string& key) {
  if (from->traits().inline_completion && !from->traits().lends_bytes) return hdf5_reader::open(from, key, nullptr);
  PENSTOCK_ASSIGN(const auto head, read_head(*from, key, hdf5_driver().head_bytes()));
  if (!head) return error(errc::not_found, fmt::format("there is no file '{}'", key));
  return hdf5_reader::open(from, key, &*head);
}

std::vector<std::string> names_of(const std::vector<hdf5_member_name>& members) {
  std::vector<std::string> out;
  for (const hdf5_member_name& each : members)
    if (!each.is_stand_in) out.push_back(each.name);
  return out;
}

/// The most bytes of an object that are fetched with its header.
constexpr std::uint64_t kMostWholeBytes = std::uint64_t{512} << 10;
constexpr std::uint64_t kNoObject = ~std::uint64_t{0};

std::uint64_t address_of(const std::vector<hdf5_link>& links, std::string_view name) {
  for (const hdf5_link& each : links)
    if (each.what == hdf5_link::kind::hard && each.name == name) return each.object;
  return kNoObject;
}

// The distance from an object to the next one. If links are missing, the next one may not be known: objects of one
// group often have similar lengths, which compression makes a little different.
std::uint64_t likely_length(const std::vector<hdf5_link>& links, std::uint64_t object, std::uint64_t file_end) {
  std::vector<std::uint64_t> begins{file_end};
  for (const hdf5_link& each : links)
    if (each.what == hdf5_link::kind::hard && each.object < file_end) begins.push_back(each.object);
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  const std::uint64_t length = *std::upper_bound(begins.begin(), begins.end(), object) - object;
  std::uint64_t shortest = length;
  for (std::size_t i = 1; i < begins.size(); ++i) shortest = std::min(shortest, begins[i] - begins[i - 1]);
  return length <= kMostWholeBytes ? length : std::min(length, shortest + shortest / 16);
}

std::string opening(const std::string& uri) { return fmt::format("opening '{}'", uri); }

// Removes slashes at both ends.
std::string trimmed(std::string path) {
  while (!path.empty() && path.back() == '/') path.pop_back();
  return path.substr(std::min(path.find_first_not_of('/'), path.size()));
}

/// The facts about an object and all of its chunks. `exit` is set if the path leads into another file.
result<hdf5_object_facts> whole_facts(hdf5_reader& from, const std::string& path, std::optional<hdf5_exit>& exit) {
  return from.parse([&](hdf5_file& file) {
    hdf5_tree tree(file);
    auto found = read_facts(file, tree, path, hdf5_chunk_listing::whole, false);
    exit = tree.exit();
    return found;
  });
}

// Values in heaps have a table of references once they are in memory.
result<std::shared_ptr<const referenced_array>> with_table(referenced_array of) {
  if (of.table) return std::make_shared<const referenced_array>(std::move(of));
  return of.read_table();
}

error too_many_links(const hdf5_exit& exit) {
  return {errc::not_found, fmt::format("'{}' is reached over more than {} links into other files", hdf5_text(exit.path),
                                       kMostExternalLinks)};
}

}  // namespace

hdf5_nodes::hdf5_nodes(std::shared_ptr<context> with, std::shared_ptr<hdf5_reader> from, std::string uri,
                       bool opened_for_reading)
    : context_(std::move(with)),
      from_(std::move(from)),
      uri_(std::move(uri)),
      opened_for_reading_(opened_for_reading),
      references_(context_, from_, opened_for_reading) {}

result<node> hdf5_nodes::open(std::string_view path) const {
  const std::string prefix = prefix_of(path);
  const std::string uri = child_uri(uri_, percent_encode(prefix, true));
  auto made = open_at(prefix, uri, 0);
  if (made.ok()) return made;
  error failed = std::move(made).error();
  if (failed.notes().empty() || failed.notes().back() != opening(uri)) failed.note(opening(uri));
  return failed;
}

result<std::optional<std::vector<std::string>>> hdf5_nodes::keys(std::string_view path) const {
  PENSTOCK_ASSIGN(const auto found, list(path, [](hdf5_tree& tree, const hdf5_place& at) { return tree.members(at); }));
  std::vector<std::string> out = names_of(found);
  std::sort(out.begin(), out.end());
  return std::optional(std::move(out));
}

result<hdf5_members> hdf5_nodes::members(std::string_view path) const {
  PENSTOCK_ASSIGN(const auto found,
                  list(path, [](hdf5_tree& tree, const hdf5_place& at) { return tree.members_in_file_order(at); }));
  hdf5_members out;
  for (const hdf5_member_name& each : found) (each.is_stand_in ? out.stand_ins : out.shown).push_back(each.name);
  return out;
}

result<std::vector<hdf5_contents::dataset>> hdf5_nodes::find_datasets(const std::string& pattern,
                                                                      shard_gaps gaps) const {
  constexpr std::string_view kWild = "*?[";
  std::vector<hdf5_contents::dataset> out;
  if (pattern.find_first_of(kWild) == std::string::npos || has_object(pattern)) {
    PENSTOCK_ASSIGN(auto made, dataset(pattern, 0));
    out.push_back({pattern, std::move(made), std::nullopt});
    return out;
  }
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= pattern.size();) {
    const std::size_t end = std::min(pattern.find('/', at), pattern.size());
    if (end != at) parts.push_back(pattern.substr(at, end - at));
    at = end + 1;
  }
  PENSTOCK_TRY(match({}, parts, {}, 0, out));
  if (out.empty()) return error(errc::not_found, fmt::format("the file has no dataset '{}'", hdf5_text(pattern)));
  std::vector<std::string> names;
  std::map<std::string, std::shared_ptr<const referenced_array>> found;
  for (hdf5_contents::dataset& each : out) {
    names.push_back(each.name);
    found.emplace(std::move(each.name), std::move(each.what));
  }
  PENSTOCK_ASSIGN(names, order_shards(std::move(names), pattern, gaps));
  out.clear();
  for (std::string& each : names) out.push_back({each, found.at(each), std::nullopt});
  return out;
}

result<std::vector<std::string>> hdf5_nodes::dataset_paths(std::size_t most) const {
  constexpr std::size_t kMostGroups = 10'000;
  std::vector<std::string> out, groups{std::string()};
  for (std::size_t i = 0; i < groups.size() && out.size() < most; ++i) {
    const std::string group = groups[i];
    PENSTOCK_ASSIGN(const auto found,
                    list(group, [](hdf5_tree& tree, const hdf5_place& at) { return tree.members(at); }));
    for (const hdf5_member_name& each : found) {
      const std::string path = prefix_of(group) + each.name;
      if (!each.is_group) {
        if (out.size() < most) out.push_back(path);
      } else if (groups.size() < kMostGroups) {
        groups.push_back(path);
      }
    }
  }
  return out;
}

bool hdf5_nodes::is_of(const store& from, const std::string& key) const {
  return key == from_->key() && (&from == from_->from().get() || from.uri() == from_->from()->uri());
}

result<hdf5_dimension_names> hdf5_nodes::dimensions() const {
  return from_->parse([&](hdf5_file& file) -> result<hdf5_dimension_names> {
    hdf5_tree tree(file);
    return name_hdf5_dimensions(file, tree);
  });
}

result<hdf5_contents> hdf5_nodes::describe(std::string_view path) const {
  constexpr std::uint64_t kReadings = 256;  // of all datasets, in one operation
  constexpr bool kMostOfIt = true;
  struct found_dataset {
    std::string name;
    result<hdf5_array> what;
  };
  hdf5_contents out;
  std::vector<found_dataset> found;
  const auto read = [&](hdf5_file& file) -> result<> {
    found.clear();
    hdf5_tree tree(file);
    PENSTOCK_ASSIGN(const hdf5_place at, tree.find(path));
    PENSTOCK_ASSIGN(const auto* header, tree.header(at.object));
    if (!is_hdf5_group(*header)) return error(errc::not_found, fmt::format("'{}' is not a group", path));
    PENSTOCK_ASSIGN(const json attributes, tree.attributes_json(at.object));
    PENSTOCK_ASSIGN(auto typed, tree.typed_attributes(at.object));
    PENSTOCK_ASSIGN(const auto members, tree.members_in_file_order(at));
    for (const hdf5_member_name& each : members) {
      if (each.is_group || each.is_stand_in || each.leads_back) continue;
      const auto place = tree.member(at, each.name);
      found.push_back({each.name, place.ok() ? read_hdf5_array(file, tree, *place) : place.error().clone()});
    }
    out.attributes_json = attributes.dump();
    out.facts = std::make_shared<const hdf5_facts>(hdf5_facts{std::move(typed), json()});
    return {};
  };
  PENSTOCK_TRY(from_->parse(read, kReadings, kMostOfIt));
  for (found_dataset& each : found) {
    hdf5_contents::dataset made;
    made.name = each.name;
    const std::string prefix = prefix_of(std::string(path) + "/" + each.name);
    auto what = each.what.ok() ? described(std::move(*each.what), child_uri(uri_, percent_encode(prefix, true)))
                               : std::move(each.what).error();
    if (what.ok()) {
      made.what = std::move(*what);
    } else {
      made.failed = std::move(what).error();
    }
    out.datasets.push_back(std::move(made));
  }
  return out;
}

result<std::shared_ptr<const referenced_array>> hdf5_nodes::described(hdf5_array from, const std::string& uri) const {
  PENSTOCK_ASSIGN(referenced_array made, referenced(std::move(from), uri, {}));
  return with_table(std::move(made));
}

// The members of a group, except links into files that do not exist.
template <class List>
result<std::vector<hdf5_member_name>> hdf5_nodes::list(std::string_view path, List&& list) const {
  auto made = from_->parse([&](hdf5_file& file) -> result<std::vector<hdf5_member_name>> {
    hdf5_tree tree(file);
    PENSTOCK_ASSIGN(const hdf5_part_place at, find_hdf5_part(file, tree, path));
    if (at.is_member_group()) return hdf5_field_names(*at.type);
    PENSTOCK_ASSIGN(auto found, list(tree, at.at));
    if (file.waiting()) prefetch(file, tree, prefix_of(path), names_of(found));
    return found;
  });
  if (!made.ok()) return made;
  std::erase_if(*made, [&](const hdf5_member_name& each) { return each.exit && !is_shown(*each.exit, 0); });
  listed(path, names_of(*made));
  return made;
}

// Whether the target of a link into another file exists and is not a named type. Damaged targets exist: opening them
// fails.
bool hdf5_nodes::is_shown(const hdf5_exit& exit, unsigned links) const {
  if (links == kMostExternalLinks) return false;
  const auto there = beyond(exit);
  if (!there.ok()) return there.error().code() != errc::not_found;
  std::optional<hdf5_exit> next;
  const auto kind = (*there)->from_->parse([&](hdf5_file& file) -> result<bool> {
    hdf5_tree tree(file);
    const auto at = tree.find(exit.path);
    next = tree.exit();
    if (!at.ok()) return at.error().clone();
    PENSTOCK_ASSIGN(const auto* header, tree.header(at->object));
    return is_hdf5_dataset(*header) || find_message(*header, hdf5_message::datatype) == nullptr;
  });
  if (kind.ok()) return *kind;
  if (next) return (*there)->is_shown(*next, links + 1);
  return kind.error().code() != errc::not_found;
}

// The file that a link leads to.
result<std::shared_ptr<const hdf5_nodes>> hdf5_nodes::beyond(const hdf5_exit& exit) const {
  const hdf5_neighbours neighbours(references_.own_place());
  PENSTOCK_ASSIGN(const auto place, neighbours.find(exit.file, hdf5_purpose::link));
  const auto absent = [&] {
    return error(errc::not_found,
                 fmt::format("the file '{}' that a link leads to does not exist", hdf5_text(exit.file)));
  };
  if (!place) return absent();
  auto made = nodes_at(*place);
  if (made.ok() || made.error().code() != errc::not_found) return made;
  if (neighbours.knows_others()) return absent();
  return error(errc::unsupported, fmt::format("a link leads into the file '{}', which was not found in the store of "
                                              "this one: open it by a path or a URI",
                                              hdf5_text(exit.file)));
}

result<std::shared_ptr<const hdf5_nodes>> hdf5_nodes::nodes_at(const hdf5_file_place& file) const {
  if (file.from == from_->from() && file.key == from_->key()) return shared_from_this();
  PENSTOCK_ASSIGN(auto reader, open_reader(file.from, file.key));
  return std::make_shared<const hdf5_nodes>(context_, std::move(reader), child_uri(file.from->uri(), file.key + "/"),
                                            opened_for_reading_);
}

void hdf5_nodes::listed(std::string_view path, const std::vector<std::string>& names) const {
  if (!from_->in_rounds()) return;
  const std::lock_guard lock(listed_mutex_);
  listed_ = {prefix_of(path), names, true};
}

// Set if `path` is a member of the group that was listed last: a caller that opens one of its members usually opens the
// others next. The first call returns the names of all members, later ones return none.
std::optional<std::vector<std::string>> hdf5_nodes::siblings_of(std::string_view path) const {
  if (!from_->in_rounds()) return std::nullopt;
  const std::lock_guard lock(listed_mutex_);
  const std::string_view group = path.substr(0, path.rfind('/') + 1);  // npos + 1 is 0
  if (path.empty() || !listed_.known || listed_.group != group) return std::nullopt;
  return std::exchange(listed_.names, {});
}

// The metadata of these members is fetched in the same rounds. Called while a list is still waiting, this does nothing.
void hdf5_nodes::prefetch(hdf5_file& file, hdf5_tree& tree, std::string_view group,
                          const std::vector<std::string>& names) const {
  constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;
  for (const std::string& name : names) {
    if (from_->kept_bytes() > kMostBytes) return;
    const auto at = tree.find(std::string(group) + name);
    if (!at.ok()) continue;
    const auto header = tree.header(at->object);
    if (!header.ok()) continue;
    if (is_hdf5_dataset(**header)) {
      static_cast<void>(read_hdf5_array(file, tree, *at, hdf5_chunk_listing::by_need_most));
    } else {
      static_cast<void>(tree.attributes_json(at->object));
      static_cast<void>(tree.links(at->object));
    }
  }
}

// An object that ends soon is fetched with its header: the header's continuation, the nodes of its chunk index, and its
// values are before the next object. Returns the range that the next round trip requests.
std::optional<byte_range> hdf5_nodes::fetch_whole(hdf5_file& file, std::string_view path) const {
  const std::size_t at = path.rfind('/') + 1;  // npos + 1 is 0
  hdf5_held held(file.source());
  hdf5_file known = file.over(held);
  hdf5_tree tree(known);
  const auto group = tree.find(path.substr(0, at));
  if (!group.ok()) return std::nullopt;
  const auto links = tree.links(group->object);
  if (!links.ok()) return std::nullopt;
  const std::uint64_t end = file.size() - file.base();
  const std::uint64_t object = address_of(**links, path.substr(at));
  if (object >= end || held.holds(file.base() + object, 1)) return std::nullopt;
  const byte_range whole{file.base() + object, likely_length(**links, object, end), false};
  if (whole.length > kMostWholeBytes) return std::nullopt;
  from_->hope(whole.offset, whole.length);
  return whole;
}

result<node> hdf5_nodes::open_at(const std::string& prefix, const std::string& uri, unsigned links) const {
  const std::string_view path = std::string_view(prefix).substr(0, prefix.size() - (prefix.empty() ? 0 : 1));
  // If there are many members, few of them are read, so their chunk indexes are read with their values.
  const auto siblings = siblings_of(path);
  const auto chunks = siblings ? hdf5_chunk_listing::by_need_most : hdf5_chunk_listing::by_need;
  std::optional<hdf5_exit> exit;
  std::optional<byte_range> whole;
  std::shared_ptr<const held_bytes> held;
  auto read = from_->parse([&](hdf5_file& file) {
    hdf5_tree tree(file);
    auto found = read_facts(file, tree, path, chunks, from_->in_rounds());
    exit = tree.exit();
    if (siblings) prefetch(file, tree, path.substr(0, path.rfind('/') + 1), *siblings);
    if (!siblings && !found.ok() && file.waiting() && !whole) whole = fetch_whole(file, path);
    if (whole && found.ok() && found->dataset) held = from_->held(whole->offset, whole->length);
    return found;
  });
  if (!read.ok() && exit) return open_beyond(*exit, links);
  if (!read.ok()) return std::move(read).error();
  hdf5_object_facts facts = std::move(*read);
  if (facts.dataset) return open_dataset(std::move(*facts.dataset), uri, std::string(path), held);
  auto out = std::make_shared<group_state>();
  out->context = context_;
  out->store = std::make_shared<read_only_store>(from_->from());
  out->prefix = prefix;
  out->opened_for_reading = opened_for_reading_;
  out->attributes_json = facts.attributes.dump();
  out->format = kHdf5Format;
  out->uri = uri;
  out->use_consolidated = consolidation::never;
  out->members = shared_from_this();
  out->identity = std::move(facts.identity);
  out->hdf5 =
      std::make_shared<const hdf5_facts>(hdf5_facts{std::move(facts.typed_attributes), json(), facts.is_compound});
  return node(group(std::move(out)));
}

// The target of a link into another file, with the location of that file.
result<node> hdf5_nodes::open_beyond(const hdf5_exit& exit, unsigned links) const {
  if (links == kMostExternalLinks) return too_many_links(exit);
  PENSTOCK_ASSIGN(const auto there, beyond(exit));
  const std::string prefix = prefix_of(trimmed(exit.path));
  const std::string uri = child_uri(there->uri_, percent_encode(prefix, true));
  auto made = there->open_at(prefix, uri, links + 1);
  if (!made.ok()) return std::move(made).error().note(opening(uri));
  return made;
}

/// \param path  Path of the dataset; empty: `from` has all of its chunks.
/// \param held  Bytes that were fetched with its metadata; null: none.
result<node> hdf5_nodes::open_dataset(hdf5_array from, const std::string& uri, const std::string& path,
                                      const std::shared_ptr<const held_bytes>& held) const {
  if (from.index) {
    PENSTOCK_ASSIGN(array made, open_by_need(std::move(from), uri, path));
    return node(std::move(made));
  }
  PENSTOCK_ASSIGN(referenced_array what, referenced(std::move(from), uri, {}));
  for (referenced_object& each : what.objects)
    if (each.from == from_->from() && each.key == from_->key() && each.seen == from_->seen()) each.held = held;
  PENSTOCK_ASSIGN(array made, open_reference(context_, std::move(what)));
  return node(std::move(made));
}

// Opens a dataset whose chunks are located when they are read. `read_table` reads all locations at once.
result<array> hdf5_nodes::open_by_need(hdf5_array from, const std::string& uri, const std::string& path) const {
  PENSTOCK_ASSIGN(referenced_array what, referenced(std::move(from), uri, {}));
  what.read_table = [of = shared_from_this(), path]() -> result<std::shared_ptr<const referenced_array>> {
    PENSTOCK_ASSIGN(auto made, of->source(path, {}));
    if (!made) return error(errc::conflict, fmt::format("'{}' was removed since the array was opened", path));
    return made->table ? made : made->read_table();
  };
  const auto read_table = what.read_table;
  auto made = open_reference(context_, std::move(what));
  if (made.ok() || made.error().code() != errc::unsupported) return made;
  PENSTOCK_ASSIGN(const auto whole, read_table());  // not all filters have a codec, but perhaps no chunk uses those
  return open_reference(context_, *whole);
}

bool hdf5_nodes::has_object(const std::string& path) const {
  bool left = false;
  const auto found = from_->parse([&](hdf5_file& file) -> result<> {
    hdf5_tree tree(file);
    auto at = tree.find(path);
    left = tree.exit().has_value();
    return at.ok() ? result<>() : std::move(at).error();
  });
  return found.ok() || left;
}

struct hdf5_nodes::matched_dataset {
  std::string path;  // path from the group at which the pattern begins
  result<hdf5_array> what;
};
struct hdf5_nodes::matched_exit {
  std::string path;
  hdf5_exit to;
  std::size_t parts = 0;  // number of the pattern's components that are already matched
};

// Adds the datasets below the group at `base` that match a shell pattern, in which each component is a name. All
// datasets of a file are read in one operation.
result<> hdf5_nodes::match(const std::string& base, std::span<const std::string> parts, const std::string& shown,
                           unsigned links, std::vector<hdf5_contents::dataset>& out) const {
  constexpr std::uint64_t kReadings = 256;  // of all datasets, in one operation
  std::vector<matched_dataset> found;
  std::vector<matched_exit> exits;
  const auto read = [&](hdf5_file& file) {
    found.clear();
    exits.clear();
    return match_here(file, base, parts, found, exits);
  };
  PENSTOCK_TRY(from_->parse(read, kReadings));
  for (matched_dataset& each : found) {
    if (!each.what.ok()) return std::move(each.what).error();
    const std::string prefix = prefix_of(prefix_of(base) + each.path);
    PENSTOCK_ASSIGN(auto made, described(std::move(*each.what), child_uri(uri_, percent_encode(prefix, true))));
    out.push_back({prefix_of(shown) + each.path, std::move(made), std::nullopt});
  }
  for (const matched_exit& each : exits) {
    if (links == kMostExternalLinks) return too_many_links(each.to);
    const std::string path = prefix_of(shown) + each.path, there_path = trimmed(each.to.path);
    const auto there = beyond(each.to);
    auto made = there.ok() ? result<>() : there.error().clone();
    if (there.ok() && each.parts != 0) {
      made = (*there)->match(there_path, parts.last(each.parts), path, links + 1, out);
    } else if (there.ok()) {
      auto one = (*there)->dataset(there_path, links + 1);
      if (one.ok()) out.push_back({path, std::move(*one), std::nullopt});
      made = one.ok() ? result<>() : std::move(one).error();
    }
    const bool is_other = !made.ok() && (made.error().code() == errc::not_found ||  // as in listings
                                         made.error().code() == errc::invalid_argument);
    if (!made.ok() && !is_other) return made;
  }
  return {};
}

result<> hdf5_nodes::match_here(hdf5_file& file, const std::string& base, std::span<const std::string> parts,
                                std::vector<matched_dataset>& found, std::vector<matched_exit>& exits) {
  hdf5_tree tree(file);
  struct group_here {
    std::string path;
    hdf5_place at;
  };
  PENSTOCK_ASSIGN(hdf5_place first, tree.find(base));
  std::vector<group_here> groups;
  groups.push_back({{}, std::move(first)});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t left = parts.size() - i - 1;
    std::vector<group_here> below;
    for (const group_here& group : groups) {
      auto members = tree.members_in_file_order(group.at);
      if (!members.ok() && file.waiting()) continue;
      if (!members.ok()) return std::move(members).error();
      for (const hdf5_member_name& each : *members) {
        if (each.is_stand_in || !matches_shard_pattern(parts[i], each.name)) continue;
        std::string path = prefix_of(group.path) + each.name;
        if (each.exit) {
          exits.push_back({std::move(path), *each.exit, left});
          continue;
        }
        if (each.is_group != (left != 0)) continue;
        auto place = tree.member(group.at, each.name);
        if (left == 0) {
          found.push_back(
              {std::move(path), place.ok() ? read_hdf5_array(file, tree, *place) : std::move(place).error()});
        } else if (place.ok()) {
          below.push_back({std::move(path), std::move(*place)});
        } else if (!file.waiting()) {
          return std::move(place).error();
        }
      }
    }
    groups = std::move(below);
  }
  return {};
}

// A dataset, described but not opened. \error invalid_argument  It is a group.
result<std::shared_ptr<const referenced_array>> hdf5_nodes::dataset(const std::string& path, unsigned links) const {
  std::optional<hdf5_exit> exit;
  auto facts = whole_facts(*from_, path, exit);
  if (!facts.ok() && exit) {
    if (links == kMostExternalLinks) return too_many_links(*exit);
    PENSTOCK_ASSIGN(const auto there, beyond(*exit));
    return there->dataset(trimmed(exit->path), links + 1);
  }
  if (!facts.ok() && facts.error().code() == errc::not_found)
    return error(errc::not_found, fmt::format("the file has no '{}'", hdf5_text(path)));
  if (!facts.ok()) return std::move(facts).error();
  if (!facts->dataset)
    return error(errc::invalid_argument, fmt::format("'{}' is a group, not a dataset", hdf5_text(path)));
  return described(std::move(*facts->dataset), child_uri(uri_, percent_encode(prefix_of(path), true)));
}

// A source of virtual datasets; null: it does not exist, or is not a dataset.
result<std::shared_ptr<const referenced_array>> hdf5_nodes::source(const std::string& path,
                                                                   const hdf5_depth& depth) const {
  const std::string uri = child_uri(uri_, percent_encode(prefix_of(path), true));
  std::optional<hdf5_exit> exit;
  auto facts = whole_facts(*from_, path, exit);
  if (!facts.ok() && exit) {
    PENSTOCK_ASSIGN(const hdf5_depth below, depth.deeper(1));
    const auto there = beyond(*exit);
    if (!there.ok() && there.error().code() == errc::not_found) return std::shared_ptr<const referenced_array>();
    if (!there.ok()) return there.error().clone();
    return (*there)->source(trimmed(exit->path), below);
  }
  if (!facts.ok() && facts.error().code() == errc::not_found) return std::shared_ptr<const referenced_array>();
  if (!facts.ok()) return std::move(facts).error().note(opening(uri));
  if (facts->is_compound)
    return error(errc::unsupported, "a source of compounds whose members are opened one by one is not readable")
        .note(opening(uri));
  if (!facts->dataset) return std::shared_ptr<const referenced_array>();
  auto made = referenced(std::move(*facts->dataset), uri, depth);
  if (made.ok() && made->cells) return std::make_shared<const referenced_array>(std::move(*made));  // read by cells
  auto whole = made.ok() ? with_table(std::move(*made)) : std::move(made).error();
  if (!whole.ok()) return std::move(whole).error().note(opening(uri));
  return whole;
}

// Datasets of this file, or of a file next to it.
result<std::vector<hdf5_nodes::described_dataset>> hdf5_nodes::sources(const hdf5_file_place& file,
                                                                       const std::vector<std::string>& paths,
                                                                       const hdf5_depth& depth) const {
  std::shared_ptr<const hdf5_nodes> nodes;
  std::vector<std::shared_ptr<const referenced_array>> out;
  for (const std::string& path : paths) {
    if (auto known = depth.known->find(file, path)) {
      out.push_back(std::move(*known));
      continue;
    }
    if (!nodes) {
      PENSTOCK_ASSIGN(nodes, nodes_at(file));
    }
    PENSTOCK_ASSIGN(auto made, nodes->source(path, depth));
    depth.known->add(file, path, made);
    out.push_back(std::move(made));
  }
  return out;
}

result<referenced_array> hdf5_nodes::referenced(hdf5_array from, const std::string& uri,
                                                const hdf5_depth& depth) const {
  const auto describe = [this](const hdf5_file_place& file, const std::vector<std::string>& paths,
                               const hdf5_depth& below) { return sources(file, paths, below); };
  return from.variable ? references_.describe_variable(std::move(from), uri, depth, describe)
                       : references_.describe(std::move(from), uri, depth, describe);
}

}  // namespace penstock::inline v0
