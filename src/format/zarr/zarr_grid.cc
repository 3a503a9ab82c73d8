#include "format/zarr/zarr_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/counted.h"
#include "format/zarr/metadata_reader.h"

namespace penstock::inline v0 {
namespace {

/// A short document may have `[1, 10^12]`: this bounds its memory.
constexpr std::size_t kMaxLengths = std::size_t{1} << 22;

result<std::uint64_t> read_length(const json& value, const std::string& path) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::uint64_t length = 0;
  if (!value.get(length) || length == 0 || length > kMost) {
    return error(errc::corrupt_data,
                 fmt::format("zarr.json: member '{}' is {}, needs an integer from 1 to {}", path, brief(value), kMost));
  }
  return length;
}

/// `count` chunks of one length.
struct run {
  std::uint64_t length, count;
};

/// The listed lengths of one dimension; `covered` is their sum.
result<std::vector<run>> read_runs(const json& value, const std::string& path, std::uint64_t& covered) {
  const json::array_t* list = value.as_array();
  if (list == nullptr) return wrong_member(value, path, "an integer or a list of lengths");
  std::vector<run> runs;
  covered = 0;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const json& item = (*list)[i];
    const std::string here = fmt::format("{}[{}]", path, i);
    run next{0, 1};
    if (const json::array_t* pair = item.as_array()) {
      if (pair->size() != 2) return wrong_member(item, here, "a length or a pair of length and count");
      PENSTOCK_ASSIGN(next.length, read_length((*pair)[0], here + "[0]"));
      PENSTOCK_ASSIGN(next.count, read_length((*pair)[1], here + "[1]"));
    } else {
      PENSTOCK_ASSIGN(next.length, read_length(item, here));
    }
    std::uint64_t elements = 0;
    if (!checked_mul(next.length, next.count, elements) || !checked_add(covered, elements, covered)) {
      return error(errc::unsupported, fmt::format("zarr.json: member '{}' has chunks beyond 2^64 elements", path));
    }
    runs.push_back(next);
  }
  return runs;
}

/// Adds `count` chunks of `length`, to the last run if that has the same length.
void append_run(std::vector<run>& runs, std::uint64_t length, std::uint64_t count) {
  if (!runs.empty() && runs.back().length == length) {
    runs.back().count += count;
  } else {
    runs.push_back({length, count});
  }
}

json write_runs(const std::vector<run>& runs) {
  json::array_t out;
  for (const run& each : runs) {
    if (each.count == 1) {
      out.emplace_back(each.length);
    } else {
      out.emplace_back(json::array_t{each.length, each.count});
    }
  }
  return out;
}

json rectilinear(json::array_t shapes) {
  return json::object_t{{"name", "rectilinear"},
                        {"configuration", json::object_t{{"kind", "inline"}, {"chunk_shapes", std::move(shapes)}}}};
}

/// One dimension of a rectilinear grid, added to `out`.
result<> read_dimension(const json& value, const std::string& path, std::uint64_t extent, zarr_grid& out) {
  if (value.is_number()) {
    PENSTOCK_ASSIGN(const std::uint64_t length, read_length(value, path));
    out.chunk.push_back(length);
    out.lengths.emplace_back();
    return {};
  }
  std::uint64_t covered = 0;
  PENSTOCK_ASSIGN(const std::vector<run> runs, read_runs(value, path, covered));
  if (runs.empty() || covered < extent) {
    return error(errc::corrupt_data, fmt::format("zarr.json: member '{}' has chunks for {}, the array has {}", path,
                                                 counted(covered, "element"), extent));
  }
  std::uint64_t longest = 0;
  for (const run& each : runs) longest = std::max(longest, each.length);
  out.chunk.push_back(longest);
  std::vector<std::uint64_t>& lengths = out.lengths.emplace_back();
  if (std::all_of(runs.begin(), runs.end(), [&](const run& each) { return each.length == longest; })) return {};
  for (const run& each : runs) {
    if (each.count > kMaxLengths - lengths.size()) {
      return error(errc::unsupported,
                   fmt::format("zarr.json: member '{}' has more than {} chunks of unequal lengths", path, kMaxLengths));
    }
    lengths.insert(lengths.end(), static_cast<std::size_t>(each.count), each.length);
  }
  return {};
}

result<zarr_grid> read_regular(const json& configuration, std::size_t rank) {
  PENSTOCK_TRY(only_members(configuration, "chunk_grid.configuration", {"chunk_shape"}));
  PENSTOCK_ASSIGN(const json* shape, required_member(configuration, "chunk_grid.configuration", "chunk_shape"));
  zarr_grid out;
  PENSTOCK_ASSIGN(out.chunk, read_extents(*shape, "chunk_grid.configuration.chunk_shape", 1));
  if (out.chunk.size() != rank) {
    return error(errc::corrupt_data, fmt::format("zarr.json: chunk_shape has {}, shape has {}",
                                                 counted(out.chunk.size(), "dimension"), rank));
  }
  return out;
}

