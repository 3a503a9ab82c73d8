#include "format/raw/raw_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

/// Each distinct length of the last block of a file needs a compiled chain. Beyond this number, these last blocks are
/// divided.
constexpr std::uint64_t kMaxRests = 1024;
/// Chains have 16-bit numbers.
constexpr std::uint64_t kMaxChains = 60000;
/// Limits of finer cells. Selections store the grid of their cells, so the number of cells is small. The smallest read
/// is a page of the file.
constexpr std::uint64_t kMaxFinerCells = std::uint64_t{1} << 14, kLeastFinerBytes = 4096;
/// Cells must be smaller by at least this factor to be used in addition to the regular ones.
constexpr std::uint64_t kFiner = 4;

// Returns the distinct lengths of an axis's cells, longest first. Adds the number of each cell's length to `classes`.
std::vector<std::uint64_t> lengths_of(const grid_axis& axis, std::vector<std::uint32_t>& classes) {
  std::vector<std::uint64_t> lengths;
  if (axis.is_uniform()) return {axis.codec_length(0)};
  for (std::uint64_t i = 0; i < axis.cells(); ++i) lengths.push_back(axis.codec_length(i));
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  for (std::uint64_t i = 0; i < axis.cells(); ++i) {
    const auto found = std::lower_bound(lengths.begin(), lengths.end(), axis.codec_length(i), std::greater<>());
    classes.push_back(static_cast<std::uint32_t>(found - lengths.begin()));
  }
  return lengths;
}

}  // namespace

result<std::shared_ptr<const raw_layout>> raw_layout::make(const raw_shape& what, std::vector<raw_part> parts,
                                                           std::uint64_t block_bytes) {
  assert(what.shape.empty() || what.axis < what.shape.size());
  std::uint64_t total = 0;
  for (const raw_part& which : parts) {
    if (!checked_add(total, which.length, total)) return error(errc::unsupported, "the parts have more than 2^64 rows");
  }
  if (what.shape.empty() ? parts.size() != 1 : total != what.shape[what.axis])
    return error(errc::invalid_argument, "the parts do not add up to the shape");
  std::uint64_t bytes = what.type.item_bytes();
  for (const std::uint64_t length : what.shape) {
    if (!checked_mul(bytes, std::max<std::uint64_t>(length, 1), bytes) ||
        bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return error(errc::unsupported,
                   fmt::format("an array of shape {} has 2^63 bytes or more", to_string(what.shape)));
  }

  for (const raw_part& which : parts) {
    if (which.offset > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) - bytes)
      return error(errc::unsupported, fmt::format("'{}': data at byte {} exceed 2^63 bytes", which.key, which.offset));
  }

  std::shared_ptr<raw_layout> made(new raw_layout);
  made->type_ = what.type;
  made->endian_ = what.endian;
  made->order_ = what.order;
  made->shape_ = what.shape;
  made->axis_ = what.axis;
  if (!what.shape.empty()) std::erase_if(parts, [](const raw_part& which) { return which.length == 0; });
  made->parts_ = std::move(parts);
  PENSTOCK_TRY(made->cut(block_bytes));
  PENSTOCK_TRY(made->compile(what.endian));
  return std::shared_ptr<const raw_layout>(std::move(made));
}

result<> raw_layout::cut(std::uint64_t block_bytes) {
  const std::size_t rank = shape_.size();
  extents sample = shape_;  // the largest part
  std::vector<std::uint64_t> lengths;
  if (rank != 0) sample[axis_] = 1;
  for (const raw_part& which : parts_) {
    lengths.push_back(which.length);
    if (rank != 0) sample[axis_] = std::max(sample[axis_], which.length);
  }
  const bool is_empty = std::find(shape_.begin(), shape_.end(), 0U) != shape_.end();
  for (std::uint64_t& length : sample) length = std::max<std::uint64_t>(length, 1);
  if (block_bytes == 0) {
    std::uint64_t all = type_.item_bytes();
    for (const std::uint64_t length : shape_) all *= std::max<std::uint64_t>(length, 1);
    block_bytes = std::max(kBlockBytes, all / kMaxBlocks);
  }
  block_ = contiguous_block(sample, type_.item_bytes(), order_, block_bytes);
  if (is_empty) {
    PENSTOCK_ASSIGN(grid_, chunk_grid::regular(shape_, block_));
    write_grid_ = grid_;
    return {};
  }

  std::vector<grid_axis> cells, files;
  for (std::size_t d = 0; d < rank; ++d) {
    if (d != axis_) {
      PENSTOCK_ASSIGN(grid_axis axis, block_axis(shape_[d], block_[d]));
      cells.push_back(std::move(axis));
      files.push_back(grid_axis::uniform(shape_[d], shape_[d]));
      continue;
    }
    // This dimension may be cut anywhere only if a block has one element along every slower dimension.
    bool free = true;
    for (std::size_t slower = 0; slower < rank; ++slower) {
      const bool is_slower = order_ == storage_order::c ? slower < d : slower > d;
      free = free && (!is_slower || block_[slower] == 1);
    }
    PENSTOCK_ASSIGN(part_cuts cuts, cut_parts(lengths, block_[d], free ? kMaxRests : kMaxChains));
    part_of_ = std::move(cuts.parts);
    PENSTOCK_ASSIGN(grid_axis axis, grid_axis::edges(shape_[d], std::move(cuts.edges)));
    cells.push_back(std::move(axis));
    origins_.assign(lengths.size() + 1, 0);
    std::inclusive_scan(lengths.begin(), lengths.end(), origins_.begin() + 1);
    PENSTOCK_ASSIGN(grid_axis file, grid_axis::edges(shape_[d], origins_));
    files.push_back(std::move(file));
  }
  PENSTOCK_ASSIGN(grid_, chunk_grid::make(std::move(cells)));
  PENSTOCK_ASSIGN(write_grid_, chunk_grid::make(std::move(files)));

  // Strides depend on a part's length only if its dimension is not the slowest.
  const bool slowest = rank == 0 || axis_ == (order_ == storage_order::c ? 0 : rank - 1);
  for (std::size_t i = 0; i < (slowest ? 1 : parts_.size()); ++i) {
    if (rank != 0) sample[axis_] = parts_[i].length;
    part_strides_.push_back(penstock::stored_strides(sample, type_.item_bytes(), order_));
  }
  return {};
}

