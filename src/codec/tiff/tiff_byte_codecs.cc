#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/buffer.h"
#include "codec/codec_chain.h"
#include "codec/device_form.h"
#include "codec/library_contexts.h"
#include "codec/tiff/tiff_codecs.h"

namespace penstock::inline v0 {
namespace {

class decoding_codec : public byte_codec {
 public:
  explicit decoding_codec(std::string_view name) noexcept : name_(name) {}
  std::string_view name() const override { return name_; }
  std::string describe() const override { return std::string(name_.substr(name_.find('.') + 1)); }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override { return 2 * decoded_bytes + 1024; }
  result<std::uint64_t> encode(std::span<const std::byte>, std::span<std::byte>, worker_scratch&) const override {
    return error{errc::unsupported, fmt::format("{} is only decoded", describe())};
  }

 private:
  std::string_view name_;
};

class tiff_packbits_codec final : public decoding_codec {
 public:
  tiff_packbits_codec() noexcept : decoding_codec("tiff.packbits") {}
  std::optional<device_form> form_on_device() const override {
    return device_form::of(device_form::kind::tiff_packbits);
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch&) const override {
    std::size_t at = 0, made = 0;
    while (at < encoded.size() && made < out.size()) {
      const auto head = static_cast<std::uint8_t>(encoded[at++]);
      if (head == 128) continue;
      if (head < 128) {
        const std::size_t count = std::min<std::size_t>(head + 1U, out.size() - made);
        if (encoded.size() - at < count) {
          return error{errc::corrupt_data, fmt::format("PackBits run of {} bytes at byte {} exceeds the {} available",
                                                       count, at, encoded.size())};
        }
        std::memcpy(out.data() + made, encoded.data() + at, count);
        at += head + 1U;
        made += count;
      } else {
        if (at == encoded.size()) return error{errc::corrupt_data, "PackBits stream ends within a run"};
        const std::size_t count = std::min<std::size_t>(257U - head, out.size() - made);
        std::memset(out.data() + made, static_cast<int>(encoded[at++]), count);
        made += count;
      }
    }
    return std::span<const std::byte>(out.first(made));
  }
};

class bit_reversal_codec final : public decoding_codec {
 public:
  bit_reversal_codec() noexcept : decoding_codec("tiff.bit_reversal") {}
  std::optional<device_form> form_on_device() const override {
    return device_form::of(device_form::kind::reversed_bits);
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch&) const override {
    if (encoded.size() > out.size()) {
      return error{errc::corrupt_data, fmt::format("{} bytes, at most {} can be needed", encoded.size(), out.size())};
    }
    std::transform(encoded.begin(), encoded.end(), out.begin(),
                   [](std::byte each) { return kReversed[static_cast<std::uint8_t>(each)]; });
    return std::span<const std::byte>(out.first(encoded.size()));
  }

 private:
  static constexpr auto kReversed = [] {
    std::array<std::byte, 256> made{};
    for (unsigned i = 0; i < 256; ++i) {
      unsigned reversed = 0;
      for (unsigned bit = 0; bit < 8; ++bit) reversed |= (i >> bit & 1U) << (7 - bit);
      made[i] = static_cast<std::byte>(reversed);
    }
    return made;
  }();
};

/// Twice the needed size is more than any writer adds (usually rows beyond the image).
constexpr std::uint64_t with_margin(std::uint64_t needed) noexcept { return 2 * needed + (std::uint64_t{64} << 10); }

std::span<const std::byte> keep_needed(std::span<const std::byte> all, std::span<std::byte> out) noexcept {
  const std::size_t made = std::min(all.size(), out.size());
  std::memcpy(out.data(), all.data(), made);
  return out.first(made);
}

class deflate_codec final : public decoding_codec {
 public:
  deflate_codec() noexcept : decoding_codec("tiff.deflate") {}
  std::optional<device_form> form_on_device() const override {
    return device_form::of(device_form::kind::tiff_deflate);
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    PENSTOCK_ASSIGN(libdeflate_decompressor* const context, scratch.libraries().gzip_decoder());
    // Bytes after the stream are ignored: some writers pad it.
    std::size_t used = 0, made = 0;
    libdeflate_result code =
        libdeflate_zlib_decompress_ex(context, encoded.data(), encoded.size(), out.data(), out.size(), &used, &made);
    if (code == LIBDEFLATE_SUCCESS) return std::span<const std::byte>(out.first(made));
    if (code == LIBDEFLATE_INSUFFICIENT_SPACE) {
      buffer room;
      PENSTOCK_ASSIGN(const std::span<std::byte> wider, room.reserve(with_margin(out.size())));
      code = libdeflate_zlib_decompress_ex(context, encoded.data(), encoded.size(), wider.data(), wider.size(), &used,
                                           &made);
      if (code == LIBDEFLATE_SUCCESS) return keep_needed(wider.first(made), out);
    }
    return error{errc::corrupt_data,
                 fmt::format("deflate stream of {} bytes is damaged or ends early", encoded.size())};
  }
};

/// A codec of the registry, whose streams may hold more than is needed.
class generous_codec final : public decoding_codec {
 public:
  generous_codec(std::string_view name, std::shared_ptr<const byte_codec> inner) noexcept
      : decoding_codec(name), inner_(std::move(inner)) {}
  std::optional<device_form> form_on_device() const override {
    if (inner_->name() != "zstd") return device_form::of(device_form::kind::other_settings);
    return device_form::of(device_form::kind::zstd);
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    scratch.out_of_room = false;
    auto decoded = inner_->decode(encoded, out, scratch);
    if (decoded.ok() || !scratch.out_of_room) return decoded;
    buffer room;
    scratch.out_of_room = false;
    PENSTOCK_ASSIGN(const std::span<std::byte> wider, room.reserve(with_margin(out.size())));
    PENSTOCK_ASSIGN(const auto all, inner_->decode(encoded, wider, scratch));
    return keep_needed(all, out);
  }

