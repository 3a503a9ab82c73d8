// JPEG, CCITT, WebP and LERC through libtiff: each strip or tile becomes a TIFF of one strip in memory: a header,
// created once, and the stored bytes after it.

#include "codec/tiff/tiff_pictures.h"

#ifdef PENSTOCK_LIBTIFF

#include <algorithm>
#include <array>
#include <bit>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include "codec/decode_only.h"
#include "codec/tiff/picture_libraries.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint16_t kByte = 7, kShort = 3, kLong = 4;  // types of values

/// Makes the header and directory of a TIFF with one strip, to be followed by the strip.
class one_strip_header {
 public:
  void add(std::uint32_t tag, std::uint16_t type, const std::vector<std::uint32_t>& values) {
    entry made{static_cast<std::uint16_t>(tag), type, static_cast<std::uint32_t>(values.size()), {}};
    for (const std::uint32_t value : values)
      type == kShort ? put(made.value, static_cast<std::uint16_t>(value)) : put(made.value, value);
    entries_.push_back(std::move(made));
  }
  void add_bytes(std::uint32_t tag, std::vector<std::byte> value) {
    const auto count = static_cast<std::uint32_t>(value.size());
    entries_.push_back({static_cast<std::uint16_t>(tag), kByte, count, std::move(value)});
  }
  /// \param count_at  Offset of the strip's byte count.
  std::vector<std::byte> finish(std::size_t& count_at) {
    add(TIFFTAG_STRIPOFFSETS, kLong, {0});
    add(TIFFTAG_STRIPBYTECOUNTS, kLong, {0});
    std::sort(entries_.begin(), entries_.end(), [](const entry& a, const entry& b) { return a.tag < b.tag; });
    const std::size_t directory = 8 + 2 + 12 * entries_.size() + 4;
    std::vector<std::byte> out, values;
    const bool big = std::endian::native == std::endian::big;
    out.insert(out.end(), 2, static_cast<std::byte>(big ? 'M' : 'I'));
    put(out, std::uint16_t{42});
    put(out, std::uint32_t{8});
    put(out, static_cast<std::uint16_t>(entries_.size()));
    std::size_t offset_at = 0;
    for (const entry& each : entries_) {
      put(out, each.tag);
      put(out, each.type);
      put(out, each.count);
      if (each.tag == TIFFTAG_STRIPOFFSETS) offset_at = out.size();
      if (each.tag == TIFFTAG_STRIPBYTECOUNTS) count_at = out.size();
      if (each.value.size() <= 4) {
        out.insert(out.end(), each.value.begin(), each.value.end());
        out.resize(out.size() + 4 - each.value.size());
      } else {
        put(out, static_cast<std::uint32_t>(directory + values.size()));
        values.insert(values.end(), each.value.begin(), each.value.end());
        values.resize((values.size() + 1) / 2 * 2);
      }
    }
    put(out, std::uint32_t{0});
    out.insert(out.end(), values.begin(), values.end());
    const auto begin = static_cast<std::uint32_t>(out.size());
    std::memcpy(out.data() + offset_at, &begin, sizeof(begin));
    return out;
  }

 private:
  struct entry {
    std::uint16_t tag, type;
    std::uint32_t count;
    std::vector<std::byte> value;
  };
  template <class T>
  static void put(std::vector<std::byte>& to, T value) {
    std::array<std::byte, sizeof(T)> raw;
    std::memcpy(raw.data(), &value, sizeof(T));
    to.insert(to.end(), raw.begin(), raw.end());
  }

  std::vector<entry> entries_;
};

/// The input of libtiff, two blocks of memory one after the other, and its messages.
struct one_strip_file {
  std::span<const std::byte> header, strip;
  std::array<std::byte, 4> strip_bytes;  // they are in the header from `count_at` on
  std::size_t count_at = 0;
  std::uint64_t at = 0;
  std::string problem;

  std::uint64_t size() const noexcept { return header.size() + strip.size(); }

