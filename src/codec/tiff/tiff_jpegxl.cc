#include "codec/tiff/tiff_pictures.h"

#ifdef PENSTOCK_LIBJXL

#include <cstring>
#include <span>

#include "base/buffer.h"
#include "codec/decode_only.h"
#include "codec/tiff/picture_libraries.h"

namespace penstock::inline v0 {
namespace {

class jpegxl_codec final : public decode_only_codec {
 public:
  jpegxl_codec(const jxl_library& library, const tiff_picture& picture)
      : decode_only_codec("tiff.jpegxl", "jpegxl"), library_(library), picture_(picture) {}

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    PENSTOCK_ASSIGN(const auto room, take(out, picture_.bytes(), scratch));
    const std::unique_ptr<JxlDecoder, decltype(library_.DecoderDestroy)> decoder(library_.DecoderCreate(nullptr),
                                                                                 library_.DecoderDestroy);
    if (decoder == nullptr) return error{errc::resource_exhausted, "no memory for libjxl"};
    if (library_.DecoderSubscribeEvents(decoder.get(), JXL_DEC_BASIC_INFO | JXL_DEC_FULL_IMAGE) != JXL_DEC_SUCCESS ||
        library_.DecoderSetKeepOrientation(decoder.get(), JXL_TRUE) != JXL_DEC_SUCCESS ||
        library_.DecoderSetRenderSpotcolors(decoder.get(), JXL_FALSE) != JXL_DEC_SUCCESS ||
        library_.DecoderSetInput(decoder.get(), reinterpret_cast<const std::uint8_t*>(encoded.data()),
                                 encoded.size()) != JXL_DEC_SUCCESS) {
      return damaged("libjxl refuses it");
    }
    library_.DecoderCloseInput(decoder.get());
    buffer owner;
    std::span<std::byte> planes;
    std::uint32_t colors = 0;
    for (;;) {
      switch (library_.DecoderProcessInput(decoder.get())) {
        case JXL_DEC_BASIC_INFO: {
          PENSTOCK_ASSIGN(colors, check(*decoder));
          break;
        }
        case JXL_DEC_NEED_IMAGE_OUT_BUFFER: {
          if (colors == 0) return damaged("an image without a header");
          if (colors < picture_.samples) {
            PENSTOCK_ASSIGN(planes, owner.reserve(room.size()));
            planes = planes.first(room.size());
          }
          PENSTOCK_TRY(set_buffers(*decoder, colors, room, planes));
          break;
        }
        case JXL_DEC_FULL_IMAGE:
          if (colors < picture_.samples) interleave(room, planes, colors);
          return std::span<const std::byte>(room);
        default:
          return damaged("it is incomplete");
      }
    }
  }

 private:
  std::uint32_t item_bytes() const noexcept { return picture_.bits / 8; }
  JxlPixelFormat format(std::uint32_t channels) const noexcept {
    const bool floating = picture_.kind == sample_kind::floating;
    const JxlDataType type = picture_.bits == 8    ? JXL_TYPE_UINT8
                             : picture_.bits == 32 ? JXL_TYPE_FLOAT
                             : floating            ? JXL_TYPE_FLOAT16
                                                   : JXL_TYPE_UINT16;
    return {channels, type, JXL_NATIVE_ENDIAN, 0};
  }

  /// The number of channels that are colours: the others are stored separately.
  result<std::uint32_t> check(const JxlDecoder& decoder) const {
    JxlBasicInfo info;
    if (library_.DecoderGetBasicInfo(&decoder, &info) != JXL_DEC_SUCCESS) return damaged("it has no header");
    const std::uint64_t samples = std::uint64_t{info.num_color_channels} + info.num_extra_channels;
    if (info.xsize != picture_.width || info.ysize != picture_.rows || samples != picture_.samples ||
        info.have_animation != JXL_FALSE) {
      return damaged(fmt::format("a picture of {} x {} pixels, {} samples; {} x {}, {} are needed", info.ysize,
                                 info.xsize, samples, picture_.rows, picture_.width, picture_.samples));
    }
    // Otherwise integers are scaled to the whole range.
    if (info.bits_per_sample != picture_.bits ||
        (info.exponent_bits_per_sample != 0) != (picture_.kind == sample_kind::floating)) {
      return damaged(fmt::format("samples of {} bits", info.bits_per_sample));
    }
    return info.num_color_channels;
  }

  /// \param extra  Memory for all samples one after the other: not empty if some are not colours.
  result<> set_buffers(JxlDecoder& decoder, std::uint32_t colors, std::span<std::byte> room,
                       std::span<std::byte> extra) const {
    const std::uint64_t plane = picture_.rows * picture_.width * item_bytes();
    const JxlPixelFormat together = format(colors);
    std::size_t needed = 0;
    const std::span<std::byte> to = extra.empty() ? room : extra.first(plane * colors);
    if (library_.DecoderImageOutBufferSize(&decoder, &together, &needed) != JXL_DEC_SUCCESS || needed != to.size() ||
        library_.DecoderSetImageOutBuffer(&decoder, &together, to.data(), to.size()) != JXL_DEC_SUCCESS) {
      return damaged("its pixels have an unexpected format");
    }
    const JxlPixelFormat alone = format(1);
    for (std::uint32_t i = 0; i < picture_.samples - colors; ++i) {
      const std::span<std::byte> one = extra.subspan(plane * (colors + i), plane);
      if (library_.DecoderExtraChannelBufferSize(&decoder, &alone, &needed, i) != JXL_DEC_SUCCESS || needed != plane ||
          library_.DecoderSetExtraChannelBuffer(&decoder, &alone, one.data(), one.size(), i) != JXL_DEC_SUCCESS) {
        return damaged("its extra samples have an unexpected format");
      }
    }
    return {};
  }

  void interleave(std::span<std::byte> to, std::span<const std::byte> planes, std::uint32_t colors) const noexcept {
    const std::uint64_t count = picture_.rows * picture_.width;
    const std::size_t item = item_bytes(), pixel = item * picture_.samples;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(to.data() + i * pixel, planes.data() + i * item * colors, item * colors);
      for (std::uint32_t j = colors; j < picture_.samples; ++j)
        std::memcpy(to.data() + i * pixel + j * item, planes.data() + (count * j + i) * item, item);
    }
  }

  const jxl_library& library_;
  tiff_picture picture_;
};

}  // namespace

result<std::shared_ptr<const byte_codec>> make_tiff_jpegxl_codec(tiff_picture picture) {
  PENSTOCK_TRY(check_picture_size(picture));
  const bool fits = picture.kind == sample_kind::unsigned_integer
                        ? picture.bits == 8 || picture.bits == 16
                        : picture.kind == sample_kind::floating && (picture.bits == 16 || picture.bits == 32);
  if (!fits) return unreadable_picture(picture);
  auto library = jxl_library::get();
  if (!library.ok()) return unreadable_picture(picture, library.error().message());
  return std::shared_ptr<const byte_codec>(std::make_shared<jpegxl_codec>(**library, picture));
}

}  // namespace penstock::inline v0

#else

namespace penstock::inline v0 {

result<std::shared_ptr<const byte_codec>> make_tiff_jpegxl_codec(tiff_picture picture) {
  return unreadable_picture(picture);
}

}  // namespace penstock::inline v0

#endif
