#include "codec/filters/zfp_library.h"

#ifdef PENSTOCK_LIBZFP

#include "codec/run_time_library.h"

namespace penstock::inline v0 {

#ifdef PENSTOCK_ZFP_LINKED
#define PENSTOCK_TAKE PENSTOCK_TAKE_LINKED
#else
#define PENSTOCK_TAKE PENSTOCK_TAKE_LOADED
#endif

result<const zfp_library*> zfp_library::get() {
  return once_per_process<zfp_library>("libzfp.so.1", [](zfp_library& found, run_time_library& from) {
    PENSTOCK_TAKE(from, stream_, word_bits);
    PENSTOCK_TAKE(from, stream_, open);
    PENSTOCK_TAKE(from, stream_, close);
    PENSTOCK_TAKE(from, zfp_, stream_set_rate);
    PENSTOCK_TAKE(from, zfp_, stream_set_precision);
    PENSTOCK_TAKE(from, zfp_, stream_set_accuracy);
    PENSTOCK_TAKE(from, zfp_, stream_set_reversible);
    PENSTOCK_TAKE(from, zfp_, stream_set_params);
    PENSTOCK_TAKE(from, zfp_, read_header);
    PENSTOCK_TAKE(from, zfp_, write_header);
    PENSTOCK_TAKE(from, zfp_, compress);
    PENSTOCK_TAKE(from, zfp_, decompress);
    PENSTOCK_TAKE(from, zfp_, version_string);
  });
}

#undef PENSTOCK_TAKE

}  // namespace penstock::inline v0

#endif
