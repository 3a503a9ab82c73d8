#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <penstock/dtype.h>
#include <penstock/extend/json.h>
#include <penstock/result.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

struct device_form;    // what an engine needs to run a codec on a device; for codecs of the library
class buffer;          // memory that grows, counted in the context's limit; for codecs of the library
class worker_scratch;  // memory that one worker reuses from chunk to chunk: `scratch_memory`, `out_of_room`

/// The bound is not known.
inline constexpr std::uint64_t kUnbounded = std::numeric_limits<std::uint64_t>::max();

/// One stage of a codec chain, from buffer to buffer (zstd, gzip, crc32c, delta, vlen-utf8, ...): the C-order bytes of
/// an array, or bytes.
///
/// Immutable and stateless: many threads call one codec at the same time, each with a `scratch` of its own. A codec
/// starts no threads. Its result is in `out` or in `encoded`; both belong to the caller.
class PENSTOCK_API byte_codec {
 public:
  virtual ~byte_codec() = default;

  /// The registered name, as in the metadata.
  virtual std::string_view name() const = 0;
  /// Name and settings, readable: `zstd(level=3)`.
  virtual std::string describe() const = 0;

  /// The most bytes that `encode` may produce from `decoded_bytes`; kUnbounded if the number of bytes does not limit
  /// it.
  virtual std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const = 0;

  /// Decodes all of `encoded`.
  ///
  /// \param encoded  Untrusted bytes from storage: they must not make `decode` crash, loop or allocate without limit.
  /// \param out  Space for the most bytes that this stage may decode to; if `encoded` decodes to more, return
  ///             `out_of_room(scratch, ...)`. It may be memory of the caller's array, so nothing outside of it may be
  ///             written.
  /// \returns The decoded bytes: a prefix of `out`, or a part of `encoded` if nothing had to move (a checksum).
  /// \error corrupt_data  One sentence that names the contradiction, values last.
  virtual result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                                    worker_scratch& scratch) const = 0;

  /// Encodes all of `decoded` into `out` (at least max_encoded_bytes long); returns the encoded length.
  virtual result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                                       worker_scratch& scratch) const = 0;

  /// Decodes into `room` if no bound is known. `room` grows as needed, within the limit of its ledger.
  ///
  /// The default repeats `decode` with four times the memory until it no longer returns `out_of_room`.
  virtual result<std::span<const std::byte>> decode_growing(std::span<const std::byte> encoded, buffer& room,
                                                            worker_scratch& scratch) const;

  /// Encodes into `room`, which grows as needed. The default reserves max_encoded_bytes: codecs from outside the
  /// library have that bound.
  virtual result<std::span<const std::byte>> encode_growing(std::span<const std::byte> decoded, buffer& room,
                                                            worker_scratch& scratch) const;

  /// Whether `decode` returns a part of `encoded` and needs no output memory (a checksum).
  virtual bool decodes_in_place() const noexcept { return false; }

  /// The codec's operation, for engines that run it on a device. The default returns none: devices do not have it.
  virtual std::optional<device_form> form_on_device() const;

  /// Whether the work is done by Python, whose lock the calling thread must not hold while it waits for other threads.
  virtual bool via_python() const noexcept { return false; }
};

/// `bytes` bytes for tables and the like, uninitialised, 64-byte aligned: valid until the codec's function returns, one
/// block at a time. Reused by the worker for the next chunk, and counted in the context's memory limit.
/// \error resource_exhausted  The limit, or the system's memory, is exhausted.
PENSTOCK_API result<std::span<std::byte>> scratch_memory(worker_scratch& scratch, std::uint64_t bytes);

/// The error of a `decode` whose `out` is too small: `corrupt_data`, unless the caller can provide a larger buffer.
/// \param message  As of other errors, with the number of bytes if it is known.
PENSTOCK_API error out_of_room(worker_scratch& scratch, std::string message);

/// A codec as in the metadata.
struct codec_config {
  std::string name;    ///< of Zarr version 3; `numcodecs.` and the id for filters and compressors of version 2
  json configuration;  ///< null or an object
};

/// The input of a codec in a chain, or its output: an array after array codecs only, otherwise bytes.
struct PENSTOCK_API stage_type {
  /// The type of the items, as the preceding codec produced them. For bytes: the type of the last array's items, from
  /// which shuffles and compressors take their item size.
  dtype type;
  /// The shape of the array, in C order. Bytes have one dimension: their maximum number, kUnbounded if it is not known.
  extents shape;
  bool is_array = true;
  bool exact = true;        ///< the number of bytes is exactly that of `shape`; otherwise it is at most that
  bool big_endian = false;  ///< byte order of the stored items (filters of Zarr v2 process the stored byte order)

  static stage_type bytes_of(const dtype& type, std::uint64_t bytes, bool exact) {
    return {type, {bytes}, false, exact, false};
  }

  /// How many bytes these are, or at most; kUnbounded if that is not known or does not fit into 64 bits.
  std::uint64_t bytes() const noexcept;
};

/// A codec created for one stage, and the output of the stage.
struct compiled_codec {
  std::shared_ptr<const byte_codec> codec;
  stage_type output;
};

/// The stage of a compressor, after which only a bound on the number of bytes is known.
PENSTOCK_API compiled_codec compressed_stage(std::shared_ptr<const byte_codec> codec, const stage_type& input);
/// The stage of a codec that encodes all inputs of one size to max_encoded_bytes bytes: a checksum.
PENSTOCK_API compiled_codec sized_stage(std::shared_ptr<const byte_codec> codec, const stage_type& input);
/// The stage of a codec from an array to an array of the same shape and type: a filter.
PENSTOCK_API compiled_codec array_stage(std::shared_ptr<const byte_codec> codec, const stage_type& input);

/// Makes codecs that the library does not have: a member of `context_options::codecs`.
///
/// Thread-safe; lives as long as the context. Called once for each stage of a chain, when an array is opened or
/// created.
class PENSTOCK_API codec_provider {
 public:
  virtual ~codec_provider() = default;
  /// \param input  The input of the stage. A codec for arrays only, or bytes only, checks `input.is_array`.
  /// \error unsupported   The provider does not have a codec with that name for this input; the next provider is
  /// called.
  /// \error corrupt_data  The configuration contradicts the codec's specification.
  virtual result<compiled_codec> make(const codec_config& config, const stage_type& input) const = 0;
};

}  // namespace penstock::inline v0
