#include "format/hdf5/hdf5_cache_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "format/hdf5/hdf5_object.h"

namespace penstock::inline v0 {

// Source: libhdf5's H5Cimage.c, of version 0, the only one.
result<std::shared_ptr<const hdf5_cache_image>> hdf5_cache_image::parse(std::span<const std::byte> stored,
                                                                        const hdf5_file& of) {
  constexpr std::uint64_t kFlagBytes = 1, kKindBytes = 4, kChildBytes = 4, kRankBytes = 4;
  PENSTOCK_TRY(check_hdf5_block(stored, of.checksums(), "the metadata cache image"));
  const auto covered = stored.first(stored.size() - kHdf5ChecksumBytes);
  auto made = std::make_shared<hdf5_cache_image>();
  made->stored_.assign(covered.begin(), covered.end());
  hdf5_cursor cursor(made->stored_);
  if (!cursor.is("MDCI")) return hdf5_damaged("no metadata cache image is at its address");
  const std::uint64_t version = cursor.number(1);
  if (version != 0) return hdf5_unknown(fmt::format("a metadata cache image of version {}", version));
  cursor.skip(kFlagBytes + of.length_bytes());  // the length of the image
  const std::uint64_t count = cursor.number(4);
  for (std::uint64_t i = 0; i < count; ++i) {
    cursor.skip(kKindBytes + kChildBytes);  // type, flags, ring and age; children in the cache
    const std::uint64_t parents = cursor.number(2);
    cursor.skip(kRankBytes);
    block each;
    each.address = cursor.number(of.offset_bytes());
    const std::uint64_t length = cursor.number(of.length_bytes());
    cursor.skip(parents * of.offset_bytes());
    each.bytes = cursor.bytes(length);
    std::uint64_t end = 0;
    if (!cursor.ok() || length == 0 || !checked_add(each.address, length, end))
      return hdf5_damaged(fmt::format("block {} of the metadata cache image is damaged", i));
    made->blocks_.push_back(each);
  }
  std::vector<block>& blocks = made->blocks_;
  std::sort(blocks.begin(), blocks.end(), [](const block& a, const block& b) { return a.address < b.address; });
  for (std::size_t i = 1; i < blocks.size(); ++i)
    if (blocks[i].address < blocks[i - 1].end())
      return hdf5_damaged(fmt::format("blocks of the metadata cache image overlap at address {}", blocks[i].address));
  return std::shared_ptr<const hdf5_cache_image>(std::move(made));
}

// The first block that ends behind `address`.
std::vector<hdf5_cache_image::block>::const_iterator hdf5_cache_image::first_behind(
    std::uint64_t address) const noexcept {
  return std::partition_point(blocks_.begin(), blocks_.end(), [&](const block& each) { return each.end() <= address; });
}

std::optional<std::span<const std::byte>> hdf5_cache_image::find(std::uint64_t address,
                                                                 std::uint64_t length) const noexcept {
  const auto in = first_behind(address);
  if (in == blocks_.end() || address < in->address || in->end() - address < length) return std::nullopt;
  return in->bytes.subspan(static_cast<std::size_t>(address - in->address), static_cast<std::size_t>(length));
}

bool hdf5_cache_image::overlaps(std::uint64_t address, std::uint64_t length) const noexcept {
  const auto in = first_behind(address);
  return in != blocks_.end() && (in->address <= address || in->address - address < length);
}

void hdf5_cache_image::replace(std::uint64_t address, std::span<std::byte> bytes) const noexcept {
  for (auto in = first_behind(address); in != blocks_.end(); ++in) {
    const std::uint64_t begin = std::max(in->address, address);
    if (begin - address >= bytes.size()) return;
    const auto to = bytes.subspan(static_cast<std::size_t>(begin - address));
    const auto from = in->bytes.subspan(static_cast<std::size_t>(begin - in->address));
    std::memcpy(to.data(), from.data(), std::min(to.size(), from.size()));
  }
}

result<> read_hdf5_cache_image(hdf5_file& file) {
  if (file.undefined(file.extension())) return {};
  const auto extension = read_hdf5_object(file, file.extension());
  if (!extension.ok()) return {};
  const hdf5_message* const found = find_message(*extension, hdf5_message::cache_image);
  if (found == nullptr) return {};
  hdf5_cursor cursor(found->body);
  const std::uint64_t version = cursor.number(1);
  const std::uint64_t address = cursor.number(file.offset_bytes()), length = cursor.number(file.length_bytes());
  if (!cursor.ok()) return hdf5_damaged("the message of the metadata cache image is truncated");
  if (version != 0) return hdf5_unknown(fmt::format("a metadata cache image of version {}", version));
  if (file.undefined(address)) return {};
  auto stored = file.at(address, length);
  if (!stored.ok()) {
    if (file.waiting()) return {};
    return std::move(stored).error().note("in the metadata cache image");
  }
  PENSTOCK_ASSIGN(auto image, hdf5_cache_image::parse(*stored, file));
  file.use(std::move(image));
  return {};
}

}  // namespace penstock::inline v0
