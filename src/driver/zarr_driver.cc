// Zarr in the registry: its nodes are folders of documents, found by the names of these.
#include <fmt/format.h>

#include "driver/drivers.h"
#include "driver/zarr_nodes.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

class zarr_format final : public format_driver {
 public:
  std::string_view name() const noexcept override { return "zarr"; }
  /// Empty: an ending means that an object is tried first.
  std::span<const std::string_view> endings() const noexcept override { return {}; }
  bool sniff(std::span<const std::byte>, std::string_view) const noexcept override { return false; }
  result<node> open(const location& at, const open_options& how) const override {
    PENSTOCK_ASSIGN(std::optional<node> found, open_folder(at, how));
    if (found) return std::move(*found);
    return no_zarr_node(at.uri);
  }
  result<std::optional<node>> open_folder(const location& at, const open_options& how) const override {
    return open_zarr(at, how, 3);
  }
  result<array> create(const new_location& at, const create_options& how) const override {
    return create_zarr_array(at, how);
  }
  result<group> create_group(const new_location& at, const create_group_options& how) const override {
    return create_zarr_group(at, how);
  }
};

}  // namespace

const format_driver& zarr_driver() noexcept {
  static const zarr_format kDriver;
  return kDriver;
}

error no_zarr_node(std::string_view uri) {
  return {errc::not_found,
          fmt::format("no array or group at '{}': it has no {}, {} or {}", uri, kZarrKey, kZarrayKey, kZgroupKey)};
}

}  // namespace penstock::inline v0
