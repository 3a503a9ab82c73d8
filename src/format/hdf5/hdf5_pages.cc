#include "format/hdf5/hdf5_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace penstock::inline v0 {

void hdf5_pages::expect(std::uint64_t offset, std::uint64_t length) {
  if (length == 0 || offset >= file_bytes_) return;
  const std::uint64_t end = offset + std::min(length, file_bytes_ - offset);
  for (std::uint64_t each = offset / page_bytes_; each * page_bytes_ < end; ++each) {
    if (!pages_.contains(each)) missing_.insert(each);
  }
}

void hdf5_pages::hope(std::uint64_t offset, std::uint64_t length) {
  if (length == 0 || offset >= file_bytes_) return;
  const std::uint64_t end = offset + std::min(length, file_bytes_ - offset);
  hoped_.push_back({offset / page_bytes_ * page_bytes_, (end + page_bytes_ - 1) / page_bytes_ * page_bytes_});
}

result<std::span<const std::byte>> hdf5_pages::read(std::uint64_t offset, std::uint64_t length) {
  if (length == 0) return std::span<const std::byte>();
  const std::uint64_t first = offset / page_bytes_, last = (offset + length - 1) / page_bytes_;
  expect(offset, length);
  if (const auto missing = missing_.lower_bound(first); missing != missing_.end() && *missing <= last) {
    return error(errc::io_error, fmt::format("HDF5: bytes {} to {} are not fetched yet", offset, offset + length));
  }
  for (std::uint64_t each = first; each <= last; ++each) {
    page& known = pages_.at(each);
    if (!std::exchange(known.used, true)) used_bytes_ += known.bytes.size();
  }
  const auto inside = static_cast<std::size_t>(offset % page_bytes_);
  if (first == last)
    return std::span<const std::byte>(pages_.at(first).bytes).subspan(inside, static_cast<std::size_t>(length));
  joined_.clear();
  joined_.reserve(static_cast<std::size_t>(length));
  for (std::uint64_t each = first; each <= last; ++each) {
    const std::span<const std::byte> bytes =
        std::span<const std::byte>(pages_.at(each).bytes).subspan(each == first ? inside : 0);
    const std::size_t take = std::min(bytes.size(), static_cast<std::size_t>(length) - joined_.size());
    joined_.insert(joined_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(take));
  }
  return std::span<const std::byte>(joined_);
}

bool hdf5_pages::holds(std::uint64_t offset, std::uint64_t length) const noexcept {
  if (length == 0) return true;
  for (std::uint64_t each = offset / page_bytes_; each <= (offset + length - 1) / page_bytes_; ++each)
    if (!pages_.contains(each)) return false;
  return true;
}

std::optional<std::vector<std::byte>> hdf5_pages::copy(std::uint64_t offset, std::uint64_t length) const {
  if (offset >= file_bytes_ || length > file_bytes_ - offset || !holds(offset, length)) return std::nullopt;
  std::vector<std::byte> out;
  out.reserve(static_cast<std::size_t>(length));
  while (out.size() < length) {
    const std::uint64_t at = offset + out.size();
    const std::span<const std::byte> stored = pages_.at(at / page_bytes_).bytes;
    const std::span<const std::byte> bytes = stored.subspan(static_cast<std::size_t>(at % page_bytes_));
    const std::size_t take = std::min(bytes.size(), static_cast<std::size_t>(length) - out.size());
    out.insert(out.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(take));
  }
  return out;
}

result<std::span<const std::byte>> hdf5_held::read(std::uint64_t offset, std::uint64_t length) {
  if (from_.holds(offset, length)) return from_.read(offset, length);
  waiting_ = true;
  return error(errc::io_error, fmt::format("HDF5: bytes {} to {} are not fetched yet", offset, offset + length));
}

