#include "api/shards/shard_arrays.h"

#include <fmt/format.h>
#include <penstock/array_writer.h>
#include <penstock/extend/json.h>
#include <penstock/joined.h>
#include <penstock/place.h>
#include <penstock/shards.h>
#include <penstock/tiff_writer.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "api/shards/shard_files.h"
#include "base/counted.h"
#include "base/system_calls.h"
#include "driver/for_each_file.h"
#include "driver/new_type.h"
#include "driver/registry.h"
#include "driver/saved_arrays.h"
#include "driver/shard_checksum.h"
#include "driver/shard_endings.h"
#include "engine/array_state.h"
#include "engine/context_state.h"
#include "format/npy/npy_header.h"
#include "format/zarr/zarr_data_type.h"
#include "store/file_status.h"

namespace penstock::inline v0 {
namespace {

namespace fs = std::filesystem;

std::string absolute(const std::string& path) { return '/' + key_of_path(path); }

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// Removes a remaining draft when it is destroyed.
class draft {
 public:
  explicit draft(std::string path) : path_(std::move(path)) { remove(); }
  draft(const draft&) = delete;
  ~draft() { remove(); }
  const std::string& path() const noexcept { return path_; }

 private:
  void remove() noexcept {
    std::error_code failed;
    fs::remove_all(path_, failed);
  }
  std::string path_;
};

result<> rename(const std::string& from, const std::string& to) {
  std::error_code failed;
  fs::rename(from, to, failed);
  if (failed) return write_failure(failed.value(), "writing '" + to + "'");
  return {};
}

/// Moves a complete folder to `path`.
result<> take_place(const std::string& from, const std::string& path) {
  std::error_code none;
  if (!fs::is_directory(path, none)) return rename(from, path);
  if (exchange_names(from.c_str(), path.c_str()) == 0)
    return sync_names({&path, 1});                              // an old file is removed together with the draft
  const draft old(fmt::format("{}.{}.old", path, ::getpid()));  // otherwise, not atomically
  PENSTOCK_TRY(rename(path, old.path()));
  auto done = rename(from, path);
  if (!done.ok()) fs::rename(old.path(), path, none);
  return done;
}

result<std::uint32_t> write_zarr(const shard_files_context& with, const std::string& path, const tensor_view& items,
                                 create_options how) {
  std::error_code none;
  if (fs::is_directory(path, none) && metadata_of_shard(path) == path)
    return error(errc::conflict, fmt::format("'{}' exists and is not a Zarr array; refusing to replace it", path));
  const draft made(absolute(fmt::format("{}.{}.tmp", path, ::getpid())));
  how.path.clear();
  how.durable = with.syncs;
  const auto to = open_file_store(made.path(), with.context->state().options().sync);
  PENSTOCK_ASSIGN(const array created, create_array(to, how));
  write_options writing;
  writing.durable = with.syncs;
  PENSTOCK_ASSIGN(const std::uint64_t count, element_count(items.extents));
  if (count != 0) PENSTOCK_TRY(created.write(basic_selection(), items, writing));
  PENSTOCK_ASSIGN(const std::uint32_t out, checksum_of_folder(made.path()));
  PENSTOCK_TRY(take_place(made.path(), path));
  return out;
}

result<std::uint32_t> write_tiff(const shard_files_context& with, const std::string& path, const shard_values& values,
                                 const tensor_view& items, create_options how) {
  PENSTOCK_ASSIGN(const std::uint64_t count, element_count(items.extents));
  if (items.extents.size() != 3 || count == 0)
    return error(errc::unsupported,
                 fmt::format("TIFF shards are (band, y, x) with at least one pixel, not {}", to_string(items.extents)));
  how.path = key_of_path(path);
  PENSTOCK_ASSIGN(const std::unique_ptr<array_writer> writer, begin_array(with.files, how));
  auto* const of_tiff = dynamic_cast<tiff_writer*>(writer.get());
  if (values.mask && of_tiff == nullptr) return error(errc::unsupported, "only TIFF shards have masks");
  const extents origin(3, 0);
  PENSTOCK_TRY(values.mask ? of_tiff->write(0, 0, items, &*values.mask) : writer->write(origin, items));
  PENSTOCK_TRY(writer->close());
  return checksum_of_file(path, 0, false);
}

result<std::uint32_t> write_npz(const shard_files_context& with, const std::string& path, const tensor_view& items,
                                const std::string& descr, const std::string& name) {
  PENSTOCK_ASSIGN(std::uint64_t size, element_count(items.extents));
  size *= items.type.item_bytes();
  PENSTOCK_ASSIGN(const items_in_order ordered, in_c_order(items, size, *with.context));
  PENSTOCK_ASSIGN(const std::string python, python_descr(descr));
  const std::string header = write_npy_header(python, storage_order::c, items.extents);
  const part parts[] = {bytes_of(header), ordered.bytes};
  const draft made(absolute(fmt::format("{}.{}.tmp", path, ::getpid())));
  {
    const std::shared_ptr<store> archive = open_zip_store(made.path(), with.context);
    const auto note = [&](error why) { return std::move(why).note("writing '" + path + "'"); };
    if (auto put = archive->put(name + ".npy", parts, {}); !put.ok()) return note(std::move(put).error());
    if (auto done = archive->flush(); !done.ok()) return note(std::move(done).error());
  }
  PENSTOCK_ASSIGN(const std::uint32_t out, checksum_of_file(made.path(), 0, with.syncs));
  PENSTOCK_TRY(rename(made.path(), path));
  return out;
}

/// The type of an open array, whose items have native byte order, in the form of a `descr`.
std::string descr_as_opened(const dtype& type, const std::string& descr) {
  constexpr bool kBig = std::endian::native == std::endian::big;
  const auto written = write_v2_dtype(type, kBig ? "big" : "little");
  if (!written.ok()) return descr;
  const std::string* const text = written->as_string();
  return text != nullptr ? *text : written->dump();
}

}  // namespace

std::string_view format_of_suffix(std::string_view suffix) noexcept {
  return suffix.starts_with('.') ? format_of_ending(suffix.substr(1)) : std::string_view();
}

bool is_array_shard(std::string_view suffix) noexcept {
  const std::string_view format = format_of_suffix(suffix);
  return format == "zarr" || format == "tiff" || format == "npz";
}

result<std::uint32_t> write_array_shard(const shard_files_context& with, const std::string& path,
                                        std::string_view suffix, const shard_values& values, const std::string& descr,
                                        create_options how, const std::string& name) {
  if (format_of_suffix(suffix) == "npz") return write_npz(with, path, values.items, descr, name);
  how.context = with.context;
  how.shape = values.items.extents;
  how.type = values.items.type;
  how.dtype_json.clear();
  if (!values.descr.empty()) how.dtype_json = descr.starts_with('[') ? descr : json(descr).dump();
  PENSTOCK_ASSIGN(const zarr_v2_type type, type_of_new(how));
  if (type.type.item_bytes() != values.items.type.item_bytes())
    return error(errc::invalid_argument,
                 fmt::format("items of {} have {}, these have {}", type.type.name(),
                             counted(type.type.item_bytes(), "byte"), values.items.type.item_bytes()));
  tensor_view items = values.items;
  items.type = type.type;
  PENSTOCK_ASSIGN(const auto driver, driver_for_new(*with.context, how.format, path));
  how.format = driver->name();
  return driver->writes_once() ? write_tiff(with, path, values, items, std::move(how))
                               : write_zarr(with, path, items, std::move(how));
}

result<std::string> array_manifest(const shard_files_context& with, const std::string& folder,
                                   std::span<const std::string> paths, std::span<const std::uint32_t> checksums,
                                   const std::string& descr) {
  std::vector<std::string> names, documents;
  for (const std::string& each : paths) {
    names.push_back(absolute(each));
    documents.push_back(metadata_of_shard(names.back()));
  }
  PENSTOCK_ASSIGN(const auto now, query_files(documents, *with.context));
  open_options opening;
  opening.context = with.context;
  opening.mode = open_mode::read;
  PENSTOCK_ASSIGN(const std::vector<array> opened, open_arrays(names, opening));
  saved_arrays out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!now[i]) return error(errc::conflict, fmt::format("'{}' was removed while its manifest was written", names[i]));
    saved_array one;
    one.path = names[i];
    one.stamp = now[i]->stamp;
    one.crc32c = checksums[i];
    one.format = opened[i].format();
    one.shape = opened[i].shape();
    const auto chunks = opened[i].chunks();
    one.chunks.assign(chunks.begin(), chunks.end());
    one.descr = descr_as_opened(opened[i].type(), descr);
    out.shards.push_back(std::move(one));
  }
  return write_saved_arrays(out, folder);
}

}  // namespace penstock::inline v0
