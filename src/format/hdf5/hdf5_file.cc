#include "format/hdf5/hdf5_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/lookup3.h"
#include "format/hdf5/hdf5_cache_image.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
/// The largest superblock of all supported versions.
constexpr std::uint64_t kMostSuperblockBytes = 128;
/// Compressed metadata. Deflate makes at most 1032 bytes of one.
constexpr std::uint64_t kMostDecodedBytes = std::uint64_t{16} << 20, kMostDecodedTimes = 256;
constexpr std::uint64_t kFirstUserBlock = 512, kLastUserBlock = std::uint64_t{1} << 26;

result<> check(std::span<const std::byte> covered, std::uint64_t stored, hdf5_checksums sums, std::string_view what) {
  if (sums == hdf5_checksums::ignored || lookup3(covered, 0) == stored) return {};
  return hdf5_damaged(fmt::format("{} has a wrong checksum", what));
}

}  // namespace

error hdf5_damaged(std::string_view what) { return {errc::corrupt_data, fmt::format("HDF5: {}", what)}; }
error hdf5_unknown(std::string_view what) { return {errc::unsupported, fmt::format("HDF5: {}", what)}; }

bool is_hdf5(std::span<const std::byte> begin) noexcept {
  for (std::uint64_t at = 0; at + kSignature.size() <= begin.size(); at = at == 0 ? kFirstUserBlock : 2 * at)
    if (std::memcmp(begin.data() + at, kSignature.data(), kSignature.size()) == 0) return true;
  return false;
}

bool hdf5_cursor::is(std::string_view text) noexcept {
  const auto found = bytes(text.size());
  return found.size() == text.size() && std::memcmp(found.data(), text.data(), text.size()) == 0;
}

result<> check_hdf5_block(std::span<const std::byte> block, hdf5_checksums sums, std::string_view what) {
  if (block.size() < kHdf5ChecksumBytes) return hdf5_damaged(fmt::format("{} of {} bytes", what, block.size()));
  hdf5_cursor stored(block.last(kHdf5ChecksumBytes));
  return check(block.first(block.size() - kHdf5ChecksumBytes), stored.number(kHdf5ChecksumBytes), sums, what);
}

hdf5_file::hdf5_file(hdf5_source& from, hdf5_checksums sums, std::uint64_t readings) noexcept
    : from_(&from),
      sums_(sums),
      budget_(std::max(saturating_mul(from.size(), readings), std::uint64_t{1} << 16)),
      decoded_(saturating_add(saturating_mul(from.size(), kMostDecodedTimes), kMostDecodedBytes)) {}

result<hdf5_file> hdf5_file::open(hdf5_source& from, hdf5_checksums sums, std::uint64_t readings) {
  hdf5_file made(from, sums, readings);
  for (std::uint64_t at = 0; at <= kLastUserBlock; at = at == 0 ? kFirstUserBlock : 2 * at) {
    if (at > from.size() || from.size() - at < kSignature.size()) break;
    PENSTOCK_ASSIGN(const auto begin, made.at(at, kSignature.size()));
    if (std::memcmp(begin.data(), kSignature.data(), kSignature.size()) != 0) continue;
    PENSTOCK_TRY(made.read_superblock(at));
    return made;
  }
  return hdf5_damaged("the file has no signature of the format");
}

hdf5_file hdf5_file::over(hdf5_source& from) const {
  hdf5_file made = *this;
  made.from_ = &from;
  return made;
}

