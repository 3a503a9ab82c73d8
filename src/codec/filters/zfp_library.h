#pragma once

// libzfp, if this build has it: `PENSTOCK_LIBZFP`. Included only by the sources that call it.

#include <penstock/result.h>

#ifdef PENSTOCK_LIBZFP
#include <zfp.h>

static_assert(ZFP_VERSION_MAJOR == 1, "the structures of zfp_library are those of zfp 1");

namespace penstock::inline v0 {

struct zfp_library {
  decltype(&::stream_word_bits) word_bits = nullptr;
  decltype(&::stream_open) open = nullptr;
  decltype(&::stream_close) close = nullptr;
  decltype(&::zfp_stream_set_rate) stream_set_rate = nullptr;
  decltype(&::zfp_stream_set_precision) stream_set_precision = nullptr;
  decltype(&::zfp_stream_set_accuracy) stream_set_accuracy = nullptr;
  decltype(&::zfp_stream_set_reversible) stream_set_reversible = nullptr;
  decltype(&::zfp_stream_set_params) stream_set_params = nullptr;
  decltype(&::zfp_read_header) read_header = nullptr;
  decltype(&::zfp_write_header) write_header = nullptr;
  decltype(&::zfp_compress) compress = nullptr;
  decltype(&::zfp_decompress) decompress = nullptr;
  decltype(&::zfp_version_string) version_string = nullptr;

  /// The library, found once per process.
  /// \error unsupported  This machine does not have it, or has another version.
  static result<const zfp_library*> get();
};

}  // namespace penstock::inline v0
#endif
