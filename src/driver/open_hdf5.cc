// HDF5 and NetCDF-4 files: a dataset is an array whose cells are byte ranges of the file.
#include "driver/open_hdf5.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/drivers.h"
#include "driver/hdf5_reader.h"
#include "driver/hdf5_text.h"
#include "driver/open_reference.h"
#include "driver/registry.h"
#include "engine/array_state.h"
#include "format/hdf5/hdf5_array.h"
#include "format/hdf5/hdf5_group.h"
#include "format/hdf5/hdf5_tree.h"
#include "format/reference/reference_table.h"
#include "format/zarr/zarr_v2.h"
#include "store/http_url.h"
#include "store/read_only_store.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kFormat = "hdf5";

/// What an object of a file is.
struct hdf5_object_facts {
  std::optional<hdf5_array> dataset;               ///< else a group
  json attributes;                                 ///< of a group
  std::vector<hdf5_typed_value> typed_attributes;  ///< of a group
  bool leads_elsewhere = false;                    ///< of a group
  std::uint64_t object = 0;                        ///< the address of its header
};

result<hdf5_object_facts> read_facts(hdf5_file& file, hdf5_tree& tree, std::string_view path) {
  PENSTOCK_ASSIGN(const hdf5_place at, tree.find(path));
  PENSTOCK_ASSIGN(const auto* header, tree.header(at.object));
  hdf5_object_facts out;
  out.object = at.object;
  if (is_hdf5_dataset(*header)) {
    PENSTOCK_ASSIGN(out.dataset, read_hdf5_array(file, tree, at));
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
  PENSTOCK_ASSIGN(const auto* links, tree.links(at.object));  // a damaged group is refused
  out.leads_elsewhere = std::any_of(links->begin(), links->end(), [](const hdf5_link& each) {
    return each.what == hdf5_link::kind::external || each.what == hdf5_link::kind::user;
  });
  return out;
}

/// A file's groups and datasets, by path.
class hdf5_nodes final : public member_source, public std::enable_shared_from_this<hdf5_nodes> {
 public:
  hdf5_nodes(std::shared_ptr<penstock::context> with, std::shared_ptr<hdf5_reader> from, std::string uri,
             bool opened_for_reading)
      : context_(std::move(with)),
        from_(std::move(from)),
        uri_(std::move(uri)),
        opened_for_reading_(opened_for_reading) {}

  result<node> open(std::string_view path) const override {
    const std::string prefix = prefix_of(path);
    const std::string uri = child_uri(uri_, percent_encode(prefix, true));
    auto made = open_at(prefix, uri);
    if (made.ok()) return made;
    error failed = std::move(made).error();
    if (failed.notes().empty() || failed.notes().back() != opening(uri)) failed.note(opening(uri));
    return failed;
  }

  result<std::optional<std::vector<std::string>>> keys(std::string_view path) const override {
    auto names = from_->parse([&](hdf5_file& file) -> result<std::vector<std::string>> {
      hdf5_tree tree(file);
      PENSTOCK_ASSIGN(const hdf5_place at, tree.find(path));
      PENSTOCK_ASSIGN(const auto members, tree.members(at));
      std::vector<std::string> out;
      for (const hdf5_member_name& each : members) out.push_back(each.name);
      if (file.waiting()) prefetch(file, tree, prefix_of(path), out);
      return out;
    });
    if (!names.ok()) return std::move(names).error();
    listed(path, *names);
    return std::optional(std::move(*names));
  }

  result<hdf5_members> members(std::string_view path) const {
    auto made = from_->parse([&](hdf5_file& file) -> result<hdf5_members> {
      hdf5_tree tree(file);
      PENSTOCK_ASSIGN(const hdf5_place at, tree.find(path));
      PENSTOCK_ASSIGN(const auto found, tree.members_in_file_order(at));
      hdf5_members out;
      for (const hdf5_member_name& each : found) (each.is_stand_in ? out.stand_ins : out.shown).push_back(each.name);
      if (file.waiting()) prefetch(file, tree, prefix_of(path), out.shown);
      return out;
    });
    if (made.ok()) listed(path, made->shown);
    return made;
  }

  result<hdf5_dimension_names> dimensions() const {
    return from_->parse([&](hdf5_file& file) -> result<hdf5_dimension_names> {
      hdf5_tree tree(file);
      return name_hdf5_dimensions(file, tree);
    });
  }

  result<hdf5_contents> describe(std::string_view path) const {
    constexpr std::uint64_t kReadings = 256;  // of all datasets, in one operation
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
      out.facts = std::make_shared<const hdf5_facts>(hdf5_facts{std::move(typed), json(), false});
      return {};
    };
    PENSTOCK_TRY(from_->parse(read, kReadings));
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

 private:
  result<std::shared_ptr<const referenced_array>> described(hdf5_array from, const std::string& uri) const {
    if (from.text) {
      PENSTOCK_ASSIGN(const node made, open_dataset(std::move(from), uri));
      return std::get<array>(made).state().references;
    }
    PENSTOCK_ASSIGN(referenced_array made, describe_bytes(std::move(from), uri));
    return std::make_shared<const referenced_array>(std::move(made));
  }

  void listed(std::string_view path, const std::vector<std::string>& names) const {
    if (!from_->in_rounds()) return;
    const std::lock_guard lock(listed_mutex_);
    listed_ = {std::string(path), names};
  }

  // The names next to `path` if it is a member of the group that was listed last: who lists a group and opens one of
  // its members opens the others next.
  std::vector<std::string> siblings_of(std::string_view path) const {
    if (!from_->in_rounds()) return {};
    const std::lock_guard lock(listed_mutex_);
    const std::string_view group = path.substr(0, path.rfind('/') + 1);  // npos + 1 is 0
    if (path.empty() || prefix_of(listed_.path) != group) return {};
    return std::exchange(listed_.names, {});
  }

  // What these members need is fetched in the same rounds. Called while a list is still waiting, it adds none.
  void prefetch(hdf5_file& file, hdf5_tree& tree, std::string_view group, const std::vector<std::string>& names) const {
    constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;
    for (const std::string& name : names) {
      if (from_->kept_bytes() > kMostBytes) return;
      const auto at = tree.find(std::string(group) + name);
      if (!at.ok()) continue;
      const auto header = tree.header(at->object);
      if (!header.ok()) continue;
      if (is_hdf5_dataset(**header)) {
        static_cast<void>(read_hdf5_array(file, tree, *at));
      } else {
        static_cast<void>(tree.attributes_json(at->object));
        static_cast<void>(tree.links(at->object));
      }
    }
  }

  static std::string opening(const std::string& uri) { return fmt::format("opening '{}'", uri); }

  result<node> open_at(const std::string& prefix, const std::string& uri) const {
    const std::string_view path = std::string_view(prefix).substr(0, prefix.size() - (prefix.empty() ? 0 : 1));
    const std::vector<std::string> siblings = siblings_of(path);
    PENSTOCK_ASSIGN(hdf5_object_facts facts, from_->parse([&](hdf5_file& file) {
      hdf5_tree tree(file);
      auto found = read_facts(file, tree, path);
      prefetch(file, tree, path.substr(0, path.rfind('/') + 1), siblings);
      return found;
    }));
    if (facts.dataset) return open_dataset(std::move(*facts.dataset), uri);
    auto out = std::make_shared<group_state>();
    out->context = context_;
    out->store = std::make_shared<read_only_store>(from_->from());
    out->prefix = prefix;
    out->opened_for_reading = opened_for_reading_;
    out->attributes_json = facts.attributes.dump();
    out->format = kFormat;
    out->uri = uri;
    out->use_consolidated = consolidation::never;
    out->members = shared_from_this();
    out->identity = fmt::format("{:x}", facts.object);
    out->hdf5 = std::make_shared<const hdf5_facts>(
        hdf5_facts{std::move(facts.typed_attributes), json(), facts.leads_elsewhere});
    return node(group(std::move(out)));
  }

  result<node> open_dataset(hdf5_array from, const std::string& uri) const {
    if (!from.text) {
      PENSTOCK_ASSIGN(array made, open_bytes(std::move(from), uri));
      return node(std::move(made));
    }
    PENSTOCK_ASSIGN(const array pointers, open_bytes(from, uri));
    const extents& shape = pointers.shape();
    hdf5_array text;
    json::array_t lengths, chunks;
    for (const std::uint64_t each : shape) {
      lengths.emplace_back(each);
      chunks.emplace_back(std::max<std::uint64_t>(each, 1));
    }
    const bool has_items = std::find(shape.begin(), shape.end(), 0) == shape.end();
    if (!from.offsets.empty() || (has_items && !from.text->fill.empty())) {
      auto read = from_->parse([&](hdf5_file& file) { return read_hdf5_text(file, from, *pointers.state().layout); });
      if (!read.ok()) return std::move(read).error();
      text.offsets = {0};
      text.lengths = {read->size()};
      text.inline_bytes = std::move(*read);
    }
    text.cell_count = has_items ? 1 : 0;
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
    PENSTOCK_ASSIGN(array made, open_bytes(std::move(text), uri));
    return node(std::move(made));
  }

  result<array> open_bytes(hdf5_array from, const std::string& uri) const {
    PENSTOCK_ASSIGN(referenced_array what, describe_bytes(std::move(from), uri));
    return open_reference(context_, std::move(what));
  }

  result<referenced_array> describe_bytes(hdf5_array from, const std::string& uri) const {
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
    } else if (!from.offsets.empty()) {
      referenced_object& made = what.objects.emplace_back();
      made.path = local_path();
      made.name = made.path.empty() ? location() : made.path;
      made.from = from_->from();
      made.key = from_->key();
      made.seen = from_->seen();
    }
    for (hdf5_array::variant& each : from.variants)
      what.variants.push_back({std::move(each.skipped), std::move(each.shape)});
    reference_table::columns columns;
    columns.cells = std::move(from.cells);
    columns.offsets = std::move(from.offsets);
    columns.lengths = std::move(from.lengths);
    columns.chains = std::move(from.chains);
    PENSTOCK_ASSIGN(what.table, reference_table::make(from.cell_count, std::move(columns)));
    what.format = kFormat;
    what.uri = uri;
    what.dimension_names = std::move(from.dimension_names);
    what.opened_for_reading = opened_for_reading_;
    what.hdf5 = std::make_shared<const hdf5_facts>(
        hdf5_facts{std::move(from.typed_attributes), std::move(from.storage), false});
    return what;
  }

  // Of a file of this machine; else empty.
  std::string local_path() const {
    constexpr std::string_view kFile = "file://";
    const std::string root = from_->from()->uri();
    return root.starts_with(kFile) ? fmt::format("{}/{}", root.substr(kFile.size()), from_->key()) : std::string();
  }

  // By which others find the file; its key alone in a store that has no location, such as one in memory.
  std::string location() const {
    const std::string root = from_->from()->uri();
    return root.find("://") == std::string::npos ? from_->key() : child_uri(root, from_->key() + "/");
  }

  std::shared_ptr<penstock::context> context_;
  std::shared_ptr<hdf5_reader> from_;
  std::string uri_;  // of the file
  bool opened_for_reading_;

  struct listing {
    std::string path;  // of the group
    std::vector<std::string> names;
  };
  mutable std::mutex listed_mutex_;
  mutable listing listed_;  // the last one of members that are not fetched yet
};

