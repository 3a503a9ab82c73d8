#include "codec/tiff/tiff_pictures.h"

#ifdef PENSTOCK_OPENJPEG

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "codec/decode_only.h"
#include "codec/tiff/picture_libraries.h"

namespace penstock::inline v0 {
namespace {

/// The input of OpenJPEG.
struct memory_stream {
  std::span<const std::byte> bytes;
  std::size_t at = 0;

  static OPJ_SIZE_T read(void* to, OPJ_SIZE_T length, void* self) {
    auto& from = *static_cast<memory_stream*>(self);
    const std::size_t count = std::min<std::size_t>(length, from.bytes.size() - from.at);
    if (count == 0) return static_cast<OPJ_SIZE_T>(-1);
    std::memcpy(to, from.bytes.data() + from.at, count);
    from.at += count;
    return count;
  }
  static OPJ_OFF_T skip(OPJ_OFF_T length, void* self) {
    auto& from = *static_cast<memory_stream*>(self);
    if (length < 0) return -1;
    from.at += std::min(static_cast<std::size_t>(length), from.bytes.size() - from.at);
    return length;
  }
  static OPJ_BOOL seek(OPJ_OFF_T to, void* self) {
    auto& from = *static_cast<memory_stream*>(self);
    if (to < 0 || static_cast<std::size_t>(to) > from.bytes.size()) return OPJ_FALSE;
    from.at = static_cast<std::size_t>(to);
    return OPJ_TRUE;
  }
};

/// The codestream within a JP2 file: after the header of its box `jp2c`. The bytes themselves if they are not a file.
std::span<const std::byte> codestream_of(std::span<const std::byte> from, bool& is_file) {
  is_file = from.size() >= 12 && load_big(from.subspan(4, 4)) == 0x6a502020;  // "jP  "
  if (!is_file) return from;
  for (std::size_t at = 0; from.size() - at >= 8;) {
    std::uint64_t length = load_big(from.subspan(at, 4)), head = 8;
    const std::uint64_t kind = load_big(from.subspan(at + 4, 4));
    if (length == 1 && from.size() - at >= 16) {
      length = load_big(from.subspan(at + 8, 8));
      head = 16;
    }
    if (kind == 0x6a703263) return from.subspan(at + head);  // "jp2c"
    if (length < head || length > from.size() - at) break;
    at += static_cast<std::size_t>(length);
  }
  return {};
}

class jpeg2000_codec final : public decode_only_codec {
 public:
  jpeg2000_codec(const openjpeg_library& library, const tiff_picture& picture)
      : decode_only_codec("tiff.jpeg2000", "jpeg2000"), library_(library), picture_(picture) {}

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    PENSTOCK_ASSIGN(const auto room, take(out, picture_.bytes(), scratch));
    bool is_file = false;
    PENSTOCK_TRY(check_size(codestream_of(encoded, is_file)));
    memory_stream from{encoded};
    const std::unique_ptr<opj_stream_t, decltype(library_.stream_destroy)> stream(
        library_.stream_create(OPJ_J2K_STREAM_CHUNK_SIZE, OPJ_TRUE), library_.stream_destroy);
    const std::unique_ptr<opj_codec_t, decltype(library_.destroy_codec)> codec(
        library_.create_decompress(is_file ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K), library_.destroy_codec);
    if (stream == nullptr || codec == nullptr) return error{errc::resource_exhausted, "no memory for OpenJPEG"};
    library_.stream_set_user_data(stream.get(), &from, nullptr);
    library_.stream_set_user_data_length(stream.get(), encoded.size());
    library_.stream_set_read_function(stream.get(), memory_stream::read);
    library_.stream_set_skip_function(stream.get(), memory_stream::skip);
    library_.stream_set_seek_function(stream.get(), memory_stream::seek);
    std::string problem;
    library_.set_error_handler(
        codec.get(),
        [](const char* text, void* to) {
          auto& kept = *static_cast<std::string*>(to);
          if (kept.empty()) kept.assign(text, std::min<std::size_t>(std::strcspn(text, "\n"), 200));
        },
        &problem);
    const auto refused = [&] { return damaged(problem.empty() ? "OpenJPEG refuses it" : problem); };
    opj_dparameters_t parameters;
    library_.set_default_decoder_parameters(&parameters);
    parameters.flags |= OPJ_DPARAMETERS_IGNORE_PCLR_CMAP_CDEF_FLAG;  // indices of a palette are not changed
    if (library_.setup_decoder(codec.get(), &parameters) == OPJ_FALSE) return refused();
    opj_image_t* made = nullptr;
    const OPJ_BOOL has_header = library_.read_header(stream.get(), codec.get(), &made);
    const std::unique_ptr<opj_image_t, decltype(library_.image_destroy)> image(made, library_.image_destroy);
    if (has_header == OPJ_FALSE || image == nullptr) return refused();
    if (library_.decode(codec.get(), stream.get(), image.get()) == OPJ_FALSE) return refused();
    if (image->numcomps != picture_.samples) return damaged("it has another number of samples");
    for (std::uint32_t i = 0; i < picture_.samples; ++i) {
      const opj_image_comp_t& plane = image->comps[i];
      if (plane.data == nullptr || plane.w != picture_.width || plane.h != picture_.rows)
        return damaged("it does not fill its tile or strip");
      switch (picture_.bits) {
        case 8:
          interleave<std::uint8_t>(room, plane.data, i);
          break;
        case 16:
          interleave<std::uint16_t>(room, plane.data, i);
          break;
        default:
          interleave<std::uint32_t>(room, plane.data, i);
      }
    }
    return std::span<const std::byte>(room);
  }

