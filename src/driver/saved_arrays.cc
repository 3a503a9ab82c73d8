#include "driver/saved_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/counted.h"
#include "base/json_bytes.h"
#include "driver/reference_tree.h"
#include "format/zarr/zarr_data_type.h"
#include "format/zarr/zarr_metadata.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kArraysVersion = 1;
constexpr std::string_view kArraysKind = "arrays";
constexpr std::uint64_t kMostShardElements = std::uint64_t{1} << 62;

error damaged_shards(std::string_view what) {
  return {errc::corrupt_data, fmt::format("the manifest is damaged: {}", what)};
}

error damaged_shards(std::string_view what, const saved_array& of) {
  return damaged_shards(fmt::format("{} of '{}'", what, of.path));
}

const std::string* shard_text(const json& from, std::string_view name) {
  const json* const member = from.find(name);
  return member == nullptr ? nullptr : member->as_string();
}

bool read_shard_lengths(const json* from, std::uint64_t least, extents& out) {
  if (from == nullptr || from->as_array() == nullptr || from->as_array()->size() > kMaxRank) return false;
  for (const json& each : *from->as_array()) {
    std::uint64_t length = 0;
    if (!each.get(length) || length < least) return false;
    out.push_back(length);
  }
  return true;
}

result<> read_shard_shape(const json& from, saved_array& out) {
  if (!read_shard_lengths(from.find("shape"), 0, out.shape)) return damaged_shards("the shape", out);
  const auto count = element_count(out.shape);
  if (!count.ok() || *count >= kMostShardElements) return damaged_shards("the shape", out);
  if (from.find("chunks") == nullptr) {
    for (const std::uint64_t length : out.shape) out.chunks.push_back(std::max<std::uint64_t>(1, length));
    return {};
  }
  if (!read_shard_lengths(from.find("chunks"), 1, out.chunks) || out.chunks.size() != out.shape.size())
    return damaged_shards("the chunks", out);
  return {};
}

result<> read_shard_type(const json& from, saved_array& out) {
  const std::string* const text = shard_text(from, "dtype");
  if (text == nullptr) return damaged_shards("the dtype", out);
  out.descr = *text;
  json descr(*text);
  if (text->starts_with('[')) {
    auto fields = json::parse(*text);
    if (!fields.ok()) return damaged_shards("the dtype", out);
    descr = std::move(*fields);
  }
  auto parsed = parse_v2_dtype(descr);
  if (!parsed.ok()) return damaged_shards("the dtype", out).note(std::string(parsed.error().message()));
  out.type = std::move(parsed->type);
  return {};
}

result<saved_array> read_saved_shard(const json& from, const manifest_place& at) {
  saved_array out;
  const std::string* const path = shard_text(from, "path");
  if (path == nullptr) return damaged_shards("an array has no path");
  const std::string location = resolved_location(at.folder, *path);
  PENSTOCK_TRY(at.rule.check(location, *path));
  if (location.find("://") != std::string::npos)
    return error(errc::unsupported, fmt::format("'{}': joined arrays of a manifest are local files", location));
  out.path = fs::path(location).lexically_normal().string();
  out.metadata = metadata_of_shard(out.path);
  const json* const stamp = from.find("stamp");
  const json::array_t* const pair = stamp == nullptr ? nullptr : stamp->as_array();
  if (pair == nullptr || pair->size() != 2 || !(*pair)[0].get(out.stamp.size_bytes) ||
      !(*pair)[1].get(out.stamp.changed_ns))
    return damaged_shards("size and modification time", out);
  if (const json* const sum = from.find("crc32c"); sum != nullptr && !sum->is_null()) {
    std::uint64_t value = 0;
    if (!sum->get(value) || value > std::numeric_limits<std::uint32_t>::max())
      return damaged_shards("the checksum", out);
    out.crc32c = static_cast<std::uint32_t>(value);
  }
  if (const std::string* const format = shard_text(from, "format")) out.format = *format;
  PENSTOCK_TRY(read_shard_shape(from, out));
  PENSTOCK_TRY(read_shard_type(from, out));
  return out;
}

