#include "cuda/decode/bitshuffle_scan.h"

#include <algorithm>
#include <string>

namespace penstock::inline v0::device {
namespace {

constexpr std::uint64_t kBitshuffleHeaderBytes = 12, kGroup = 8;  // elements whose bits share a byte
constexpr std::uint64_t kDefaultBlockBytes = 8192, kLeastBlock = 128;

error damaged_bitshuffle(const char* what) {
  return {errc::corrupt_data, std::string("damaged bitshuffle data: ") + what};
}

std::uint64_t big_number(std::span<const std::byte> bytes, std::uint64_t at, int count) {
  std::uint64_t value = 0;
  for (int i = 0; i < count; ++i) value = value << 8 | static_cast<std::uint64_t>(bytes[at + static_cast<unsigned>(i)]);
  return value;
}

}  // namespace

result<blosc_frame> scan_bitshuffle(std::span<const std::byte> bytes, std::uint64_t decoded_bytes,
                                    std::uint32_t item_bytes, std::uint64_t block_elements, bool compressed,
                                    blosc_compressor compressor) {
  blosc_frame frame;
  frame.compressor = compressor;
  frame.shuffle = transform_kind::unbitshuffle;
  frame.item_bytes = item_bytes;
  std::uint64_t block = block_elements, at = 0;
  if (block == 0) block = std::max(kDefaultBlockBytes / item_bytes / kGroup * kGroup, kLeastBlock);
  if (compressed) {
    if (bytes.size() < kBitshuffleHeaderBytes) return damaged_bitshuffle("no header");
    if (big_number(bytes, 0, 8) != decoded_bytes)
      return damaged_bitshuffle("its decoded size differs from that of the chunk");
    if (const std::uint64_t block_bytes = big_number(bytes, 8, 4); block_bytes != 0) block = block_bytes / item_bytes;
    at = kBitshuffleHeaderBytes;
  } else if (bytes.size() != decoded_bytes) {
    return damaged_bitshuffle("its decoded size differs from that of the chunk");
  }
  if (block == 0 || block % kGroup != 0)
    return damaged_bitshuffle("blocks whose size is not a multiple of eight elements");
  if (decoded_bytes % item_bytes != 0) return damaged_bitshuffle("its size is not a multiple of the element size");
  const std::uint64_t elements = decoded_bytes / item_bytes, grouped = elements - elements % kGroup;
  if ((grouped + block - 1) / block > 1024 + decoded_bytes / 512)
    return error{errc::unsupported, "bitshuffle blocks this small are left to the host"};
  for (std::uint64_t done = 0; done < grouped; done += block) {
    const auto start = static_cast<std::uint32_t>(done * item_bytes);
    const auto size = static_cast<std::uint32_t>(std::min(block, grouped - done) * item_bytes);
    frame.blocks.push_back({start, size});
    if (!compressed) continue;
    if (bytes.size() - at < 4) return damaged_bitshuffle("it ends before its last block");
    const std::uint64_t stored = big_number(bytes, at, 4);
    at += 4;
    if (stored > bytes.size() - at) return damaged_bitshuffle("a block ends after the end");
    frame.splits.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(stored), start, size, false});
    at += stored;
  }
  const auto left = static_cast<std::uint32_t>((elements - grouped) * item_bytes);
  if (left == 0) return frame;
  const auto start = static_cast<std::uint32_t>(grouped * item_bytes);
  frame.blocks.push_back({start, left});
  if (!compressed) return frame;
  if (bytes.size() - at < left) return damaged_bitshuffle("it ends before its last elements");
  frame.splits.push_back({static_cast<std::uint32_t>(at), left, start, left, true});
  return frame;
}

}  // namespace penstock::inline v0::device
