// Creates nodes by name: determines the format and the location.
#include <penstock/array_writer.h>
#include <penstock/create.h>
#include <penstock/place.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/thrown.h"
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
  auto made = caught("the driver", [&] { return make(*driver, at, how); });
  if (made.ok()) return made;
  const std::string note = fmt::format("creating '{}'", at.uri);
  error why = std::move(made).error();
  if (const auto& notes = why.notes(); notes.empty() || notes.back() != note) why.note(note);
  return why;
}

/// The location of a new array, and the options with its format and its path there.
struct new_place {
  std::shared_ptr<store> in;
  create_options how;
};

result<new_place> place_of_new(std::string_view uri, const create_options& options) {
  new_place out;
  out.how = options;
  if (!out.how.context) {
    PENSTOCK_ASSIGN(out.how.context, context::make());
  }
  const bool whole = prefix_of(options.path).empty();
  const std::string_view name = whole ? uri : std::string_view(options.path);
  PENSTOCK_ASSIGN(const auto driver, driver_for_new(*out.how.context, options.format, name));
  const bool is_zarr = driver.get() == &zarr_driver();
  if (is_zarr) PENSTOCK_TRY(check_new_name(name, out.how.context.get()));
  const place_options where{out.how.context, {}};
  PENSTOCK_ASSIGN(place found, whole && !is_zarr ? find_object_place(uri, where) : find_place(uri, where));
  out.in = std::move(found.store);
  out.how.path = found.path + "/" + options.path;
  out.how.format = driver->name();
  return out;
}

}  // namespace

result<array> create_array(std::string_view uri, const create_options& options) {
  PENSTOCK_ASSIGN(new_place at, place_of_new(uri, options));
  return create_array(std::move(at.in), at.how);
}

result<array> create_array(std::shared_ptr<store> in, const create_options& options) {
  return create_by_driver(std::move(in), options,
                          [](const format_driver& driver, const new_location& at, const create_options& how) {
                            return driver.create(at, how);
                          });
}

result<std::unique_ptr<array_writer>> begin_array(std::string_view uri, const create_options& options) {
  PENSTOCK_ASSIGN(new_place at, place_of_new(uri, options));
  return begin_array(std::move(at.in), at.how);
}

result<std::unique_ptr<array_writer>> begin_array(std::shared_ptr<store> in, const create_options& options) {
  create_options how = options;
  if (!how.context) {
    PENSTOCK_ASSIGN(how.context, context::make());
  }
  PENSTOCK_ASSIGN(const auto driver, driver_for_new(*how.context, how.format, how.path));
  how.format = driver->name();
  return create_by_driver(
      std::move(in), how,
      [](const format_driver& by, const new_location& at, const create_options& as) { return by.begin(at, as); });
}

result<group> create_group(std::shared_ptr<store> in, const create_group_options& options) {
  return create_by_driver(std::move(in), options,
                          [](const format_driver& driver, const new_location& at, const create_group_options& how) {
                            return driver.create_group(at, how);
                          });
}

}  // namespace penstock::inline v0
