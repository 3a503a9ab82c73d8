// Manifests of .npy and raw files, and of references.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include <penstock/place.h>
#include <penstock/shards.h>
#include "driver/drivers.h"
#include "driver/open_saved.h"
#include "driver/reference_tree.h"
#include "driver/registry.h"
#include "driver/shard_table.h"
#include "format/reference/location_rule.h"

namespace penstock::inline v0 {
namespace {

/// Manifests of 100,000 files have about 10 MB.
constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 32;
constexpr std::string_view kFile = "file://";

/// The local folder that an object is in; nothing if the store is another one.
std::optional<std::filesystem::path> folder_of(const location& at) {
  const std::string root = at.from->uri();
  if (!root.starts_with(kFile)) return std::nullopt;
  return (std::filesystem::path(root.substr(kFile.size())) / at.path).parent_path();
}

bool is_relative(std::string_view root) {
  return !root.starts_with('/') && root.find("://") == std::string_view::npos &&
         root.find("::") == std::string_view::npos;
}

result<array> open_files_of(const location& at, std::span<const std::byte> manifest, const open_options& how) {
  const missing_shards missing = how.missing_is_fill ? missing_shards::fill : missing_shards::refuse;
  PENSTOCK_ASSIGN(const std::string root, manifest_root(manifest));
  const auto folder = folder_of(at);
  if (!folder && is_relative(root)) {
    const std::filesystem::path below = (std::filesystem::path(at.path).parent_path() / root).lexically_normal();
    const std::string text = below == "." ? std::string() : below.string();
    if (text.starts_with(".."))
      return error(errc::unsupported, fmt::format("the manifest's files are in '{}', outside of its store", root));
    return open_manifest(at.from, manifest, at.context, missing, text);
  }
  const std::string where = named_location(folder ? folder->string() : std::string(), root);
  PENSTOCK_TRY(location_rule::of_stored(at.uri, how.allow_local).check(where, root));
  place_options opening;
  opening.context = at.context;
  opening.remote = how.remote;
  PENSTOCK_ASSIGN(place found, find_place(where, opening));
  return open_manifest(std::move(found.store), manifest, at.context, missing, found.path);
}

class manifest_format final : public format_driver {
 public:
  std::string_view name() const noexcept override { return "manifest"; }
  std::span<const std::string_view> endings() const noexcept override { return {}; }
  bool has_members() const noexcept override { return false; }
  bool sniff(std::span<const std::byte> begin, std::string_view) const noexcept override { return is_manifest(begin); }
  result<node> open(const location& at, const open_options& how) const override {
    PENSTOCK_ASSIGN(const std::vector<std::byte> bytes, read_whole(at, kMaxManifestBytes));
    PENSTOCK_ASSIGN(array made, open_files_of(at, bytes, how));
    return node(std::move(made));
  }
};

class references_format final : public format_driver {
 public:
  std::string_view name() const noexcept override { return "references"; }
  std::span<const std::string_view> endings() const noexcept override {
    static constexpr std::array<std::string_view, 1> kEndings = {"manifest"};
    return kEndings;
  }
  std::string_view written_by() const noexcept override { return "penstock.save_manifest in Python"; }
  // All bytes are needed, and most manifests are shorter.
  std::uint64_t head_bytes() const noexcept override { return std::uint64_t{1} << 20; }
  bool sniff(std::span<const std::byte> begin, std::string_view) const noexcept override {
    return is_saved_references(begin);
  }
  result<node> open(const location& at, const open_options& how) const override {
    const auto folder = folder_of(at);
    PENSTOCK_ASSIGN(std::vector<std::byte> bytes, read_whole(at, kMaxManifestBytes));
    manifest_place place = {folder ? folder->string() : at.uri.substr(0, at.uri.rfind('/')),
                            location_rule::of_stored(at.uri, how.allow_local), nullptr, how.missing_is_fill};
    auto made = open_saved_node(std::move(bytes), std::move(place), at.context);
    if (!made.ok()) return std::move(made).error().note(fmt::format("opening the manifest '{}'", at.uri));
    return made;
  }
};

}  // namespace

const format_driver& manifest_driver() noexcept {
  static const manifest_format kDriver;
  return kDriver;
}

const format_driver& references_driver() noexcept {
  static const references_format kDriver;
  return kDriver;
}

}  // namespace penstock::inline v0
