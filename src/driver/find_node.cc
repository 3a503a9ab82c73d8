// Finds the node at a location: the object of a driver, or a folder with documents.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/place.h>
#include "base/thrown.h"
#include "driver/drivers.h"
#include "driver/npz.h"
#include "driver/open_references.h"
#include "driver/registry.h"
#include "engine/blocking_read.h"
#include "engine/context_state.h"
#include "engine/index_io.h"
#include "format/hdf5/hdf5_file.h"
#include "store/http_store.h"
#include "store/names_sink.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kLocalPrefix = "file://";
/// Offsets at which the signature of an HDF5 file may begin, after a user block.
constexpr std::uint64_t kFirstUserBlock = 512, kLastUserBlock = std::uint64_t{64} << 20;

bool requests_are_free(const store& from) {
  const store_traits traits = from.traits();
  return traits.inline_completion && traits.request_bytes == 0;
}

/// Whether an object has the signature of an HDF5 file after its first bytes. Only for objects whose reads are cheap.
bool has_late_signature(const location& at) {
  const std::uint64_t size = at.head->object_size, known = at.head->bytes.size();
  constexpr std::uint64_t kSignatureBytes = 8;
  if (size == byte_range::kAll || !requests_are_free(*at.from)) return false;
  for (std::uint64_t begin = kFirstUserBlock; begin <= kLastUserBlock && begin + kSignatureBytes <= size; begin *= 2) {
    if (begin + kSignatureBytes <= known) continue;
    const auto read = read_and_wait(*at.from, at.path, {begin, kSignatureBytes, false}, kSignatureBytes);
    if (!read.ok()) return false;
    if (is_hdf5(read->bytes)) return true;
  }
  return false;
}

/// The driver that recognises the object at a location whose head is known; null if none does.
std::shared_ptr<const format_driver> recognise(const location& at) {
  std::shared_ptr<const format_driver> driver = driver_of(*at.context, *at.head, at.path);
  if (driver == nullptr && has_late_signature(at)) driver = unowned(hdf5_driver());
  return driver;
}

/// Collects the names in a folder that `open` accepts.
class opened_names final : public names_sink {
 public:
  opened_names(const context& with, std::size_t prefix) : with_(with), prefix_(prefix) {}
  bool key(std::string_view key, std::uint64_t) override {
    key.remove_prefix(std::min(prefix_, key.size()));
    const bool is_folder = key.ends_with('/');
    if (is_folder) key.remove_suffix(1);
    if (is_folder ? key.ends_with(".zarr") : driver_by_name(with_, key) != nullptr) found.emplace_back(key);
    return --left_ > 0;
  }
  std::vector<std::string> found;

 private:
  static constexpr std::size_t kMostLooked = 500;
  const context& with_;
  std::size_t prefix_, left_ = kMostLooked;
};

/// Returns the error for a location without a node. If listing costs no requests, it names some files of other formats
/// in the folder.
error nothing_at(const location& at) {
  error out = no_zarr_node(at.uri);
  if (!requests_are_free(*at.from)) return out;
  const std::string prefix = at.path.empty() ? std::string() : at.path + "/";
  opened_names names(*at.context, prefix.size());
  if (!at.from->list(prefix, listing::children, names).ok() || names.found.empty()) return out;
  constexpr std::size_t kMostShown = 3;
  std::sort(names.found.begin(), names.found.end());
  const bool has_more = names.found.size() > kMostShown;
  names.found.resize(std::min(names.found.size(), kMostShown));
  out.note(fmt::format("the folder has '{}'{}", fmt::join(names.found, "', '"), has_more ? " and others" : ""));
  return out;
}

location joined(const target_location& target) {
  location out = target.at;
  if (target.inner.empty()) return out;
  out.head = nullptr;
  out.path = out.path.empty() ? target.inner : out.path + "/" + target.inner;
  out.uri = child_uri(out.from->uri(), out.path + "/");
  return out;
}

/// Finds the object at a path inside the zip archive at a location.
result<found_node> find_in_archive(const location& at, std::string inner, const open_options& how) {
  const std::string root = at.from->uri();
  if (!root.starts_with(kLocalPrefix))
    return error(errc::unsupported,
                 fmt::format("'{}' is a zip archive: archives are opened by a path of this machine only", at.uri));
  location archive = at;
  archive.from = open_zip_store(child_uri(root.substr(kLocalPrefix.size()), at.path + "/"), at.context);
  archive.path.clear();
  archive.head = nullptr;
  archive.uri = archive.from->uri();
  return find_node({std::move(archive), std::move(inner)}, how);
}

