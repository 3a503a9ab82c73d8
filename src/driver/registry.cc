#include "driver/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "driver/drivers.h"
#include "driver/npz.h"
#include "driver/open_references.h"
#include "engine/blocking_read.h"
#include "engine/context_state.h"
#include "engine/index_io.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kHeadBytes = std::uint64_t{16} << 10;
constexpr std::uint64_t kMostHeadBytes = std::uint64_t{1} << 20;
/// Where a second request costs less than the bytes that most headers do not have.
constexpr std::uint64_t kHeadBytesNearby = std::uint64_t{4} << 10;

/// Names without a driver here whose objects are one file all the same.
constexpr std::array<std::string_view, 2> kOtherEndings = {"parquet", "arrow"};

std::string ending_of(std::string_view path) {
  const std::size_t dot = path.rfind('.'), slash = path.rfind('/');
  if (dot == std::string_view::npos || (slash != std::string_view::npos && dot < slash)) return {};
  std::string out(path.substr(dot + 1));
  for (char& each : out)
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
  return out;
}

bool has(std::span<const std::string_view> endings, std::string_view ending) {
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

/// Whether the name is that of an object rather than of a Zarr node.
bool names_object(const context& with, std::string_view path) {
  const std::string ending = ending_of(path);
  if (ending.empty()) return false;
  const auto of_driver = [&](const auto& each) { return has(each->endings(), ending); };
  const auto& added = with.state().options().drivers;
  return has(kOtherEndings, ending) || std::any_of(added.begin(), added.end(), of_driver) ||
         std::any_of(builtin_drivers().begin(), builtin_drivers().end(), of_driver);
}

/// A driver of the library, which nobody owns.
std::shared_ptr<const format_driver> shared(const format_driver& driver) noexcept {
  return {std::shared_ptr<const void>(), &driver};
}

/// How many first bytes are read where requests cost time: as the drivers say whose endings the name has.
std::uint64_t head_bytes(const context& with, std::string_view path) {
  const std::string ending = ending_of(path);
  std::uint64_t most = kHeadBytes;
  const auto take = [&](const format_driver& each) {
    if (has(each.endings(), ending)) most = std::max(most, std::min(each.head_bytes(), kMostHeadBytes));
  };
  for (const auto& each : with.state().options().drivers) take(*each);
  for (const format_driver* each : builtin_drivers()) take(*each);
  return most;
}

/// Whether the caller opens files of this format itself: what it makes of them can be pickled.
bool is_left_out(const format_driver& driver, const open_options& how) {
  const bool own = &driver == &npy_driver() || &driver == &manifest_driver() || &driver == &references_driver() ||
                   &driver == &hdf5_driver();
  return own && !how.opens_references;
}

/// Opens what is inside of an object on the way to a location: `x.nc/t2m`. Returns nullopt if there is none.
///
/// \param by_name  Only objects whose names end as such objects' do are looked for; else only the others, where a
/// request
///                 costs nothing.
result<std::optional<node>> open_inside_object(const location& at, const open_options& how, bool by_name) {
  const store_traits traits = at.from->traits();
  if (at.head != nullptr || (!by_name && (!traits.inline_completion || traits.request_bytes != 0)))
    return std::optional<node>();
  for (std::size_t slash = at.path.find('/'); slash != std::string::npos; slash = at.path.find('/', slash + 1)) {
    location object = at;
    object.path = at.path.substr(0, slash);
    if (names_object(*at.context, object.path) != by_name) continue;
    auto head = read_head(*at.from, object.path, head_bytes(*at.context, object.path));
    if (!head.ok() || !*head) continue;
    const std::shared_ptr<const format_driver> driver = driver_of(*at.context, **head, object.path);
    const bool has_members = driver.get() == &netcdf_driver() || driver.get() == &hdf5_driver();
    if (!has_members || is_left_out(*driver, how)) continue;
    object.head = std::make_shared<const object_head>(std::move(**head));
    object.uri = child_uri(at.from->uri(), object.path + "/");
    PENSTOCK_ASSIGN(node made, driver->open_inside(object, std::string_view(at.path).substr(slash + 1), how));
    return std::optional<node>(std::move(made));
  }
  return std::optional<node>();
}

/// Opens the object at a location and sets `at.head`. Returns nullopt if no object of a known format is there.
result<std::optional<node>> open_object(location& at, const open_options& how) {
  if (at.path.empty()) return std::optional<node>();
  if (!at.head) {
    auto head = read_head(*at.from, at.path, head_bytes(*at.context, at.path));
    if (!head.ok()) return std::move(head).error().note(fmt::format("opening '{}'", at.uri));
    if (!*head) return std::optional<node>();
    at.head = std::make_shared<const object_head>(std::move(**head));
  }
  const std::shared_ptr<const format_driver> driver = driver_of(*at.context, *at.head, at.path);
  if (!driver) return std::optional<node>();
  if (is_left_out(*driver, how)) return std::optional<node>();
  result<node> made = driver->open(at, how);
  if (made.ok()) return std::optional<node>(std::move(*made));
  std::string note = fmt::format("opening '{}'", at.uri);
  const auto& notes = made.error().notes();
  if (std::find(notes.begin(), notes.end(), note) != notes.end()) return std::move(made).error();
  return std::move(made).error().note(std::move(note));
}

/// Opens the node whose documents are at a location. Returns nullopt if no driver finds its documents there.
result<std::optional<node>> open_folder(const location& at, const open_options& how) {
  for (const auto& each : at.context->state().options().drivers) {
    PENSTOCK_ASSIGN(std::optional<node> found, each->open_folder(at, how));
    if (found) return found;
  }
  for (const format_driver* each : builtin_drivers()) {
    PENSTOCK_ASSIGN(std::optional<node> found, each->open_folder(at, how));
    if (found) return found;
  }
  return std::optional<node>();
}

}  // namespace

