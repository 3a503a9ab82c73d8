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

/// How files without a header are to be understood.
struct raw_options {
  std::string dtype;             ///< NumPy's type string, or a JSON list of fields as `dtype.descr` has it
  std::optional<extents> shape;  ///< of every file; its size is checked against it
  /// Of a file without `axis`: its length along `axis` follows from its size. Neither shape: items of one dimension.
  std::optional<extents> row_shape;
  std::uint64_t offset = 0;  ///< of the first item, in bytes
  bool fortran_order = false;
  /// Nothing, or for each file its length along `axis`, where that is known beforehand: its size is checked against it.
  /// A file of no bytes is none but where it says 0.
  std::vector<std::optional<std::uint64_t>> rows;
};

struct shard_options {
  std::shared_ptr<penstock::context> context;  ///< null: a context of its own
  std::int64_t axis = 0;                       ///< along which one file follows the other; negative from the end
  std::optional<raw_options> raw;              ///< nothing: `.npy` files, whose headers say all of it
};

/// What `find_shards` refuses among names that are numbered.
enum class shard_holes : std::uint8_t { refuse, allow };

/// Names below `store` that match a shell pattern (`*`, `?`, `[a-z]`; '/' is matched by '/' alone), in the order of the
/// numbers in them: `x_9` comes before `x_10`.
///
/// Where names differ in one number, these numbers are a sequence: of equal steps, whatever these are (every hundredth
/// step of a run has no holes), from 0, from 1, or from 1,000 or more where the step is 1. What the pattern would not
/// match (`x_[5-9].npy`) is not missed.
/// \error not_found  None matches. \error invalid_argument  Two names of one number (`x_1`, `x_01`), or a number that
///                   the sequence lacks; the message has the first five.
PENSTOCK_API result<std::vector<std::string>> find_shards(const store& from, std::string_view pattern,
                                                          shard_holes holes = shard_holes::refuse);

/// Opens files as one array, one behind the other along an axis, in the order given.
///
/// Headers are read once, in parallel, before anything else; files may be of different lengths along the axis, also
/// empty. What is read later is read on condition that the file is what it was (`conflict` names it).
/// \param keys  Of `from`; each once.
/// \error invalid_argument  Files that do not go together: another dtype, byte order or shape, a scalar, a file given
///                          twice. \error unsupported  Files in C order and in Fortran order. \error corrupt_data
///                          Headers that cannot be read, files of no bytes, or too short for their headers. The message
///                          names the first five of those.
PENSTOCK_API result<array> open_shards(std::shared_ptr<const store> from, std::vector<std::string> keys,
                                       const shard_options& options = {});

/// One `.npy` or raw file as an array.
PENSTOCK_API result<array> open_contiguous(std::shared_ptr<const store> from, std::string key,
                                           const shard_options& options = {});

/// The files of an array that open_shards or open_contiguous opened; empty for any other.
struct shard_file {
  std::string key;
  std::uint64_t length = 0;             ///< along the axis
  std::uint64_t offset = 0;             ///< of the first item, in bytes
  std::optional<std::uint32_t> crc32c;  ///< of all bytes of the file, where a manifest has it
};
PENSTOCK_API std::vector<shard_file> shard_files(const array& of);
/// The checksum that manifests have: CRC-32C of `bytes`, going on from that of the bytes before.
PENSTOCK_API std::uint32_t file_crc32c(std::span<const std::byte> bytes, std::uint32_t so_far = 0) noexcept;
/// The dimension along which they follow each other.
PENSTOCK_API std::size_t shard_axis(const array& of);
/// What their items are: `dtype` and `fortran_order` are set.
PENSTOCK_API raw_options shard_items(const array& of);
/// True where one of the files is gone, or another than it was when the array was opened (or its manifest was written).
/// One request for each; stores without versions are not asked.
PENSTOCK_API bool shards_changed(const array& of);

enum class manifest_form : std::uint8_t { binary, json };

/// What the rows of a file are that is not there: an error when they are read, or zeros.
enum class missing_shards : std::uint8_t { refuse, fill };

/// What was learned of an array's files, for later opens and other processes.
///
/// \param root       Where the keys are, as `open_manifest`'s caller will need it; kept as it is.
/// \param checksums  Nothing, or one for each file.
/// \error invalid_argument  The array is of no such files.
PENSTOCK_API result<std::vector<std::byte>> save_manifest(const array& of, std::string_view root, manifest_form form,
                                                          std::span<const std::uint32_t> checksums = {});
/// The `root` of a manifest. \error corrupt_data  It is none.
PENSTOCK_API result<std::string> manifest_root(std::span<const std::byte> manifest);
/// True where the bytes begin a manifest of either form.
PENSTOCK_API bool is_manifest(std::span<const std::byte> begin) noexcept;
/// Opens the files of a manifest; nothing of `from` is read. A file whose size or time of change is another than when
/// the manifest was written is a `conflict` when it is read.
/// \param missing  `fill`: each file is looked for now, and the rows of those that are not there are zeros.
/// \param below    The folder in `from` that its keys are relative to; empty: the root.
PENSTOCK_API result<array> open_manifest(std::shared_ptr<const store> from, std::span<const std::byte> manifest,
                                         std::shared_ptr<context> with = nullptr,
                                         missing_shards missing = missing_shards::refuse, std::string_view below = {});

}  // namespace penstock::inline v0