result<const hdf5_nodes*> nodes_of(const group_state& of) {
  const auto* const nodes = dynamic_cast<const hdf5_nodes*>(of.members.get());
  if (nodes == nullptr) return error(errc::invalid_argument, fmt::format("'{}' is not of an HDF5 file", of.uri));
  return nodes;
}

std::shared_ptr<const hdf5_nodes> nodes_of(const location& at, std::shared_ptr<hdf5_reader> reader,
                                           const open_options& how) {
  return std::make_shared<const hdf5_nodes>(at.context, std::move(reader), at.uri, how.mode == open_mode::read);
}

class hdf5_format final : public format_driver {
 public:
  std::string_view name() const noexcept override { return kFormat; }
  std::span<const std::string_view> endings() const noexcept override {
    static constexpr std::array<std::string_view, 5> kEndings = {"h5", "hdf5", "nc", "nc4", "he5"};
    return kEndings;
  }
  std::uint64_t head_bytes() const noexcept override { return std::uint64_t{64} << 10; }
  bool sniff(std::span<const std::byte> begin, std::string_view) const noexcept override { return is_hdf5(begin); }
  result<node> open(const location& at, const open_options& how) const override { return open_inside(at, {}, how); }
  result<node> open_inside(const location& at, std::string_view inner, const open_options& how) const override {
    auto reader = hdf5_reader::open(at.from, at.path, at.head.get());
    if (!reader.ok()) return std::move(reader).error().note(fmt::format("opening '{}'", at.uri));
    return nodes_of(at, std::move(*reader), how)->open(inner);
  }
};

}  // namespace

