#include "format/zarr/zarr_defaults.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kShardBytes = std::uint64_t{256} << 20;

std::uint64_t bytes_of(const extents& lengths, std::uint64_t item_bytes) {
  std::uint64_t bytes = item_bytes;
  for (const std::uint64_t length : lengths) {
    if (!checked_mul(bytes, length, bytes)) return ~std::uint64_t{0};
  }
  return bytes;
}

constexpr std::string_view kNumcodecs = "numcodecs.";

std::string_view plain(std::string_view name) noexcept {
  return name.substr(0, kNumcodecs.size()) == kNumcodecs ? name.substr(kNumcodecs.size()) : name;
}

}  // namespace

extents default_chunks(const extents& shape, std::uint64_t item_bytes) {
  extents out(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) out[d] = std::max<std::uint64_t>(shape[d], 1);
  while (bytes_of(out, item_bytes) > kChunkBytes) {
    const auto longest = std::max_element(out.begin(), out.end());
    if (longest == out.end() || *longest == 1) break;
    *longest = (*longest + 1) / 2;
  }
  return out;
}

extents default_shards(const extents& shape, const extents& chunks, std::uint64_t item_bytes) {
  extents out = chunks;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const std::uint64_t most = ceil_div(std::max<std::uint64_t>(shape[d], 1), chunks[d]);
    const std::uint64_t room =
        std::max<std::uint64_t>(kShardBytes / std::max<std::uint64_t>(bytes_of(out, item_bytes), 1), 1);
    out[d] = chunks[d] * std::min(most, room);
  }
  return out;
}

json default_serializer(const dtype& type, std::string_view endian) {
  if (type.kind() == dtype_kind::variable_utf8) return json::object_t{{"name", "vlen-utf8"}};
  if (type.kind() == dtype_kind::variable_bytes) return json::object_t{{"name", "vlen-bytes"}};
  if (!type.has_byte_order()) return json::object_t{{"name", "bytes"}};
  return json::object_t{{"name", "bytes"}, {"configuration", json::object_t{{"endian", json(std::string(endian))}}}};
}

bool shuffle_pays(const dtype& type) noexcept {
  if (type.swap_bytes() < 2) return false;
  switch (type.kind()) {
    case dtype_kind::floating:
    case dtype_kind::brain_float:
    case dtype_kind::complex:
    case dtype_kind::datetime:
    case dtype_kind::timedelta:
      return true;
    default:
      return false;
  }
}

json::array_t default_compressors(const dtype& type) {
  if (!shuffle_pays(type)) {
    return {json::object_t{{"name", "zstd"},
                           {"configuration", json::object_t{{"level", std::int64_t{0}}, {"checksum", false}}}}};
  }
  return {json::object_t{{"name", "blosc"},
                         {"configuration", json::object_t{{"typesize", std::uint64_t{type.swap_bytes()}},
                                                          {"cname", "zstd"},
                                                          {"clevel", std::int64_t{1}},
                                                          {"shuffle", "shuffle"},
                                                          {"blocksize", std::int64_t{0}}}}}};
}

json with_default_settings(const json& codec, const dtype& type) {
  const json* name = codec.find("name");
  if (name == nullptr || name->as_string() == nullptr || codec.find("configuration") != nullptr) return codec;
  json::object_t settings;
  if (*name->as_string() == "zstd") settings = {{"level", std::int64_t{0}}, {"checksum", false}};
  if (*name->as_string() == "gzip") settings = {{"level", std::int64_t{5}}};
  if (*name->as_string() == "blosc") {
    const bool shuffled = type.swap_bytes() > 1;
    settings = {{"typesize", std::uint64_t{type.swap_bytes()}},
                {"cname", "zstd"},
                {"clevel", std::int64_t{1}},
                {"shuffle", shuffled ? "shuffle" : "bitshuffle"},
                {"blocksize", std::int64_t{0}}};
  }
  if (settings.empty()) return codec;
  return json::object_t{{"name", *name}, {"configuration", json(std::move(settings))}};
}

json default_v2_compressor(const dtype& type) {
  if (!shuffle_pays(type)) {
    return json::object_t{{"id", "zstd"}, {"level", std::int64_t{0}}, {"checksum", false}};
  }
  return json::object_t{{"id", "blosc"},
                        {"cname", "zstd"},
                        {"clevel", std::int64_t{1}},
                        {"shuffle", std::int64_t{1}},
                        {"blocksize", std::int64_t{0}}};
}

std::vector<std::byte> default_fill(const dtype& type) {
  std::vector<std::byte> out(type.item_bytes());
  if (type.kind() == dtype_kind::datetime || type.kind() == dtype_kind::timedelta) {
    const std::uint64_t nat = std::uint64_t{1} << 63;
    std::memcpy(out.data(), &nat, sizeof nat);
  }
  return out;
}

bool makes_bytes_of_arrays(std::string_view name) noexcept {
  if (name == "packbits" || name == "bytes" || name == "sharding_indexed" || name == "zfp" || name == "n5_default") {
    return true;
  }
  const std::string_view known[] = {"vlen-utf8", "vlen-bytes", "vlen-array", "pcodec",    "zfpy",
                                    "json2",     "msgpack2",   "pickle",     "categorize"};
  return std::find(std::begin(known), std::end(known), plain(name)) != std::end(known);
}

bool keeps_arrays(std::string_view name) noexcept {
  const std::string_view known[] = {"transpose",          "bitround", "cast_value", "scale_offset", "reshape",
                                    "numcodecs.packbits", "delta",    "astype",     "quantize",     "fixedscaleoffset"};
  return std::find(std::begin(known), std::end(known), name) != std::end(known) ||
         std::find(std::begin(known), std::end(known), plain(name)) != std::end(known);
}

}  // namespace penstock::inline v0
