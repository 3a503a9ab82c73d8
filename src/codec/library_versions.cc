#include "codec/library_versions.h"

#include <blosc.h>
#include <bzlib.h>
#include <fmt/format.h>
#include <libdeflate.h>
#include <lz4.h>
#include <lzma.h>
#include <zstd.h>

#include <string_view>
#include <utility>

#include "codec/filters/zfp_library.h"
#include "codec/tiff/picture_libraries.h"

namespace penstock::inline v0 {
namespace {

using version_text = std::optional<std::string>;

/// The number in a sentence: `LIBTIFF, Version 4.5.0` and the lines after it, `zfp version 1.0.0 (2022)`, `1.0.8,
/// 2019`.
std::string number_in(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t begin = text.find_first_of(kDigits);
  if (begin == text.npos) return std::string(text);
  text.remove_prefix(begin);
  text = text.substr(0, text.find_first_of(" ,\n("));
  return std::string(text);
}

version_text version_of_tiff() {
#ifdef PENSTOCK_LIBTIFF
  if (const auto found = tiff_library::get(); found.ok()) return number_in((*found)->GetVersion());
#endif
  return std::nullopt;
}

version_text version_of_openjpeg() {
#ifdef PENSTOCK_OPENJPEG
  if (const auto found = openjpeg_library::get(); found.ok()) return number_in((*found)->version());
#endif
  return std::nullopt;
}

version_text version_of_jxl() {
#ifdef PENSTOCK_LIBJXL
  if (const auto found = jxl_library::get(); found.ok()) {
    const unsigned number = (*found)->DecoderVersion();  // decimal: 7000 is 0.7.0
    return fmt::format("{}.{}.{}", number / 1000000, number / 1000 % 1000, number % 1000);
  }
#endif
  return std::nullopt;
}

version_text version_of_zfp() {
#ifdef PENSTOCK_LIBZFP
  if (const auto found = zfp_library::get(); found.ok()) return number_in(*(*found)->version_string);
#endif
  return std::nullopt;
}

}  // namespace

// libaec reports no version.
std::vector<library_version> codec_library_versions() {
  return {
      {"zstd", ZSTD_versionString()},
      {"lz4", LZ4_versionString()},
      {"blosc", blosc_get_version_string()},
      {"libdeflate", LIBDEFLATE_VERSION_STRING},
      {"bzip2", number_in(BZ2_bzlibVersion())},
      {"lzma", lzma_version_string()},
      {"libtiff", version_of_tiff()},
      {"openjpeg", version_of_openjpeg()},
      {"libjxl", version_of_jxl()},
      {"zfp", version_of_zfp()},
  };
}

}  // namespace penstock::inline v0
