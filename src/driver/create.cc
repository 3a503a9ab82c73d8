// Creating by name: which format, and where.
#include <penstock/create.h>
#include <penstock/place.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "driver/drivers.h"
#include "driver/registry.h"
#include "driver/zarr_nodes.h"

namespace penstock::inline v0 {
namespace {

/// Creates a node by the driver of `how.format` (empty: Zarr's), which `make` calls.
template <class Options, class Make>
auto create_by_driver(std::shared_ptr<store> in, const Options& options, const Make& make)
    -> decltype(make(zarr_driver(), new_location(), options)) {
  Options how = options;
  if (!how.context) {
    PENSTOCK_ASSIGN(how.context, context::make());
  }
  if (how.format.empty()) how.format = zarr_driver().name();
  PENSTOCK_ASSIGN(const auto driver, driver_for_new(*how.context, how.format, how.path));
  const std::string prefix = prefix_of(how.path);
  new_location at;
  at.context = how.context;
  at.path = prefix.substr(0, prefix.size() - (prefix.empty() ? 0 : 1));
  at.uri = child_uri(in->uri(), prefix);
  at.to = std::move(in);
  auto made = make(*driver, at, how);
  if (made.ok()) return made;
  return std::move(made).error().note(fmt::format("creating '{}'", at.uri));
}

}  // namespace

result<array> create_array(std::string_view uri, const create_options& options) {
  create_options how = options;
  if (!how.context) {
    PENSTOCK_ASSIGN(how.context, context::make());
  }
  const bool whole = prefix_of(options.path).empty();
  const std::string_view name = whole ? uri : std::string_view(options.path);
  PENSTOCK_ASSIGN(const auto driver, driver_for_new(*how.context, options.format, name));
  const bool is_zarr = driver.get() == &zarr_driver();
  if (is_zarr) PENSTOCK_TRY(check_new_name(name));
  PENSTOCK_ASSIGN(place found, find_place(uri, {how.context, {}, whole && !is_zarr}));
  how.path = found.path + "/" + options.path;
  how.format = driver->name();
  return create_array(std::move(found.store), how);
}

result<array> create_array(std::shared_ptr<store> in, const create_options& options) {
  return create_by_driver(std::move(in), options,
                          [](const format_driver& driver, const new_location& at, const create_options& how) {
                            return driver.create(at, how);
                          });
}

result<group> create_group(std::shared_ptr<store> in, const create_group_options& options) {
  return create_by_driver(std::move(in), options,
                          [](const format_driver& driver, const new_location& at, const create_group_options& how) {
                            return driver.create_group(at, how);
                          });
}

}  // namespace penstock::inline v0
