#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "base/nearest_word.h"
#include "base/thrown.h"
#include "codec/byte_codecs.h"
#include "codec/filters/array_stages.h"
#include "codec/unknown_codec.h"

namespace penstock::inline v0 {
namespace {

using place = codec_place;

/// `name` is a Zarr v3 name. With the prefix "numcodecs." (or as a v2 id) it means the same codec, unless the table has
/// that name too.
struct entry {
  std::string_view name;
  place where;
  codec_factory* make;
  bool takes_items = false;  ///< supports elements of variable length
};

constexpr entry kCodecs[] = {
    {"adler32", place::bytes, make_adler32_codec},
    {"astype", place::array, make_astype_codec},
    {"base64", place::bytes, make_base64_codec},
    {"bitround", place::array, make_bitround_codec},
    {"blosc", place::bytes, make_blosc_codec},
    {"bz2", place::bytes, make_bz2_codec},
    {"cast_value", place::array, make_cast_value_codec},
    {"conditional", place::bytes, make_conditional_codec},
    {"crc32", place::bytes, make_crc32_codec},
    {"crc32c", place::bytes, make_crc32c_codec},
    {"delta", place::array, make_delta_codec},
    {"fixedscaleoffset", place::array, make_fixedscaleoffset_codec},
    {"fletcher32", place::bytes, make_fletcher32_codec},
    {"gzip", place::bytes, make_gzip_codec},
    {"hdf5.bits", place::bytes, make_hdf5_bits_codec},
    {"hdf5.bitshuffle", place::bytes, make_hdf5_bitshuffle_codec},
    {"hdf5.blosc2", place::bytes, make_hdf5_blosc2_codec},
    {"hdf5.cast", place::bytes, make_hdf5_cast_codec},
    {"hdf5.field", place::bytes, make_hdf5_field_codec},
    {"hdf5.lz4", place::bytes, make_hdf5_lz4_codec},
    {"hdf5.lzf", place::bytes, make_hdf5_lzf_codec},
    {"hdf5.nbit", place::bytes, make_hdf5_nbit_codec},
    {"hdf5.number", place::bytes, make_hdf5_number_codec},
    {"hdf5.scaleoffset", place::bytes, make_hdf5_scaleoffset_codec},
    {"hdf5.shuffle", place::bytes, make_hdf5_shuffle_codec},
    {"hdf5.string", place::bytes, make_hdf5_string_codec},
    {"hdf5.szip", place::bytes, make_hdf5_szip_codec},
    {"hdf5.zfp", place::bytes, make_hdf5_zfp_codec},
    {"jenkins_lookup3", place::bytes, make_jenkins_lookup3_codec},
    {"lz4", place::bytes, make_lz4_codec},
    {"lzma", place::bytes, make_lzma_codec},
    {"n5_default", place::array_to_bytes, make_n5_default_codec},
    {"netcdf.records", place::bytes, make_netcdf_records_codec},
    {"numcodecs.packbits", place::array, make_numcodecs_packbits_codec},
    {"packbits", place::array_to_bytes, make_packbits_codec},
    {"quantize", place::array, make_quantize_codec},
    {"reference.window", place::bytes, make_window_codec},
    {"reshape", place::array, make_reshape_codec},
    {"scale_offset", place::array, make_scale_offset_codec},
    {"shuffle", place::bytes, make_shuffle_codec},
    {"squeeze", place::array, make_squeeze_codec},
    {"vlen-array", place::array_to_bytes, make_vlen_array_codec, true},
    {"vlen-bytes", place::array_to_bytes, make_vlen_bytes_codec, true},
    {"vlen-utf8", place::array_to_bytes, make_vlen_utf8_codec, true},
    {"zfp", place::array_to_bytes, make_zfp_codec},
    {"zfpy", place::array_to_bytes, make_zfpy_codec},
    {"zlib", place::bytes, make_zlib_codec},
    {"zstd", place::bytes, make_zstd_codec},
};

constexpr std::string_view kNumcodecs = "numcodecs.";

std::string_view without_prefix(std::string_view name) noexcept {
  if (name.starts_with(kNumcodecs)) name.remove_prefix(kNumcodecs.size());
  return name;
}

const entry* find(std::string_view name) noexcept {
  for (const entry& known : kCodecs) {
    if (known.name == name) return &known;
  }
  if (!name.starts_with(kNumcodecs)) return nullptr;
  for (const entry& known : kCodecs) {
    if (known.name == without_prefix(name)) return &known;
  }
  return nullptr;
}

result<compiled_codec> make_known(const entry& known, const codec_config& config, const stage_type& input,
                                  const codec_chain_options& options) {
  if (!options.stored_order_filters) {
    if (known.where == place::bytes && input.is_array) {
      return error{errc::corrupt_data,
                   fmt::format("codec '{}' works on bytes, no array-to-bytes codec precedes it", config.name)};
    }
    if (known.where != place::bytes && !input.is_array) {
      return error{errc::corrupt_data,
                   fmt::format("codec '{}' works on arrays, it follows the array-to-bytes codec", config.name)};
    }
  }
  if (input.is_array && input.type.variable_length() && !known.takes_items) {
    return error{errc::unsupported, fmt::format("codec '{}' does not support elements of variable length ({})",
                                                config.name, input.type.name())};
  }
  if (options.padded_streams && known.make == make_zlib_codec) return make_padded_zlib_codec(config, input);
  return known.make(config, input);
}

}  // namespace

result<compiled_codec> make_codec(const codec_config& config, const stage_type& input,
                                  const codec_chain_options& options) {
  const entry* const known = find(config.name);
  if (known == nullptr) {
    if (options.external != nullptr)
      return caught("the provider of codecs", [&] { return options.external->make(config, input); });
    return unknown_codec(config.name);
  }
  result<compiled_codec> made = make_known(*known, config, input, options);
  if (made.ok() || made.error().code() != errc::unsupported || options.external == nullptr) return made;
  // Another provider may support what this library does not.
  result<compiled_codec> other =
      caught("the provider of codecs", [&] { return options.external->make(config, input); });
  return !other.ok() && other.error().code() == errc::unsupported ? std::move(made) : std::move(other);
}

result<std::shared_ptr<const byte_codec>> make_byte_codec(const codec_config& config, std::uint32_t item_bytes) {
  PENSTOCK_ASSIGN(compiled_codec made,
                  make_codec(config, stage_type::bytes_of(dtype::raw(item_bytes), kUnbounded, false)));
  return std::move(made.codec);
}

result<codec_config> codec_of_v2(const json& value) {
  const json::object_t* const members = value.as_object();
  const json* const id = value.find("id");
  if (members == nullptr || id == nullptr || id->as_string() == nullptr) {
    return error{errc::corrupt_data, "a codec should be an object with a string 'id'"};
  }
  codec_config made{std::string(kNumcodecs) + *id->as_string(), {}};
  json::object_t rest;
  for (const auto& [name, setting] : *members) {
    if (name != "id") rest.emplace_back(name, setting);
  }
  made.configuration = json(std::move(rest));
  return made;
}

error unknown_codec(std::string_view name) {
  const std::vector<std::string> names = codec_names();
  return with_suggestion(
      error{errc::unsupported, fmt::format("no codec '{:.80}'; there are {}", name, fmt::join(names, ", "))},
      without_prefix(name), names);
}

std::optional<codec_place> place_of_codec(std::string_view name) noexcept {
  const entry* const known = find(name);
  return known == nullptr ? std::nullopt : std::optional(known->where);
}

std::vector<std::string> codec_names() {
  std::vector<std::string> names(kArrayCodecNames.begin(), kArrayCodecNames.end());
  for (const entry& known : kCodecs) {
    if (known.name.substr(0, kNumcodecs.size()) != kNumcodecs) names.emplace_back(known.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace penstock::inline v0