// The number of bytes that each of `ranges` may fetch ahead.
std::uint64_t hdf5_pages::share_of_each(std::size_t ranges, std::uint64_t allowance) const noexcept {
  const std::uint64_t missing = missing_.size() * page_bytes_;
  const std::uint64_t most = 2 * (used_bytes_ + missing) + allowance, known = fetched_bytes_ + missing;
  return most <= known ? 0 : (most - known) / std::max<std::size_t>(ranges, 1);
}

std::vector<hdf5_pages::stretch> hdf5_pages::widened(const hdf5_ahead& ahead) const {
  std::vector<stretch> out;
  for (const std::uint64_t each : missing_) {
    const std::uint64_t begin = each * page_bytes_;
    if (!out.empty() && begin - out.back().end <= ahead.most_gap)
      out.back().end = begin + page_bytes_;
    else
      out.push_back({begin, begin + page_bytes_});
  }
  const std::uint64_t whole = ahead.file_page;
  const bool in_pages = whole > page_bytes_ && share_of_each(out.size(), ahead.allowance + 2 * whole) >= whole;
  std::vector<stretch> hoped;
  std::uint64_t left = out.empty() || in_pages ? 0 : share_of_each(1, ahead.allowance);
  for (const stretch& each : hoped_) {
    if (each.end - each.begin > left) continue;
    left -= each.end - each.begin;
    hoped.push_back(each);
  }
  const std::uint64_t share = left / std::max<std::size_t>(out.size(), 1);
  const std::uint64_t after = std::min(share, ahead.most_after) / page_bytes_ * page_bytes_;
  const std::uint64_t before = std::min(share - after, ahead.most_before) / page_bytes_ * page_bytes_;
  for (stretch& each : out) {
    if (in_pages)
      each = {each.begin / whole * whole, (each.end + whole - 1) / whole * whole};
    else
      each = {each.begin - std::min(each.begin, before), each.end + after};
  }
  if (!out.empty() && out.front().begin < ahead.front) out.front() = {0, std::max(out.front().end, ahead.front)};
  out.insert(out.end(), hoped.begin(), hoped.end());
  std::sort(out.begin(), out.end(), [](const stretch& a, const stretch& b) { return a.begin < b.begin; });
  return out;
}

void hdf5_pages::trim(stretch& of) const {
  while (of.begin < of.end && pages_.contains(of.begin / page_bytes_)) of.begin += page_bytes_;
  while (of.begin < of.end && pages_.contains((of.end - 1) / page_bytes_)) of.end -= page_bytes_;
}

std::vector<byte_range> hdf5_pages::take_missing(const hdf5_ahead& ahead) {
  std::vector<byte_range> out;
  const std::uint64_t file_end = (file_bytes_ + page_bytes_ - 1) / page_bytes_ * page_bytes_;
  std::uint64_t taken = 0;  // the ranges up to this offset
  for (stretch each : widened(ahead)) {
    each.begin = std::max(each.begin, taken);
    each.end = std::min(each.end, file_end);
    trim(each);
    if (each.begin >= each.end) continue;
    taken = each.end;
    const std::uint64_t end = std::min(each.end, file_bytes_);
    if (!out.empty() && each.begin == out.back().offset + out.back().length)
      out.back().length = end - out.back().offset;
    else
      out.push_back({each.begin, end - each.begin, false});
  }
  missing_.clear();
  hoped_.clear();
  return out;
}

result<> hdf5_pages::add(const byte_range& range, std::span<const std::byte> bytes) {
  if (bytes.size() < range.length) return error(errc::io_error, "the file ended early while it was read");
  for (std::uint64_t at = 0; at < range.length; at += page_bytes_) {
    const auto length = static_cast<std::size_t>(std::min(page_bytes_, range.length - at));
    const auto from = bytes.subspan(static_cast<std::size_t>(at), length);
    auto [place, is_new] = pages_.try_emplace((range.offset + at) / page_bytes_);
    if (!is_new) continue;
    place->second.bytes.assign(from.begin(), from.end());
    fetched_bytes_ += length;
  }
  return {};
}

}  // namespace penstock::inline v0
