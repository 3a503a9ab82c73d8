// Any bytes as an HDF5 file: refused, or the chunks of the dataset "x" (or of the root, if it is a dataset) are cells
// of its grid. A search through the nodes on the way to a chunk finds the same chunks as the list.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "format/hdf5/hdf5_chunk_index.h"
#include "format/hdf5/hdf5_chunks.h"
#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_object.h"
#include "format/hdf5/hdf5_tree.h"

namespace {

using namespace penstock;

class bytes_in_memory final : public hdf5_source {
 public:
  explicit bytes_in_memory(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const noexcept override { return bytes_.size(); }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::uint64_t length) override {
    if (offset > bytes_.size() || length > bytes_.size() - offset) __builtin_trap();
    return bytes_.subspan(offset, length);
  }

 private:
  std::span<const std::byte> bytes_;
};

bool is_refusal(const error& what) {
  return what.code() == errc::corrupt_data || what.code() == errc::unsupported || what.code() == errc::not_found;
}

class known_nodes final : public index_lookup {
 public:
  const index_entry* find(const index_key& key) const override {
    const auto at = entries_.find(key.node);
    return at == entries_.end() ? nullptr : &at->second;
  }
  void add(const index_key& key, index_ptr block) { entries_[key.node].block = std::move(block); }

 private:
  std::map<std::uint64_t, index_entry> entries_;
};

result<hdf5_lookup> find_chunk(const hdf5_chunk_index& index, std::uint64_t cell, std::span<const std::byte> bytes,
                               known_nodes& known, hdf5_chunk_place& out) {
  constexpr int kMostRounds = 64;
  hdf5_search_hint hint;
  for (int round = 0; round < kMostRounds; ++round) {
    index_request missing;
    PENSTOCK_ASSIGN(const hdf5_lookup found, index.find(cell, known, hint, out, missing));
    if (found != hdf5_lookup::waits) return found;
    if (known.find(missing.key) != nullptr) __builtin_trap();
    if (missing.range.offset > bytes.size() || missing.range.length > bytes.size() - missing.range.offset)
      __builtin_trap();
    PENSTOCK_ASSIGN(index_ptr block,
                    index.parse(missing, bytes.subspan(missing.range.offset, missing.range.length), bytes.size()));
    if (block->memory_bytes() > missing.range.length + 256) __builtin_trap();
    known.add(missing.key, std::move(block));
  }
  __builtin_trap();
}

// In a damaged tree, a search may miss chunks of the list; it never returns a chunk that the list does not have.
void search(const hdf5_chunk_index& index, const result<hdf5_chunks>& listed, std::span<const std::byte> bytes) {
  constexpr std::uint64_t kMostSearches = 64;
  known_nodes known;
  std::vector<std::uint64_t> cells;
  for (std::uint64_t i = 0; i < std::min(index.grid().cells(), kMostSearches); ++i)
    cells.push_back(i * (index.grid().cells() / std::min(index.grid().cells(), kMostSearches)));
  if (listed.ok())
    cells.insert(cells.end(), listed->cells.begin(),
                 listed->cells.begin() +
                     static_cast<std::ptrdiff_t>(std::min<std::size_t>(listed->cells.size(), kMostSearches)));
  for (const std::uint64_t cell : cells) {
    hdf5_chunk_place place;
    const auto found = find_chunk(index, cell, bytes, known, place);
    if (!found.ok() && !is_refusal(found.error())) __builtin_trap();
    if (!found.ok() || *found != hdf5_lookup::present || !listed.ok()) continue;
    const auto at = std::lower_bound(listed->cells.begin(), listed->cells.end(), cell);
    if (at == listed->cells.end() || *at != cell) __builtin_trap();
    const auto i = static_cast<std::size_t>(at - listed->cells.begin());
    if (listed->offsets[i] != place.address || listed->lengths[i] != place.length) __builtin_trap();
  }
}

result<> look(std::span<const std::byte> bytes, hdf5_checksums sums) {
  bytes_in_memory source(bytes);
  PENSTOCK_ASSIGN(hdf5_file file, hdf5_file::open(source, sums));
  hdf5_tree tree(file);
  const auto found = tree.find("x");
  if (!found.ok() && !is_refusal(found.error())) __builtin_trap();
  PENSTOCK_ASSIGN(const auto header, read_hdf5_object(file, found.ok() ? found->object : file.root()));
  PENSTOCK_ASSIGN(const hdf5_shape shape, parse_hdf5_shape(file, header));
  PENSTOCK_ASSIGN(const hdf5_layout layout, parse_hdf5_layout(file, header));
  if (layout.what != hdf5_layout::kind::chunked) return {};
  const auto listed = list_hdf5_chunks(file, shape, layout);
  constexpr std::size_t kFilters = 2;
  const auto index = hdf5_chunk_index::open(file, shape, layout, kFilters);
  if (!index.ok() && !is_refusal(index.error())) __builtin_trap();
  if (index.ok() && *index) search(**index, listed, bytes);
  if (!listed.ok()) return listed.error().clone();
  const hdf5_chunks& chunks = *listed;
  std::uint64_t cells = 1;
  for (std::size_t d = 0; d < layout.chunk.size(); ++d)
    if (!checked_mul(cells, ceil_div(shape.extents[d], layout.chunk[d]), cells)) __builtin_trap();
  const std::size_t count = chunks.cells.size();
  if (chunks.offsets.size() != count || chunks.lengths.size() != count || chunks.masks.size() != count)
    __builtin_trap();
  for (std::size_t i = 0; i < count; ++i) {
    if (chunks.cells[i] >= cells || (i != 0 && chunks.cells[i] <= chunks.cells[i - 1])) __builtin_trap();
    if (chunks.lengths[i] == 0) __builtin_trap();
  }
  return {};
}

}  // namespace

extern "C" int run_hdf5_index(const std::uint8_t* data, std::size_t size) {
  for (const hdf5_checksums sums : {hdf5_checksums::verified, hdf5_checksums::ignored}) {
    const auto done = look({reinterpret_cast<const std::byte*>(data), size}, sums);
    if (!done.ok() && !is_refusal(done.error())) __builtin_trap();
  }
  return 0;
}
