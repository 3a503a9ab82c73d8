// The driver of HDF5 and NetCDF-4 files, and functions for other parts of the library.
#include "driver/open_hdf5.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/drivers.h"
#include "driver/hdf5_nodes.h"
#include "driver/hdf5_reader.h"
#include "driver/registry.h"
#include "engine/array_state.h"
#include "format/hdf5/hdf5_array.h"
#include "format/hdf5/hdf5_cache_image.h"
#include "format/hdf5/hdf5_compound.h"
#include "format/hdf5/hdf5_group.h"
#include "format/hdf5/hdf5_tree.h"
#include "format/hdf5/hdf5_values.h"
#include "store/http_read.h"

namespace penstock::inline v0 {
namespace {

result<const hdf5_nodes*> nodes_of(const group_state& of) {
  const auto* const nodes = dynamic_cast<const hdf5_nodes*>(of.members.get());
  if (nodes == nullptr) return error(errc::invalid_argument, fmt::format("'{}' is not in an HDF5 file", of.uri));
  return nodes;
}

std::shared_ptr<const hdf5_nodes> nodes_of(const location& at, std::shared_ptr<hdf5_reader> reader,
                                           const open_options& how) {
  return std::make_shared<const hdf5_nodes>(at.context, std::move(reader), at.uri, how.mode == open_mode::read);
}

// The nodes of a file with any name.
result<std::shared_ptr<const hdf5_nodes>> nodes_in(location at, const open_options& how, const hdf5_hints& hints) {
  const store_traits traits = at.from->traits();
  if (at.head == nullptr && (hints.size || !traits.inline_completion || traits.lends_bytes)) {
    auto head = read_head(*at.from, at.path, hdf5_driver().head_bytes());
    if (!head.ok()) return std::move(head).error().note(fmt::format("opening '{}'", at.uri));
    if (!*head) return error(errc::not_found, fmt::format("there is no file '{}'", at.uri));
    if (netcdf_driver().sniff((*head)->bytes, at.path))
      return error(errc::corrupt_data, "the file is NetCDF classic, not HDF5")
          .note(fmt::format("opening '{}'", at.uri));
    at.head = std::make_shared<const object_head>(std::move(**head));
  }
  if (hints.size) {
    object_head sized = *at.head;
    sized.object_size = *hints.size;
    at.head = std::make_shared<const object_head>(std::move(sized));
  }
  // Ranges within the first bytes are served. If the size is not known, the end is requested with the metadata.
  if (hints.needs_ranges && at.head && at.head->sent_all && at.head->object_size != byte_range::kAll &&
      at.head->object_size > kMostHttpSkip)
    return error(errc::unsupported, "the server ignores byte ranges: it sends all of the file")
        .note(fmt::format("opening '{}'", at.uri));
  auto reader = hdf5_reader::open(at.from, at.path, at.head.get());
  if (!reader.ok()) return std::move(reader).error().note(fmt::format("opening '{}'", at.uri));
  return nodes_of(at, std::move(*reader), how);
}

result<std::shared_ptr<const hdf5_nodes>> nodes_in(std::shared_ptr<const store> from, const std::string& key,
                                                   const open_options& how, const hdf5_hints& hints) {
  location at;
  at.context = how.context;
  if (!at.context) {
    PENSTOCK_ASSIGN(at.context, penstock::context::make());
  }
  at.uri = child_uri(from->uri(), key + "/");
  at.from = std::move(from);
  at.path = key;
  return nodes_in(std::move(at), how, hints);
}

class hdf5_format final : public format_driver {
 public:
  std::string_view name() const noexcept override { return kHdf5Format; }
  std::span<const std::string_view> endings() const noexcept override {
    static constexpr std::array<std::string_view, 8> kEndings = {"h5",  "hdf5", "hdf",  "nc",
                                                                 "nc4", "he5",  "h5ad", "nxs"};
    return kEndings;
  }
  std::string_view written_by() const noexcept override {
    return "penstock.convert in Python, penstock convert, or h5py";
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
  PENSTOCK_ASSIGN(const auto nodes, nodes_in(std::move(from), key, how, hints));
  return nodes->open(path);
}

result<node> open_hdf5(location at, std::string_view path, const open_options& how, const hdf5_hints& hints) {
  PENSTOCK_ASSIGN(const auto nodes, nodes_in(std::move(at), how, hints));
  return nodes->open(path);
}

result<std::vector<hdf5_contents::dataset>> describe_hdf5_datasets(std::shared_ptr<const store> from,
                                                                   const std::string& key, const std::string& pattern,
                                                                   shard_gaps gaps, const open_options& how,
                                                                   const hdf5_hints& hints) {
  PENSTOCK_ASSIGN(const auto nodes, nodes_in(std::move(from), key, how, hints));
  return nodes->find_datasets(pattern, gaps);
}

result<std::vector<std::string>> hdf5_dataset_paths(std::shared_ptr<const store> from, const std::string& key,
                                                    std::size_t most, const open_options& how,
                                                    const hdf5_hints& hints) {
  PENSTOCK_ASSIGN(const auto nodes, nodes_in(std::move(from), key, how, hints));
  return nodes->dataset_paths(most);
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

bool is_no_hdf5_array(const store& from, const std::string& key, std::string_view path) {
  hdf5_stored_file source(from, key);
  if (!source.begin().ok()) return false;
  auto file = hdf5_file::open(source);
  if (!file.ok() || !read_hdf5_cache_image(*file).ok()) return false;
  hdf5_tree tree(*file);
  const auto found = find_hdf5_part(*file, tree, path);
  if (!found.ok() || found->is_member_group()) return false;
  const auto header = tree.header(found->at.object);
  if (!header.ok() || !is_hdf5_dataset(**header)) return false;
  if (find_message(**header, hdf5_message::datatype) != nullptr)
    if (!found->type || !hdf5_element_of(*found->type).ok()) return true;
  if (const hdf5_message* const message = find_message(**header, hdf5_message::dataspace)) {
    const auto space = parse_hdf5_dataspace(*file, message->body);
    if (space.ok() && space->null) return true;
  }
  return false;
}

const hdf5_facts* hdf5_facts_of(const array_state& of) noexcept {
  return of.references ? of.references->hdf5.get() : nullptr;
}

const hdf5_facts* hdf5_facts_of(const group_state& of) noexcept { return of.hdf5.get(); }

result<hdf5_members> hdf5_members_of(const group_state& of) {
  PENSTOCK_ASSIGN(const hdf5_nodes* const nodes, nodes_of(of));
  return nodes->members(of.prefix);
}

bool is_in_hdf5_file(const group_state& of, const store& from, const std::string& key) {
  const auto nodes = nodes_of(of);
  return nodes.ok() && (*nodes)->is_of(from, key);
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
