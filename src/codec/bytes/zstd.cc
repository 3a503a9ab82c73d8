#include <fmt/format.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "codec/byte_codecs.h"
#include "codec/codec_members.h"
#include "codec/device_form.h"
#include "codec/library_contexts.h"

namespace penstock::inline v0 {
namespace {

error damaged(std::string_view why) { return {errc::corrupt_data, fmt::format("zstd frame is damaged ({})", why)}; }

error library_error(std::size_t code, std::uint64_t room, const std::byte* frame, std::size_t bytes,
                    worker_scratch& scratch) {
  if (ZSTD_getErrorCode(code) == ZSTD_error_dstSize_tooSmall) {
    scratch.out_of_room = true;
    const unsigned long long says = ZSTD_getFrameContentSize(frame, bytes);
    if (says != ZSTD_CONTENTSIZE_UNKNOWN && says != ZSTD_CONTENTSIZE_ERROR) {
      return {errc::corrupt_data,
              fmt::format("zstd frame declares {} decoded bytes, the output has room for {}", says, room)};
    }
    return {errc::corrupt_data, fmt::format("zstd frame decodes to more than {} bytes", room)};
  }
  if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation) {
    return {errc::resource_exhausted, "the system has no memory for zstd"};
  }
  return damaged(ZSTD_getErrorName(code));
}

// Formats before zstd 1.0 have other magic numbers; a libzstd that was built with their old decoders would run them.
bool is_zstd(const std::byte* at, std::size_t left) noexcept {
  std::uint32_t magic = 0;
  if (left < sizeof magic) return false;
  for (int i = 3; i >= 0; --i) magic = magic << 8 | static_cast<std::uint32_t>(at[i]);
  return magic == ZSTD_MAGICNUMBER || (magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
}

class zstd_codec final : public byte_codec {
 public:
  zstd_codec(int level, bool checksum) noexcept : level_(level), checksum_(checksum) {}

  std::string_view name() const override { return "zstd"; }
  std::string describe() const override {
    return fmt::format("zstd(level={}{})", level_, checksum_ ? ", checksum" : "");
  }
  std::optional<device_form> form_on_device() const override {
    device_form out = device_form::both_ways(device_form::kind::zstd);
    out.level = level_;
    out.checksum = checksum_;
    return out;
  }

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    // Not ZSTD_compressBound: it returns 0 for sizes that libzstd does not accept.
    const std::uint64_t small = 128 * 1024;
    const std::uint64_t margin = decoded_bytes < small ? (small - decoded_bytes) >> 11 : 0;
    return saturating_add(decoded_bytes, (decoded_bytes >> 8) + margin);
  }

  // Single-shot decoding uses `out` as its window, so a frame's window size never causes an allocation.
  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    PENSTOCK_ASSIGN(ZSTD_DCtx* const context, scratch.libraries().zstd_decoder());
    if (encoded.empty()) return damaged("no bytes");
    const std::byte* at = encoded.data();
    std::size_t left = encoded.size(), done = 0;
    while (left > 0) {
      if (!is_zstd(at, left)) return damaged("no zstd magic number");
      const std::size_t frame = ZSTD_findFrameCompressedSize(at, left);
      if (ZSTD_isError(frame)) return damaged(ZSTD_getErrorName(frame));
      const std::size_t made = ZSTD_decompressDCtx(context, out.data() + done, out.size() - done, at, frame);
      if (ZSTD_isError(made)) return library_error(made, out.size() - done, at, frame, scratch);
      done += made;
      at += frame;
      left -= frame;
    }
    return std::span<const std::byte>(out.data(), done);
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch& scratch) const override {
    PENSTOCK_ASSIGN(ZSTD_CCtx* const context, scratch.libraries().zstd_encoder());
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level_);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum_ ? 1 : 0);
    const std::size_t made = ZSTD_compress2(context, out.data(), out.size(), decoded.data(), decoded.size());
    if (ZSTD_isError(made)) {
      const errc code =
          ZSTD_getErrorCode(made) == ZSTD_error_memory_allocation ? errc::resource_exhausted : errc::internal;
      return error{code, fmt::format("zstd cannot encode {} bytes ({})", decoded.size(), ZSTD_getErrorName(made))};
    }
    return made;
  }

 private:
  int level_;
  bool checksum_;
};

}  // namespace

result<compiled_codec> make_zstd_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"level", "checksum"}));
  std::int64_t level = 0;
  if (members.numcodecs()) {
    // numcodecs accepts any level and leaves the limits to the library.
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    PENSTOCK_ASSIGN(level, members.integer("level", -kMost, kMost, 0));
    level = std::clamp<std::int64_t>(level, ZSTD_minCLevel(), ZSTD_maxCLevel());
  } else {
    PENSTOCK_ASSIGN(level, members.integer("level", ZSTD_minCLevel(), ZSTD_maxCLevel()));
  }
  PENSTOCK_ASSIGN(const bool checksum, members.boolean("checksum", false));
  return compressed_stage(std::make_shared<zstd_codec>(static_cast<int>(level), checksum), input);
}

}  // namespace penstock::inline v0
