#include "format/netcdf/netcdf_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "array/contiguous_blocks.h"
#include "array/utf8.h"
#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kMostBytes = std::numeric_limits<std::int64_t>::max();
/// Longer records are read one by one: too many bytes between a variable's parts would also be read.
constexpr std::uint64_t kLongRecord = std::uint64_t{64} << 10;
/// As are records with longer gaps between a variable's parts, if a request takes no longer than reading such a gap.
constexpr std::uint64_t kLongGap = std::uint64_t{16} << 10;
/// The most cells of a file for each of its bytes, whatever its header states: cells need memory.
constexpr std::uint64_t kFileBytesPerCell = 4096, kLeastCells = 64;
/// For finer cells, as in raw_layout.
constexpr std::uint64_t kMaxFinerCells = std::uint64_t{1} << 14, kLeastFinerBytes = 4096, kFiner = 4;

}  // namespace

std::shared_ptr<const netcdf_file> netcdf_file::make(netcdf_header header, std::string key, std::uint64_t bytes,
                                                     version seen, bool cheap_requests) {
  auto out = std::make_shared<netcdf_file>();
  out->header = std::move(header);
  out->key = std::move(key);
  out->bytes = bytes;
  out->seen = seen;
  out->cheap_requests = cheap_requests;
  for (std::size_t i = 0; i < out->header.variables.size(); ++i)
    out->numbers.try_emplace(out->header.variables[i].name, i);
  return out;
}

dtype dtype_of(netcdf_type type) noexcept {
  const auto bits = static_cast<std::uint32_t>(8 * bytes_of(type));
  switch (type) {
    case netcdf_type::text:
      return dtype::fixed_bytes(1);
    case netcdf_type::float32:
    case netcdf_type::float64:
      return {dtype_kind::floating, bits};
    case netcdf_type::uint8:
    case netcdf_type::uint16:
    case netcdf_type::uint32:
    case netcdf_type::uint64:
      return {dtype_kind::unsigned_integer, bits};
    default:
      return {dtype_kind::signed_integer, bits};
  }
}

result<std::shared_ptr<const netcdf_layout>> netcdf_layout::make(std::shared_ptr<const netcdf_file> file,
                                                                 std::size_t variable, std::uint64_t block_bytes) {
  std::shared_ptr<netcdf_layout> made(new netcdf_layout);
  made->file_ = std::move(file);
  made->number_ = variable;
  const netcdf_header& header = made->file_->header;
  const netcdf_variable& of = made->variable();
  made->type_ = dtype_of(of.type);
  std::uint64_t all = bytes_of(of.type);
  for (const std::uint32_t dimension : of.dimensions) {
    const std::uint64_t length = header.dimensions[dimension].length;
    made->shape_.push_back(length);
    all = saturating_mul(all, std::max<std::uint64_t>(length, 1));
  }
  const std::uint64_t records = of.has_records ? header.records : 1;
  const std::uint64_t end = saturating_add(of.offset, saturating_mul(records, std::max(of.bytes, header.record_bytes)));
  if (all > kMostBytes || end > kMostBytes)
    return error(errc::unsupported, fmt::format("NetCDF: variable '{}' of shape {} at byte {} has 2^63 bytes or more",
                                                as_utf8(of.name), to_string(made->shape_), of.offset));
  made->interleaved_ = of.has_records && header.record_bytes != of.bytes;
  made->steps_ = stored_strides(made->shape_, made->type_.item_bytes(), storage_order::c);
  if (made->interleaved_) made->steps_[0] = static_cast<std::int64_t>(header.record_bytes);
  made->choose_block(block_bytes, all);
  PENSTOCK_TRY(made->cut());
  PENSTOCK_TRY(made->compile());
  return std::shared_ptr<const netcdf_layout>(std::move(made));
}

void netcdf_layout::choose_block(std::uint64_t block_bytes, std::uint64_t all_bytes) {
  const std::uint64_t known = file_->bytes == byte_range::kAll ? 0 : file_->bytes;
  const std::uint64_t most_cells = std::clamp(known / kFileBytesPerCell, kLeastCells, kMaxBlocks);
  extents lengths = shape_;
  for (std::uint64_t& length : lengths) length = std::max<std::uint64_t>(length, 1);
  if (block_bytes == 0) block_bytes = kBlockBytes;
  if (!interleaved_) {
    block_ = contiguous_block(lengths, type_.item_bytes(), storage_order::c,
                              std::max(block_bytes, ceil_div(all_bytes, most_cells)));
    return;
  }
  const std::uint64_t record_bytes = file_->header.record_bytes, records = lengths[0];
  lengths[0] = 1;
  // If values at the end of a file are missing, each record is read by itself, so that the records that exist are
  // found.
  const bool truncated = file_->bytes != byte_range::kAll &&
                         variable().offset + (records - 1) * record_bytes + variable().bytes > file_->bytes;
  const bool is_far = file_->cheap_requests && record_bytes - variable().bytes > kLongGap;
  if (truncated || is_far || record_bytes > kLongRecord) {
    block_ = contiguous_block(lengths, type_.item_bytes(), storage_order::c,
                              std::max(block_bytes, ceil_div(variable().bytes, most_cells)));
    return;
  }
  block_ = lengths;
  block_[0] =
      std::clamp(std::max(block_bytes / record_bytes, ceil_div(records, most_cells)), std::uint64_t{1}, records);
}

