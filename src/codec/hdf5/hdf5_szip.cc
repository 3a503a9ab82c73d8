// HDF5's filter szip: the decoded size (32 bits, little-endian), then one stream of the CCSDS lossless coder, which
// libaec decodes through the interface of the szip library.

// Headers of libaec before 1.1 do not declare these functions as C.
extern "C" {
#include <szlib.h>
}

#include <limits>

#include "codec/codec_members.h"
#include "codec/decode_only.h"

namespace penstock::inline v0 {
namespace {

class szip_codec final : public decode_only_codec {
 public:
  explicit szip_codec(const SZ_com_t& parameters)
      : decode_only_codec("hdf5.szip", fmt::format("hdf5.szip(bits={}, block={})", parameters.bits_per_pixel,
                                                   parameters.pixels_per_block)),
        parameters_(parameters) {}

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (encoded.size() < 4) return damaged("its header has 4 bytes");
    PENSTOCK_ASSIGN(const auto room, take(out, load_little(encoded.first(4)), scratch));
    encoded = encoded.subspan(4);
    if (room.empty()) return std::span<const std::byte>(room);
    // The library splits these samples into bytes, and would leave the last samples of a block unchanged.
    const auto sample_bytes = static_cast<std::size_t>(parameters_.bits_per_pixel / 8);
    if (sample_bytes >= 4 && room.size() % sample_bytes != 0) {
      return damaged(fmt::format("samples have {} bytes, the header has {} in total", sample_bytes, room.size()));
    }
    SZ_com_t parameters = parameters_;
    std::size_t made = room.size();
    const int status = SZ_BufftoBuffDecompress(room.data(), &made, encoded.data(), encoded.size(), &parameters);
    if (status != SZ_OK) return damaged(fmt::format("the library returned {}", status));
    if (made != room.size())
      return damaged(fmt::format("it decodes to {} bytes, its header has {}", made, room.size()));
    return std::span<const std::byte>(room);
  }

 private:
  SZ_com_t parameters_;
};

}  // namespace

result<compiled_codec> make_hdf5_szip_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"options", "block", "bits", "scanline"}));
  PENSTOCK_ASSIGN(const std::int64_t options, members.integer("options", 0, std::numeric_limits<std::int32_t>::max()));
  PENSTOCK_ASSIGN(const std::int64_t block, members.integer("block", 2, 32));
  PENSTOCK_ASSIGN(const std::int64_t bits, members.integer("bits", 1, 64));
  PENSTOCK_ASSIGN(const std::int64_t line, members.integer("scanline", 1, std::int64_t{1} << 20));
  if (bits > 32 && bits != 64) {
    return error{errc::corrupt_data, fmt::format("codec 'hdf5.szip' has 'bits' {}, 1 to 32 or 64 are", bits)};
  }
  SZ_com_t parameters{};
  parameters.options_mask = static_cast<int>(options);
  parameters.bits_per_pixel = static_cast<int>(bits);
  parameters.pixels_per_block = static_cast<int>(block);
  parameters.pixels_per_scanline = static_cast<int>(line);
  return compressed_stage(std::make_shared<szip_codec>(parameters), input);
}

}  // namespace penstock::inline v0
