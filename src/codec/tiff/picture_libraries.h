#pragma once

// The libraries of this build that decode pictures in TIFF. Included only by the sources that call them.
//
// They are loaded at first use: a program without such files should not load fifteen libraries at its start. A build
// with PENSTOCK_PICTURES=LINK links them instead.

#include <penstock/result.h>

#ifdef PENSTOCK_LIBTIFF
#include <tiffio.h>

namespace penstock::inline v0 {

struct tiff_library {
  decltype(&::TIFFOpenOptionsAlloc) OpenOptionsAlloc = nullptr;
  decltype(&::TIFFOpenOptionsFree) OpenOptionsFree = nullptr;
  decltype(&::TIFFOpenOptionsSetErrorHandlerExtR) OpenOptionsSetErrorHandlerExtR = nullptr;
  decltype(&::TIFFOpenOptionsSetWarningHandlerExtR) OpenOptionsSetWarningHandlerExtR = nullptr;
  decltype(&::TIFFOpenOptionsSetMaxSingleMemAlloc) OpenOptionsSetMaxSingleMemAlloc = nullptr;
  decltype(&::TIFFClientOpenExt) ClientOpenExt = nullptr;
  decltype(&::TIFFClose) Close = nullptr;
  decltype(&::TIFFSetField) SetField = nullptr;
  decltype(&::TIFFStripSize) StripSize = nullptr;
  decltype(&::TIFFReadEncodedStrip) ReadEncodedStrip = nullptr;
  decltype(&::TIFFWriteEncodedStrip) WriteEncodedStrip = nullptr;
  decltype(&::TIFFGetStrileOffset) GetStrileOffset = nullptr;
  decltype(&::TIFFGetStrileByteCount) GetStrileByteCount = nullptr;
  decltype(&::TIFFIsCODECConfigured) IsCODECConfigured = nullptr;
  decltype(&::TIFFGetVersion) GetVersion = nullptr;

  /// The library, found once per process.
  /// \error unsupported  This machine does not have it, or has an older one.
  static result<const tiff_library*> get();
};

}  // namespace penstock::inline v0
#endif

#ifdef PENSTOCK_OPENJPEG
#include <openjpeg.h>

namespace penstock::inline v0 {

struct openjpeg_library {
  decltype(&::opj_stream_create) stream_create = nullptr;
  decltype(&::opj_stream_destroy) stream_destroy = nullptr;
  decltype(&::opj_stream_set_user_data) stream_set_user_data = nullptr;
  decltype(&::opj_stream_set_user_data_length) stream_set_user_data_length = nullptr;
  decltype(&::opj_stream_set_read_function) stream_set_read_function = nullptr;
  decltype(&::opj_stream_set_skip_function) stream_set_skip_function = nullptr;
  decltype(&::opj_stream_set_seek_function) stream_set_seek_function = nullptr;
  decltype(&::opj_create_decompress) create_decompress = nullptr;
  decltype(&::opj_destroy_codec) destroy_codec = nullptr;
  decltype(&::opj_set_error_handler) set_error_handler = nullptr;
  decltype(&::opj_set_default_decoder_parameters) set_default_decoder_parameters = nullptr;
  decltype(&::opj_setup_decoder) setup_decoder = nullptr;
  decltype(&::opj_read_header) read_header = nullptr;
  decltype(&::opj_decode) decode = nullptr;
  decltype(&::opj_image_destroy) image_destroy = nullptr;
  decltype(&::opj_version) version = nullptr;

  /// As above.
  static result<const openjpeg_library*> get();
};

}  // namespace penstock::inline v0
#endif

#ifdef PENSTOCK_LIBJXL
#include <jxl/decode.h>
#include <jxl/version.h>

namespace penstock::inline v0 {

struct jxl_library {
  decltype(&::JxlDecoderCreate) DecoderCreate = nullptr;
  decltype(&::JxlDecoderDestroy) DecoderDestroy = nullptr;
  decltype(&::JxlDecoderSubscribeEvents) DecoderSubscribeEvents = nullptr;
  decltype(&::JxlDecoderSetKeepOrientation) DecoderSetKeepOrientation = nullptr;
  decltype(&::JxlDecoderSetRenderSpotcolors) DecoderSetRenderSpotcolors = nullptr;
  decltype(&::JxlDecoderSetInput) DecoderSetInput = nullptr;
  decltype(&::JxlDecoderCloseInput) DecoderCloseInput = nullptr;
  decltype(&::JxlDecoderProcessInput) DecoderProcessInput = nullptr;
  decltype(&::JxlDecoderGetBasicInfo) DecoderGetBasicInfo = nullptr;
  decltype(&::JxlDecoderImageOutBufferSize) DecoderImageOutBufferSize = nullptr;
  decltype(&::JxlDecoderSetImageOutBuffer) DecoderSetImageOutBuffer = nullptr;
  decltype(&::JxlDecoderExtraChannelBufferSize) DecoderExtraChannelBufferSize = nullptr;
  decltype(&::JxlDecoderSetExtraChannelBuffer) DecoderSetExtraChannelBuffer = nullptr;
  decltype(&::JxlDecoderVersion) DecoderVersion = nullptr;

  /// As above.
  static result<const jxl_library*> get();
};

}  // namespace penstock::inline v0
#endif
