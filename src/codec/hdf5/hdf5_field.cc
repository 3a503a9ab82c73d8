// hdf5.field: one member of each compound.

#include <cstring>

#include "base/checked.h"
#include "codec/codec_members.h"
#include "codec/decode_only.h"

namespace penstock::inline v0 {
namespace {

class field_codec final : public decode_only_codec {
 public:
  field_codec(std::size_t item, std::size_t offset, std::size_t bytes)
      : decode_only_codec("hdf5.field", fmt::format("hdf5.field({} bytes at {} of {})", bytes, offset, item)),
        item_(item),
        offset_(offset),
        bytes_(bytes) {}

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return saturating_mul(decoded_bytes / bytes_ + 1, item_);
  }
  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (encoded.size() % item_ != 0)
      return damaged(fmt::format("{} bytes are not a multiple of an item's {}", encoded.size(), item_));
    const std::size_t count = encoded.size() / item_;
    PENSTOCK_ASSIGN(const auto room, take(out, std::uint64_t{count} * bytes_, scratch));
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(room.data() + i * bytes_, encoded.data() + i * item_ + offset_, bytes_);
    return std::span<const std::byte>(room);
  }

 private:
  std::size_t item_, offset_, bytes_;
};

}  // namespace

result<compiled_codec> make_hdf5_field_codec(const codec_config& config, const stage_type& input) {
  constexpr std::int64_t kMostItemBytes = std::int64_t{1} << 28;
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"elementsize", "offset", "bytes"}));
  PENSTOCK_ASSIGN(const std::int64_t item, members.integer("elementsize", 1, kMostItemBytes));
  PENSTOCK_ASSIGN(const std::int64_t bytes, members.integer("bytes", 1, item));
  PENSTOCK_ASSIGN(const std::int64_t offset, members.integer("offset", 0, item - bytes));
  return compressed_stage(
      std::make_shared<field_codec>(static_cast<std::size_t>(item), static_cast<std::size_t>(offset),
                                    static_cast<std::size_t>(bytes)),
      input);
}

}  // namespace penstock::inline v0