result<node> format_driver::open_inside(const location& at, std::string_view inner, const open_options& how) const {
  PENSTOCK_ASSIGN(const node outer, open(at, how));
  const auto* const found = std::get_if<group>(&outer);
  if (found != nullptr && found->state().members) return found->state().members->open(inner);
  return error(errc::not_found, fmt::format("no array or group at '{}' of '{}'", inner, at.uri));
}

std::span<const format_driver* const> builtin_drivers() noexcept {
  static const std::array<const format_driver*, 8> kDrivers = {
      &tiff_driver(),       &npy_driver(),  &netcdf_driver(),   &manifest_driver(),
      &references_driver(), &hdf5_driver(), &kerchunk_driver(), &zarr_driver()};
  return kDrivers;
}

std::shared_ptr<const format_driver> driver_of(const context& with, const object_head& head, std::string_view path) {
  for (const auto& each : with.state().options().drivers)
    if (each->sniff(head.bytes, path)) return each;
  for (const format_driver* each : builtin_drivers())
    if (each->sniff(head.bytes, path)) return shared(*each);
  return nullptr;
}

result<std::shared_ptr<const format_driver>> driver_for_new(const context& with, std::string_view format,
                                                            std::string_view path) {
  using found = std::shared_ptr<const format_driver>;
  const auto& added = with.state().options().drivers;
  if (format == zarr_driver().name()) return shared(zarr_driver());
  if (format.empty()) {
    const std::string ending = ending_of(path);
    const auto at =
        std::find_if(added.begin(), added.end(), [&](const found& each) { return has(each->endings(), ending); });
    return at == added.end() ? shared(zarr_driver()) : *at;
  }
  for (const found& each : added)
    if (each->name() == format) return each;
  for (const format_driver* each : builtin_drivers())
    if (each->name() == format) return shared(*each);
  return error(errc::unsupported, fmt::format("no format '{}'", format));
}

result<std::optional<node>> format_driver::open_folder(const location& /*at*/, const open_options& /*how*/) const {
  return std::optional<node>();
}