result<> netcdf_layout::cut() {
  const bool is_empty = std::find(shape_.begin(), shape_.end(), 0U) != shape_.end();
  if (is_empty) {
    PENSTOCK_ASSIGN(grid_, chunk_grid::regular(shape_, block_));
    write_grid_ = grid_;
    return {};
  }
  std::vector<grid_axis> cells, whole;
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    PENSTOCK_ASSIGN(grid_axis axis, block_axis(shape_[d], block_[d]));
    if (!axis.is_uniform()) cut_ = d;  // blocks are whole or of length 1 along all dimensions but one
    cells.push_back(std::move(axis));
    whole.push_back(grid_axis::uniform(shape_[d], shape_[d]));
  }
  PENSTOCK_ASSIGN(grid_, chunk_grid::make(std::move(cells)));
  PENSTOCK_ASSIGN(write_grid_, chunk_grid::make(std::move(whole)));
  return {};
}

result<> netcdf_layout::compile() {
  const std::uint64_t rest = shape_.empty() ? 0 : shape_[cut_] % block_[cut_];
  for (const bool is_last : {false, true}) {
    if (is_last && rest == 0) break;
    extents cell = block_;
    if (is_last) cell[cut_] = rest;
    std::vector<codec_config> codecs;
    codecs.push_back({"bytes", type_.item_bytes() == 1 ? json() : json(json::object_t{{"endian", json("big")}})});
    std::uint64_t span = type_.item_bytes();
    for (const std::uint64_t length : cell) span *= length;
    if (interleaved_ && cell[0] > 1) {
      const std::uint64_t step = file_->header.record_bytes;
      span = (cell[0] - 1) * step + variable().bytes;
      codecs.push_back({"netcdf.records", json::object_t{{"bytes", json(variable().bytes)}, {"step", json(step)}}});
    }
    PENSTOCK_ASSIGN(codec_chain compiled, codec_chain::compile(codecs, type_, cell));
    chains_.push_back(std::move(compiled));
    spans_.push_back(span);
  }
  return {};
}

std::uint64_t netcdf_layout::offset_of(const dim_vector<std::uint64_t>& at) const noexcept {
  std::uint64_t offset = variable().offset;  // sums fit into 63 bits, as `make` checked
  for (std::size_t d = 0; d < at.size(); ++d)
    offset += grid_.axis(d).origin(at[d]) * static_cast<std::uint64_t>(steps_[d]);
  return offset;
}

result<> netcdf_layout::locate(std::span<const cell_id> cells, const index_lookup& /*known*/,
                               std::span<chunk_extent> out, std::vector<index_request>& /*missing*/) const {
  dim_vector<std::uint64_t> at;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    grid_.coordinates(cells[i], at);
    const bool is_rest = chains_.size() > 1 && at[cut_] + 1 == grid_.axis(cut_).cells();
    const std::uint64_t offset = offset_of(at), span = spans_[is_rest ? 1 : 0];
    if (offset >= file_->bytes)
      return error(errc::corrupt_data,
                   fmt::format("NetCDF: the file ends before values of variable '{}': bytes [{}, {}) of {}",
                               as_utf8(variable().name), offset, offset + span, file_->bytes))
          .note(describe(cells[i]));
    out[i] = {presence::present, static_cast<std::uint16_t>(is_rest ? 1 : 0), 0, {offset, span, false}};
  }
  return {};
}

result<index_ptr> netcdf_layout::parse(const index_request& /*request*/, std::span<const std::byte> /*bytes*/,
                                       std::uint64_t /*object_size*/) const {
  return error(errc::internal, "a variable of a NetCDF classic file has no index");
}

const chunk_layout* netcdf_layout::finer() const {
  std::call_once(asked_for_finer_, [this] {
    if (grid_.cells() == 0 || grid_.cells() > kMaxFinerCells) return;
    const std::uint64_t bytes = std::max(kLeastFinerBytes, saturating_mul(grid_.cells(), spans_[0]) / kMaxFinerCells);
    if (bytes > spans_[0] / kFiner) return;
    auto made = make(file_, number_, bytes);
    if (made.ok() && (*made)->grid().cells() > grid_.cells()) finer_ = std::move(*made);
  });
  return finer_.get();
}

void netcdf_layout::key(object_id, std::string& out) const { out = file_->key; }

std::string netcdf_layout::describe(cell_id cell) const {
  dim_vector<std::uint64_t> at;
  grid_.coordinates(cell, at);
  std::string out = fmt::format("variable '{}' block {}", as_utf8(variable().name), to_string(at));
  if (at.empty()) return out;
  const std::size_t d = variable().has_records ? 0 : cut_;
  const std::uint64_t begin = grid_.axis(d).origin(at[d]);
  return out + fmt::format(" ({} [{}, {}) of '{}')", variable().has_records ? "records" : "elements", begin,
                           begin + grid_.axis(d).valid_length(at[d]),
                           as_utf8(file_->header.dimensions[variable().dimensions[d]].name));
}

}  // namespace penstock::inline v0
