#include "codec/tiff/picture_libraries.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>
#include <string>
#include <utility>

namespace penstock::inline v0 {
namespace {

#if defined(PENSTOCK_LIBTIFF) || defined(PENSTOCK_OPENJPEG) || defined(PENSTOCK_LIBJXL)
/// Loads functions from a library that stays loaded.
class loader {
 public:
  explicit loader([[maybe_unused]] std::string name) {
#ifndef PENSTOCK_PICTURES_LINKED
    library_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) trouble_ = fmt::format("{} is not on this machine", name);
    name_ = std::move(name);
#endif
  }
  template <class Function>
  void take(Function& into, const char* name, [[maybe_unused]] Function linked) {
#ifdef PENSTOCK_PICTURES_LINKED
    into = linked;
    (void)name;
#else
    if (library_ == nullptr) return;
    into = reinterpret_cast<Function>(::dlsym(library_, name));
    if (into == nullptr) trouble_ = fmt::format("{} has no {}", name_, name);
#endif
  }
  const std::string& trouble() const noexcept { return trouble_; }

 private:
  void* library_ = nullptr;
  std::string name_, trouble_;
};

/// The functions of one library, loaded once per process by `take(library, loader)` from the file of that name.
template <class Library, class Take>
result<const Library*> once_per_process(std::string name, Take take) {
  static std::once_flag once;
  static Library found;
  static std::string trouble;
  std::call_once(once, [&] {
    loader from(std::move(name));
    take(found, from);
    trouble = from.trouble();
  });
  if (trouble.empty()) return &found;
  return error(errc::unsupported, trouble);
}
#endif

}  // namespace

#ifdef PENSTOCK_PICTURES_LINKED
#define PENSTOCK_TAKE(from, prefix, name) from.take(found.name, #prefix #name, &::prefix##name)
#else
#define PENSTOCK_TAKE(from, prefix, name) from.take(found.name, #prefix #name, decltype(found.name)())
#endif

#ifdef PENSTOCK_LIBTIFF
result<const tiff_library*> tiff_library::get() {
  return once_per_process<tiff_library>("libtiff.so.6", [](tiff_library& found, loader& from) {
    PENSTOCK_TAKE(from, TIFF, OpenOptionsAlloc);
    PENSTOCK_TAKE(from, TIFF, OpenOptionsFree);
    PENSTOCK_TAKE(from, TIFF, OpenOptionsSetErrorHandlerExtR);
    PENSTOCK_TAKE(from, TIFF, OpenOptionsSetWarningHandlerExtR);
    PENSTOCK_TAKE(from, TIFF, OpenOptionsSetMaxSingleMemAlloc);
    PENSTOCK_TAKE(from, TIFF, ClientOpenExt);
    PENSTOCK_TAKE(from, TIFF, Close);
    PENSTOCK_TAKE(from, TIFF, SetField);
    PENSTOCK_TAKE(from, TIFF, StripSize);
    PENSTOCK_TAKE(from, TIFF, ReadEncodedStrip);
    PENSTOCK_TAKE(from, TIFF, WriteEncodedStrip);
    PENSTOCK_TAKE(from, TIFF, GetStrileOffset);
    PENSTOCK_TAKE(from, TIFF, GetStrileByteCount);
    PENSTOCK_TAKE(from, TIFF, IsCODECConfigured);
  });
}
#endif

#ifdef PENSTOCK_OPENJPEG
result<const openjpeg_library*> openjpeg_library::get() {
  return once_per_process<openjpeg_library>("libopenjp2.so.7", [](openjpeg_library& found, loader& from) {
    PENSTOCK_TAKE(from, opj_, stream_create);
    PENSTOCK_TAKE(from, opj_, stream_destroy);
    PENSTOCK_TAKE(from, opj_, stream_set_user_data);
    PENSTOCK_TAKE(from, opj_, stream_set_user_data_length);
    PENSTOCK_TAKE(from, opj_, stream_set_read_function);
    PENSTOCK_TAKE(from, opj_, stream_set_skip_function);
    PENSTOCK_TAKE(from, opj_, stream_set_seek_function);
    PENSTOCK_TAKE(from, opj_, create_decompress);
    PENSTOCK_TAKE(from, opj_, destroy_codec);
    PENSTOCK_TAKE(from, opj_, set_error_handler);
    PENSTOCK_TAKE(from, opj_, set_default_decoder_parameters);
    PENSTOCK_TAKE(from, opj_, setup_decoder);
    PENSTOCK_TAKE(from, opj_, read_header);
    PENSTOCK_TAKE(from, opj_, decode);
    PENSTOCK_TAKE(from, opj_, image_destroy);
  });
}
#endif

#ifdef PENSTOCK_LIBJXL
result<const jxl_library*> jxl_library::get() {
  // The version of the headers: the library has no stable interface yet.
  std::string name = fmt::format("libjxl.so.{}.{}", JPEGXL_MAJOR_VERSION, JPEGXL_MINOR_VERSION);
  return once_per_process<jxl_library>(std::move(name), [](jxl_library& found, loader& from) {
    PENSTOCK_TAKE(from, Jxl, DecoderCreate);
    PENSTOCK_TAKE(from, Jxl, DecoderDestroy);
    PENSTOCK_TAKE(from, Jxl, DecoderSubscribeEvents);
    PENSTOCK_TAKE(from, Jxl, DecoderSetKeepOrientation);
    PENSTOCK_TAKE(from, Jxl, DecoderSetRenderSpotcolors);
    PENSTOCK_TAKE(from, Jxl, DecoderSetInput);
    PENSTOCK_TAKE(from, Jxl, DecoderCloseInput);
    PENSTOCK_TAKE(from, Jxl, DecoderProcessInput);
    PENSTOCK_TAKE(from, Jxl, DecoderGetBasicInfo);
    PENSTOCK_TAKE(from, Jxl, DecoderImageOutBufferSize);
    PENSTOCK_TAKE(from, Jxl, DecoderSetImageOutBuffer);
    PENSTOCK_TAKE(from, Jxl, DecoderExtraChannelBufferSize);
    PENSTOCK_TAKE(from, Jxl, DecoderSetExtraChannelBuffer);
  });
}
#endif

#undef PENSTOCK_TAKE

}  // namespace penstock::inline v0
