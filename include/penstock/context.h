#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/profile.h>
#include <penstock/result.h>
#include <penstock/store.h>

namespace penstock::inline v0 {

class executor;        // where workers run (src/base/executor.h)
class codec_provider;  // <penstock/extend/codec.h>
class format_driver;   // <penstock/extend/driver.h>
class uri_scheme;      // <penstock/extend/scheme.h>
class context_state;   // src/engine/context_state.h

/// Device memory from the pool of another library (its caching allocator), for results of device reads.
///
/// Called on any thread, with the device's primary context current and without a lock of this library.
class device_allocator {
 public:
  virtual ~device_allocator() = default;
  /// Memory aligned to at least 256 bytes, for work in the order of `stream`, which is a stream of this library.
  /// \error resource_exhausted  The pool cannot provide the memory.
  virtual result<std::uintptr_t> allocate(std::uint64_t bytes, int device, std::uintptr_t stream) = 0;
  /// Takes memory back. All earlier uses of it precede the later work of `stream`.
  virtual void release(std::uintptr_t address, std::uint64_t bytes, int device, std::uintptr_t stream) noexcept = 0;
};

/// Where chunks of values in device memory are encoded.
enum class chunk_encoder : std::uint8_t {
  automatic,  ///< the device if it has encoders for all codecs and a model predicts that it is much faster, else the
              ///< host
  host,       ///< the processor's cores, with the codecs' libraries
  device,     ///< the device, if all codecs of the array have an encoder there: `shuffle`, `lz4`, `zstd`, `crc32c`
};

struct context_options {
  /// Decoding workers of one read, the calling thread among them; 0: the processors that this process may use, by the
  /// affinity of the thread that makes the context and the quota of control groups.
  unsigned threads = 0;
  unsigned io_concurrency = 0;           ///< requests in flight at asynchronous stores; 0: 64, short ones over HTTP 256
  std::uint64_t memory_limit_bytes = 0;  ///< scratch, encoded bytes and indexes together, results not counted;
                                         ///< 0: an eighth of the memory that this process may use (the
                                         ///< machine's, or less by its control groups), at least 1 GiB (a quarter, if
                                         ///< that is less), at most 8 GiB
  std::uint64_t chunk_cache_bytes = ~std::uint64_t{0};  ///< decoded chunks cached for reads of parts of them, in
                                                        ///< addition to the limit; ~0: an eighth of it; 0: none
  std::uint64_t output_pool_bytes =
      ~std::uint64_t{0};                ///< idle result memory kept for the next read; ~0: a quarter of that memory
  std::uint64_t write_queue_bytes = 0;  ///< copies of values that `write_async` holds; 0: a quarter of the memory limit
  std::uint64_t page_locked_bytes = 0;  ///< host memory that devices copy from; 0: 256 MiB, allocated at first use
  std::uint64_t device_memory_bytes = 0;  ///< device memory of running reads, without results; less memory makes waves
                                          ///< smaller; 0: an eighth of the device's, at most 6 GiB
  std::string device_decoder;  ///< the decoder on devices: this library (empty), or "nvcomp", which `make` loads
  /// For writes that do not name one. `device` leaves arrays to the host if a codec has no device encoder.
  chunk_encoder encoder = chunk_encoder::automatic;
  std::string nvcomp_library;  ///< its file; empty: libnvcomp.so.6 or .5 as the system's loader finds them
  /// Where results in device memory are allocated; null: a pool of this library's own. Waves always have memory of
  /// their own.
  std::shared_ptr<penstock::device_allocator> device_allocator;
  /// Null: a pool of threads, started when first needed. Others are for tests of this project: the class is not
  /// installed.
  std::shared_ptr<penstock::executor> executor;
  /// Codecs in addition to this library's, tried in this order for codecs that it does not have.
  std::vector<std::shared_ptr<const codec_provider>> codecs;
  /// Formats in addition to this library's: `open` tries these drivers first.
  std::vector<std::shared_ptr<const format_driver>> drivers;
  /// URI schemes in addition to this library's, tried first.
  std::vector<std::shared_ptr<const uri_scheme>> schemes;
  write_sync sync = write_sync::objects;  ///< for files on this machine that `find_place` finds with it

