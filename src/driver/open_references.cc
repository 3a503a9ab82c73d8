#include "driver/open_references.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include <penstock/place.h>
#include "driver/drivers.h"
#include "driver/reference_tree.h"
#include "driver/registry.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

/// Documents of a million references have about 100 MB.
constexpr std::uint64_t kMaxReferenceBytes = std::uint64_t{1} << 32;
/// Folders above a path that are searched for references.
constexpr std::size_t kMostFolders = 16;
constexpr std::string_view kLocalPrefix = "file://";
constexpr std::string_view kManifestBegin = R"({"penstock_manifest")";

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool begins_as_json_object(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '{' && !text.substr(begin).starts_with(kManifestBegin);
}

/// The path of a `file:` URI; other locations unchanged.
std::string plain_location(const std::string& uri) {
  return uri.starts_with(kLocalPrefix) ? uri.substr(kLocalPrefix.size()) : uri;
}

std::string folder_of_location(const std::string& location) {
  return location.substr(0, std::min(location.rfind('/'), location.size()));
}

/// Opens `inner` of the JSON references at a location whose head is known.
result<node> open_json(const location& at, const open_options& how, std::string_view inner) {
  reference_tree_place place;
  place.context = at.context;
  place.uri = at.uri;
  place.rule = location_rule::of_stored(at.uri, how.allow_local);
  place.base = folder_of_location(plain_location(at.uri));
  place.missing_is_fill = how.missing_is_fill;
  place.opened_for_reading = how.mode == open_mode::read;
  PENSTOCK_ASSIGN(const std::vector<std::byte> text, read_whole(at, kMaxReferenceBytes));
  PENSTOCK_ASSIGN(const auto tree, reference_tree::of_json(as_text(text), std::move(place)));
  return tree->open(inner);
}

class kerchunk_format final : public format_driver {
 public:
  std::string_view name() const noexcept override { return "reference"; }
  std::span<const std::string_view> endings() const noexcept override {
    static constexpr std::array<std::string_view, 1> kEndings = {"json"};
    return kEndings;
  }
  std::string_view written_by() const noexcept override { return "penstock.save_references in Python"; }
  // All bytes are needed.
  std::uint64_t head_bytes() const noexcept override { return std::uint64_t{1} << 20; }
  bool sniff(std::span<const std::byte> begin, std::string_view) const noexcept override {
    return begins_as_json_object(begin);
  }
  result<node> open(const location& at, const open_options& how) const override { return open_json(at, how, ""); }
  result<node> open_inside(const location& at, std::string_view inner, const open_options& how) const override {
    return open_json(at, how, inner);
  }
};

}  // namespace

const format_driver& kerchunk_driver() noexcept {
  static const kerchunk_format kDriver;
  return kDriver;
}

result<std::optional<found_node>> find_references_above(const location& at) {
  const std::string root = at.from->uri();
  if (at.head != nullptr || !root.starts_with(kLocalPrefix)) return std::optional<found_node>();
  const std::filesystem::path whole = std::filesystem::path(plain_location(root)) / at.path;
  std::filesystem::path folder = whole.lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  for (std::size_t level = 0; level < kMostFolders && folder.has_relative_path(); ++level) {
    folder = folder.parent_path();
    std::error_code none;
    if (!std::filesystem::is_regular_file(folder / kZmetadataKey, none)) continue;
    found_node out;
    out.at = {at.context, open_file_store(folder.string()), "", "file://" + folder.string(), nullptr};
    out.references = find_parquet_references(*out.at.from, "");
    if (out.references == nullptr) return std::optional<found_node>();
    out.inner = whole.lexically_normal().lexically_relative(folder).string();
    return std::optional<found_node>(std::move(out));
  }
  return std::optional<found_node>();
}

result<node> open_reference_folder(node_place at, const json& zmetadata, std::string_view inner) {
  reference_tree_place place;
  place.context = at.context;
  place.uri = at.uri;
  place.base = plain_location(at.uri);
  place.rule = location_rule::of_stored(at.uri, at.allow_local);
  place.missing_is_fill = at.missing_is_fill;
  place.opened_for_reading = at.opened_for_reading;
  PENSTOCK_ASSIGN(const auto tree, reference_tree::of_folder(std::move(at.from), std::move(at.prefix), zmetadata.dump(),
                                                             std::move(place)));
  return tree->open(inner);
}

}  // namespace penstock::inline v0