/// Finds the object at a location. Returns nullopt if no object of a known format exists there.
result<std::optional<found_node>> find_object(location at, std::string inner, const open_options& how) {
  if (at.path.empty()) return std::optional<found_node>();
  if (!at.head) {
    auto head = read_head(*at.from, at.path, head_bytes(*at.context, at.path));
    if (!head.ok()) return std::move(head).error().note(fmt::format("opening '{}'", at.uri));
    if (!*head) return std::optional<found_node>();
    at.head = std::make_shared<const object_head>(std::move(**head));
  }
  std::shared_ptr<const format_driver> driver = recognise(at);
  if (driver == nullptr && begins_as_archive(at.head->bytes)) {
    PENSTOCK_ASSIGN(found_node found, find_in_archive(at, std::move(inner), how));
    return std::optional<found_node>(std::move(found));
  }
  if (driver == nullptr) return std::optional<found_node>();
  return std::optional<found_node>(found_node{std::move(driver), std::move(at), std::move(inner), {}, {}});
}

/// Finds an object on the way to a location: `x.nc` of `x.nc/t2m`. Returns nullopt if there is none.
///
/// \param by_name  Only objects with a known ending are looked up; otherwise only all others.
result<std::optional<found_node>> find_above(const location& at, const open_options& how, bool by_name) {
  if (at.head != nullptr) return std::optional<found_node>();
  for (std::size_t slash = at.path.find('/'); slash != std::string::npos; slash = at.path.find('/', slash + 1)) {
    location object = at;
    object.path = at.path.substr(0, slash);
    if (names_object(*at.context, object.path) != by_name) continue;
    auto head = read_head(*at.from, object.path, head_bytes(*at.context, object.path));
    if (!head.ok() || !*head) continue;
    object.head = std::make_shared<const object_head>(std::move(**head));
    object.uri = child_uri(at.from->uri(), object.path + "/");
    std::string inner = at.path.substr(slash + 1);
    std::shared_ptr<const format_driver> driver = recognise(object);
    if (driver == nullptr && begins_as_archive(object.head->bytes)) {
      PENSTOCK_ASSIGN(found_node found, find_in_archive(object, std::move(inner), how));
      return std::optional<found_node>(std::move(found));
    }
    if (driver == nullptr || !driver->has_members()) continue;
    return std::optional<found_node>(found_node{std::move(driver), std::move(object), std::move(inner), {}, {}});
  }
  return std::optional<found_node>();
}

/// Finds an object above the folder that a URL's store begins in: `file` of `http://host/file/group/t2m`, whose store
/// begins at `http://host/file/group` because a web server does not list folders. Returns nullopt if there is none.
result<std::optional<found_node>> find_above_url(const location& at, const open_options& how) {
  const auto* const web = dynamic_cast<const http_store*>(at.from.get());
  if (web == nullptr || at.head != nullptr) return std::optional<found_node>();
  const http_store::rooted root = web->at_root();
  if (root.path.empty()) return std::optional<found_node>();
  location whole = at;
  whole.from = root.from;
  whole.path = root.path + "/" + at.path;
  return find_above(whole, how, false);
}

bool is_named_as_references(const location& at) { return names_references(at.path.empty() ? at.uri : at.path); }

/// Finds references saved as Parquet, by their `.zmetadata` alone. Returns nullopt if they are not at the location.
/// \param inner  Path of the node among them.
std::optional<found_node> find_references(const location& at, std::string inner) {
  auto found = find_parquet_references(*at.from, prefix_of(at.path));
  if (found == nullptr) return std::nullopt;
  return found_node{nullptr, at, std::move(inner), {}, std::move(found)};
}

/// Finds the object or the references that a path continues into. Returns nullopt if they do not exist or cannot be
/// read: then the path does not exist.
std::optional<found_node> find_target(const target_location& target, const open_options& how) {
  if (target.inner.empty()) return std::nullopt;
  auto object = find_object(target.at, target.inner, how);
  if (object.ok() && *object) return std::move(*object);
  return find_references(target.at, target.inner);
}

