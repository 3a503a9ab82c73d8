#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <penstock/result.h>

namespace penstock::inline v0 {

struct device_form;    // what an engine needs to run a codec elsewhere (src/codec/device_form.h)
class buffer;          // memory that grows, counted in a ledger (src/base/buffer.h)
class worker_scratch;  // buffers and codec contexts that one worker keeps (src/codec/worker_scratch.h)

/// A bound that nobody knows.
inline constexpr std::uint64_t kUnbounded = std::numeric_limits<std::uint64_t>::max();

/// One stage of a codec chain, from buffer to buffer (zstd, gzip, crc32c, delta, vlen-utf8, ...): the C-order bytes of
/// an array, or bytes. Immutable, stateless, single-threaded.
class PENSTOCK_API byte_codec {
 public:
  virtual ~byte_codec() = default;

  /// The registered name, as metadata spells it.
  virtual std::string_view name() const = 0;
  /// Name and settings for people: `zstd(level=3)`.
  virtual std::string describe() const = 0;

  /// The most bytes that `encode` may produce from `decoded_bytes`; kUnbounded where the number of bytes does not say.
  virtual std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const = 0;

  /// Decodes all of `encoded`.
  ///
  /// \param out  Room for the most bytes that this stage may decode to; more is `corrupt_data`, and sets
  ///             `scratch.out_of_room`. May be memory of the caller's array, so nothing outside of it is written,
  ///             whatever `encoded` holds.
  /// \returns What was decoded: a prefix of `out`, or a part of `encoded` where nothing had to move (a checksum).
  /// \error corrupt_data  One sentence that names what disagrees, values last.
  virtual result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                                    worker_scratch& scratch) const = 0;

  /// Encodes all of `decoded` into `out` (at least max_encoded_bytes long); returns the encoded length.
  virtual result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                                       worker_scratch& scratch) const = 0;

  /// Decodes where no bound is known: into `room`, which grows by need, as far as its ledger allows.
  ///
  /// This one decodes again into four times the room as long as `scratch.out_of_room` is set.
  virtual result<std::span<const std::byte>> decode_growing(std::span<const std::byte> encoded, buffer& room,
                                                            worker_scratch& scratch) const;

  /// Encodes into `room`, which grows by need. This one reserves max_encoded_bytes; codecs without that bound have
  /// their own.
  virtual result<std::span<const std::byte>> encode_growing(std::span<const std::byte> decoded, buffer& room,
                                                            worker_scratch& scratch) const;

  /// `decode` returns a part of `encoded` and needs no room (a checksum).
  virtual bool decodes_in_place() const noexcept { return false; }

  /// What the codec does, for engines that run it on a device. None, which is what this one returns: no device has it.
  virtual std::optional<device_form> form_on_device() const;

  /// The work is done by Python, whose lock the calling thread must not hold while it waits for others.
  virtual bool via_python() const noexcept { return false; }
};

}  // namespace penstock::inline v0