  /// A folder that caches encoded byte ranges of `http:`, `https:`, `s3:` and `gs:` objects; empty: none.
  ///
  /// Processes of one user may share it. Every read still requests the version of the objects that it uses, and takes
  /// their bytes from the folder only if the version is unchanged. Objects without a version (entity tag or date) are
  /// not cached. If the folder cannot be used or the disk is full, a warning is given and reads bypass the cache.
  std::string disk_cache;
  std::uint64_t disk_cache_limit_bytes = 0;  ///< size of the cache's files; 0: 10 GiB; at least 1 MiB
  /// Seconds in which an object counts as unchanged after the server returned its version (or that it is absent): reads
  /// within them make no request. 0: every read requests the version.
  double disk_cache_trust_s = 0;
  /// Receives the text of a warning. Called on any thread, at most once for each cause; must not block. May be empty.
  std::function<void(const std::string&)> on_warning;
};

/// Completes options from environment variables, for job scripts: PENSTOCK_THREADS, and in the same way IO_CONCURRENCY,
/// MEMORY_LIMIT, CHUNK_CACHE, OUTPUT_POOL, WRITE_QUEUE, DEVICE_MEMORY_LIMIT, PAGE_LOCKED, DISK_CACHE and
/// DISK_CACHE_LIMIT, replace the members of `given` that have their default value. Sizes are in bytes, or have a unit
/// ("2GiB"). An empty variable counts as unset.
///
/// The program and the Python package create their contexts in this way; `context::make` itself reads no variable.
/// \error invalid_argument  A variable is not a number or a size; its name is in the message.
PENSTOCK_API result<context_options> options_of_environment(context_options given = {});

struct context_usage {
  std::uint64_t scratch_bytes = 0, encoded_bytes = 0, index_bytes = 0, output_pool_bytes = 0;
  std::uint64_t peak_scratch_bytes = 0, peak_encoded_bytes = 0, peak_index_bytes = 0;
  std::uint64_t index_hits = 0, index_misses = 0;
  std::uint64_t chunk_cache_bytes = 0, chunk_hits = 0;
  std::uint64_t page_locked_bytes = 0, device_wave_bytes = 0, device_result_bytes = 0;  ///< of all devices together
  std::uint64_t disk_cache_bytes = 0;                        ///< size of the files in the disk cache's folder
  std::uint64_t disk_cache_hits = 0, disk_cache_misses = 0;  ///< reads of byte ranges
  std::uint64_t disk_cache_damaged = 0;                      ///< ranges in the folder whose checksum was wrong
};

/// All mutable state of reading: threads, caches, pools, limits. Shared by the arrays opened with it.
///
/// Thread-safe. After a fork the child starts with empty caches and its own threads. There is no global context.
class PENSTOCK_API context {
 public:
  /// \error unsupported  nvCOMP was requested, and is not installed or its version is neither 5 nor 6.
  static result<std::shared_ptr<context>> make(const context_options& options = {});
  explicit context(std::shared_ptr<context_state> state) noexcept;
  ~context();

  unsigned threads() const noexcept;  ///< decoding workers of one read
  /// The decoder on devices: `penstock`, or `nvcomp 6.0.0`.
  std::string device_decoder() const;
  context_usage usage() const;
  /// Drops cached indexes and chunks, idle memory, and devices whose driver reported a failure.
  void clear_caches();

  /// Waits for writes of `write_async`, and for reads into device memory whose values were exported and whose outcome
  /// was not queried.
  /// \error  The first write that failed, by name, with the others in the notes. Each is reported once.
  /// \error corrupt_data  Chunks that failed on a device, one of them by name. Each is reported once.
  result<> synchronize();

  /// Begins recording. One recording at a time.
  /// \error conflict  A recording is under way.
  result<> start_profile(std::uint64_t max_events = 1 << 20);
  profile_report stop_profile();

  context_state& state() const noexcept { return *state_; }

 private:
  std::shared_ptr<context_state> state_;
};

}  // namespace penstock::inline v0
