#include "cuda/decode/lz4_frame_scan.h"

#include <string>

#include "cuda/decode/lz4_frame.h"

namespace penstock::inline v0::device {
namespace {

error damaged_lz4(const char* what) { return {errc::corrupt_data, std::string("damaged lz4 frame: ") + what}; }

// Removes the blocks that follow a header, and the checksum after them, from `rest`; false: they leave it.
bool skip_blocks(byte_view& rest, const lz4_header& header) {
  const auto take = [&](std::uint32_t bytes) {
    if (rest.size < bytes) return false;
    rest.begin += bytes;
    rest.size -= bytes;
    return true;
  };
  for (;;) {
    if (rest.size < 4) return false;
    const std::uint32_t word = load_bytes(rest.begin, 4), size = word & 0x7fffffffu;
    if (!take(4)) return false;
    if (word == 0) return take(header.content_checksum ? 4 : 0);
    if (size > header.block_bytes || !take(size) || !take(header.block_checksums ? 4 : 0)) return false;
  }
}

}  // namespace

result<> check_lz4_frames(std::span<const std::byte> bytes, std::uint64_t decoded_bytes) {
  byte_view rest{reinterpret_cast<const std::uint8_t*>(bytes.data()), static_cast<std::uint32_t>(bytes.size())};
  if (rest.size == 0) return damaged_lz4("there is none");
  std::uint64_t known = 0;
  while (rest.size != 0) {
    if (rest.size < 8) return damaged_lz4("it ends within a header");
    const std::uint32_t magic = load_bytes(rest.begin, 4);
    if ((magic & 0xfffffff0u) == kSkippableMagic) {
      const std::uint32_t size = load_bytes(rest.begin + 4, 4);
      if (size > rest.size - 8) return damaged_lz4("a skippable frame exceeds the data");
      rest = {rest.begin + 8 + size, rest.size - 8 - size};
      continue;
    }
    lz4_header header;
    if (magic != kLz4Magic || !read_lz4_header(rest, header)) return damaged_lz4("its header is invalid");
    if (header.dictionary) return error{errc::unsupported, "lz4 frames with dictionaries are left to the host"};
    if (header.has_content_bytes && header.content_bytes > decoded_bytes - known)
      return error{errc::corrupt_data, "lz4 frame decodes to " + std::to_string(header.content_bytes) +
                                           " bytes, expected " + std::to_string(decoded_bytes - known)};
    known += header.content_bytes;
    rest = {rest.begin + header.bytes, rest.size - header.bytes};
    if (!skip_blocks(rest, header)) return damaged_lz4("its blocks exceed the data");
  }
  return {};
}

}  // namespace penstock::inline v0::device
