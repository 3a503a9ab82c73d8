// Bitshuffle in the frames of HDF5's filter 32008: alone, or around LZ4 or zstd. Source: the filter's registration with
// the HDF Group, and the layout that bitshuffle documents.

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "codec/codec_members.h"
#include "codec/decode_only.h"
#include "codec/device_form.h"
#include "codec/filters/bit_planes.h"
#include "codec/library_contexts.h"

namespace penstock::inline v0 {
namespace {

enum class inner : std::uint8_t { none, lz4, zstd };
constexpr std::array<std::string_view, 3> kInner = {"none", "lz4", "zstd"};

constexpr std::size_t kDefaultBlockBytes = 8192, kLeastBlock = 128;

class bitshuffle_codec final : public decode_only_codec {
 public:
  bitshuffle_codec(std::size_t item, std::size_t block, inner kind)
      : decode_only_codec("hdf5.bitshuffle",
                          fmt::format("hdf5.bitshuffle(elementsize={}, blocksize={}, compression={})", item, block,
                                      kInner[static_cast<std::size_t>(kind)])),
        item_(item),
        block_(block),
        kind_(kind) {}

  std::optional<device_form> form_on_device() const override {
    using inside = device_form::block_codec;
    if (item_ > kMostDeviceItemBytes) return device_form::of(device_form::kind::other_settings);
    device_form out = device_form::of(device_form::kind::hdf5_bitshuffle);
    out.item_bytes = static_cast<std::uint32_t>(item_);
    out.block_items = static_cast<std::uint32_t>(block_);
    out.inside = kind_ == inner::lz4 ? inside::lz4 : kind_ == inner::zstd ? inside::zstd : inside::none;
    return out;
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    std::uint64_t bytes = encoded.size();
    std::size_t block = block_ == 0 ? default_block() : block_;
    if (kind_ != inner::none) {
      if (encoded.size() < 12) return damaged("its header has 12 bytes");
      bytes = load_big(encoded.first(8));
      const std::uint64_t block_bytes = load_big(encoded.subspan(8, 4));
      if (block_bytes != 0) block = static_cast<std::size_t>(block_bytes) / item_;
      encoded = encoded.subspan(12);
    }
    PENSTOCK_ASSIGN(const auto room, take(out, bytes, scratch));
    if (block == 0 || block % kBitGroup != 0) return damaged(fmt::format("blocks of {} elements", block));
    if (room.size() % item_ != 0) {
      return damaged(fmt::format("{} bytes are not a multiple of an element's {}", room.size(), item_));
    }
    std::size_t left = room.size() / item_;
    std::byte* to = room.data();
    while (left >= kBitGroup) {
      const std::size_t count = std::min(block, left - left % kBitGroup);
      PENSTOCK_ASSIGN(const auto planes, next_block(encoded, count * item_, scratch));
      unshuffle_bits(reinterpret_cast<const std::uint8_t*>(planes.data()), reinterpret_cast<std::uint8_t*>(to), count,
                     item_);
      to += count * item_;
      left -= count;
    }
    // A rest of fewer than eight elements is at the end, unchanged.
    if (encoded.size() < left * item_) return damaged("it ends before its last elements");
    if (left != 0) std::memcpy(to, encoded.data(), left * item_);
    return std::span<const std::byte>(room);
  }

 private:
  std::size_t default_block() const noexcept {
    return std::max(kDefaultBlockBytes / item_ / kBitGroup * kBitGroup, kLeastBlock);
  }

  // The bit planes of the next block; removes their encoded bytes from `encoded`.
  result<std::span<const std::byte>> next_block(std::span<const std::byte>& encoded, std::size_t bytes,
                                                worker_scratch& scratch) const {
    std::size_t stored = bytes;
    if (kind_ != inner::none) {
      if (encoded.size() < 4) return damaged("it ends before its last block");
      stored = static_cast<std::size_t>(load_big(encoded.first(4)));
      encoded = encoded.subspan(4);
    }
    if (stored > encoded.size()) {
      return damaged(fmt::format("a block of {} bytes, there are {}", stored, encoded.size()));
    }
    const std::span<const std::byte> from = encoded.first(stored);
    encoded = encoded.subspan(stored);
    if (kind_ == inner::none) return from;
    PENSTOCK_ASSIGN(const auto planes, scratch.libraries().nested().stage(0).reserve(bytes));
    bool whole = false;
    if (kind_ == inner::lz4) {
      if (stored > LZ4_MAX_INPUT_SIZE || bytes > LZ4_MAX_INPUT_SIZE) return damaged("a block is too large");
      const int made =
          LZ4_decompress_safe(reinterpret_cast<const char*>(from.data()), reinterpret_cast<char*>(planes.data()),
                              static_cast<int>(stored), static_cast<int>(bytes));
      whole = made >= 0 && static_cast<std::size_t>(made) == bytes;
    } else {
      PENSTOCK_ASSIGN(ZSTD_DCtx* const context, scratch.libraries().zstd_decoder());
      whole = ZSTD_decompressDCtx(context, planes.data(), bytes, from.data(), stored) == bytes;
    }
    if (!whole) return damaged("a block is damaged");
    return std::span<const std::byte>(planes.data(), bytes);
  }

  std::size_t item_, block_;
  inner kind_;
};

}  // namespace

result<compiled_codec> make_hdf5_bitshuffle_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"elementsize", "blocksize", "compression"}));
  PENSTOCK_ASSIGN(const std::int64_t item, members.integer("elementsize", 1, std::int64_t{1} << 20));
  PENSTOCK_ASSIGN(const std::int64_t block, members.integer("blocksize", 0, std::int64_t{1} << 31, 0));
  PENSTOCK_ASSIGN(const std::size_t kind, members.choice("compression", kInner, 0));
  return compressed_stage(std::make_shared<bitshuffle_codec>(static_cast<std::size_t>(item),
                                                             static_cast<std::size_t>(block), static_cast<inner>(kind)),
                          input);
}

}  // namespace penstock::inline v0