/// Finds the node whose documents are at a location. Returns nullopt if no driver finds its documents there.
result<std::optional<found_node>> find_folder(const location& at, const open_options& how) {
  if (is_named_as_references(at))
    if (std::optional<found_node> found = find_references(at, {})) return found;
  found_node out;
  out.at = at;
  for (const auto& each : at.context->state().options().drivers) {
    PENSTOCK_ASSIGN(out.opened, caught("the driver", [&] { return each->open_folder(at, how); }));
    if (out.opened) return std::optional<found_node>(std::move(out));
  }
  for (const format_driver* each : builtin_drivers()) {
    if (each != &zarr_driver()) {
      PENSTOCK_ASSIGN(out.opened, each->open_folder(at, how));
    } else {
      node_place place = place_of(at, how);
      auto found = find_zarr_node(*place.from, place.prefix, place.use_consolidated);
      if (found.ok() && *found && (*found)->references != nullptr) {
        out.references = std::move((*found)->references);
        return std::optional<found_node>(std::move(out));
      }
      PENSTOCK_ASSIGN(out.opened, make_found(std::move(place), std::move(found)));
    }
    if (out.opened) return std::optional<found_node>(std::move(out));
  }
  return std::optional<found_node>();
}

}  // namespace

result<found_node> find_node(target_location target, const open_options& how, search_order order) {
  const bool is_file = target.at.head != nullptr && target.at.from->traits().inline_completion;
  if (target.at.head != nullptr) {
    PENSTOCK_ASSIGN(std::optional<found_node> object, find_object(target.at, target.inner, how));
    if (object) return std::move(*object);
    if (is_file) return error(errc::not_found, fmt::format("'{}' is a file of an unknown format", target.at.uri));
  }
  location at = joined(target);
  const bool target_first = order == search_order::object_first || is_named_as_references(target.at);
  if (target_first)
    if (std::optional<found_node> found = find_target(target, how)) return std::move(*found);
  const bool object_first = order == search_order::object_first || names_object(*at.context, at.path);
  if (object_first && at.head == nullptr) {
    PENSTOCK_ASSIGN(std::optional<found_node> object, find_object(at, {}, how));
    if (object) return std::move(*object);
  }
  PENSTOCK_ASSIGN(std::optional<found_node> member, find_npz_member(at, how));
  if (member) return std::move(*member);
  PENSTOCK_ASSIGN(std::optional<found_node> named, find_above(at, how, true));
  if (named) return std::move(*named);
  PENSTOCK_ASSIGN(std::optional<found_node> folder, find_folder(at, how));
  if (folder) return std::move(*folder);
  if (!object_first && at.head == nullptr) {
    PENSTOCK_ASSIGN(std::optional<found_node> object, find_object(at, {}, how));
    if (object) return std::move(*object);
  }
  const bool above_last = !requests_are_free(*at.from);  // each level of the path costs a request
  if (!above_last) {
    PENSTOCK_ASSIGN(std::optional<found_node> above, find_above(at, how, false));
    if (above) return std::move(*above);
  }
  if (!target_first)
    if (std::optional<found_node> found = find_target(target, how)) return std::move(*found);
  PENSTOCK_ASSIGN(std::optional<found_node> referenced, find_references_above(at));
  if (referenced) return std::move(*referenced);
  if (above_last) {
    PENSTOCK_ASSIGN(std::optional<found_node> above, find_above(at, how, false));
    if (above) return std::move(*above);
    PENSTOCK_ASSIGN(above, find_above_url(at, how));
    if (above) return std::move(*above);
  }
  return nothing_at(at);
}

result<node> open_found(found_node found, const open_options& how) {
  if (found.opened) return std::move(*found.opened);
  if (found.references) return open_reference_folder(place_of(found.at, how), *found.references, found.inner);
  if (!found.inner.empty())
    return caught("the driver", [&] { return found.driver->open_inside(found.at, found.inner, how); });
  result<node> made = caught("the driver", [&] { return found.driver->open(found.at, how); });
  if (made.ok()) return made;
  std::string note = fmt::format("opening '{}'", found.at.uri);
  const auto& notes = made.error().notes();
  if (std::find(notes.begin(), notes.end(), note) != notes.end()) return std::move(made).error();
  return std::move(made).error().note(std::move(note));
}

result<node> open_location(location at, const open_options& how) {
  PENSTOCK_ASSIGN(found_node found, find_node({std::move(at), {}}, how));
  return open_found(std::move(found), how);
}

}  // namespace penstock::inline v0
