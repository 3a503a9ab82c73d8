// Codecs of arrays, by the first byte; the second chooses the length. The rest is decoded as a hostile chunk, and
// encoded as a cell's content, whose decoding must succeed, and be the content where the filter loses nothing.

#include "codec_fuzz.h"

namespace {

using namespace penstock;

struct subject {
  std::string_view type, name, settings;
  bool lossless;
};

constexpr subject kSubjects[] = {
    {"int32", "numcodecs.delta", R"({"dtype":"<i4"})", true},
    {"uint16", "numcodecs.delta", R"({"dtype":">u2","astype":"<i8"})", true},
    {"float64", "numcodecs.delta", R"({"dtype":"<f8","astype":"<f4"})", false},
    {"float16", "numcodecs.delta", R"({"dtype":"<f2","astype":"|i1"})", false},
    {"float32", "numcodecs.fixedscaleoffset", R"({"offset":1.5,"scale":10,"dtype":"<f4","astype":"|u1"})", false},
    {"int16", "numcodecs.fixedscaleoffset", R"({"offset":-7,"scale":3,"dtype":"<i2","astype":">i4"})", false},
    {"float64", "numcodecs.quantize", R"({"digits":3,"dtype":"<f8","astype":"<f2"})", false},
    {"uint64", "numcodecs.astype", R"({"encode_dtype":">f4","decode_dtype":"<u8"})", false},
    {"float64", "numcodecs.astype", R"({"encode_dtype":"<u8","decode_dtype":"<f8"})", false},
    {"float32", "bitround", R"({"keepbits":5})", false},
    {"int8", "bitround", R"({"keepbits":3})", false},
    {"bool", "numcodecs.packbits", R"({})", false},
    {"uint16", "packbits", R"({"padding_encoding":"first_byte","first_bit":0,"last_bit":15})", true},
    {"int32", "packbits", R"({"padding_encoding":"last_byte","first_bit":3,"last_bit":13})", false},
    {"complex64", "packbits", R"({"last_bit":30})", false},
    {"float64", "cast_value", R"({"data_type":"uint8","rounding":"nearest-away","out_of_range":"clamp"})", false},
    {"int64", "cast_value", R"({"data_type":"float16","scalar_map":{"encode":[[1,"NaN"]],"decode":[["NaN",1]]}})",
     false},
    {"float32", "cast_value", R"({"data_type":"float8_e4m3fn","out_of_range":"clamp"})", false},
    {"bfloat16", "cast_value", R"({"data_type":"int4","rounding":"towards-negative","out_of_range":"wrap"})", false},
    {"float8_e8m0fnu", "cast_value", R"({"data_type":"float64","scalar_map":{"decode":[["0x7ff8000000000000",1]]}})",
     false},
    {"int64", "scale_offset", R"({"offset":5,"scale":-3})", true},
    {"int4", "scale_offset", R"({"offset":1,"scale":3})", false},
    {"float8_e4m3fn", "scale_offset", R"({"offset":1,"scale":2})", false},
    {"float16", "scale_offset", R"({"offset":5,"scale":3})", false},
    {"int16", "n5_default",
     R"({"codecs":[{"name":"transpose","configuration":{"order":[0]}},{"name":"bytes","configuration":{"endian":"big"}}]})",
     true},
    {"int16", "reshape", R"({"shape":[-1]})", true},
    {"float32", "zfp", R"({"mode":"reversible"})", true},
    {"int64", "zfp", R"({"mode":"expert","minbits":1,"maxbits":3,"maxprec":64,"minexp":-1074})", false},
    {"uint16", "zfp", R"({"mode":"fixed_precision","precision":9})", false},
    {"float64", "numcodecs.zfpy", R"({"mode":4,"tolerance":0.01})", false},
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz_input input(data, size);
  const subject& chosen = kSubjects[input.below(std::size(kSubjects))];
  const dtype type = dtype::from_name(chosen.type).value();
  const extents cell = {input.byte() * 3 + 1};
  json::object_t little;
  if (type.has_byte_order()) little.emplace_back("endian", "little");
  const codec_config codecs[] = {{"bytes", json(little)},
                                 {std::string(chosen.name), json::parse(chosen.settings).value()}};
  codec_chain_options options;
  options.stored_order_filters = true;
  const auto chain = codec_chain::compile(codecs, type, cell, options);
  if (!chain.ok() && chain.error().to_string().find("libzfp") != std::string::npos) return 0;
  require(chain.ok() && !chain->describe().empty());
  ledger accounts(std::uint64_t{64} << 20, 0);
  worker_scratch scratch(&accounts);
  const auto decode = [&](std::span<const std::byte> encoded, std::byte* out) {
    return chain->decode(encoded, {out, c_order_strides(cell, type.item_bytes()), nullptr, true}, scratch);
  };

  const std::span<const std::byte> rest = input.rest();
  const auto out = std::make_unique<std::byte[]>(chain->decoded_bytes());
  const auto hostile = std::make_unique<std::byte[]>(rest.size());
  if (!rest.empty()) std::memcpy(hostile.get(), rest.data(), rest.size());
  const auto refused = decode({hostile.get(), rest.size()}, out.get());
  require(refused.ok() || refused.error().code() == errc::corrupt_data || refused.error().code() == errc::unsupported);

  std::vector<std::byte> content(chain->decoded_bytes());
  for (std::size_t i = 0; i < content.size() && !rest.empty(); ++i) content[i] = rest[i % rest.size()];
  buffer room;
  const auto made = chain->encode(tensor_view::contiguous(content.data(), type, cell), room, scratch);
  require(made.ok() || made.error().code() == errc::invalid_argument);
  if (!made.ok()) return 0;
  const auto back = decode(*made, out.get());
  require(back.ok() || (!chosen.lossless && back.error().code() == errc::corrupt_data));
  require(!chosen.lossless || std::memcmp(out.get(), content.data(), content.size()) == 0);
  return 0;
}
