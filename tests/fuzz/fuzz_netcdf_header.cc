// Any bytes as a NetCDF classic file: refused, or the same header from prefixes as from the whole file, and cells whose
// decoded elements are those at the places that the format defines.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "format/netcdf/netcdf_layout.h"

namespace penstock {
namespace {

constexpr std::size_t kMostVariables = 16, kMostCells = 64;
constexpr std::uint64_t kMostCellBytes = 1U << 16;

class no_indexes final : public index_lookup {
 public:
  const index_entry* find(const index_key&) const override { return nullptr; }
};

/// The offset of element `at` of a variable in the file.
std::uint64_t offset_of(const netcdf_header& header, const netcdf_variable& variable,
                        const dim_vector<std::uint64_t>& at) {
  std::uint64_t element = 0;
  for (std::size_t d = variable.has_records ? 1 : 0; d < at.size(); ++d)
    element = element * header.dimensions[variable.dimensions[d]].length + at[d];
  return variable.offset + element * bytes_of(variable.type) + (variable.has_records ? at[0] * header.record_bytes : 0);
}

void check_cell(const netcdf_layout& layout, const chunk_extent& where, std::span<const std::byte> file,
                const dim_vector<std::uint64_t>& cell, worker_scratch& scratch) {
  const codec_chain& chain = layout.chains()[where.chain];
  if (where.range.offset > file.size() || where.range.length > file.size() - where.range.offset) return;
  if (chain.decoded_bytes() > kMostCellBytes) return;
  std::vector<std::byte> out(static_cast<std::size_t>(chain.decoded_bytes()));
  strided_box all;
  for (std::size_t d = 0; d < cell.size(); ++d) all.push_back({0, 1, chain.cell()[d]});
  decode_target target;
  target.data = out.data();
  target.strides = c_order_strides(chain.cell(), chain.type().item_bytes());
  target.in_cell = &all;
  target.covers_cell = true;
  const auto encoded =
      file.subspan(static_cast<std::size_t>(where.range.offset), static_cast<std::size_t>(where.range.length));
  if (!chain.decode(encoded, target, scratch).ok()) __builtin_trap();
  const std::size_t item = chain.type().item_bytes();
  dim_vector<std::uint64_t> within(cell.size());
  for (std::size_t i = 0; i < out.size() / item; ++i) {
    std::uint64_t rest = i;
    dim_vector<std::uint64_t> at(cell.size());
    for (std::size_t d = cell.size(); d-- > 0;) {
      at[d] = layout.grid().axis(d).origin(cell[d]) + rest % chain.cell()[d];
      rest /= chain.cell()[d];
    }
    const std::uint64_t from = offset_of(layout.file()->header, layout.variable(), at);
    if (from + item > file.size()) __builtin_trap();
    for (std::size_t b = 0; b < item; ++b)
      if (out[i * item + b] != file[static_cast<std::size_t>(from) + item - 1 - b]) __builtin_trap();
  }
}

void check_layout(const netcdf_layout& layout, std::span<const std::byte> file, worker_scratch& scratch) {
  const std::uint64_t cells = layout.grid().cells();
  dim_vector<std::uint64_t> at;
  std::vector<index_request> missing;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(cells, kMostCells); ++i) {
    const cell_id cell = i % 2 == 0 ? i / 2 : cells - 1 - i / 2;  // from both ends
    chunk_extent where;
    (void)layout.describe(cell);
    if (!layout.locate({&cell, 1}, no_indexes(), {&where, 1}, missing).ok()) continue;
    layout.grid().coordinates(cell, at);
    check_cell(layout, where, file, at, scratch);
  }
  if (!missing.empty()) __builtin_trap();
}

}  // namespace
}  // namespace penstock

extern "C" int run_netcdf_header(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  std::uint64_t needed = 0;
  const auto whole = parse_netcdf_header(bytes, size, needed);
  if (whole.ok() && !*whole) __builtin_trap();  // all bytes are fetched
  if (!whole.ok() && whole.error().code() != errc::corrupt_data && whole.error().code() != errc::unsupported)
    __builtin_trap();
  std::size_t length = std::min<std::size_t>(size, 4);
  for (;;) {
    const auto part = parse_netcdf_header(bytes.first(length), size, needed);
    if (!part.ok() || *part) {
      if (part.ok() != whole.ok()) __builtin_trap();
      if (part.ok() && netcdf_header_json(**part).dump() != netcdf_header_json(**whole).dump()) __builtin_trap();
      break;
    }
    if (needed <= length || needed > size) __builtin_trap();
    length = std::min(size, std::max<std::size_t>(2 * length, needed));
  }
  if (!whole.ok()) return 0;
  worker_scratch scratch;
  const auto file = netcdf_file::make(**whole, "file.nc", size, {});
  for (std::size_t i = 0; i < std::min(file->header.variables.size(), kMostVariables); ++i) {
    for (const std::uint64_t block_bytes : {0U, 64U}) {
      const auto layout = netcdf_layout::make(file, i, block_bytes);
      if (!layout.ok() && layout.error().code() != errc::unsupported) __builtin_trap();
      if (!layout.ok()) continue;
      check_layout(**layout, bytes, scratch);
      if (const auto* const finer = (*layout)->finer())
        check_layout(dynamic_cast<const netcdf_layout&>(*finer), bytes, scratch);
    }
  }
  return 0;
}