result<node> open_hdf5(std::shared_ptr<const store> from, const std::string& key, std::string_view path,
                       const open_options& how, const hdf5_hints& hints) {
  location at;
  at.context = how.context;
  if (!at.context) {
    PENSTOCK_ASSIGN(at.context, penstock::context::make());
  }
  at.uri = child_uri(from->uri(), key + "/");
  if (hints.size || !from->traits().inline_completion) {
    auto head = read_head(*from, key, hdf5_driver().head_bytes());
    if (!head.ok()) return std::move(head).error().note(fmt::format("opening '{}'", at.uri));
    if (!*head) return error(errc::not_found, fmt::format("there is no file '{}'", at.uri));
    if (netcdf_driver().sniff((*head)->bytes, key))
      return error(errc::corrupt_data, "the file is of NetCDF classic, not HDF5")
          .note(fmt::format("opening '{}'", at.uri));
    if (hints.size) (*head)->object_size = *hints.size;
    at.head = std::make_shared<const object_head>(std::move(**head));
  }
  at.from = std::move(from);
  at.path = key;
  auto reader = hdf5_reader::open(at.from, at.path, at.head.get());
  if (!reader.ok()) return std::move(reader).error().note(fmt::format("opening '{}'", at.uri));
  if (hints.tries_end) (*reader)->expect_end();
  return nodes_of(at, std::move(*reader), how)->open(path);
}

