#include <penstock/array.h>
#include <penstock/open.h>

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include <penstock/shards.h>
#include <penstock/tiff.h>
#include "driver/node_mode.h"
#include "driver/registry.h"
#include "driver/zarr_nodes.h"
#include "format/netcdf/netcdf_header.h"
#include "format/npy/npy_header.h"
#include "format/tiff/tiff_parser.h"
#include "store/span_store.h"

namespace penstock::inline v0 {

result<array> open_array(std::span<const std::byte> bytes, const open_options& options,
                         std::shared_ptr<const void> owner) {
  PENSTOCK_TRY(check_open_mode(options.mode));
  if (is_netcdf_classic(bytes)) {
    location at;
    at.context = options.context;
    if (!at.context) {
      PENSTOCK_ASSIGN(at.context, context::make());
    }
    at.path = "file.nc";
    if (!options.path.empty()) at.path += "/" + options.path;
    at.from = std::make_shared<span_store>("file.nc", bytes, std::move(owner));
    at.uri = child_uri(at.from->uri(), at.path + "/");
    PENSTOCK_ASSIGN(node found, in_mode(open_location(std::move(at), options), options.mode));
    if (auto* const made = std::get_if<array>(&found)) return std::move(*made);
    return error(errc::invalid_argument,
                 "these bytes are a NetCDF file, which is a group: the path must name a variable");
  }
  if (!options.path.empty())
    return error(errc::invalid_argument, fmt::format("bytes are one file: there is no '{}' in it", options.path));
  const bool npy = is_npy(bytes);
  if (!npy && !tiff_parser::is_tiff(bytes))
    return error(errc::unsupported, fmt::format("{} bytes that begin neither as a .npy or NetCDF file nor as a TIFF: "
                                                "other formats are opened by a path or a store",
                                                bytes.size()));
  const std::string key = npy ? "array.npy" : "image.tif";
  auto from = std::make_shared<span_store>(key, bytes, std::move(owner));
  if (npy) {
    shard_options how;
    how.context = options.context;
    PENSTOCK_ASSIGN(array opened, open_contiguous(std::move(from), key, how));
    PENSTOCK_ASSIGN(node as, in_mode(node(std::move(opened)), options.mode));
    return std::get<array>(std::move(as));
  }
  open_options within = options;
  within.path = key;
  return open_tiff(std::move(from), within, tiff_options());
}

}  // namespace penstock::inline v0
