#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <penstock/result.h>

namespace penstock::inline v0 {

class worker_scratch;  // buffers and codec contexts that one worker keeps (src/codec/worker_scratch.h)

/// One bytes-to-bytes stage of a codec chain (zstd, gzip, blosc, crc32c, ...). Immutable, stateless, single-threaded.
class PENSTOCK_API byte_codec {
 public:
  virtual ~byte_codec() = default;

  /// The registered name, as metadata spells it.
  virtual std::string_view name() const = 0;
  /// Name and settings for people: `zstd(level=3)`.
  virtual std::string describe() const = 0;

  /// The most bytes that `encode` may produce from `decoded_bytes`.
  virtual std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const = 0;

  /// Decodes all of `encoded`.
  ///
  /// \param out  Room for the most bytes that this stage may decode to; more is `corrupt_data`. May be memory of the
  ///             caller's array, so nothing outside of it is written, whatever `encoded` holds.
  /// \returns What was decoded: a prefix of `out`, or a part of `encoded` where nothing had to move (a checksum).
  /// \error corrupt_data  One sentence that names what disagrees, values last.
  virtual result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                                    worker_scratch& scratch) const = 0;

  /// Encodes all of `decoded` into `out` (at least max_encoded_bytes long); returns the encoded length.
  virtual result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                                       worker_scratch& scratch) const = 0;
};

}  // namespace penstock::inline v0
