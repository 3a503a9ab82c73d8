// The manifest of joined arrays, which open_saved_arrays.cc reads.
#include <fmt/format.h>
#include <penstock/joined.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_bytes.h"
#include "driver/for_each_file.h"
#include "driver/open_saved_arrays.h"
#include "driver/saved_arrays.h"
#include "engine/array_state.h"
#include "format/tiff/tiff_layout.h"
#include "format/zarr/zarr_data_type.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kLocal = "file://";

// The local path that opens the array; empty if none does.
std::string path_of_part(const array& each) {
  std::string uri = each.uri();
  while (uri.size() > kLocal.size() + 1 && uri.ends_with('/')) uri.pop_back();
  if (!uri.starts_with(kLocal)) return {};
  const auto* const image = dynamic_cast<const tiff_layout*>(each.state().layout.get());
  if (image != nullptr && !image->options().is_default()) return {};  // another image of the file
  return std::filesystem::absolute(uri.substr(kLocal.size())).lexically_normal().string();
}

result<std::string> descr_of_part(const dtype& type) {
  PENSTOCK_ASSIGN(const json written, write_v2_dtype(type, std::endian::native == std::endian::big ? "big" : "little"));
  const std::string* const text = written.as_string();
  return text != nullptr ? *text : written.dump();
}

result<saved_array> described_part(const array& each) {
  saved_array out;
  out.path = path_of_part(each);
  if (out.path.empty())
    return error(errc::invalid_argument,
                 fmt::format("a manifest cannot describe '{}': no local path opens this array", each.uri()));
  out.metadata = metadata_of_shard(out.path);
  out.format = each.format();
  out.shape = each.shape();
  out.chunks = each.chunks();
  for (std::uint64_t& length : out.chunks) length = std::max<std::uint64_t>(1, length);
  PENSTOCK_ASSIGN(out.descr, descr_of_part(each.type()));
  return out;
}

}  // namespace

result<std::vector<std::byte>> save_manifest(std::span<const array> parts, std::size_t axis, std::string_view folder) {
  PENSTOCK_ASSIGN(const array joined, join(parts, axis));
  const std::string base = std::filesystem::absolute(folder.empty() ? "." : folder).lexically_normal().string();
  saved_arrays out;
  out.axis = axis;
  std::vector<std::string> documents;
  for (const array& each : parts) {
    auto one = described_part(each);
    if (!one.ok()) return std::move(one).error().note(fmt::format("array '{}'", each.uri()));
    documents.push_back(one->metadata);
    out.shards.push_back(std::move(*one));
  }
  PENSTOCK_ASSIGN(const auto now, query_files(documents, *joined.context()));
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (!now[i]) return error(errc::conflict, fmt::format("'{}' was removed since it was opened", out.shards[i].path));
    out.shards[i].stamp = now[i]->stamp;
  }
  const std::string text = write_saved_arrays(out, base);
  // The paths must open these arrays, as they are now.
  manifest_place place;
  place.folder = base;
  PENSTOCK_ASSIGN(const json document, parse_json_with_bytes(text));
  auto again = open_saved_arrays(document, place, joined.context());
  if (!again.ok()) return std::move(again).error().note("saving the manifest of '" + joined.uri() + "'");
  const auto bytes = std::as_bytes(std::span(text));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

}  // namespace penstock::inline v0
