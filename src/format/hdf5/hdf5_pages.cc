#include "format/hdf5/hdf5_pages.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::inline v0 {

void hdf5_pages::expect(std::uint64_t offset, std::uint64_t length) {
  if (length == 0 || offset >= file_bytes_) return;
  const std::uint64_t end = offset + std::min(length, file_bytes_ - offset);
  for (std::uint64_t page = offset / page_bytes_; page * page_bytes_ < end; ++page) {
    if (!pages_.contains(page)) missing_.insert(page);
  }
}

result<std::span<const std::byte>> hdf5_pages::read(std::uint64_t offset, std::uint64_t length) {
  if (length == 0) return std::span<const std::byte>();
  const std::uint64_t first = offset / page_bytes_, last = (offset + length - 1) / page_bytes_;
  expect(offset, length);
  if (const auto missing = missing_.lower_bound(first); missing != missing_.end() && *missing <= last) {
    return error(errc::io_error, fmt::format("HDF5: bytes {} to {} are not fetched yet", offset, offset + length));
  }
  const auto inside = static_cast<std::size_t>(offset % page_bytes_);
  if (first == last)
    return std::span<const std::byte>(pages_.at(first)).subspan(inside, static_cast<std::size_t>(length));
  joined_.clear();
  joined_.reserve(static_cast<std::size_t>(length));
  for (std::uint64_t page = first; page <= last; ++page) {
    const std::span<const std::byte> bytes =
        std::span<const std::byte>(pages_.at(page)).subspan(page == first ? inside : 0);
    const std::size_t take = std::min(bytes.size(), static_cast<std::size_t>(length) - joined_.size());
    joined_.insert(joined_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(take));
  }
  return std::span<const std::byte>(joined_);
}

std::vector<byte_range> hdf5_pages::take_missing(std::uint64_t most_gap) {
  std::vector<byte_range> out;
  for (const std::uint64_t page : missing_) {
    const std::uint64_t begin = page * page_bytes_, end = begin + std::min(page_bytes_, file_bytes_ - begin);
    if (!out.empty() && begin - (out.back().offset + out.back().length) <= most_gap)
      out.back().length = end - out.back().offset;
    else
      out.push_back({begin, end - begin, false});
  }
  missing_.clear();
  return out;
}

result<> hdf5_pages::add(const byte_range& range, std::span<const std::byte> bytes) {
  if (bytes.size() < range.length) return error(errc::io_error, "the file ended early while it was read");
  for (std::uint64_t at = 0; at < range.length; at += page_bytes_) {
    const auto length = static_cast<std::size_t>(std::min(page_bytes_, range.length - at));
    const auto page = bytes.subspan(static_cast<std::size_t>(at), length);
    auto [place, is_new] = pages_.try_emplace((range.offset + at) / page_bytes_);
    if (!is_new) continue;
    place->second.assign(page.begin(), page.end());
    fetched_bytes_ += length;
  }
  return {};
}

}  // namespace penstock::inline v0
