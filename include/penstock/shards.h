#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/array.h>

namespace penstock::inline v0 {

/// How to interpret files that have no header.
struct raw_options {
  std::string dtype;             ///< NumPy's type string, or a JSON list of fields as in `dtype.descr`
  std::optional<extents> shape;  ///< shape of every file; its size is checked against it
  /// Of a file without `axis`: its length along `axis` follows from its size. Without either shape: items of one
  /// dimension.
  std::optional<extents> row_shape;
  std::uint64_t offset = 0;  ///< offset of the first item, in bytes
  bool fortran_order = false;
  /// Empty, or for each file its length along `axis`, if it is known: its size is checked against it. An empty file is
  /// an error unless its length is 0.
  std::vector<std::optional<std::uint64_t>> rows;
};

struct shard_options {
  std::shared_ptr<penstock::context> context;  ///< null: a context of its own
  std::int64_t axis = 0;                       ///< the axis of the join; negative: counted from the end
  std::optional<raw_options> raw;              ///< nullopt: `.npy` files, whose headers have these facts
};

/// Whether `find_shards` refuses missing numbers in names.
enum class shard_gaps : std::uint8_t { refuse, allow };
using shard_holes [[deprecated("it is named shard_gaps")]] = shard_gaps;

/// Names below `store` that match a shell pattern (`*`, `?`, `[a-z]`; '/' is matched by '/' alone), in the order of the
/// numbers in them: `x_9` comes before `x_10`.
///
/// If names differ in one number, these numbers are a sequence with equal steps of any size (every hundredth step of a
/// run has no gaps). It begins at 0, at 1, or at 1,000 or more if the step is 1. Names that the pattern does not match
/// (`x_[5-9].npy`) do not count as missing.
/// \error not_found  No name matches. \error invalid_argument  Two names have the same number (`x_1`, `x_01`), or a
/// number is missing; the message has the first five.
PENSTOCK_API result<std::vector<std::string>> find_shards(const store& from, std::string_view pattern,
                                                          shard_gaps gaps = shard_gaps::refuse);

/// Opens files as one array, joined along an axis in the given order.
///
/// Headers are read once, in parallel, before anything else; files may be of different lengths along the axis, also
/// empty. Later reads fail if the file has changed (`conflict` names it).
/// \param keys  Keys in `from`, each once.
/// \error invalid_argument  Files that do not fit together: different dtypes, byte orders or shapes, a scalar, a file
///                          given twice. \error unsupported  Files in C order and in Fortran order. \error corrupt_data
///                          Headers that cannot be read; files that are empty or too short for their headers. The
///                          message names the first five of those.
PENSTOCK_API result<array> open_shards(std::shared_ptr<const store> from, std::vector<std::string> keys,
                                       const shard_options& options = {});

/// One `.npy` or raw file as an array.
PENSTOCK_API result<array> open_contiguous(std::shared_ptr<const store> from, std::string key,
                                           const shard_options& options = {});

/// The files of an array that open_shards or open_contiguous opened; empty for any other.
struct shard_file {
  std::string key;
  std::uint64_t length = 0;             ///< length along the axis
  std::uint64_t offset = 0;             ///< offset of the first item, in bytes
  std::optional<std::uint32_t> crc32c;  ///< checksum of all bytes of the file, if a manifest has it
};
PENSTOCK_API std::vector<shard_file> shard_files(const array& of);  ///< in their order along the axis
/// The checksum in manifests: CRC-32C of `bytes`, continued from the checksum of the bytes before.
PENSTOCK_API std::uint32_t file_crc32c(std::span<const std::byte> bytes, std::uint32_t so_far = 0) noexcept;
/// The axis along which the files are joined.
PENSTOCK_API std::size_t shard_axis(const array& of);
/// The items of the files: `dtype` and `fortran_order` are set.
PENSTOCK_API raw_options shard_items(const array& of);
/// True if one of the files no longer exists, or has changed since the array was opened (or its manifest was written).
/// Makes one request for each file; stores without versions are not queried.
PENSTOCK_API bool shards_changed(const array& of);

enum class manifest_form : std::uint8_t { binary, json };

/// The rows of a file that does not exist: an error when they are read, or zeros.
enum class missing_shards : std::uint8_t { refuse, fill };

/// The known facts about an array's files, for later opens and other processes.
///
/// \param root       Location of the keys, for the caller of `open_manifest`; stored unchanged.
/// \param checksums  Nothing, or one for each file.
/// \error invalid_argument  The array does not consist of such files.
PENSTOCK_API result<std::vector<std::byte>> save_manifest(const array& of, std::string_view root, manifest_form form,
                                                          std::span<const std::uint32_t> checksums = {});
/// The `root` of a manifest.
/// \error corrupt_data  It is not a manifest.
PENSTOCK_API result<std::string> manifest_root(std::span<const std::byte> manifest);
/// True if the bytes begin a manifest of either form.
PENSTOCK_API bool is_manifest(std::span<const std::byte> begin) noexcept;
/// Opens the files of a manifest; nothing of `from` is read. A file whose size or modification time differs from the
/// manifest is a `conflict` when it is read.
/// \param missing  `fill`: each file is looked up now, and the rows of absent files are zeros.
/// \param below    The folder in `from` that its keys are relative to; empty: the root.
PENSTOCK_API result<array> open_manifest(std::shared_ptr<const store> from, std::span<const std::byte> manifest,
                                         std::shared_ptr<context> with = nullptr,
                                         missing_shards missing = missing_shards::refuse, std::string_view below = {});

}  // namespace penstock::inline v0