  static tmsize_t read(thandle_t self, void* to, tmsize_t length) {
    auto& file = *static_cast<one_strip_file*>(self);
    auto* out = static_cast<std::byte*>(to);
    const std::uint64_t end = std::min(file.size(), file.at + static_cast<std::uint64_t>(length));
    const std::uint64_t begin = std::min(file.at, end);
    if (begin < file.header.size()) {
      const std::size_t count = std::min<std::uint64_t>(end, file.header.size()) - begin;
      std::memcpy(out, file.header.data() + begin, count);
      for (std::size_t i = 0; i < file.strip_bytes.size(); ++i) {
        const std::size_t place = file.count_at + i;
        if (place >= begin && place - begin < count) out[place - begin] = file.strip_bytes[i];
      }
      out += count;
    }
    if (end > file.header.size()) {
      const std::uint64_t from = std::max<std::uint64_t>(begin, file.header.size());
      std::memcpy(out, file.strip.data() + (from - file.header.size()), end - from);
    }
    file.at = end;
    return static_cast<tmsize_t>(end - begin);
  }
  static tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }
  static toff_t seek(thandle_t self, toff_t offset, int whence) {
    auto& file = *static_cast<one_strip_file*>(self);
    file.at = offset + (whence == SEEK_CUR ? file.at : whence == SEEK_END ? file.size() : 0);
    return file.at;
  }
  static int close(thandle_t) { return 0; }
  static toff_t length(thandle_t self) { return static_cast<one_strip_file*>(self)->size(); }

  __attribute__((format(printf, 4, 0))) static int note(TIFF*, void* self, const char*, const char* format,
                                                        va_list arguments) {
    auto& file = *static_cast<one_strip_file*>(self);
    if (file.problem.empty()) {
      std::array<char, 256> text{};
      std::vsnprintf(text.data(), text.size(), format, arguments);
      file.problem = text.data();
    }
    return 1;
  }
  // libjpeg continues with damaged data and warns; libtiff's own warnings are about headers.
  __attribute__((format(printf, 4, 0))) static int note_warning(TIFF* tiff, void* self, const char* module,
                                                                const char* format, va_list arguments) {
    if (module != nullptr && std::strcmp(module, "JPEGLib") == 0) note(tiff, self, module, format, arguments);
    return 1;
  }
};

