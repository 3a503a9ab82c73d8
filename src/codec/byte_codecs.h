#pragma once

#include <cstdint>
#include <memory>

#include <penstock/extend/codec.h>
#include "base/checked.h"
#include "codec/codec_chain.h"

namespace penstock::inline v0 {

/// Makes a codec from its metadata, for its future input. The registry lists these functions.
///
/// \error corrupt_data  A setting is absent, or of the wrong kind or range. \error unsupported  An unknown setting, or
/// an input that the codec does not accept. Source: Zarr v3 codec specifications and numcodecs' documentation of the
/// same names.
using codec_factory = result<compiled_codec>(const codec_config& config, const stage_type& input);
codec_factory make_zstd_codec, make_gzip_codec, make_zlib_codec, make_blosc_codec, make_lz4_codec, make_bz2_codec,
    make_lzma_codec, make_shuffle_codec, make_conditional_codec, make_base64_codec;
codec_factory make_padded_zlib_codec;  // `codec_chain_options::padded_streams`
codec_factory make_crc32c_codec, make_crc32_codec, make_adler32_codec, make_fletcher32_codec,
    make_jenkins_lookup3_codec;
codec_factory make_delta_codec, make_fixedscaleoffset_codec, make_quantize_codec, make_astype_codec,
    make_bitround_codec, make_packbits_codec, make_numcodecs_packbits_codec, make_reshape_codec, make_squeeze_codec,
    make_scale_offset_codec, make_cast_value_codec, make_n5_default_codec, make_window_codec, make_zfp_codec,
    make_zfpy_codec;
codec_factory make_vlen_utf8_codec, make_vlen_bytes_codec, make_vlen_array_codec;
codec_factory make_hdf5_bits_codec, make_hdf5_bitshuffle_codec, make_hdf5_blosc2_codec, make_hdf5_cast_codec,
    make_hdf5_field_codec, make_hdf5_lz4_codec, make_hdf5_lzf_codec, make_hdf5_nbit_codec, make_hdf5_number_codec,
    make_hdf5_scaleoffset_codec, make_hdf5_shuffle_codec, make_hdf5_string_codec, make_hdf5_szip_codec,
    make_hdf5_zfp_codec;
codec_factory make_netcdf_records_codec;

/// The most encoded bytes that are accepted for `decoded_bytes`: other encoders may be worse than this library's.
std::uint64_t encoded_limit(const byte_codec& codec, std::uint64_t decoded_bytes);

}  // namespace penstock::inline v0
