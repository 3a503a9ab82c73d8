// HDF5's filters as codecs of this library, by the numbers that the HDF Group registers.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "format/hdf5/hdf5_element.h"
#include "format/hdf5/hdf5_filter_names.h"
#include "format/hdf5/hdf5_values.h"

namespace penstock::inline v0 {
namespace {

using parameters = std::vector<std::uint32_t>;

json codec_with(const char* id, json::object_t settings = {}) {
  settings.insert(settings.begin(), {"id", json(id)});
  return json(std::move(settings));
}

json number(std::uint64_t value) { return json(value); }

json list(const parameters& values) {
  json::array_t out;
  for (const std::uint32_t each : values) out.push_back(number(each));
  return json(std::move(out));
}

std::uint32_t at(const parameters& values, std::size_t index, std::uint32_t otherwise) noexcept {
  return index < values.size() ? values[index] : otherwise;
}

result<json> szip(const parameters& values) {
  if (values.size() < 4)
    return error(errc::unsupported, fmt::format("HDF5 filter szip has {} parameters, needs 4", values.size()));
  return codec_with("hdf5.szip", {{"options", number(values[0])},
                                  {"block", number(values[1])},
                                  {"bits", number(values[2])},
                                  {"scanline", number(values[3])}});
}

// A frame's own header has its parameters; these are for descriptions and for encoding.
json blosc(const parameters& values) {
  static constexpr std::array<const char*, 6> kCompressors = {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};
  const std::uint32_t size = at(values, 2, 0), shuffle = at(values, 5, 1), code = at(values, 6, 0);
  return codec_with("blosc", {{"cname", json(code < kCompressors.size() ? kCompressors[code] : kCompressors[0])},
                              {"clevel", number(5)},
                              {"shuffle", number(shuffle <= 2 ? shuffle : 1)},
                              {"blocksize", number(0)},
                              {"typesize", number(size > 0 && size < 256 ? size : 1)}});
}

result<json> bitshuffle(const parameters& values, std::uint64_t element_bytes) {
  const std::uint32_t size = at(values, 2, 0), block = at(values, 3, 0), kind = at(values, 4, 0);
  if (kind != 0 && kind != 2 && kind != 3)
    return error(errc::unsupported, fmt::format("HDF5 filter bitshuffle with compression {} is not readable", kind));
  return codec_with("hdf5.bitshuffle", {{"elementsize", number(size == 0 ? element_bytes : std::uint64_t{size})},
                                        {"blocksize", number(block)},
                                        {"compression", json(kind == 0   ? "none"
                                                             : kind == 2 ? "lz4"
                                                                         : "zstd")}});
}

/// The filters that netCDF4-python and h5py name.
constexpr std::pair<std::uint32_t, std::string_view> kNames[] = {
    {1, "zlib"},           {2, "shuffle"}, {3, "fletcher32"}, {4, "szip"},      {5, "nbit"},
    {6, "scaleoffset"},    {307, "bzip2"}, {32000, "lzf"},    {32001, "blosc"}, {32004, "lz4"},
    {32008, "bitshuffle"}, {32013, "zfp"}, {32015, "zstd"},   {32026, "blosc2"}};

/// The filter's name in the file, for errors.
std::string shown(const hdf5_filter& filter) {
  const std::string_view name = std::string_view(filter.name).substr(0, filter.name.find(';'));
  const std::size_t begin = name.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "without a name";
  return hdf5_text(name.substr(begin, name.find_last_not_of(" \t\r\n") + 1 - begin));
}

}  // namespace

std::string_view hdf5_filter_name(std::uint32_t id) noexcept {
  const auto* const found =
      std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& each) { return each.first == id; });
  return found == std::end(kNames) ? std::string_view() : found->second;
}

result<json> hdf5_codec_of(const hdf5_filter& filter, std::uint64_t element_bytes) {
  const parameters& values = filter.values;
  switch (filter.id) {
    case 1:
      return codec_with("zlib", {{"level", number(std::min(at(values, 0, 6), 9U))}});
    case 2:
      return codec_with("hdf5.shuffle", {{"elementsize", number(values.empty() ? element_bytes : values[0])}});
    case 3:
      return codec_with("fletcher32");
    case 4:
      return szip(values);
    case 5:
      return codec_with("hdf5.nbit", {{"parameters", list(values)}});
    case 6:
      return codec_with("hdf5.scaleoffset", {{"parameters", list(values)}});
    case 307: {
      const std::uint32_t level = at(values, 0, 9);
      return codec_with("bz2", {{"level", number(level >= 1 && level <= 9 ? level : 9)}});
    }
    case 32000:
      return codec_with("hdf5.lzf");
    case 32001:
      return blosc(values);
    case 32004:
      return codec_with("hdf5.lz4");
    case 32008:
      return bitshuffle(values, element_bytes);
    case 32013:
      return codec_with("hdf5.zfp", {{"parameters", list(values)}});
    case 32015:
      return codec_with("zstd");
    case 32026:
      return codec_with("hdf5.blosc2");
    case 32022:
    case 32023:
      return json();  // filters that round numbers before compression: the rounded numbers are stored
    default:
      return error(errc::unsupported, fmt::format("HDF5 filter {} ({}) is not readable", filter.id, shown(filter)));
  }
}

}  // namespace penstock::inline v0
