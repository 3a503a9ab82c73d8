// JPEG through libtiff: a tile becomes the one strip of a TIFF in memory, of which only the strip is kept.

#include <fmt/format.h>

#include "codec/tiff/tiff_pictures.h"

#ifdef PENSTOCK_LIBTIFF

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "codec/tiff/picture_libraries.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kFileHeaderBytes = 8;

/// The output of libtiff: a header, then the strip, which is stored in `strip`. Later bytes are dropped.
struct written_strip {
  std::span<std::byte> strip;
  std::array<std::byte, kFileHeaderBytes> header{};
  std::uint64_t at = 0, end = 0;
  bool kept = false;  // the strip is complete
  std::string problem;

  static tmsize_t read(thandle_t self, void* to, tmsize_t length) {
    auto& file = *static_cast<written_strip*>(self);
    const std::uint64_t count =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(length), file.end - std::min(file.at, file.end));
    for (std::uint64_t i = 0; i < count; ++i, ++file.at)
      static_cast<std::byte*>(to)[i] =
          file.at < kFileHeaderBytes ? file.header[file.at] : file.strip[file.at - kFileHeaderBytes];
    return static_cast<tmsize_t>(count);
  }
  static tmsize_t write(thandle_t self, void* from, tmsize_t length) {
    auto& file = *static_cast<written_strip*>(self);
    const auto count = static_cast<std::uint64_t>(length);
    if (file.kept) return length;
    if (file.at > kFileHeaderBytes + file.strip.size() || count > kFileHeaderBytes + file.strip.size() - file.at)
      return 0;
    const auto* bytes = static_cast<const std::byte*>(from);
    const std::uint64_t head = file.at < kFileHeaderBytes ? std::min(count, kFileHeaderBytes - file.at) : 0;
    if (head != 0) std::memcpy(file.header.data() + file.at, bytes, head);
    if (count > head) std::memcpy(file.strip.data() + (file.at + head - kFileHeaderBytes), bytes + head, count - head);
    file.at += count;
    file.end = std::max(file.end, file.at);
    return length;
  }
  static toff_t seek(thandle_t self, toff_t offset, int whence) {
    auto& file = *static_cast<written_strip*>(self);
    file.at = offset + (whence == SEEK_CUR ? file.at : whence == SEEK_END ? file.end : 0);
    return file.at;
  }
  static int close(thandle_t) { return 0; }
  static toff_t length(thandle_t self) { return static_cast<written_strip*>(self)->end; }

  __attribute__((format(printf, 4, 0))) static int note(TIFF*, void* self, const char*, const char* format,
                                                        va_list arguments) {
    auto& file = *static_cast<written_strip*>(self);
    if (file.problem.empty()) {
      std::array<char, 256> text{};
      std::vsnprintf(text.data(), text.size(), format, arguments);
      file.problem = text.data();
    }
    return 1;
  }
};

class jpeg_encoder final : public byte_codec {
 public:
  jpeg_encoder(const tiff_library& library, const tiff_samples& samples, int quality) noexcept
      : library_(library), samples_(samples), quality_(quality) {}