result<> hdf5_file::read_superblock(std::uint64_t signature) {
  const std::uint64_t length = std::min(kMostSuperblockBytes, from_->size() - signature);
  PENSTOCK_ASSIGN(const auto block, at(signature, length));
  hdf5_cursor cursor(block);
  cursor.skip(kSignature.size());
  const std::uint64_t superblock = cursor.number(1);
  if (superblock > 3) return hdf5_unknown(fmt::format("a superblock of version {}", superblock));
  if (superblock < 2) cursor.skip(4);  // versions of other structures
  offset_bytes_ = static_cast<std::size_t>(cursor.number(1));
  length_bytes_ = static_cast<std::size_t>(cursor.number(1));
  for (const std::size_t each : {offset_bytes_, length_bytes_}) {
    if (each != 2 && each != 4 && each != 8) return hdf5_damaged(fmt::format("addresses of {} bytes", each));
  }
  extension_ = all_ones(offset_bytes_);
  if (superblock < 2) {
    cursor.skip(1 + 4 + 4 + (superblock == 1 ? 4 : 0));  // reserved, sizes of nodes, flags
    const std::uint64_t stored_base = cursor.number(offset_bytes_);
    cursor.skip(offset_bytes_);  // free space
    set_end(cursor.number(offset_bytes_), stored_base);
    if (!undefined(cursor.number(offset_bytes_))) return hdf5_unknown("a file that consists of several files");
    cursor.skip(length_bytes_);  // the root's name
    root_ = cursor.number(offset_bytes_);
    if (!cursor.ok()) return hdf5_damaged("the superblock is truncated");
  } else {
    constexpr std::uint64_t kOpenForWriting = 1;
    written_ = (cursor.number(1) & kOpenForWriting) != 0 && superblock == 3;
    const std::uint64_t stored_base = cursor.number(offset_bytes_);
    extension_ = cursor.number(offset_bytes_);
    set_end(cursor.number(offset_bytes_), stored_base);
    root_ = cursor.number(offset_bytes_);
    const std::size_t covered = block.size() - cursor.left();
    const std::uint64_t stored = cursor.number(kHdf5ChecksumBytes);
    if (!cursor.ok()) return hdf5_damaged("the superblock is truncated");
    PENSTOCK_TRY(check(block.first(covered), stored, sums_, "the superblock"));
  }
  base_ = signature;  // regardless of the stored base address, because user blocks may be added later
  return {};
}

// Stored addresses count from the original beginning of the file, without user blocks that were added later.
void hdf5_file::set_end(std::uint64_t stored, std::uint64_t stored_base) {
  if (!undefined(stored) && stored > stored_base) end_ = stored - stored_base;
}

result<std::span<const std::byte>> hdf5_file::at(std::uint64_t address, std::uint64_t length) {
  std::uint64_t offset = 0, end = 0;
  if (!checked_add(base_, address, offset) || !checked_add(offset, length, end) || end > from_->size()) {
    return hdf5_damaged(fmt::format("{} bytes at address {} exceed the file of {} bytes", length, address, size()));
  }
  PENSTOCK_TRY(spend(length));
  if (image_) {
    if (const auto kept = image_->find(address, length)) return *kept;
  }
  auto read = from_->read(offset, length);
  if (read.ok() && read->size() != length) return error(errc::io_error, "the file ended early while it was read");
  if (!read.ok() || !image_ || !image_->overlaps(address, length)) return read;
  joined_.assign(read->begin(), read->end());
  image_->replace(address, joined_);
  return std::span<const std::byte>(joined_);
}

result<std::span<const std::byte>> hdf5_file::begin_of(std::uint64_t address, std::uint64_t length,
                                                       std::uint64_t likely) {
  auto read = at(address, length);
  if (!read.ok()) expect(address, likely);
  return read;
}

void hdf5_file::expect(std::uint64_t address, std::uint64_t length) {
  std::uint64_t offset = 0;
  if (waiting() && checked_add(base_, address, offset)) from_->expect(offset, length);
}

result<> hdf5_file::spend(std::uint64_t bytes) {
  if (bytes > budget_) return hdf5_damaged("its structures form a loop");
  budget_ -= bytes;
  return {};
}

result<> hdf5_file::spend_decoded(std::uint64_t bytes) {
  if (bytes > decoded_)
    return hdf5_unknown(fmt::format("compressed metadata of more than {} bytes in a file of {}",
                                    saturating_add(saturating_mul(size(), kMostDecodedTimes), kMostDecodedBytes),
                                    size()));
  decoded_ -= bytes;
  return {};
}

result<std::span<const std::byte>> hdf5_file::checked(std::uint64_t address, std::uint64_t length,
                                                      std::string_view what) {
  PENSTOCK_ASSIGN(const auto block, at(address, length));
  auto same = check_hdf5_block(block, sums_, what);
  if (!same.ok()) return std::move(same).error().note(fmt::format("at address {}", address));
  return block;
}

}  // namespace penstock::inline v0
