// HDF5's filters lzf and lz4: their own frames around two compressors. Source: the filters' registrations with the HDF
// Group (32000, 32004), and h5py's description of LZF.

#include <lz4.h>

#include <cstring>
#include <limits>

#include "codec/codec_members.h"
#include "codec/decode_only.h"

namespace penstock::inline v0 {
namespace {

class lzf_codec final : public decode_only_codec {
 public:
  lzf_codec() : decode_only_codec("hdf5.lzf", "hdf5.lzf") {}

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    const auto* from = reinterpret_cast<const std::uint8_t*>(encoded.data());
    const auto* const end = from + encoded.size();
    auto* const begin = reinterpret_cast<std::uint8_t*>(out.data());
    std::size_t made = 0;
    while (from != end) {
      const std::uint32_t control = *from++;
      if (control < 32) {  // this many bytes and one more follow unchanged
        const std::size_t count = control + 1;
        if (static_cast<std::size_t>(end - from) < count) return damaged("it ends within a run of literals");
        if (out.size() - made < count) return no_room(out, scratch);
        std::memcpy(begin + made, from, count);
        from += count;
        made += count;
        continue;
      }
      std::size_t count = control >> 5;
      if (count == 7) {
        if (from == end) return damaged("it ends within a reference");
        count += *from++;
      }
      count += 2;
      if (from == end) return damaged("it ends within a reference");
      const std::size_t back = ((control & 31) << 8 | *from++) + 1;
      if (back > made) return damaged("a back-reference begins before the output");
      if (out.size() - made < count) return no_room(out, scratch);
      if (back >= count) {
        std::memcpy(begin + made, begin + made - back, count);
      } else {  // the copied bytes may overlap their source
        for (std::size_t i = 0; i < count; ++i) begin[made + i] = begin[made + i - back];
      }
      made += count;
    }
    return std::span<const std::byte>(out.data(), made);
  }

 private:
  error no_room(std::span<std::byte> out, worker_scratch& scratch) const {
    return std::move(take(out, out.size() + std::uint64_t{1}, scratch)).error();
  }
};

class hdf5_lz4_codec final : public decode_only_codec {
 public:
  hdf5_lz4_codec() : decode_only_codec("hdf5.lz4", "hdf5.lz4") {}

  // The decoded size (64 bits) and the size of a block (32 bits), then each block with its encoded size before it, all
  // big-endian. A block that did not shrink is stored unchanged.
  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (encoded.size() < 12) return damaged("its header has 12 bytes");
    PENSTOCK_ASSIGN(const auto room, take(out, load_big(encoded.first(8)), scratch));
    const std::uint64_t block = load_big(encoded.subspan(8, 4));
    encoded = encoded.subspan(12);
    if (block == 0 && !room.empty()) return damaged("blocks of 0 bytes");
    if (block > LZ4_MAX_INPUT_SIZE) return damaged(fmt::format("blocks of {} bytes", block));
    for (std::size_t at = 0; at < room.size();) {
      const std::size_t size = std::min<std::size_t>(static_cast<std::size_t>(block), room.size() - at);
      if (encoded.size() < 4) return damaged("it ends before its last block");
      const std::uint64_t stored = load_big(encoded.first(4));
      encoded = encoded.subspan(4);
      if (stored > encoded.size()) {
        return damaged(fmt::format("a block of {} bytes, there are {}", stored, encoded.size()));
      }
      if (stored == size) {
        std::memcpy(room.data() + at, encoded.data(), size);
      } else {
        const int made = LZ4_decompress_safe(reinterpret_cast<const char*>(encoded.data()),
                                             reinterpret_cast<char*>(room.data() + at), static_cast<int>(stored),
                                             static_cast<int>(size));
        if (made < 0 || static_cast<std::size_t>(made) != size) return damaged("a block is damaged");
      }
      encoded = encoded.subspan(static_cast<std::size_t>(stored));
      at += size;
    }
    return std::span<const std::byte>(room);
  }
};

}  // namespace

result<compiled_codec> make_hdf5_lzf_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_TRY(codec_members::of(config, {}));
  return compressed_stage(std::make_shared<lzf_codec>(), input);
}

result<compiled_codec> make_hdf5_lz4_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_TRY(codec_members::of(config, {}));
  return compressed_stage(std::make_shared<hdf5_lz4_codec>(), input);
}

}  // namespace penstock::inline v0
