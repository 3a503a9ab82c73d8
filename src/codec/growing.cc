// Default implementations of a codec: it decodes into memory that grows as needed, and has no form for devices.

#include <algorithm>

#include <penstock/extend/codec.h>
#include "base/buffer.h"
#include "codec/device_form.h"
#include "codec/worker_scratch.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kFirstRoom = std::uint64_t{64} << 10;
constexpr std::uint64_t kGrowth = 4;  // repeated decoding adds up to a third at most

}  // namespace

std::optional<device_form> byte_codec::form_on_device() const { return std::nullopt; }

result<std::span<const std::byte>> byte_codec::decode_growing(std::span<const std::byte> encoded, buffer& room,
                                                              worker_scratch& scratch) const {
  std::uint64_t bytes = std::max<std::uint64_t>({kFirstRoom, kGrowth * encoded.size(), room.capacity()});
  while (true) {
    PENSTOCK_ASSIGN(const std::span<std::byte> out, room.reserve(bytes));
    scratch.out_of_room = false;
    auto decoded = decode(encoded, out, scratch);
    if (decoded.ok() || !scratch.out_of_room) return decoded;
    bytes = std::max<std::uint64_t>(out.size(), bytes) * kGrowth;  // the ledger limits this
  }
}

result<std::span<const std::byte>> byte_codec::encode_growing(std::span<const std::byte> decoded, buffer& room,
                                                              worker_scratch& scratch) const {
  PENSTOCK_ASSIGN(const std::span<std::byte> out, room.reserve(max_encoded_bytes(decoded.size())));
  PENSTOCK_ASSIGN(const std::uint64_t length, encode(decoded, out, scratch));
  return std::span<const std::byte>(out.data(), length);
}

}  // namespace penstock::inline v0
