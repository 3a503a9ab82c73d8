// A TIFF from hostile bytes: parsed, located, and the first cells decoded. The first byte selects the image; if the
// bytes are a TIFF without that byte, like real files, it is the first image.

#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "array/chunk_grid.h"
#include "base/ledger.h"
#include "format/tiff/tiff_layout.h"
#include "format/tiff/tiff_parser.h"

using namespace penstock;

namespace {

constexpr std::uint64_t kMaxCells = 64;
constexpr std::uint64_t kMaxCellBytes = std::uint64_t{4} << 20;

class table final : public index_lookup {
 public:
  const index_entry* find(const index_key& key) const override {
    const auto at = entries.find(key.node);
    return at == entries.end() ? nullptr : &at->second;
  }
  std::map<std::uint64_t, index_entry> entries;
};

void decode(const tiff_layout& layout, cell_id cell, const chunk_extent& extent, std::span<const std::byte> file,
            worker_scratch& scratch) {
  const codec_chain& chain = layout.chains()[extent.chain];
  if (extent.state != presence::present || chain.decoded_bytes() > kMaxCellBytes) return;
  if (extent.range.offset > file.size() || extent.range.length > file.size() - extent.range.offset) __builtin_trap();
  (void)layout.describe(cell);
  std::vector<std::byte> room(chain.decoded_bytes());
  strided_box all(chain.cell().size());
  for (std::size_t d = 0; d < all.size(); ++d) all[d] = {0, 1, chain.cell()[d]};
  decode_target target;
  target.data = room.data();
  target.strides = c_order_strides(chain.cell(), chain.type().item_bytes());
  target.in_cell = &all;
  target.covers_cell = true;
  (void)chain.decode(file.subspan(extent.range.offset, extent.range.length), target, scratch);
}

}  // namespace

extern "C" int run_tiff(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  tiff_options options;
  std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  if (!tiff_parser::is_tiff(file)) {
    options.page = data[0] & 1U;
    options.level = data[0] >> 1 & 1U;
    options.mask = (data[0] & 4U) != 0;
    options.native_order = (data[0] & 8U) != 0;
    if ((data[0] & 16U) != 0) options.ifd = data[0] >> 6;
    if ((data[0] & 32U) != 0) options.bands = {0};
    if (!options.ifd) options.sub_ifds.assign(data[0] >> 6, 0);
    file = file.subspan(1);
  }

  tiff_file_view view;
  view.set_size(file.size());
  tiff_parser parser(options);
  for (;;) {
    auto missing = parser.advance(view);
    if (!missing.ok()) return 0;
    if (!*missing) break;
    const byte_range range = **missing;
    if (range.offset > file.size() || range.length > file.size() - range.offset ||
        view.find(range.offset, range.length))
      __builtin_trap();  // the parser requested bytes outside of the file, or bytes that it already has
    const auto piece = file.subspan(range.offset, range.length);
    view.add(range.offset, {piece.begin(), piece.end()});
  }
  auto details = std::make_shared<tiff_details>(parser.take_details());
  auto made = tiff_layout::make(std::move(details), parser.directory(), options, "x.tif", view, {});
  if (!made.ok()) return 0;
  const tiff_layout& layout = **made;

  std::vector<cell_id> cells(std::min(kMaxCells, layout.grid().cells()));
  std::iota(cells.begin(), cells.end(), cell_id{0});
  std::vector<chunk_extent> extents(cells.size());
  table known;
  for (int round = 0;; ++round) {
    std::vector<index_request> missing;
    if (!layout.locate(cells, known, extents, missing).ok()) return 0;
    if (missing.empty()) break;
    if (round > 2) __builtin_trap();
    for (const index_request& each : missing) {
      if (each.range.offset > file.size() || each.range.length > file.size() - each.range.offset) return 0;
      auto block = layout.parse(each, file.subspan(each.range.offset, each.range.length), file.size());
      if (!block.ok()) return 0;
      known.entries[each.key.node].block = std::move(*block);
    }
  }
  worker_scratch scratch;
  for (std::size_t i = 0; i < cells.size(); ++i) decode(layout, cells[i], extents[i], file, scratch);
  return 0;
}