 private:
  template <class T>
  void interleave(std::span<std::byte> to, const OPJ_INT32* from, std::uint32_t sample) const noexcept {
    const std::uint64_t count = picture_.rows * picture_.width;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto value = static_cast<T>(from[i]);
      std::memcpy(to.data() + (i * picture_.samples + sample) * sizeof(T), &value, sizeof(T));
    }
  }

  /// The codestream's own description (marker SIZ), before anything is allocated for it.
  result<> check_size(std::span<const std::byte> from) const {
    constexpr std::size_t kFixed = 2 + 2 + 2 + 2 + 8 * 4 + 2;
    constexpr std::uint64_t kMostTiles = 4096;
    if (from.size() < kFixed || load_big(from.first(4)) != 0xff4fff51) return damaged("no codestream");
    const auto number = [&](std::size_t i) { return load_big(from.subspan(8 + 4 * i, 4)); };
    const std::uint64_t right = number(0), bottom = number(1), left = number(2), top = number(3);
    const std::uint64_t tile_width = number(4), tile_height = number(5);
    const std::uint64_t samples = load_big(from.subspan(kFixed - 2, 2));
    if (right <= left || bottom <= top || right - left != picture_.width || bottom - top != picture_.rows ||
        samples != picture_.samples || from.size() - kFixed < 3 * samples) {
      return damaged(fmt::format("a picture of [{}, {}) x [{}, {}) pixels, {} samples; {} x {}, {} are needed", top,
                                 bottom, left, right, samples, picture_.rows, picture_.width, picture_.samples));
    }
    if (tile_width == 0 || tile_height == 0 || (right / tile_width + 1) * (bottom / tile_height + 1) > kMostTiles)
      return damaged("it has too many tiles");
    for (std::uint64_t i = 0; i < samples; ++i) {
      const std::span<const std::byte> plane = from.subspan(kFixed + 3 * i, 3);
      const auto depth = static_cast<std::uint32_t>(plane[0]);
      if (plane[1] != std::byte{1} || plane[2] != std::byte{1})
        return error{errc::unsupported, "JPEG 2000 with subsampled planes is not readable"};
      const bool is_signed = picture_.kind == sample_kind::signed_integer;
      if ((depth & 0x7fU) + 1 > picture_.bits || ((depth & 0x80U) != 0) != is_signed)
        return damaged(fmt::format("samples of {} bits", (depth & 0x7fU) + 1));
    }
    return {};
  }

  const openjpeg_library& library_;
  tiff_picture picture_;
};

}  // namespace

result<std::shared_ptr<const byte_codec>> make_tiff_jpeg2000_codec(tiff_picture picture) {
  PENSTOCK_TRY(check_picture_size(picture));
  const bool integers = picture.kind == sample_kind::unsigned_integer || picture.kind == sample_kind::signed_integer;
  if (!integers || (picture.bits != 8 && picture.bits != 16 && picture.bits != 32)) return unreadable_picture(picture);
  auto library = openjpeg_library::get();
  if (!library.ok()) return unreadable_picture(picture, library.error().message());
  return std::shared_ptr<const byte_codec>(std::make_shared<jpeg2000_codec>(**library, picture));
}

}  // namespace penstock::inline v0

#else

namespace penstock::inline v0 {

result<std::shared_ptr<const byte_codec>> make_tiff_jpeg2000_codec(tiff_picture picture) {
  return unreadable_picture(picture);
}

}  // namespace penstock::inline v0

#endif