result<array> format_driver::create(const new_location& /*at*/, const create_options& /*how*/) const {
  return error(errc::unsupported,
               fmt::format("an array of format {} is written as one file and cannot be created first", name()));
}

result<group> format_driver::create_group(const new_location& /*at*/, const create_group_options& /*how*/) const {
  return error(errc::unsupported, fmt::format("groups of format {} cannot be created", name()));
}

result<> put_new_object(const new_location& at, std::span<const part> parts, const create_options& how) {
  if (at.path.empty()) return error(errc::invalid_argument, "a file needs a name within its store");
  write_condition condition;
  if (!how.overwrite) condition.what = write_condition::kind::must_be_absent;
  condition.durable = how.durable;
  if (auto done = at.to->put(at.path, parts, condition); !done.ok()) {
    if (done.error().code() != errc::version_changed) return std::move(done).error();
    return error(errc::invalid_argument, fmt::format("'{}' exists (overwrite replaces it)", at.uri));
  }
  return at.to->flush();
}

result<array> open_new_object(const new_location& at, const format_driver& driver) {
  PENSTOCK_ASSIGN(std::optional<object_head> head, read_head(*at.to, at.path));
  if (!head) return error(errc::internal, fmt::format("the driver '{}' created no object", driver.name()));
  const location made{at.context, at.to, at.path, at.uri, std::make_shared<const object_head>(std::move(*head))};
  PENSTOCK_ASSIGN(node opened, driver.open(made, {}));
  if (auto* const out = std::get_if<array>(&opened)) return std::move(*out);
  return error(errc::internal, fmt::format("the driver '{}' created a group", driver.name()));
}

result<std::optional<object_head>> read_head(const store& from, const std::string& key, std::uint64_t remote_bytes) {
  const std::uint64_t most = from.traits().request_bytes == 0 ? kHeadBytesNearby : remote_bytes;
  auto read = read_and_wait(from, key, {0, most, false}, most, nullptr, true);
  // A shorter object, in a store that cannot end early.
  if (!read.ok() && read.error().code() == errc::corrupt_data) read = read_and_wait(from, key, {}, most);
  if (!read.ok()) {
    if (read.error().code() == errc::not_found) return std::optional<object_head>();
    return std::move(read).error().note(read_note(key, {0, most, false}));
  }
  return std::optional<object_head>({std::move(read->bytes), read->object_size, std::move(read->seen)});
}

result<node> open_location(location at, const open_options& how) {
  const bool object_first = at.head != nullptr || names_object(*at.context, at.path);
  if (object_first) {
    PENSTOCK_ASSIGN(std::optional<node> object, open_object(at, how));
    if (object) return std::move(*object);
  }
  PENSTOCK_ASSIGN(std::optional<node> named, open_inside_object(at, how, true));
  if (named) return std::move(*named);
  const bool is_file = at.head != nullptr && at.from->traits().inline_completion;
  if (!is_file) {
    PENSTOCK_ASSIGN(std::optional<node> folder, open_folder(at, how));
    if (folder) return std::move(*folder);
  }
  if (!object_first) {
    PENSTOCK_ASSIGN(std::optional<node> object, open_object(at, how));
    if (object) return std::move(*object);
  }
  PENSTOCK_ASSIGN(std::optional<node> inside, open_inside_object(at, how, false));
  if (inside) return std::move(*inside);
  PENSTOCK_ASSIGN(std::optional<node> member, open_npz(at, how));
  if (member) return std::move(*member);
  PENSTOCK_ASSIGN(std::optional<node> inner, open_inside_references(at, how));
  if (inner) return std::move(*inner);
  PENSTOCK_ASSIGN(std::optional<node> referenced, open_inside_reference_folder(at, how));
  if (referenced) return std::move(*referenced);
  if (at.head != nullptr && at.from->traits().inline_completion)
    return error(errc::not_found, fmt::format("'{}' is a file of no format that is known", at.uri));
  return no_zarr_node(at.uri);
}

}  // namespace penstock::inline v0
