#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/array.h>
#include <penstock/chunk_lengths.h>
#include <penstock/context.h>
#include <penstock/place.h>
#include <penstock/result.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

/// The progress of a copy: the state of the current array.
struct copy_progress {
  std::string path;               ///< within the copied node; empty: its root
  std::uint64_t done_bytes = 0;   ///< decoded bytes, or stored ones if objects are copied unchanged
  std::uint64_t total_bytes = 0;  ///< 0: not known
};

/// The stage of a copy that several processes share.
enum class copy_stage : std::uint8_t {
  whole,    ///< the complete copy: the only process
  prepare,  ///< one process: all checks, groups, metadata, and the files in `scratch`
  first,    ///< every process: its blocks and objects, or its part of the first of two passes
  second,   ///< every process: its part of the second pass. No process begins it before all have ended `first`
  compare,  ///< every process: its part of what `verify` does, after all blocks are written
  finish,   ///< one process: consolidated metadata, and removal of the files
};

/// The part of one process. Processes exchange nothing: part i of n has an n-th of the blocks of each array.
struct copy_part {
  copy_stage stage = copy_stage::whole;
  std::uint64_t number = 0, count = 1;
};

struct copy_options {
  unsigned threads = 0;  ///< 0: the source's context's
  /// For arrays of this rank; nullopt: the source's. Chunks of other formats than Zarr that decode to less than 16 KiB
  /// or more than 32 MiB are replaced by chunks of about 1 MiB.
  std::optional<extents> chunks;
  std::optional<extents> shards;  ///< nullopt: the source's, or none if chunks are given
  /// Lengths by dimension name, whole dimensions, sizes in bytes: resolved for each array; they replace `chunks` and
  /// `shards`. Each name must be a dimension of at least one array.
  std::optional<chunk_lengths> chunk_rule, shard_rule;
  bool auto_shards = false;  ///< about 256 MiB each
  bool no_shards = false;
  std::string codecs_json;  ///< as in create_options; empty: the source's
  int zarr_format = 0;      ///< 0: the source's
  bool overwrite = false;   ///< erase the node at the destination
  bool resume = false;      ///< continue an interrupted copy
  bool durable = false;     ///< return only when all data is on the storage device
  bool check_only = false;  ///< check all nodes and options, plan, but write nothing
  /// For blocks of elements of arrays that are encoded again; 0: half of the context's memory limit.
  std::uint64_t memory_bytes = 0;
  /// A folder for a file as large as the array's elements. It is used if the memory is too small to decode each chunk
  /// of the source once, and removed when the array is copied. Empty: such chunks are decoded more than once.
  std::string scratch;
  bool decode_once = false;  ///< fail instead of decoding a chunk of the source more than once
  /// Read the copy and the source, and compare them; with `overwrite`, before the copy replaces the old node.
  bool verify = false;
  /// For a copy by several processes, which have equal options, including `memory_bytes` and `threads`, and a `scratch`
  /// that all of them can access. If a process ends early, all stages except the last can be repeated: they continue as
  /// with `resume`. Not with `overwrite`.
  copy_part part;
  /// Called on one of the copying threads at a time, also within a block of elements; false stops the copy
  /// (`cancelled`).
  std::function<bool(const copy_progress&)> progress;
};

/// How an array is encoded again.
struct copy_step {
  std::string path;     ///< within the copied node
  std::string plan;     ///< passes, blocks and memory in words
  unsigned passes = 1;  ///< 2: through a file in `copy_options::scratch`
  std::uint64_t memory_bytes = 0, scratch_bytes = 0;
};

struct copy_report {
  struct omitted_member {
    std::string path;  ///< within the copied group
    std::string why;
  };
  using left_out_member [[deprecated("it is named omitted_member")]] = omitted_member;

  std::uint64_t groups = 0, arrays = 0;
  std::vector<copy_step> steps;         ///< one for each array that is encoded again
  std::uint64_t objects_copied = 0;     ///< copied without decoding
  std::uint64_t objects_written = 0;    ///< encoded again, without those that equal the fill value
  std::uint64_t objects_skipped = 0;    ///< already existed
  std::uint64_t bytes = 0;              ///< of copied objects stored bytes, of all others decoded bytes
  std::vector<omitted_member> omitted;  ///< datasets of HDF5 files that are not readable: the others are copied
};

/// Copies an array, or a group and everything in it.
///
/// Opens every node of the source and checks it against the options before the first write. With `overwrite`, the copy
/// is written next to the old node and replaces it when it is complete, in stores that can do so (files, memory). In
/// other stores the old node is erased after the checks. See docs/design/0018-overwrite.md.
///
/// If an array keeps its chunks, shards, codecs and format, its metadata and its objects are copied byte for byte.
/// Otherwise it is read and written in blocks that hold whole chunks of the source and whole objects of the
/// destination, so that each chunk is decoded once and each object written once. If that needs more than
/// `memory_bytes`, a file is used (docs/design/0033-rechunk.md). Metadata is written first, so that an interrupted copy
/// can continue: with `resume`, objects that already exist (with the same size, if the store reports it) are not copied
/// again. The node at the destination must then have the same metadata.
/// \error invalid_argument  The destination exists, or is not the array that the copy would make.
/// \error corrupt_data      `verify`: elements differ. Names the first one.
/// \error conflict          `part`: another process has prepared a copy with other options.
PENSTOCK_API result<copy_report> copy(const node& from, const place& to, const copy_options& options = {});

}  // namespace penstock::inline v0
