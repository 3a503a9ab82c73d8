#include "format/hdf5/hdf5_chunk_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace penstock::inline v0 {
namespace {

// Removes requests from `first` on that are duplicates of each other or of earlier requests.
void keep_new(std::vector<index_request>& requests, std::size_t first) {
  const auto less = [](const index_request& a, const index_request& b) { return a.key.node < b.key.node; };
  const auto same = [](const index_request& a, const index_request& b) { return a.key == b.key; };
  const auto begin = requests.begin() + static_cast<std::ptrdiff_t>(first);
  std::sort(begin, requests.end(), less);
  requests.erase(std::unique(begin, requests.end(), same), requests.end());
  if (first == 0) return;
  std::vector<index_request> before(requests.begin(), requests.begin() + static_cast<std::ptrdiff_t>(first));
  std::sort(before.begin(), before.end(), less);
  const auto is_old = [&](const index_request& each) {
    return std::binary_search(before.begin(), before.end(), each, less);
  };
  requests.erase(std::remove_if(requests.begin() + static_cast<std::ptrdiff_t>(first), requests.end(), is_old),
                 requests.end());
}

}  // namespace

result<std::shared_ptr<const hdf5_chunk_layout>> hdf5_chunk_layout::make(std::shared_ptr<const chunk_layout> cells,
                                                                         std::shared_ptr<const hdf5_chunk_index> index,
                                                                         settings with) {
  if (cells->chains().size() != 1 || cells->grid().cells() != index->grid().cells()) {
    return error(errc::unsupported, fmt::format("an index of {} chunks of an array of {} chunks and {} chains",
                                                index->grid().cells(), cells->grid().cells(), cells->chains().size()));
  }
  std::shared_ptr<hdf5_chunk_layout> out(new hdf5_chunk_layout);
  out->chains_.push_back(cells->chains()[0]);
  for (codec_chain& each : with.masked_chains) out->chains_.push_back(std::move(each));
  out->cells_ = std::move(cells);
  out->index_ = std::move(index);
  out->object_ = std::move(with.object);
  return std::shared_ptr<const hdf5_chunk_layout>(std::move(out));
}

result<> hdf5_chunk_layout::locate(std::span<const cell_id> cells, const index_lookup& known,
                                   std::span<chunk_extent> out, std::vector<index_request>& missing) const {
  const std::size_t before = missing.size();
  hdf5_search_hint hint;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    hdf5_chunk_place found;
    index_request node;
    auto outcome = index_->find(cells[i], known, hint, found, node);
    if (!outcome.ok()) return std::move(outcome).error().note(describe(cells[i]));
    if (*outcome == hdf5_lookup::waits) {
      // Neighbours usually wait for the same node.
      if (missing.size() == before || !(missing.back().key == node.key)) missing.push_back(node);
      continue;
    }
    if (*outcome == hdf5_lookup::absent) {
      out[i] = {presence::absent, 0, 0, {}};
      continue;
    }
    if (found.mask >= chains_.size())
      return error(errc::corrupt_data,
                   fmt::format("a chunk skips filters {:#x}, there are {} ways to decode", found.mask, chains_.size()))
          .note(describe(cells[i]));
    const auto chain = static_cast<std::uint16_t>(found.mask);
    if (found.length > chains_[chain].max_encoded_bytes())
      return error(errc::corrupt_data, fmt::format("the index gives {} bytes to a chunk whose codecs make at most {}",
                                                   found.length, chains_[chain].max_encoded_bytes()))
          .note(describe(cells[i]));
    out[i] = {presence::present, chain, 0, {found.address, found.length, false}};
  }
  keep_new(missing, before);
  return {};
}

result<index_ptr> hdf5_chunk_layout::parse(const index_request& request, std::span<const std::byte> bytes,
                                           std::uint64_t object_size) const {
  return index_->parse(request, bytes, object_size);
}

void hdf5_chunk_layout::key(object_id, std::string& out) const { out = object_; }

}  // namespace penstock::inline v0