result<zarr_grid> read_rectilinear(const json& configuration, const extents& shape) {
  constexpr std::string_view kPath = "chunk_grid.configuration";
  PENSTOCK_TRY(only_members(configuration, kPath, {"kind", "chunk_shapes"}));
  PENSTOCK_ASSIGN(const json* kind, required_member(configuration, kPath, "kind"));
  if (kind->as_string() == nullptr) return wrong_member(*kind, "chunk_grid.configuration.kind", "\"inline\"");
  if (*kind->as_string() != "inline") {
    return error(
        errc::unsupported,
        fmt::format("zarr.json: rectilinear chunk grid of kind {} is not readable, only \"inline\" is", brief(*kind)));
  }
  PENSTOCK_ASSIGN(const json* shapes, required_member(configuration, kPath, "chunk_shapes"));
  const json::array_t* list = shapes->as_array();
  if (list == nullptr) return wrong_member(*shapes, "chunk_grid.configuration.chunk_shapes", "a list");
  if (list->size() != shape.size()) {
    return error(errc::corrupt_data, fmt::format("zarr.json: chunk_shapes has {}, shape has {}",
                                                 counted(list->size(), "dimension"), shape.size()));
  }
  zarr_grid out;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    PENSTOCK_TRY(
        read_dimension((*list)[d], fmt::format("chunk_grid.configuration.chunk_shapes[{}]", d), shape[d], out));
  }
  return out;
}

}  // namespace

result<zarr_grid> parse_zarr_grid(const json& value, const extents& shape) {
  PENSTOCK_ASSIGN(const codec_config grid, read_named(value, "chunk_grid"));
  if (grid.name == "regular") return read_regular(grid.configuration, shape.size());
  if (grid.name == "rectilinear") return read_rectilinear(grid.configuration, shape);
  return error(
      errc::unsupported,
      fmt::format("zarr.json: chunk grid '{:.80}' is not readable, only 'regular' and 'rectilinear' are", grid.name));
}

json write_zarr_grid(const zarr_grid& grid) {
  if (grid.regular()) {
    return json::object_t{
        {"name", "regular"},
        {"configuration", json::object_t{{"chunk_shape", json::array_t(grid.chunk.begin(), grid.chunk.end())}}}};
  }
  json::array_t shapes;
  for (std::size_t d = 0; d < grid.chunk.size(); ++d) {
    const std::vector<std::uint64_t>& lengths = grid.lengths[d];
    if (lengths.empty()) {
      shapes.emplace_back(grid.chunk[d]);
      continue;
    }
    std::vector<run> runs;
    for (const std::uint64_t length : lengths) append_run(runs, length, 1);
    shapes.push_back(write_runs(runs));
  }
  return rectilinear(std::move(shapes));
}

result<json> resized_zarr_grid(const json& value, const extents& shape) {
  PENSTOCK_ASSIGN(const codec_config named, read_named(value, "chunk_grid"));
  if (named.name != "rectilinear") return value;
  const json* shapes = named.configuration.find("chunk_shapes");
  const json::array_t* given = shapes == nullptr ? nullptr : shapes->as_array();
  if (given == nullptr || given->size() != shape.size()) {
    return error(errc::corrupt_data, "zarr.json: member 'chunk_grid' has no chunk_shapes for each dimension");
  }
  json::array_t out = *given;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (out[d].is_number()) continue;  // chunks of one length, for any extent
    std::uint64_t covered = 0;
    PENSTOCK_ASSIGN(std::vector<run> runs,
                    read_runs(out[d], fmt::format("chunk_grid.configuration.chunk_shapes[{}]", d), covered));
    if (covered >= shape[d]) continue;
    append_run(runs, shape[d] - covered, 1);
    out[d] = write_runs(runs);
  }
  return rectilinear(std::move(out));
}

result<chunk_grid> object_grid(const zarr_grid& grid, const extents& shape) {
  if (grid.regular()) return chunk_grid::regular(shape, grid.chunk);
  std::vector<grid_axis> axes;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (grid.lengths[d].empty()) {
      axes.push_back(grid_axis::uniform(shape[d], grid.chunk[d]));
      continue;
    }
    std::vector<std::uint64_t> edges{0};
    edges.reserve(grid.lengths[d].size() + 1);
    for (const std::uint64_t length : grid.lengths[d]) edges.push_back(edges.back() + length);
    PENSTOCK_ASSIGN(grid_axis axis, grid_axis::edges(shape[d], std::move(edges)));
    axes.push_back(std::move(axis));
  }
  return chunk_grid::make(std::move(axes));
}

}  // namespace penstock::inline v0
