#include "driver/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/thrown.h"
#include "driver/drivers.h"
#include "engine/blocking_read.h"
#include "engine/context_state.h"
#include "engine/index_io.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kHeadBytes = std::uint64_t{16} << 10;
constexpr std::uint64_t kMostHeadBytes = std::uint64_t{1} << 20;
/// The first read if requests cost nothing: a second request is cheaper than bytes that most headers do not need.
constexpr std::uint64_t kHeadBytesNearby = std::uint64_t{4} << 10;

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

}  // namespace

std::shared_ptr<const format_driver> driver_by_name(const context& with, std::string_view path) {
  const std::string ending = ending_of(path);
  if (ending.empty()) return nullptr;
  for (const auto& each : with.state().options().drivers)
    if (has(each->endings(), ending)) return each;
  return driver_by_name(path);
}

std::shared_ptr<const format_driver> driver_by_name(std::string_view path) {
  const std::string ending = ending_of(path);
  for (const format_driver* each : builtin_drivers())
    if (has(each->endings(), ending)) return unowned(*each);
  return nullptr;
}

bool names_object(const context& with, std::string_view path) { return driver_by_name(with, path) != nullptr; }

bool names_references(std::string_view path) noexcept {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path.ends_with(".parq") || path.ends_with(".parquet");
}

std::shared_ptr<const format_driver> unowned(const format_driver& driver) noexcept {
  return {std::shared_ptr<const void>(), &driver};
}

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

result<node> format_driver::open_inside(const location& at, std::string_view inner, const open_options& how) const {
  PENSTOCK_ASSIGN(const node outer, open(at, how));
  const auto* const found = std::get_if<group>(&outer);
  if (found != nullptr && found->state().members) return found->state().members->open(inner);
  return error(errc::not_found, fmt::format("no array or group at '{}' of '{}'", inner, at.uri));
}

std::span<const format_driver* const> builtin_drivers() noexcept {
  static const std::array<const format_driver*, 9> kDrivers = {
      &tiff_driver(), &npy_driver(),      &netcdf_driver(), &manifest_driver(), &references_driver(),
      &hdf5_driver(), &kerchunk_driver(), &table_driver(),  &zarr_driver()};
  return kDrivers;
}

std::shared_ptr<const format_driver> driver_of(const context& with, const object_head& head, std::string_view path) {
  for (const auto& each : with.state().options().drivers)
    if (each->sniff(head.bytes, path)) return each;
  for (const format_driver* each : builtin_drivers())
    if (each->sniff(head.bytes, path)) return unowned(*each);
  return nullptr;
}

result<std::shared_ptr<const format_driver>> driver_for_new(const context& with, std::string_view format,
                                                            std::string_view path) {
  using found = std::shared_ptr<const format_driver>;
  const auto& added = with.state().options().drivers;
  if (format == zarr_driver().name()) return unowned(zarr_driver());
  if (format.empty()) {
    found named = driver_by_name(with, path);
    const bool serves =
        named != nullptr && (named->writes_once() || std::find(added.begin(), added.end(), named) != added.end());
    return serves ? named : unowned(zarr_driver());
  }
  for (const found& each : added)
    if (each->name() == format) return each;
  for (const format_driver* each : builtin_drivers())
    if (each->name() == format) return unowned(*each);
  return error(errc::unsupported, fmt::format("no format '{}'", format));
}

result<std::optional<node>> format_driver::open_folder(const location& /*at*/, const open_options& /*how*/) const {
  return std::optional<node>();
}

result<array> format_driver::create(const new_location& /*at*/, const create_options& /*how*/) const {
  return error(errc::unsupported,
               fmt::format("an array of format {} is written as one file and cannot be created first", name()));
}

result<std::unique_ptr<array_writer>> format_driver::begin(const new_location& /*at*/,
                                                           const create_options& /*how*/) const {
  return error(errc::unsupported,
               fmt::format("arrays of format {} are created first and written then: create_array", name()));
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
  PENSTOCK_ASSIGN(node opened, caught("the driver", [&] { return driver.open(made, {}); }));
  if (auto* const out = std::get_if<array>(&opened)) return std::move(*out);
  return error(errc::internal, fmt::format("the driver '{}' created a group", driver.name()));
}

result<std::optional<object_head>> read_head(const store& from, const std::string& key, std::uint64_t remote_bytes) {
  const std::uint64_t most = from.traits().request_bytes == 0 ? kHeadBytesNearby : remote_bytes;
  auto read = read_and_wait(from, key, {0, most, false}, most, nullptr, true);
  // The object may be shorter, in a store that cannot return fewer bytes than requested.
  if (!read.ok() && read.error().code() == errc::corrupt_data) read = read_and_wait(from, key, {}, most);
  if (!read.ok()) {
    if (read.error().code() == errc::not_found) return std::optional<object_head>();
    return std::move(read).error().note(read_note(key, {0, most, false}));
  }
  return std::optional<object_head>({std::move(read->bytes), read->object_size, std::move(read->seen), read->sent_all});
}

result<std::optional<found_node>> object_at(location at) {
  PENSTOCK_ASSIGN(std::optional<object_head> head, read_head(*at.from, at.path, head_bytes(*at.context, at.path)));
  if (!head) return std::optional<found_node>();
  found_node out;
  out.driver = driver_of(*at.context, *head, at.path);
  at.head = std::make_shared<const object_head>(std::move(*head));
  out.at = std::move(at);
  return std::optional(std::move(out));
}

result<std::vector<std::byte>> read_whole(const location& at, std::uint64_t max_bytes) {
  const object_head& head = *at.head;
  if (head.object_size == head.bytes.size()) return head.bytes;
  const bool rest_only = head.object_size != byte_range::kAll && head.object_size <= max_bytes &&
                         head.object_size > head.bytes.size() && at.from->traits().request_bytes != 0;
  const std::uint64_t known = rest_only ? head.bytes.size() : 0;
  const byte_range wanted = rest_only ? byte_range{known, head.object_size - known, false} : byte_range{};
  auto read = read_and_wait(*at.from, at.path, wanted, max_bytes, &head.seen);
  if (!read.ok()) return std::move(read).error().note(read_note(at.path, wanted));
  read->bytes.insert(read->bytes.begin(), head.bytes.begin(), head.bytes.begin() + static_cast<std::ptrdiff_t>(known));
  return std::move(read->bytes);
}

}  // namespace penstock::inline v0