/// The name of a shard in a manifest in `folder`: relative if the file is below the folder.
std::string shard_name_in(const std::string& path, const std::string& folder) {
  const fs::path below = fs::path(path).lexically_relative(folder);
  return below.empty() || *below.begin() == ".." ? path : below.string();
}

json shard_lengths(const extents& from) {
  json::array_t out;
  for (const std::uint64_t each : from) out.emplace_back(each);
  return out;
}

}  // namespace

std::string metadata_of_shard(const std::string& path) {
  std::error_code none;
  if (!fs::is_directory(path, none)) return path;
  for (const std::string_view name : {kZarrKey, kZarrayKey}) {
    std::string document = fmt::format("{}/{}", path, name);
    if (fs::is_regular_file(document, none)) return document;
  }
  return path;
}

result<saved_arrays> parse_saved_arrays(std::span<const std::byte> manifest, const manifest_place& at) {
  const std::string_view text(reinterpret_cast<const char*>(manifest.data()), manifest.size());
  auto document = parse_json_with_bytes(text.substr(0, text.find('\n')));
  if (!document.ok()) return damaged_shards(document.error().message());
  std::uint64_t version = 0;
  const json* const stated = document->find("penstock_manifest");
  if (stated == nullptr || !stated->get(version)) return damaged_shards("'penstock_manifest' is not a number");
  if (version != kArraysVersion)
    return error(errc::unsupported, fmt::format("a manifest of version {} is not readable", version));
  const std::string* const kind = shard_text(*document, "kind");
  if (kind == nullptr || *kind != kArraysKind) return error(errc::unsupported, "it is not a manifest of arrays");
  return parse_saved_arrays(*document, at);
}

result<saved_arrays> parse_saved_arrays(const json& document, const manifest_place& at) {
  const json* const list = document.find("shards");
  const json* const along = document.find("axis");
  std::uint64_t axis = 0;
  if (list == nullptr || list->as_array() == nullptr || list->as_array()->empty())
    return damaged_shards("it has no arrays");
  if (along == nullptr || !along->get(axis)) return damaged_shards("'axis' is not a number");
  if (at.missing_is_fill)
    return error(errc::unsupported, "missing arrays of a manifest cannot be filled: the manifest has no fill value");
  saved_arrays out;
  for (const json& each : *list->as_array()) {
    PENSTOCK_ASSIGN(saved_array one, read_saved_shard(each, at));
    out.shards.push_back(std::move(one));
  }
  const std::size_t rank = out.shards.front().shape.size();
  if (axis >= rank)
    return damaged_shards(fmt::format("arrays of {} have no axis {}", counted(rank, "dimension"), axis));
  out.axis = static_cast<std::size_t>(axis);
  return out;
}

std::string write_saved_arrays(const saved_arrays& of, const std::string& folder) {
  json::array_t shards;
  for (const saved_array& each : of.shards) {
    const json::array_t stamp{json(each.stamp.size_bytes), json(each.stamp.changed_ns)};
    shards.push_back(json::object_t{{"path", shard_name_in(each.path, folder)},
                                    {"stamp", json(stamp)},
                                    {"crc32c", each.crc32c ? json(std::uint64_t{*each.crc32c}) : json()},
                                    {"format", each.format},
                                    {"shape", shard_lengths(each.shape)},
                                    {"dtype", each.descr},
                                    {"chunks", shard_lengths(each.chunks)}});
  }
  const json document(json::object_t{{"penstock_manifest", json(kArraysVersion)},
                                     {"kind", std::string(kArraysKind)},
                                     {"axis", json(std::uint64_t{of.axis})},
                                     {"shards", json(std::move(shards))}});
  return dump_json_with_bytes(document) + "\n";  // names need not be UTF-8
}

}  // namespace penstock::inline v0
