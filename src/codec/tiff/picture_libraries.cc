#include "codec/tiff/picture_libraries.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "codec/run_time_library.h"

namespace penstock::inline v0 {

#ifdef PENSTOCK_PICTURES_LINKED
#define PENSTOCK_TAKE PENSTOCK_TAKE_LINKED
#else
#define PENSTOCK_TAKE PENSTOCK_TAKE_LOADED
#endif

#ifdef PENSTOCK_LIBTIFF
result<const tiff_library*> tiff_library::get() {
  return once_per_process<tiff_library>("libtiff.so.6", [](tiff_library& found, run_time_library& from) {
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
    PENSTOCK_TAKE(from, TIFF, GetVersion);
  });
}
#endif

#ifdef PENSTOCK_OPENJPEG
result<const openjpeg_library*> openjpeg_library::get() {
  return once_per_process<openjpeg_library>("libopenjp2.so.7", [](openjpeg_library& found, run_time_library& from) {
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
    PENSTOCK_TAKE(from, opj_, version);
  });
}
#endif

#ifdef PENSTOCK_LIBJXL
result<const jxl_library*> jxl_library::get() {
  // The version of the headers: the library has no stable interface yet.
  std::string name = fmt::format("libjxl.so.{}.{}", JPEGXL_MAJOR_VERSION, JPEGXL_MINOR_VERSION);
  return once_per_process<jxl_library>(std::move(name), [](jxl_library& found, run_time_library& from) {
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
    PENSTOCK_TAKE(from, Jxl, DecoderVersion);
  });
}
#endif

#undef PENSTOCK_TAKE

}  // namespace penstock::inline v0
