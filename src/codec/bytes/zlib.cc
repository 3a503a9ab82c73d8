#include <fmt/format.h>
#include <libdeflate.h>

#include "codec/byte_codecs.h"
#include "codec/codec_members.h"
#include "codec/device_form.h"
#include "codec/library_contexts.h"

namespace penstock::inline v0 {
namespace {

constexpr int kLibraryDefault = 6;  // zlib's choice for level -1

class zlib_codec final : public byte_codec {
 public:
  zlib_codec(int level, bool padded) noexcept : level_(level), padded_(padded) {}

  std::string_view name() const override { return "zlib"; }
  std::string describe() const override { return fmt::format("zlib(level={})", level_); }
  std::optional<device_form> form_on_device() const override { return device_form::of(device_form::kind::zlib); }

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 62;  // beyond it libdeflate's sum would wrap
    if (decoded_bytes > kMost) return kUnbounded;
    return libdeflate_zlib_compress_bound(nullptr, decoded_bytes);  // null: the bound of every level
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    PENSTOCK_ASSIGN(libdeflate_decompressor* const context, scratch.libraries().gzip_decoder());
    std::size_t used = 0, made = 0;
    switch (
        libdeflate_zlib_decompress_ex(context, encoded.data(), encoded.size(), out.data(), out.size(), &used, &made)) {
      case LIBDEFLATE_SUCCESS:
        break;
      case LIBDEFLATE_INSUFFICIENT_SPACE:
        scratch.out_of_room = true;
        return error{errc::corrupt_data, fmt::format("zlib stream decodes to more than {} bytes", out.size())};
      default:
        return error{errc::corrupt_data,
                     fmt::format("zlib stream of {} bytes is damaged or ends early", encoded.size())};
    }
    if (used != encoded.size() && !padded_) {
      return error{errc::corrupt_data,
                   fmt::format("zlib stream ends after {} bytes, there are {}", used, encoded.size())};
    }
    return std::span<const std::byte>(out.data(), made);
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch& scratch) const override {
    const int level = level_ < 0 ? kLibraryDefault : level_;
    PENSTOCK_ASSIGN(libdeflate_compressor* const context, scratch.libraries().gzip_encoder(level));
    const std::size_t made = libdeflate_zlib_compress(context, decoded.data(), decoded.size(), out.data(), out.size());
    if (made == 0) {
      return error{errc::internal, fmt::format("zlib cannot encode {} bytes into {}", decoded.size(), out.size())};
    }
    return made;
  }

 private:
  int level_;
  bool padded_;  // bytes may follow the stream
};

result<compiled_codec> make_zlib(const codec_config& config, const stage_type& input, bool padded) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"level"}));
  PENSTOCK_ASSIGN(const std::int64_t level, members.integer("level", -1, 9, 1));
  return compressed_stage(std::make_shared<zlib_codec>(static_cast<int>(level), padded), input);
}

}  // namespace

result<compiled_codec> make_zlib_codec(const codec_config& config, const stage_type& input) {
  return make_zlib(config, input, false);
}

result<compiled_codec> make_padded_zlib_codec(const codec_config& config, const stage_type& input) {
  return make_zlib(config, input, true);
}

}  // namespace penstock::inline v0