result<hdf5_contents> describe_hdf5_group(const location& at, std::string_view path) {
  auto reader = hdf5_reader::open(at.from, at.path, at.head.get());
  if (!reader.ok()) return std::move(reader).error().note(fmt::format("opening '{}'", at.uri));
  open_options how;
  how.mode = open_mode::read;
  auto made = nodes_of(at, std::move(*reader), how)->describe(path);
  if (!made.ok()) return std::move(made).error().note(fmt::format("opening '{}'", at.uri));
  return made;
}

hdf5_refusal refusal_of_hdf5(const store& from, const std::string& key, std::string_view path) {
  hdf5_stored_file source(from, key);
  if (!source.begin().ok()) return hdf5_refusal::none;
  auto file = hdf5_file::open(source);
  if (!file.ok()) return hdf5_refusal::none;
  hdf5_tree tree(*file);
  const auto at = tree.find(path);
  if (!at.ok()) {
    return at.error().code() == errc::unsupported ? hdf5_refusal::elsewhere : hdf5_refusal::none;
  }
  const auto header = tree.header(at->object);
  if (!header.ok() || !is_hdf5_dataset(**header)) return hdf5_refusal::none;
  if (const hdf5_message* const message = find_message(**header, hdf5_message::datatype)) {
    hdf5_cursor cursor(message->body);
    const auto type = parse_hdf5_type(cursor);
    if (!type.ok() || !hdf5_element_of(*type).ok()) return hdf5_refusal::type;
  }
  if (const hdf5_message* const message = find_message(**header, hdf5_message::dataspace)) {
    const auto space = parse_hdf5_dataspace(*file, message->body);
    if (space.ok() && space->null) return hdf5_refusal::type;
  }
  if (find_message(**header, hdf5_message::external_files) != nullptr) return hdf5_refusal::elsewhere;
  const auto layout = parse_hdf5_layout(*file, **header);
  return layout.ok() && layout->what == hdf5_layout::kind::mapped ? hdf5_refusal::elsewhere : hdf5_refusal::none;
}

const hdf5_facts* hdf5_facts_of(const array_state& of) noexcept {
  return of.references ? of.references->hdf5.get() : nullptr;
}

const hdf5_facts* hdf5_facts_of(const group_state& of) noexcept { return of.hdf5.get(); }

result<hdf5_members> hdf5_members_of(const group_state& of) {
  PENSTOCK_ASSIGN(const hdf5_nodes* const nodes, nodes_of(of));
  return nodes->members(of.prefix);
}

result<hdf5_dimension_names> hdf5_dimensions_of(const group_state& of) {
  PENSTOCK_ASSIGN(const hdf5_nodes* const nodes, nodes_of(of));
  return nodes->dimensions();
}

const format_driver& hdf5_driver() noexcept {
  static const hdf5_format kDriver;
  return kDriver;
}

}  // namespace penstock::inline v0
