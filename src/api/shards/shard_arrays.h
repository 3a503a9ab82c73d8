#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <penstock/context.h>
#include <penstock/create.h>
#include <penstock/result.h>
#include <penstock/shard_writer.h>
#include <penstock/store.h>

namespace penstock::inline v0 {

/// The format of files with a suffix (lower case, with the dot): one of `shard_ending::format`; empty: it has none.
std::string_view format_of_suffix(std::string_view suffix) noexcept;

/// Shards that are arrays of a format: `.zarr`, TIFF, `.npz`.
bool is_array_shard(std::string_view suffix) noexcept;

/// Settings that all files of a writer share.
struct shard_files_context {
  std::shared_ptr<penstock::context> context;
  std::shared_ptr<store> files;  ///< all are on this machine
  bool syncs = false;
};

/// Writes a Zarr array or a TIFF by the driver that the name has, or an archive with one `.npy` member.
///
/// It appears under its name when it is complete, and replaces an earlier one.
/// \param descr  Of the items: as in `shard_values`; not empty.
/// \param how    Options of the array; path, shape, type and context are set here.
/// \param name   Of the member of an archive.
/// \returns The checksum of its bytes: of a folder, of the names and bytes of its files, in the order of the names.
/// \error conflict  There is a folder of that name that is not a Zarr array. \error As the driver's.
result<std::uint32_t> write_array_shard(const shard_files_context& with, const std::string& path,
                                        std::string_view suffix, const shard_values& values, const std::string& descr,
                                        create_options how, const std::string& name);

/// The manifest of such files, which are joined along their first dimension, for a file in `folder`.
/// \param folder  Absolute. \param descr  Of the items.
result<std::string> array_manifest(const shard_files_context& with, const std::string& folder,
                                   std::span<const std::string> paths, std::span<const std::uint32_t> checksums,
                                   const std::string& descr);

}  // namespace penstock::inline v0
