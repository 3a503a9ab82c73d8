#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <limits>

#include "codec/byte_codecs.h"
#include "codec/codec_members.h"
#include "codec/device_form.h"
#include "codec/library_contexts.h"

namespace penstock::inline v0 {
namespace {

bool all_zero(const std::byte* at, std::size_t bytes) noexcept {
  return std::all_of(at, at + bytes, [](std::byte b) { return b == std::byte{0}; });
}

class gzip_codec final : public byte_codec {
 public:
  explicit gzip_codec(int level) noexcept : level_(level) {}

  std::string_view name() const override { return "gzip"; }
  std::string describe() const override { return fmt::format("gzip(level={})", level_); }
  std::optional<device_form> form_on_device() const override { return device_form::of(device_form::kind::gzip); }

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 62;  // beyond it libdeflate's sum would wrap
    if (decoded_bytes > kMost) return std::numeric_limits<std::uint64_t>::max();
    return libdeflate_gzip_compress_bound(nullptr, decoded_bytes);  // null: the bound of every level
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    PENSTOCK_ASSIGN(libdeflate_decompressor* const context, scratch.libraries().gzip_decoder());
    const std::byte* at = encoded.data();
    std::size_t left = encoded.size(), done = 0;
    do {
      std::size_t used = 0, made = 0;
      switch (libdeflate_gzip_decompress_ex(context, at, left, out.data() + done, out.size() - done, &used, &made)) {
        case LIBDEFLATE_SUCCESS:
          break;
        case LIBDEFLATE_INSUFFICIENT_SPACE:
          scratch.out_of_room = true;
          return error{errc::corrupt_data, fmt::format("gzip stream decodes to more than {} bytes", out.size())};
        default:
          return error{errc::corrupt_data, fmt::format("gzip stream is damaged or ends early, in the member at byte {}",
                                                       encoded.size() - left)};
      }
      done += made;
      at += used;
      left -= used;
      // gzip files may be padded with zeros (RFC 1952 readers skip them, Python's too).
    } while (left > 0 && !(*at == std::byte{0} && all_zero(at, left)));
    return std::span<const std::byte>(out.data(), done);
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch& scratch) const override {
    PENSTOCK_ASSIGN(libdeflate_compressor* const context, scratch.libraries().gzip_encoder(level_));
    const std::size_t made = libdeflate_gzip_compress(context, decoded.data(), decoded.size(), out.data(), out.size());
    if (made == 0) {
      return error{errc::internal, fmt::format("gzip cannot encode {} bytes into {}", decoded.size(), out.size())};
    }
    return made;
  }

 private:
  int level_;
};

}  // namespace

result<compiled_codec> make_gzip_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"level"}));
  std::int64_t level = 0;
  if (members.numcodecs()) {
    PENSTOCK_ASSIGN(level, members.integer("level", -1, 9, 1));
    if (level < 0) level = 6;  // zlib's default
  } else {
    PENSTOCK_ASSIGN(level, members.integer("level", 0, 9));
  }
  return compressed_stage(std::make_shared<gzip_codec>(static_cast<int>(level)), input);
}

}  // namespace penstock::inline v0
