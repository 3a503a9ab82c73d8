#pragma once

// Array codecs, lossy codecs and decode-only codecs, each with the accuracy that it promises. Shared by the contract
// suite (tests/contract/filter_contract.h) and the fuzz targets; lossless bytes-to-bytes codecs are in codec_fixture.h.
// The fuzz targets choose a row by its number: append new rows at the end.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "codec/codec_chain.h"

namespace penstock::inline v0 {

/// The accuracy of a filter for the values `low + step * k` with k in [0, count).
struct filter_promise {
  bool lossless = false;  ///< every encoded value is restored, bit by bit
  double low = 0, step = 1;
  std::uint32_t count = 0;  ///< 0: for every value of the type
  double absolute = 0;      ///< the largest difference; infinite: no bound is guaranteed
  double relative = 0;      ///< ... or this fraction of the value, whichever is larger
};

inline constexpr filter_promise kLossless{true};
inline constexpr double kNoBound = std::numeric_limits<double>::infinity();

struct filter_row {
  std::string_view type, name, settings;
  filter_promise promise;
};

/// Values of `float8_*` are converted from the numbers to bits.
inline constexpr filter_row kFilterRows[] = {
    {"int32", "numcodecs.delta", R"({"dtype":"<i4"})", kLossless},
    {"uint16", "numcodecs.delta", R"({"dtype":">u2","astype":"<i8"})", kLossless},
    {"float64", "numcodecs.delta", R"({"dtype":"<f8","astype":"<f4"})", {false, -100, 0.1, 2000, 1e-2}},
    {"float16", "numcodecs.delta", R"({"dtype":"<f2","astype":"|i1"})", {false, -50, 1, 100}},
    {"float32",
     "numcodecs.fixedscaleoffset",
     R"({"offset":1.5,"scale":10,"dtype":"<f4","astype":"|u1"})",
     {false, 1.5, 0.01, 2550, 0.0501}},
    {"int16",
     "numcodecs.fixedscaleoffset",
     R"({"offset":-7,"scale":3,"dtype":"<i2","astype":">i4"})",
     {false, -1000, 1, 2000}},
    {"float64",
     "numcodecs.quantize",
     R"({"digits":3,"dtype":"<f8","astype":"<f2"})",
     {false, -1, 0.0007, 2850, 0.0005}},
    {"uint64", "numcodecs.astype", R"({"encode_dtype":">f4","decode_dtype":"<u8"})", {false, 0, 167, 100'000}},
    {"float64", "numcodecs.astype", R"({"encode_dtype":"<u8","decode_dtype":"<f8"})", {false, 0, 9, 1'000'000}},
    {"float32", "bitround", R"({"keepbits":5})", {false, -50, 0.1, 1000, 0, 1.0 / 64}},
    // Integers are rounded as if they were unsigned: larger ones would exceed the positive numbers.
    {"int8", "bitround", R"({"keepbits":3})", {false, 0, 1, 112, 0, 1.0 / 8}},
    {"bool", "numcodecs.packbits", R"({})", {false, 0, 1, 2}},
    {"uint16", "packbits", R"({"padding_encoding":"first_byte","first_bit":0,"last_bit":15})", kLossless},
    {"int32", "packbits", R"({"padding_encoding":"last_byte","first_bit":3,"last_bit":13})", {false, -8192, 8, 2048}},
    {"complex64", "packbits", R"({"last_bit":30})", {false, 0, 0.25, 1000}},
    {"float64",
     "cast_value",
     R"({"data_type":"uint8","rounding":"nearest-away","out_of_range":"clamp"})",
     {false, 0, 0.1, 2550, 0.5}},
    {"int64",
     "cast_value",
     R"({"data_type":"float16","scalar_map":{"encode":[[1,"NaN"]],"decode":[["NaN",1]]}})",
     {false, -2048, 1, 4096}},
    {"float32",
     "cast_value",
     R"({"data_type":"float8_e4m3fn","out_of_range":"clamp"})",
     {false, 1, 0.1, 4400, 0, 1.0 / 16}},
    {"bfloat16",
     "cast_value",
     R"({"data_type":"int4","rounding":"towards-negative","out_of_range":"wrap"})",
     {false, -8, 1, 16}},
    {"float8_e8m0fnu",
     "cast_value",
     R"({"data_type":"float64","scalar_map":{"decode":[["0x7ff8000000000000",1]]}})",
     {false, 0, 1, 255}},
    {"int64", "scale_offset", R"({"offset":5,"scale":-3})", {true, -4000, 7, 100'000}},
    {"int4", "scale_offset", R"({"offset":1,"scale":3})", {false, -1, 1, 5}},
    {"float8_e4m3fn", "scale_offset", R"({"offset":1,"scale":2})", {false, 0x40, 4, 4}},
    {"float16", "scale_offset", R"({"offset":5,"scale":3})", {false, 5, 0.125, 800, 0.15}},
    {"int16", "n5_default",
     R"({"codecs":[{"name":"transpose","configuration":{"order":[0]}},{"name":"bytes","configuration":{"endian":"big"}}]})",
     kLossless},
    {"int16", "reshape", R"({"shape":[-1]})", kLossless},
    {"float32", "zfp", R"({"mode":"reversible"})", kLossless},
    {"int64",
     "zfp",
     R"({"mode":"expert","minbits":1,"maxbits":3,"maxprec":64,"minexp":-1074})",
     {false, -1000, 1, 2000, kNoBound}},
    {"uint16", "zfp", R"({"mode":"fixed_precision","precision":9})", {false, 0, 1, 4096, 512}},
    {"float64", "numcodecs.zfpy", R"({"mode":4,"tolerance":0.01})", {false, -50, 0.013, 5000, 0.01}},
};

/// The filter of a cell of `length` elements, whose items are stored in the order little end first.
inline result<codec_chain> compile_filter(const filter_row& row, std::uint64_t length) {
  PENSTOCK_ASSIGN(const dtype type, dtype::from_name(row.type));
  PENSTOCK_ASSIGN(json settings, json::parse(row.settings));
  json::object_t little;
  if (type.has_byte_order()) little.emplace_back("endian", "little");
  const codec_config codecs[] = {{"bytes", json(std::move(little))}, {std::string(row.name), std::move(settings)}};
  codec_chain_options options;
  options.stored_order_filters = true;
  return codec_chain::compile(codecs, type, {length}, options);
}

/// A bytes-to-bytes codec that can only decode; with `writes`, a codec of HDF5 that can also encode.
struct read_only_row {
  std::string_view name, settings;
  bool writes = false;
};

inline constexpr read_only_row kReadOnlyRows[] = {
    {"hdf5.lzf", "{}"},
    {"hdf5.lz4", "{}"},
    {"hdf5.bitshuffle", R"({"elementsize":4,"blocksize":0,"compression":"none"})"},
    {"hdf5.bitshuffle", R"({"elementsize":3,"blocksize":16,"compression":"lz4"})"},
    {"hdf5.bitshuffle", R"({"elementsize":8,"blocksize":0,"compression":"zstd"})"},
    {"hdf5.szip", R"({"options":141,"block":8,"bits":8,"scanline":32})"},
    {"hdf5.szip", R"({"options":169,"block":4,"bits":64,"scanline":16})"},
    {"hdf5.szip", R"({"options":133,"block":32,"bits":24,"scanline":100})"},
    {"hdf5.nbit", R"({"parameters":[8,0,10,1,4,0,17,3]})"},
    {"hdf5.nbit", R"({"parameters":[20,0,3,3,12,2,0,1,4,1,20,5,4,2,8,1,2,0,9,0]})"},
    {"hdf5.scaleoffset", R"({"parameters":[2,0,10,0,4,1,0,1,7]})"},
    {"hdf5.scaleoffset", R"({"parameters":[0,3,10,1,8,1,1,0]})"},
    {"hdf5.bits", R"({"elementsize":4,"precision":17,"offset":3,"signed":true,"endian":"big"})"},
    {"hdf5.string", R"({"elementsize":9,"fields":[[0,2,3,0],[6,1,3,1]]})"},
    {"hdf5.shuffle", R"({"elementsize":4})", true},
    {"hdf5.shuffle", R"({"elementsize":7})", true},
    {"hdf5.field", R"({"elementsize":24,"offset":5,"bytes":8})"},
    {"hdf5.cast", R"({"from":">f8","to":"<i2"})"},
    {"hdf5.cast", R"({"from":"<f2","to":"<f4"})"},
    {"hdf5.number", R"({"kind":"integer","elementsize":3,"to":4,"precision":20,"offset":2,"signed":true})"},
    {"hdf5.number",
     R"({"kind":"float","elementsize":3,"to":4,"sign":23,"exponent":16,"exponent_bits":7,"mantissa":0,"mantissa_bits":16,"bias":63,"endian":"big"})"},
    {"hdf5.number",
     R"({"kind":"float","elementsize":8,"to":8,"sign":63,"exponent":52,"exponent_bits":11,"mantissa":0,"mantissa_bits":52,"bias":1025,"endian":"vax"})"},
    {"hdf5.blosc2", "{}"},
};

inline result<std::shared_ptr<const byte_codec>> make_codec(const read_only_row& row) {
  PENSTOCK_ASSIGN(json settings, json::parse(row.settings));
  return make_byte_codec({std::string(row.name), std::move(settings)}, 1);
}

}  // namespace penstock::inline v0