  std::string_view name() const override { return "tiff.jpeg"; }
  std::string describe() const override { return fmt::format("jpeg(quality={})", quality_); }
  /// A coefficient of eight bits takes 27 at worst.
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return 4 * decoded_bytes + (std::uint64_t{16} << 10);
  }
  result<std::span<const std::byte>> decode(std::span<const std::byte>, std::span<std::byte>,
                                            worker_scratch&) const override {
    return error{errc::unsupported, "this codec only encodes"};
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    constexpr std::uint64_t kSpare = std::uint64_t{16} << 20;
    written_strip file;
    file.strip = out;
    const std::unique_ptr<TIFFOpenOptions, decltype(library_.OpenOptionsFree)> options(library_.OpenOptionsAlloc(),
                                                                                       library_.OpenOptionsFree);
    if (options == nullptr) return error{errc::resource_exhausted, "no memory for libtiff"};
    library_.OpenOptionsSetErrorHandlerExtR(options.get(), written_strip::note, &file);
    library_.OpenOptionsSetWarningHandlerExtR(options.get(), written_strip::note, &file);
    library_.OpenOptionsSetMaxSingleMemAlloc(options.get(), static_cast<tmsize_t>(4 * decoded.size() + kSpare));
    const std::unique_ptr<TIFF, decltype(library_.Close)> tiff(
        library_.ClientOpenExt("tile", "wm", &file, written_strip::read, written_strip::write, written_strip::seek,
                               written_strip::close, written_strip::length, nullptr, nullptr, options.get()),
        library_.Close);
    std::uint64_t made = 0;
    if (tiff != nullptr && describe_to(tiff.get())) {
      // libtiff requires memory that may change.
      auto* const from = const_cast<std::byte*>(decoded.data());
      const auto length = static_cast<tmsize_t>(decoded.size());
      if (library_.StripSize(tiff.get()) == length && library_.WriteEncodedStrip(tiff.get(), 0, from, length) == length)
        made = library_.GetStrileByteCount(tiff.get(), 0);
      if (made != 0 && library_.GetStrileOffset(tiff.get(), 0) != kFileHeaderBytes) made = 0;
    }
    file.kept = true;  // the directory, which is written on closing, is not needed
    if (made == 0 || made > out.size() || !file.problem.empty())
      return error{errc::internal, fmt::format("libtiff cannot encode a tile as JPEG: {}",
                                               file.problem.empty() ? "it reported no reason" : file.problem)};
    return made;
  }

 private:
  bool describe_to(TIFF* tiff) const {
    const auto set = [&](auto... what) { return library_.SetField(tiff, what...) == 1; };
    const bool colours = samples_.samples == 3;
    const std::uint16_t extra[] = {0, 0, 0};
    const auto width = static_cast<std::uint32_t>(samples_.width), rows = static_cast<std::uint32_t>(samples_.rows);
    return set(TIFFTAG_IMAGEWIDTH, width) && set(TIFFTAG_IMAGELENGTH, rows) && set(TIFFTAG_ROWSPERSTRIP, rows) &&
           set(TIFFTAG_BITSPERSAMPLE, 8) && set(TIFFTAG_SAMPLESPERPIXEL, static_cast<int>(samples_.samples)) &&
           (colours || samples_.samples == 1 ||
            set(TIFFTAG_EXTRASAMPLES, static_cast<int>(samples_.samples) - 1, &extra[0])) &&
           set(TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) && set(TIFFTAG_COMPRESSION, COMPRESSION_JPEG) &&
           set(TIFFTAG_PHOTOMETRIC, colours ? PHOTOMETRIC_YCBCR : PHOTOMETRIC_MINISBLACK) &&
           (!colours || set(TIFFTAG_YCBCRSUBSAMPLING, 2, 2)) && set(TIFFTAG_JPEGQUALITY, quality_) &&
           set(TIFFTAG_JPEGTABLESMODE, 0) && (!colours || set(TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB));
  }

  const tiff_library& library_;
  tiff_samples samples_;
  int quality_;
};

}  // namespace

result<std::shared_ptr<const byte_codec>> make_tiff_jpeg_encoder(const tiff_samples& samples, int quality) {
  if (samples.bits != 8 || samples.kind != sample_kind::unsigned_integer || samples.samples > 4) {
    return error{errc::unsupported, "JPEG supports uint8 with at most 4 bands that share tiles"};
  }
  PENSTOCK_ASSIGN(const tiff_library* const library, tiff_library::get());
  if (library->IsCODECConfigured(COMPRESSION_JPEG) == 0) return error{errc::unsupported, "this libtiff has no JPEG"};
  return std::shared_ptr<const byte_codec>(std::make_shared<jpeg_encoder>(*library, samples, quality));
}

}  // namespace penstock::inline v0

#else

namespace penstock::inline v0 {

result<std::shared_ptr<const byte_codec>> make_tiff_jpeg_encoder(const tiff_samples&, int) {
  return error{errc::unsupported, "JPEG is not written in this build"};
}

}  // namespace penstock::inline v0

#endif
