#pragma once

// For tests and fuzz targets only: shards made by hand, and an index_lookup over a map. Nothing here uses the codecs,
// so that a mistake in them does not cancel out.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "format/zarr/zarr_layout.h"

namespace penstock::inline v0 {

/// Indexes by object and node.
class index_map final : public index_lookup {
 public:
  const index_entry* find(const index_key& key) const override {
    ++finds;
    const auto at = entries.find({key.object, key.node});
    return at == entries.end() ? nullptr : &at->second;
  }
  void put(const index_key& key, index_ptr block) { entries[{key.object, key.node}].block = std::move(block); }

  std::map<std::pair<std::uint64_t, std::uint64_t>, index_entry> entries;
  mutable std::uint64_t finds = 0;
};

/// CRC-32C one bit at a time. Source: RFC 3720, appendix B.4.
inline std::uint32_t slow_crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const std::byte byte : bytes) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

inline void append_crc32c(std::vector<std::byte>& bytes) {
  const std::uint32_t crc = slow_crc32c(bytes);
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(crc >> 8 * i));
}

inline constexpr std::uint64_t kNoChunk = ~std::uint64_t{0};
using index_pairs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

/// Offset and length of each entry, as `bytes(little or big)` writes them, and `checksums` times crc32c.
inline std::vector<std::byte> index_bytes(const index_pairs& pairs, int checksums = 1, bool big_endian = false) {
  std::vector<std::byte> out;
  for (const auto& [offset, length] : pairs) {
    for (const std::uint64_t word : {offset, length}) {
      for (int i = 0; i < 8; ++i) out.push_back(static_cast<std::byte>(word >> 8 * (big_endian ? 7 - i : i)));
    }
  }
  for (int i = 0; i < checksums; ++i) append_crc32c(out);
  return out;
}

/// The bytes of a request for `range` of `object`; empty if it exceeds the object.
inline std::span<const std::byte> bytes_of(std::span<const std::byte> object, const byte_range& range) {
  if (range.whole()) return object;
  if (range.length > object.size()) return {};
  if (range.from_end) return object.last(range.length);
  if (range.offset > object.size() - range.length) return {};
  return object.subspan(range.offset, range.length);
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace penstock::inline v0
