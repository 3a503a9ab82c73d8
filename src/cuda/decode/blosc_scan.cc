#include "cuda/decode/blosc_scan.h"

#include <algorithm>
#include <string>

namespace penstock::inline v0::device {
namespace {

constexpr std::uint32_t kBloscHeaderBytes = 16;
constexpr std::uint32_t kShuffle = 1, kCopy = 2, kBitShuffle = 4, kReserved = 8, kWhole = 16;

error damaged_blosc(const char* what) { return {errc::corrupt_data, std::string("damaged blosc frame: ") + what}; }

std::uint32_t number(std::span<const std::byte> bytes, std::uint64_t at) {
  std::uint32_t value = 0;
  for (unsigned i = 4; i-- > 0;) value = value << 8 | static_cast<std::uint32_t>(bytes[at + i]);
  return value;
}

// The splits of the block of `size` bytes that begins at `at` of the frame and `start` of the content.
result<> scan_block(std::span<const std::byte> bytes, std::uint64_t at, std::uint32_t start, std::uint32_t size,
                    std::uint32_t splits, blosc_frame& frame) {
  if (size % splits != 0) return damaged_blosc("a block does not divide into its splits");
  const std::uint32_t each = size / splits;
  for (std::uint32_t i = 0; i < splits; ++i) {
    if (at > bytes.size() || bytes.size() - at < 4) return damaged_blosc("a split begins after the end");
    const std::uint32_t length = number(bytes, at);
    at += 4;
    if (length == 0 || length > bytes.size() - at) return damaged_blosc("a split ends after the end");
    frame.splits.push_back({static_cast<std::uint32_t>(at), length, start + i * each, each, length == each});
    at += length;
  }
  return {};
}

}  // namespace

result<blosc_frame> scan_blosc(std::span<const std::byte> bytes, std::uint64_t decoded_bytes) {
  if (bytes.size() < kBloscHeaderBytes || bytes.size() > 0xffffffffu) return damaged_blosc("no header");
  const auto byte = [&](std::size_t at) { return static_cast<std::uint32_t>(bytes[at]); };
  const std::uint32_t flags = byte(2), size = number(bytes, 4), block = number(bytes, 8);
  blosc_frame frame;
  frame.item_bytes = byte(3);
  if (byte(0) != 2) return damaged_blosc("not of format version 2");
  if (number(bytes, 12) != bytes.size()) return damaged_blosc("its length differs from the length in its header");
  if (size != decoded_bytes) return damaged_blosc("its decoded size differs from that of the chunk");
  if ((flags & kReserved) != 0) return damaged_blosc("an undefined flag");
  if (flags >> 5 > 4) return damaged_blosc("an unknown compressor");
  frame.compressor = static_cast<blosc_compressor>(flags >> 5);
  if (size == 0) return frame;
  if (frame.item_bytes == 0) return damaged_blosc("items of 0 bytes");
  if (block == 0 || block > size) return damaged_blosc("its block size is invalid");
  if ((flags & kCopy) != 0) {
    if (bytes.size() != std::uint64_t{size} + kBloscHeaderBytes) return damaged_blosc("a plain copy of another length");
    frame.splits.push_back({kBloscHeaderBytes, size, 0, size, true});
    return frame;
  }
  if (byte(1) != 1) return damaged_blosc("its compressor's format has an unknown version");
  const std::uint64_t blocks = (std::uint64_t{size} + block - 1) / block, first = kBloscHeaderBytes + 4 * blocks;
  if (first > bytes.size()) return damaged_blosc("no room for its blocks");
  if (blocks > 1024 + decoded_bytes / 512)
    return error{errc::unsupported, "blosc blocks this small are left to the host"};
  const bool shuffles = (flags & kShuffle) != 0 && frame.item_bytes > 1;
  if (shuffles) frame.shuffle = transform_kind::unshuffle;
  if (!shuffles && (flags & kBitShuffle) != 0 && block >= frame.item_bytes)
    frame.shuffle = transform_kind::unbitshuffle;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const auto start = static_cast<std::uint32_t>(i * block), length = std::min(block, size - start);
    const std::uint32_t at = number(bytes, kBloscHeaderBytes + 4 * i);
    if (at < first) return damaged_blosc("a block begins inside the header");
    const bool splits =
        (flags & kWhole) == 0 && frame.item_bytes <= 16 && length / frame.item_bytes >= 128 && length == block;
    PENSTOCK_TRY(scan_block(bytes, at, start, length, splits ? frame.item_bytes : 1, frame));
    if (frame.shuffle != transform_kind::copy) frame.blocks.push_back({start, length});
  }
  return frame;
}

}  // namespace penstock::inline v0::device