class library_codec final : public decode_only_codec {
 public:
  library_codec(const tiff_library& library, const tiff_picture& picture, std::string_view name)
      : decode_only_codec(name, std::string(name.substr(name.find('.') + 1))), library_(library), picture_(picture) {
    one_strip_header header;
    header.add(TIFFTAG_IMAGEWIDTH, kLong, {static_cast<std::uint32_t>(picture.width)});
    header.add(TIFFTAG_IMAGELENGTH, kLong, {static_cast<std::uint32_t>(picture.rows)});
    header.add(TIFFTAG_ROWSPERSTRIP, kLong, {static_cast<std::uint32_t>(picture.rows)});
    header.add(TIFFTAG_BITSPERSAMPLE, kShort, std::vector<std::uint32_t>(picture.samples, picture.bits));
    header.add(TIFFTAG_COMPRESSION, kShort, {picture.compression});
    const bool rgb = picture.samples >= 3;
    const int photometric = picture.ycbcr ? PHOTOMETRIC_YCBCR : rgb ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK;
    header.add(TIFFTAG_PHOTOMETRIC, kShort, {static_cast<std::uint32_t>(photometric)});
    header.add(TIFFTAG_SAMPLESPERPIXEL, kShort, {picture.samples});
    header.add(TIFFTAG_PLANARCONFIG, kShort, {PLANARCONFIG_CONTIG});
    const std::uint32_t colors = rgb ? 3 : 1;
    if (picture.samples > colors)
      header.add(TIFFTAG_EXTRASAMPLES, kShort, std::vector<std::uint32_t>(picture.samples - colors, 0));
    const std::uint32_t format = picture.kind == sample_kind::floating         ? SAMPLEFORMAT_IEEEFP
                                 : picture.kind == sample_kind::signed_integer ? SAMPLEFORMAT_INT
                                                                               : SAMPLEFORMAT_UINT;
    header.add(TIFFTAG_SAMPLEFORMAT, kShort, std::vector<std::uint32_t>(picture.samples, format));
    if (picture.ycbcr) header.add(TIFFTAG_YCBCRSUBSAMPLING, kShort, {picture.subsampling[0], picture.subsampling[1]});
    if (picture.compression == COMPRESSION_CCITTFAX3) header.add(TIFFTAG_GROUP3OPTIONS, kLong, {picture.fax_options});
    if (picture.compression == COMPRESSION_CCITTFAX4) header.add(TIFFTAG_GROUP4OPTIONS, kLong, {picture.fax_options});
    if (picture.compression == COMPRESSION_LERC) {
      constexpr std::uint32_t kVersion = 4;
      header.add(TIFFTAG_LERC_PARAMETERS, kLong, {kVersion, picture.lerc_compression});
    }
    if (!picture.jpeg_tables.empty()) header.add_bytes(TIFFTAG_JPEGTABLES, picture.jpeg_tables);
    header_ = header.finish(count_at_);
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    constexpr std::uint64_t kSpare = std::uint64_t{16} << 20;
    PENSTOCK_ASSIGN(const auto room, take(out, picture_.bytes(), scratch));
    if (encoded.size() > std::numeric_limits<std::uint32_t>::max() - header_.size()) return damaged("2^32 bytes of it");
    if (picture_.compression == COMPRESSION_JPEG) {
      PENSTOCK_TRY(check_jpeg_size(encoded));
    }
    if (picture_.compression == COMPRESSION_WEBP) {
      PENSTOCK_TRY(check_webp_size(encoded));
    }
    one_strip_file file;
    file.header = header_;
    file.strip = encoded;
    file.count_at = count_at_;
    const auto length = static_cast<std::uint32_t>(encoded.size());
    std::memcpy(file.strip_bytes.data(), &length, sizeof(length));

    const std::unique_ptr<TIFFOpenOptions, decltype(library_.OpenOptionsFree)> options(library_.OpenOptionsAlloc(),
                                                                                       library_.OpenOptionsFree);
    if (options == nullptr) return error{errc::resource_exhausted, "no memory for libtiff"};
    library_.OpenOptionsSetErrorHandlerExtR(options.get(), one_strip_file::note, &file);
    library_.OpenOptionsSetWarningHandlerExtR(options.get(), one_strip_file::note_warning, &file);
    library_.OpenOptionsSetMaxSingleMemAlloc(options.get(),
                                             static_cast<tmsize_t>(2 * (room.size() + encoded.size()) + kSpare));
    const std::unique_ptr<TIFF, decltype(library_.Close)> tiff(
        library_.ClientOpenExt("chunk", "rm", &file, one_strip_file::read, one_strip_file::write, one_strip_file::seek,
                               one_strip_file::close, one_strip_file::length, nullptr, nullptr, options.get()),
        library_.Close);
    if (tiff == nullptr) return refused(file);
    if (picture_.ycbcr) library_.SetField(tiff.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    const tmsize_t needed = static_cast<tmsize_t>(room.size());
    if (library_.StripSize(tiff.get()) != needed) return refused(file);
    std::memset(room.data(), 0, room.size());
    const tmsize_t made = library_.ReadEncodedStrip(tiff.get(), 0, room.data(), needed);
    if (made != needed || !file.problem.empty()) return refused(file);
    return std::span<const std::byte>(room);
  }

 private:
  error refused(const one_strip_file& file) const {
    // libjpeg's message for a coding process (lossless, arithmetic) that this build does not support.
    if (file.problem.starts_with("Unsupported JPEG process"))
      return {errc::unsupported, fmt::format("{} data: {}", name(), file.problem)};
    // libtiff before 4.6 reports this for samples that are stored one after the other, each with a mask of its own.
    if (picture_.compression == COMPRESSION_LERC && file.problem.find("Unexpected nDim: 1.") != std::string::npos) {
      return error{errc::unsupported, fmt::format("LERC with a mask for each of {} samples of a pixel is not readable "
                                                  "with this libtiff",
                                                  picture_.samples)};
    }
    return damaged(file.problem.empty() ? "it does not fill its tile or strip" : file.problem);
  }

  /// Streams that are smaller than their tile leave pixels without a value; libtiff only warns. Source: ITU-T T.81,
  /// B.2.2.
  result<> check_jpeg_size(std::span<const std::byte> from) const {
    const auto number = [&](std::size_t at) {
      return static_cast<std::uint64_t>(from[at]) << 8 | static_cast<std::uint64_t>(from[at + 1]);
    };
    for (std::size_t at = 0; at + 4 <= from.size();) {
      if (from[at] != std::byte{0xff}) return damaged(fmt::format("no marker at byte {}", at));
      const auto marker = static_cast<std::uint8_t>(from[at + 1]);
      if (marker == 0xff) {
        ++at;
        continue;
      }
      if (marker == 0xd8 || marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7)) {
        at += 2;
        continue;
      }
      const bool frame = marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
      if (frame && at + 10 <= from.size()) {
        const std::uint64_t bits = static_cast<std::uint64_t>(from[at + 4]), rows = number(at + 5),
                            width = number(at + 7), samples = static_cast<std::uint64_t>(from[at + 9]);
        if (bits != picture_.bits || samples != picture_.samples || width != picture_.width || rows < picture_.rows) {
          return damaged(fmt::format("a picture of {} x {} pixels, {} samples of {} bits; {} x {}, {} of {} are needed",
                                     rows, width, samples, bits, picture_.rows, picture_.width, picture_.samples,
                                     picture_.bits));
        }
        return {};
      }
      at += 2 + number(at + 2);
    }
    return damaged("it has no frame");
  }

