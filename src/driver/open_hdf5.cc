// HDF5 and NetCDF-4 files: a dataset is an array whose cells are byte ranges of the file.
#include "driver/open_hdf5.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
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
#include "engine/array_state.h"
#include "format/hdf5/hdf5_array.h"
#include "format/hdf5/hdf5_group.h"
#include "format/hdf5/hdf5_tree.h"
#include "format/reference/reference_table.h"
#include "format/zarr/zarr_v2.h"
#include "store/read_only_store.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kFormat = "hdf5";

/// What an object of a file is.
struct hdf5_object_facts {
  std::optional<hdf5_array> dataset;  ///< else a group
  json attributes;                    ///< of a group
  std::uint64_t object = 0;           ///< the address of its header
};

result<hdf5_object_facts> read_facts(hdf5_file& file, std::string_view path) {
  hdf5_tree tree(file);
  PENSTOCK_ASSIGN(const hdf5_place at, tree.find(path));
  PENSTOCK_ASSIGN(const auto* header, tree.header(at.object));
  hdf5_object_facts out;
  out.object = at.object;
  if (find_message(*header, hdf5_message::data_layout) != nullptr) {
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
  PENSTOCK_TRY(tree.links(at.object));  // a damaged group is refused
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
    const std::string uri = child_uri(uri_, prefix);
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
      if (from_->in_rounds()) prefetch(file, tree, path, out);
      return out;
    });
    if (!names.ok()) return std::move(names).error();
    return std::optional(std::move(*names));
  }

 private:
  // Who lists a group opens its members next: what they need is fetched in the same rounds.
  void prefetch(hdf5_file& file, hdf5_tree& tree, std::string_view path, const std::vector<std::string>& names) const {
    constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 20;
    for (const std::string& name : names) {
      if (from_->kept_bytes() > kMostBytes) return;
      const auto at = tree.find(std::string(path) + "/" + name);
      if (!at.ok()) continue;
      const auto header = tree.header(at->object);
      if (!header.ok()) continue;
      if (find_message(**header, hdf5_message::data_layout) != nullptr) {
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
    PENSTOCK_ASSIGN(hdf5_object_facts facts, from_->parse([&](hdf5_file& file) { return read_facts(file, path); }));
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
    if (!from.offsets.empty()) {
      auto read = from_->parse([&](hdf5_file& file) { return read_hdf5_text(file, from, *pointers.state().layout); });
      if (!read.ok()) return std::move(read).error();
      text.offsets = {0};
      text.lengths = {read->size()};
      text.inline_bytes = std::move(*read);
    }
    text.cell_count = std::find(shape.begin(), shape.end(), 0) == shape.end() ? 1 : 0;
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
    text.dimension_names = std::move(from.dimension_names);
    PENSTOCK_ASSIGN(array made, open_bytes(std::move(text), uri));
    return node(std::move(made));
  }

  result<array> open_bytes(hdf5_array from, const std::string& uri) const {
    referenced_array what;
    PENSTOCK_ASSIGN(what.metadata, parse_zarr_v2_array(from.zarray, &from.attributes));
    if (from.inline_bytes) {
      if (!from.offsets.empty()) {
        const std::shared_ptr<store> values = make_memory_store();
        const part bytes(*from.inline_bytes);
        auto put = values->put("inline", {&bytes, 1}, {});
        if (!put.ok()) return std::move(put).error();
        what.objects.push_back({"inline", values, "inline", false, {}, {}});
      }
    } else if (!from.offsets.empty()) {
      what.objects.push_back({from_->key(), from_->from(), from_->key(), false, {}, from_->seen()});
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
    return open_reference(context_, what);
  }

  std::shared_ptr<penstock::context> context_;
  std::shared_ptr<hdf5_reader> from_;
  std::string uri_;  // of the file
  bool opened_for_reading_;
};

class hdf5_format final : public format_driver {
 public:
  std::string_view name() const noexcept override { return kFormat; }
  std::span<const std::string_view> endings() const noexcept override {
    static constexpr std::array<std::string_view, 5> kEndings = {"h5", "hdf5", "nc", "nc4", "he5"};
    return kEndings;
  }
  bool sniff(std::span<const std::byte> begin, std::string_view) const noexcept override { return is_hdf5(begin); }
  result<node> open(const location& at, const open_options& how) const override { return open_inside(at, {}, how); }
  result<node> open_inside(const location& at, std::string_view inner, const open_options& how) const override {
    auto reader = hdf5_reader::open(at.from, at.path, at.head.get());
    if (!reader.ok()) return std::move(reader).error().note(fmt::format("opening '{}'", at.uri));
    const auto nodes =
        std::make_shared<const hdf5_nodes>(at.context, std::move(*reader), at.uri, how.mode == open_mode::read);
    return nodes->open(inner);
  }
};

}  // namespace

result<node> open_hdf5(std::shared_ptr<const store> from, const std::string& key, std::string_view path,
                       const open_options& how) {
  location at;
  at.context = how.context;
  if (!at.context) {
    PENSTOCK_ASSIGN(at.context, penstock::context::make());
  }
  at.uri = child_uri(from->uri(), key + "/");
  at.from = std::move(from);
  at.path = key;
  return hdf5_driver().open_inside(at, path, how);
}

const format_driver& hdf5_driver() noexcept {
  static const hdf5_format kDriver;
  return kDriver;
}

}  // namespace penstock::inline v0