 private:
  std::shared_ptr<const byte_codec> inner_;
};

class short_tile_codec final : public decoding_codec {
 public:
  short_tile_codec(std::shared_ptr<const byte_codec> inner, std::uint64_t least_bytes, std::uint64_t row_bytes,
                   std::uint64_t tile_bytes) noexcept
      : decoding_codec(inner ? inner->name() : "tiff.short_tile"),
        inner_(std::move(inner)),
        least_bytes_(least_bytes),
        row_bytes_(row_bytes),
        tile_bytes_(tile_bytes) {}

  // Device decoders refuse short tiles; tiles that hold all rows decode there as usual.
  std::optional<device_form> form_on_device() const override {
    const auto form = inner_ ? inner_->form_on_device() : std::nullopt;
    return form ? form : device_form::of(device_form::kind::other_settings);
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    std::span<const std::byte> made;
    if (inner_) {
      PENSTOCK_ASSIGN(made, inner_->decode(encoded, out, scratch));
    } else {
      made = keep_needed(encoded, out);
    }
    const bool pads = made.size() >= least_bytes_ && made.size() < tile_bytes_ && made.size() % row_bytes_ == 0 &&
                      made.data() == out.data() && out.size() >= tile_bytes_;
    if (!pads) return made;
    std::memset(out.data() + made.size(), 0, tile_bytes_ - made.size());
    return std::span<const std::byte>(out.first(tile_bytes_));
  }

 private:
  std::shared_ptr<const byte_codec> inner_;
  std::uint64_t least_bytes_, row_bytes_, tile_bytes_;
};

result<std::shared_ptr<const byte_codec>> generous(std::string_view name, const codec_config& config) {
  PENSTOCK_ASSIGN(std::shared_ptr<const byte_codec> inner, make_byte_codec(config, 1));
  return std::shared_ptr<const byte_codec>(std::make_shared<generous_codec>(name, std::move(inner)));
}

}  // namespace

std::shared_ptr<const byte_codec> make_tiff_packbits_codec() { return std::make_shared<tiff_packbits_codec>(); }
std::shared_ptr<const byte_codec> make_bit_reversal_codec() { return std::make_shared<bit_reversal_codec>(); }
std::shared_ptr<const byte_codec> make_tiff_deflate_codec() { return std::make_shared<deflate_codec>(); }
result<std::shared_ptr<const byte_codec>> make_tiff_zstd_codec() {
  return generous("tiff.zstd", {"numcodecs.zstd", {}});
}
result<std::shared_ptr<const byte_codec>> make_tiff_lzma_codec() {
  return generous("tiff.lzma", {"numcodecs.lzma", {}});
}
std::shared_ptr<const byte_codec> make_short_tile_codec(std::shared_ptr<const byte_codec> inner,
                                                        std::uint64_t least_bytes, std::uint64_t row_bytes,
                                                        std::uint64_t tile_bytes) {
  return std::make_shared<short_tile_codec>(std::move(inner), least_bytes, row_bytes, tile_bytes);
}

}  // namespace penstock::inline v0