  /// Source: RFC 9649, 2.5 to 2.7, and RFC 6386, 9.1.
  result<> check_webp_size(std::span<const std::byte> from) const {
    if (from.size() < 30 || load_big(from.first(4)) != 0x52494646 || load_big(from.subspan(8, 4)) != 0x57454250)
      return damaged("no WebP");
    std::uint64_t width = 0, rows = 0;
    switch (load_big(from.subspan(12, 4))) {
      case 0x56503820:  // "VP8 "
        width = load_little(from.subspan(26, 2)) & 0x3fff;
        rows = load_little(from.subspan(28, 2)) & 0x3fff;
        break;
      case 0x5650384c: {  // "VP8L"
        const std::uint64_t sizes = load_little(from.subspan(21, 4));
        width = (sizes & 0x3fff) + 1;
        rows = (sizes >> 14 & 0x3fff) + 1;
        break;
      }
      case 0x56503858:  // "VP8X"
        width = load_little(from.subspan(24, 3)) + 1;
        rows = load_little(from.subspan(27, 3)) + 1;
        break;
      default:
        break;
    }
    if (width == picture_.width && rows == picture_.rows) return {};
    return damaged(
        fmt::format("a picture of {} x {} pixels; {} x {} are needed", rows, width, picture_.rows, picture_.width));
  }

  const tiff_library& library_;
  tiff_picture picture_;
  std::vector<std::byte> header_;
  std::size_t count_at_ = 0;
};

std::string_view name_of(std::uint16_t compression) noexcept {
  switch (compression) {
    case COMPRESSION_JPEG:
      return "tiff.jpeg";
    case COMPRESSION_LERC:
      return "tiff.lerc";
    case COMPRESSION_WEBP:
      return "tiff.webp";
    case COMPRESSION_CCITTFAX3:
      return "tiff.ccitt_fax3";
    case COMPRESSION_CCITTFAX4:
      return "tiff.ccitt_fax4";
    default:
      return "tiff.ccitt_rle";
  }
}

}  // namespace

result<std::shared_ptr<const byte_codec>> make_tiff_library_codec(tiff_picture picture) {
  PENSTOCK_TRY(check_picture_size(picture));
  const std::uint16_t compression = picture.compression;
  const bool fax =
      compression != COMPRESSION_JPEG && compression != COMPRESSION_LERC && compression != COMPRESSION_WEBP;
  const bool fits = fax                               ? picture.bits == 1 && picture.samples == 1
                    : compression == COMPRESSION_LERC ? picture.bits % 8 == 0 && picture.samples <= 65535
                                                      : picture.bits == 8 && picture.samples <= 4;
  const bool is_complex = picture.kind == sample_kind::complex_integer || picture.kind == sample_kind::complex_floating;
  if (!fits || is_complex || (picture.ycbcr && picture.samples != 3)) return unreadable_picture(picture);
  auto library = tiff_library::get();
  if (!library.ok()) return unreadable_picture(picture, library.error().message());
  if ((*library)->IsCODECConfigured(compression) == 0)
    return unreadable_picture(picture, "libtiff does not support it");
  return std::shared_ptr<const byte_codec>(std::make_shared<library_codec>(**library, picture, name_of(compression)));
}

}  // namespace penstock::inline v0

#else

namespace penstock::inline v0 {

result<std::shared_ptr<const byte_codec>> make_tiff_library_codec(tiff_picture picture) {
  return unreadable_picture(picture);
}

}  // namespace penstock::inline v0

#endif
