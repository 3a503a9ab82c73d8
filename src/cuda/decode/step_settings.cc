#include "cuda/decode/step_settings.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <penstock/dtype.h>

#include "codec/codec_chain.h"
#include "codec/device_form.h"
#include "cuda/decode/host_decode.h"
#include "cuda/decode/numbers.h"

namespace penstock::inline v0::device {
namespace {

constexpr std::uint64_t kMostItemBytes = 65535;

// Settings are numbers from `least` to `most`.
result<std::uint32_t> number_of(const json& settings, std::string_view name, std::uint64_t least, std::uint64_t most,
                                std::optional<std::uint64_t> otherwise = std::nullopt) {
  std::uint64_t out = otherwise.value_or(0);
  const json* const given = settings.find(name);
  if (given == nullptr && !otherwise) return error(errc::invalid_argument, fmt::format("'{}' is missing", name));
  if (given != nullptr && (!given->get(out) || out < least || out > most))
    return error(errc::invalid_argument, fmt::format("'{}' should be a number from {} to {}", name, least, most));
  return static_cast<std::uint32_t>(out);
}

struct integer_type {
  std::uint32_t bytes;
  bool is_signed, swapped;
};

result<integer_type> integer_of(const json& settings, std::string_view name) {
  const json* const given = settings.find(name);
  if (given == nullptr || given->as_string() == nullptr)
    return error(errc::invalid_argument, fmt::format("'{}' should be a type string, such as \"<i4\"", name));
  PENSTOCK_ASSIGN(const numpy_type type, dtype::from_numpy(*given->as_string()));
  const bool is_signed = type.type.kind() == dtype_kind::signed_integer;
  if (!is_signed && type.type.kind() != dtype_kind::unsigned_integer)
    return error(errc::unsupported, "the device sums integers of 1, 2, 4 or 8 bytes");
  return integer_type{type.type.item_bytes(), is_signed, type.big_endian && type.type.item_bytes() > 1};
}

result<device_step> delta_step(const json& settings) {
  PENSTOCK_ASSIGN(const integer_type decoded, integer_of(settings, "dtype"));
  integer_type stored = decoded;
  if (settings.find("astype") != nullptr) {
    PENSTOCK_ASSIGN(stored, integer_of(settings, "astype"));
  }
  const delta_layout how{stored.bytes, decoded.bytes, stored.is_signed, stored.swapped, decoded.swapped};
  device_step step{step_kind::delta};
  step.settings = how.parameter();
  return step;
}

result<device_step> predictor_step(const json& settings) {
  device_step step{step_kind::rows};
  row_layout& rows = step.rows;
  PENSTOCK_ASSIGN(rows.predictor, number_of(settings, "predictor", 1, 3));
  PENSTOCK_ASSIGN(rows.rows, number_of(settings, "rows", 1, 0xffffffffU));
  PENSTOCK_ASSIGN(rows.width, number_of(settings, "width", 1, 0xffffffffU));
  PENSTOCK_ASSIGN(rows.samples, number_of(settings, "samples", 1, kMostPicked, 1));
  PENSTOCK_ASSIGN(rows.item_bytes, number_of(settings, "elementsize", 1, 8));
  rows.unit_bytes = rows.item_bytes;
  const json* const endian = settings.find("endian");
  rows.big_endian = endian != nullptr && endian->as_string() != nullptr && *endian->as_string() == "big" ? 1 : 0;
  rows.wanted = rows.samples;
  for (std::uint32_t j = 0; j < rows.wanted; ++j) rows.picked[j] = static_cast<std::uint8_t>(j);
  return step;
}

result<device_step> sized_step(step_kind kind, const json& settings) {
  device_step step{kind};
  PENSTOCK_ASSIGN(step.item_bytes, number_of(settings, "elementsize", 1, kMostItemBytes));
  return step;
}

std::optional<device_step> samples_step(const device_form& form) {
  device_step step{};
  const tiff_samples& from = *form.samples;
  const bool complex = from.kind == sample_kind::complex_floating;
  constexpr std::uint64_t kMost = 0xffffffffU;
  if (from.kind == sample_kind::complex_integer || from.mask || from.rows > kMost || from.width > kMost ||
      form.picked.size() > kMostPicked)
    return std::nullopt;
  // The host unpacks items of other widths.
  if (from.bits != 8 && from.bits != 16 && from.bits != 32 && from.bits != 64 && from.bits != 128) return std::nullopt;
  step.kind = step_kind::rows;
  step.rows.rows = static_cast<std::uint32_t>(from.rows);
  step.rows.width = static_cast<std::uint32_t>(from.width);
  step.rows.samples = from.samples;
  step.rows.item_bytes = from.bits / 8;
  step.rows.unit_bytes = complex && from.predictor == 1 ? from.bits / 16 : std::min(from.bits / 8, 8U);
  step.rows.predictor = from.predictor;
  step.rows.big_endian = from.big_endian ? 1 : 0;
  step.rows.wanted = static_cast<std::uint32_t>(form.picked.size());
  for (std::size_t j = 0; j < form.picked.size(); ++j) {
    if (form.picked[j] > 255) return std::nullopt;
    step.rows.picked[j] = static_cast<std::uint8_t>(form.picked[j]);
  }
  return step;
}

result<device_step> step_of_one(const json& codec, std::span<const std::byte> encoded, std::uint64_t decoded_bytes) {
  const json none = json(json::object_t());
  const json* const named = codec.as_string() != nullptr ? &codec : codec.find("name");
  const json* const id = codec.find("id");
  const json* const said = named != nullptr ? named : id;
  if (said == nullptr || said->as_string() == nullptr)
    return error(errc::invalid_argument, "a codec should be a name, or have a 'name' or an 'id'");
  constexpr std::string_view kPrefix = "numcodecs.";
  std::string_view name = *said->as_string();
  if (name.substr(0, kPrefix.size()) == kPrefix) name.remove_prefix(kPrefix.size());
  const json* const configuration = codec.find("configuration");
  const json& settings = named == nullptr ? codec : configuration != nullptr ? *configuration : none;
  if (name == "delta") return delta_step(settings);
  if (name == "tiff_predictor") return predictor_step(settings);
  if (name == "bitshuffle") return sized_step(step_kind::bitshuffle, settings);
  if (name == "byte_swap") return sized_step(step_kind::byte_swap, settings);
  if (name == "crc32c") return device_step{step_kind::crc32c};
  if (name == "reverse_bits") return device_step{step_kind::reverse_bits};
  if (name == "shuffle" || name == "hdf5.shuffle" || name == "hdf5.bitshuffle") {
    constexpr std::uint32_t kOfNumcodecs = 4;
    json::object_t own;  // without the codec's name
    if (settings.as_object() != nullptr)
      for (const auto& [key, value] : *settings.as_object())
        if (key != "id" && key != "name") own.emplace_back(key, value);
    const auto made = make_byte_codec({std::string(name), json(std::move(own))}, kOfNumcodecs);
    const auto form = made.ok() ? (*made)->form_on_device() : std::nullopt;
    const auto step = form ? step_of(*form) : std::nullopt;
    if (step) return *step;
    return error(errc::invalid_argument, fmt::format("these are not settings of {}", name));
  }
  return step_of_codec(name, encoded, decoded_bytes);
}

}  // namespace

std::optional<device_step> step_of(const device_form& form) {
  using kind = device_form::kind;
  using inside = device_form::block_codec;
  using place = device_form::padding_place;
  device_step step{};
  switch (form.what) {
    case kind::other_settings:
      return std::nullopt;
    case kind::zstd:
      step.kind = step_kind::zstd;
      return step;
    case kind::lz4:
      step.kind = step_kind::lz4;
      return step;
    case kind::blosc:
      step.kind = step_kind::blosc;
      return step;
    case kind::zlib:
      step.kind = step_kind::zlib;
      return step;
    case kind::gzip:
      step.kind = step_kind::gzip;
      return step;
    case kind::crc32c:
      step.kind = step_kind::crc32c;
      return step;
    case kind::shuffle:
      step.kind = step_kind::shuffle;
      step.item_bytes = form.item_bytes;
      return step;
    case kind::hdf5_bitshuffle:
      step.kind = form.inside == inside::lz4    ? step_kind::bitshuffle_lz4
                  : form.inside == inside::zstd ? step_kind::bitshuffle_zstd
                                                : step_kind::bitshuffle_plain;
      step.item_bytes = form.item_bytes;
      step.settings = form.block_items;
      return step;
    case kind::tiff_lzw:
      step.kind = step_kind::lzw;
      return step;
    case kind::tiff_packbits:
      step.kind = step_kind::packbits;
      return step;
    case kind::tiff_deflate:
      step.kind = step_kind::zlib_or_more;
      return step;
    case kind::reversed_bits:
      step.kind = step_kind::reverse_bits;
      return step;
    case kind::delta: {
      const bool is_signed = form.encoded.kind >= number::int8 && form.encoded.kind <= number::int64;
      const delta_layout how{item_bytes(form.encoded.kind), item_bytes(form.decoded.kind), is_signed,
                             form.encoded.swapped, form.decoded.swapped};
      step.kind = step_kind::delta;
      step.settings = how.parameter();
      return step;
    }
    case kind::packed_bits:
      step.kind = step_kind::unpack_bits;
      step.settings =
          (form.highest_first ? kHighestBitFirst : 0) | (form.padding == place::first_byte  ? kPaddingInFirstByte
                                                         : form.padding == place::last_byte ? kPaddingInLastByte
                                                                                            : 0);
      return step;
    case kind::tiff_samples:
      return samples_step(form);
  }
  return std::nullopt;
}

result<std::vector<device_step>> steps_of_codecs(const json& codecs, std::span<const std::byte> encoded,
                                                 std::uint64_t decoded_bytes) {
  std::vector<device_step> steps;
  if (const json::array_t* const list = codecs.as_array()) {
    for (const json& each : *list) {
      PENSTOCK_ASSIGN(const device_step step, step_of_one(each, encoded, decoded_bytes));
      steps.push_back(step);
    }
    std::reverse(steps.begin(), steps.end());
  } else {
    PENSTOCK_ASSIGN(const device_step step, step_of_one(codecs, encoded, decoded_bytes));
    steps.push_back(step);
  }
  return steps;
}

}  // namespace penstock::inline v0::device