result<> raw_layout::compile(const json& endian) {
  const std::size_t rank = shape_.size();
  std::vector<codec_config> codecs;
  if (order_ == storage_order::fortran && rank > 1) {
    json::array_t axes;
    for (std::size_t d = rank; d-- > 0;) axes.emplace_back(static_cast<std::uint64_t>(d));
    codecs.push_back({"transpose", json::object_t{{"order", json(std::move(axes))}}});
  }
  codecs.push_back({"bytes", endian.is_null() ? json() : json(json::object_t{{"endian", endian}})});

  codec_chain_options options;
  options.stored_order_filters = endian.as_array() != nullptr;  // a byte order for each field, as in Zarr v2

  std::vector<std::vector<std::uint64_t>> lengths(rank);
  classes_.resize(rank);
  std::uint64_t shapes = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    lengths[d] = grid_.cells() == 0 ? std::vector<std::uint64_t>{block_[d]} : lengths_of(grid_.axis(d), classes_[d]);
    if (!checked_mul(shapes, lengths[d].size(), shapes) || shapes > kMaxChains) {
      return error(errc::unsupported, fmt::format("files of more than {} different lengths along dimension {}, which "
                                                  "is not the slowest that they store",
                                                  kMaxChains, axis_));
    }
  }
  class_strides_.assign(rank, 0);
  std::uint32_t stride = 1;
  for (std::size_t d = rank; d-- > 0;) {
    class_strides_[d] = stride;
    stride *= static_cast<std::uint32_t>(lengths[d].size());
  }
  chains_.reserve(static_cast<std::size_t>(shapes));
  for (std::uint64_t number = 0; number < shapes; ++number) {
    extents cell(rank);
    for (std::size_t d = 0; d < rank; ++d)
      cell[d] = lengths[d][static_cast<std::size_t>(number / class_strides_[d] % lengths[d].size())];
    PENSTOCK_ASSIGN(codec_chain compiled, codec_chain::compile(codecs, type_, cell, options));
    chains_.push_back(std::move(compiled));
  }
  return {};
}

result<> raw_layout::locate(std::span<const cell_id> cells, const index_lookup& /*known*/, std::span<chunk_extent> out,
                            std::vector<index_request>& /*missing*/) const {
  dim_vector<std::uint64_t> at;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    grid_.coordinates(cells[i], at);
    const std::size_t which = at.empty() ? 0 : part_of_[static_cast<std::size_t>(at[axis_])];
    const strides& steps = part_strides_[part_strides_.size() == 1 ? 0 : which];
    std::uint64_t offset = parts_[which].offset;
    std::uint32_t chain = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      std::uint64_t origin = grid_.axis(d).origin(at[d]);
      if (d == axis_) origin -= origins_[which];
      // Offsets were checked against the file's size, or against 63 bits, when the layout was created.
      offset += origin * static_cast<std::uint64_t>(steps[d]);
      if (!classes_[d].empty()) chain += classes_[d][static_cast<std::size_t>(at[d])] * class_strides_[d];
    }
    out[i] = {parts_[which].missing ? presence::absent : presence::present,
              static_cast<std::uint16_t>(chain),
              which,
              {offset, chains_[chain].decoded_bytes(), false}};
  }
  return {};
}

result<index_ptr> raw_layout::parse(const index_request& /*request*/, std::span<const std::byte> /*bytes*/,
                                    std::uint64_t /*object_size*/) const {
  return error(errc::internal, "contiguous data has no index");
}

const chunk_layout* raw_layout::finer() const {
  std::call_once(asked_for_finer_, [this] {
    if (grid_.cells() == 0) return;
    const std::uint64_t cell_bytes = chains_[0].decoded_bytes();
    const std::uint64_t bytes = std::max(kLeastFinerBytes, grid_.cells() * cell_bytes / kMaxFinerCells);
    if (bytes > cell_bytes / kFiner || parts_.size() > kMaxFinerCells) return;
    auto made = make({type_, endian_, order_, shape_, axis_}, {parts_.begin(), parts_.end()}, bytes);
    if (made.ok() && (*made)->grid().cells() > grid_.cells()) finer_ = std::move(*made);
  });
  return finer_.get();
}

void raw_layout::key(object_id object, std::string& out) const { out = parts_[static_cast<std::size_t>(object)].key; }

std::string raw_layout::describe(cell_id cell) const {
  dim_vector<std::uint64_t> at;
  grid_.coordinates(cell, at);
  std::string out = "block " + to_string(at);
  if (at.empty()) return out;
  const std::size_t which = part_of_[static_cast<std::size_t>(at[axis_])];
  const std::uint64_t begin = grid_.axis(axis_).origin(at[axis_]) - origins_[which];
  const std::uint64_t end = begin + grid_.axis(axis_).codec_length(at[axis_]);
  return out + fmt::format(" (elements [{}, {}) of dimension {} of '{}')", begin, end, axis_, parts_[which].key);
}

}  // namespace penstock::inline v0
