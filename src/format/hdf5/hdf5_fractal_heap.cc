#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "codec/codec_chain.h"
#include "codec/worker_scratch.h"
#include "format/hdf5/hdf5_element.h"
#include "format/hdf5/hdf5_heaps.h"
#include "format/hdf5/hdf5_records.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kMaskBytes = 4;  // of the filters that were skipped

std::size_t bytes_of_bits(std::uint64_t bits) noexcept { return static_cast<std::size_t>((bits + 7) / 8); }
std::uint64_t log2_of(std::uint64_t value) noexcept { return static_cast<std::uint64_t>(std::bit_width(value)) - 1; }

}  // namespace

result<hdf5_fractal_heap> hdf5_fractal_heap::read(hdf5_file& file, std::uint64_t address) {
  hdf5_fractal_heap out(file);
  out.address_ = address;
  auto parsed = out.parse(address);
  if (!parsed.ok()) return std::move(parsed).error().note(fmt::format("in the fractal heap at address {}", address));
  return out;
}

result<> hdf5_fractal_heap::parse(std::uint64_t address) {
  const std::size_t O = file_->offset_bytes(), L = file_->length_bytes();
  constexpr std::uint64_t kLikely = 256;
  PENSTOCK_ASSIGN(const auto begin, file_->begin_of(address, 9, kLikely));
  hdf5_cursor head(begin);
  if (!head.is("FRHP") || head.number(1) != 0) return hdf5_damaged("there is no fractal heap");
  id_bytes_ = static_cast<std::size_t>(head.number(2));
  const std::uint64_t filter_bytes = head.number(2);
  filtered_ = filter_bytes != 0;
  const std::uint64_t of_filters = filter_bytes == 0 ? 0 : L + kMaskBytes + filter_bytes;
  const std::uint64_t bytes = 9 + 5 + 12 * L + 3 * O + 8 + of_filters + kHdf5ChecksumBytes;
  PENSTOCK_ASSIGN(const auto header, file_->checked(address, bytes, "a fractal heap's header"));
  hdf5_cursor cursor(header);
  cursor.skip(9);
  block_checksums_ = (cursor.number(1) & 2) != 0;
  const std::uint64_t most_managed = cursor.number(4);
  cursor.skip(L);  // the next identifier of a huge object
  huge_tree_ = cursor.number(O);
  cursor.skip(L + O + 4 * L + 4 * L);  // free space, its manager; sizes and counts of managed, huge and tiny objects
  width_ = cursor.number(2);
  first_block_ = cursor.number(L);
  largest_direct_ = cursor.number(L);
  most_bits_ = cursor.number(2);
  cursor.skip(2);
  root_ = cursor.number(O);
  root_rows_ = cursor.number(2);
  if (filtered_) {
    root_bytes_ = cursor.number(L);
    root_mask_ = cursor.number(kMaskBytes);
    PENSTOCK_ASSIGN(filters_, parse_hdf5_filters(cursor.bytes(filter_bytes)));
  }
  const bool sound = cursor.ok() && std::has_single_bit(width_) && std::has_single_bit(first_block_) &&
                     std::has_single_bit(largest_direct_) && first_block_ <= largest_direct_ && most_bits_ >= 1 &&
                     most_bits_ <= 64 && most_managed != 0 && id_bytes_ >= 1 && log2_of(largest_direct_) <= most_bits_;
  if (!sound) return hdf5_damaged("a fractal heap of impossible sizes");
  offset_width_ = bytes_of_bits(most_bits_);
  length_width_ =
      std::min(bytes_of_bits(log2_of(largest_direct_)), static_cast<std::size_t>(log2_of(most_managed) / 8 + 1));
  return {};
}

// Blocks of the first two rows have the starting size; each later row doubles it. Saturating.
std::uint64_t hdf5_fractal_heap::row_bytes(std::uint64_t row) const noexcept {
  if (row < 2) return first_block_;
  return row - 1 >= 64 ? ~std::uint64_t{0} : saturating_mul(first_block_, std::uint64_t{1} << (row - 1));
}

result<hdf5_fractal_heap::block> hdf5_fractal_heap::find(std::uint64_t offset) {
  block at{root_, 0, first_block_, root_bytes_, root_mask_};
  std::uint64_t rows = root_rows_;
  const std::size_t O = file_->offset_bytes();
  const std::uint64_t prefix = 5 + O + offset_width_;
  const std::uint64_t direct_rows = log2_of(largest_direct_) - log2_of(first_block_) + 2;
  for (unsigned level = 0; rows != 0; ++level) {
    if (level > 64) return hdf5_damaged("a fractal heap of more than 64 levels");
    if (file_->undefined(at.address)) return hdf5_damaged("a fractal heap has no block for an object");
    // With filters, entries for direct blocks have their stored size and their mask.
    const std::uint64_t entry = !filtered_ ? O : O + file_->length_bytes() + kMaskBytes;
    const std::uint64_t direct = std::min(rows, direct_rows) * width_, pointers = rows * width_;
    const std::uint64_t entries = direct * entry + (pointers - direct) * O;
    PENSTOCK_ASSIGN(const auto node, file_->checked(at.address, prefix + entries + kHdf5ChecksumBytes,
                                                    "a fractal heap's indirect block"));
    hdf5_cursor cursor(node);
    if (!cursor.is("FHIB") || cursor.number(1) != 0 || cursor.number(O) != address_ ||
        cursor.number(offset_width_) != at.offset)
      return hdf5_damaged(fmt::format("no indirect block of this heap is at address {}", at.address));
    // The row that contains `offset`, and the block in it.
    std::uint64_t row = 0, start = at.offset;
    for (; row < rows; ++row) {
      const std::uint64_t in_row = saturating_mul(row_bytes(row), width_);
      if (offset - start < in_row) break;
      start = saturating_add(start, in_row);
    }
    if (row == rows) return hdf5_damaged(fmt::format("a fractal heap has no block for offset {}", offset));
    const std::uint64_t column = (offset - start) / row_bytes(row);
    const std::uint64_t which = row * width_ + column;
    cursor.skip(std::min(which, direct) * entry + (which > direct ? which - direct : 0) * O);
    at = {cursor.number(O), start + column * row_bytes(row), row_bytes(row)};
    if (row < direct_rows) {
      if (!filtered_) break;
      at.stored_bytes = cursor.number(file_->length_bytes());
      at.mask = cursor.number(kMaskBytes);
      break;
    }
    // An indirect block of that size has as many rows as cover it.
    const std::uint64_t size = log2_of(at.bytes), first_row = log2_of(saturating_mul(first_block_, width_));
    if (size < first_row) return hdf5_damaged("a fractal heap of impossible sizes");
    rows = size - first_row + 1;
  }
  return at;
}

result<std::vector<std::byte>> hdf5_fractal_heap::copy(std::uint64_t address, std::uint64_t length) {
  PENSTOCK_ASSIGN(const auto bytes, file_->at(address, length));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

result<std::vector<std::byte>> hdf5_fractal_heap::managed(std::uint64_t offset, std::uint64_t length) {
  PENSTOCK_ASSIGN(const block in, find(offset));
  const std::uint64_t prefix = 5 + file_->offset_bytes() + offset_width_ + (block_checksums_ ? kHdf5ChecksumBytes : 0);
  const std::uint64_t begin = offset - in.offset;
  if (file_->undefined(in.address) || begin < prefix || begin > in.bytes || length > in.bytes - begin)
    return hdf5_damaged(fmt::format("a fractal heap has no {} bytes at offset {}", length, offset));
  if (filtered_) {
    PENSTOCK_ASSIGN(const auto decoded_block, filtered_block(in));
    const auto found = decoded_block.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(length));
    return std::vector<std::byte>(found.begin(), found.end());
  }
  std::uint64_t at = 0;
  if (!checked_add(in.address, begin, at)) return hdf5_damaged("a fractal heap exceeds the file");
  auto head = file_->at(in.address, prefix);
  if (!head.ok()) {
    file_->expect(at, length);
    return std::move(head).error();
  }
  PENSTOCK_TRY(check_block(*head, in));
  return copy(at, length);
}

result<> hdf5_fractal_heap::check_block(std::span<const std::byte> prefix, const block& at) const {
  hdf5_cursor cursor(prefix);
  if (cursor.is("FHDB") && cursor.number(1) == 0 && cursor.number(file_->offset_bytes()) == address_) return {};
  return hdf5_damaged(fmt::format("no direct block of this heap is at address {}", at.address));
}

result<std::span<const std::byte>> hdf5_fractal_heap::filtered_block(const block& at) {
  if (const auto known = blocks_.find(at.address); known != blocks_.end() && known->second.size() == at.bytes)
    return std::span<const std::byte>(known->second);
  PENSTOCK_ASSIGN(std::vector<std::byte> made, decoded(at.address, at.stored_bytes, at.mask, at.bytes));
  PENSTOCK_TRY(check_block(made, at));
  std::vector<std::byte>& cached = blocks_[at.address];
  cached = std::move(made);
  return std::span<const std::byte>(cached);
}

// Filters are undone from the last to the first; the mask names those that were skipped.
result<std::vector<std::byte>> hdf5_fractal_heap::decoded(std::uint64_t address, std::uint64_t stored_bytes,
                                                          std::uint64_t mask, std::uint64_t bytes) {
  if (bytes == 0) return hdf5_damaged(fmt::format("a fractal heap has 0 bytes at address {}", address));
  PENSTOCK_ASSIGN(const auto stored, file_->at(address, stored_bytes));
  PENSTOCK_TRY(file_->spend_decoded(bytes));
  std::vector<codec_config> codecs{{"bytes", json()}};
  for (std::size_t i = 0; i < filters_.size(); ++i) {
    if ((mask >> i & 1) != 0) continue;
    PENSTOCK_ASSIGN(const json each, hdf5_codec_of(filters_[i], 1));
    if (each.is_null()) continue;
    PENSTOCK_ASSIGN(codec_config config, codec_of_v2(each));
    codecs.push_back(std::move(config));
  }
  codec_chain_options options;
  options.stored_order_filters = options.padded_streams = true;
  PENSTOCK_ASSIGN(const codec_chain chain, codec_chain::compile(codecs, dtype::raw(1), {bytes}, options));
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  decode_target target;
  target.data = out.data();
  target.strides = {1};
  target.covers_cell = true;
  worker_scratch scratch;
  PENSTOCK_TRY(chain.decode(stored, target, scratch));
  return out;
}

result<std::vector<std::byte>> hdf5_fractal_heap::huge(hdf5_cursor id) {
  const std::size_t O = file_->offset_bytes(), L = file_->length_bytes();
  if (id_bytes_ - 1 >= (filtered_ ? O + L + kMaskBytes + L : O + L)) {
    const std::uint64_t address = id.number(O), length = id.number(L);
    if (!filtered_) return copy(address, length);
    const std::uint64_t mask = id.number(kMaskBytes);
    return decoded(address, length, mask, id.number(L));
  }
  const std::size_t width = std::min(id_bytes_ - 1, L);
  const std::uint64_t wanted = id.number(width);
  if (file_->undefined(huge_tree_)) return hdf5_damaged("a fractal heap without huge objects");
  constexpr std::uint64_t kIndirect = 1, kIndirectFiltered = 2;
  bool found = false;
  std::uint64_t address = 0, length = 0, mask = 0, decoded_bytes = 0;
  PENSTOCK_TRY(visit_hdf5_records(
      *file_, huge_tree_,
      [&](const hdf5_record_form& form) -> result<> {
        if (filtered_ ? form.type == kIndirectFiltered && form.bytes == O + 3 * L + kMaskBytes
                      : form.type == kIndirect && form.bytes == O + 2 * L)
          return {};
        return hdf5_damaged(fmt::format("huge objects in a B-tree of kind {}", form.type));
      },
      [&](std::span<const std::byte> record) -> result<> {
        hdf5_cursor cursor(record);
        const std::uint64_t at = cursor.number(O), bytes = cursor.number(L);
        const std::uint64_t skipped = filtered_ ? cursor.number(kMaskBytes) : 0;
        const std::uint64_t in_memory = filtered_ ? cursor.number(L) : bytes;
        if (cursor.number(L) != wanted) return {};
        found = true;
        address = at;
        length = bytes;
        mask = skipped;
        decoded_bytes = in_memory;
        return {};
      }));
  if (!found) return hdf5_damaged(fmt::format("a fractal heap has no huge object {}", wanted));
  return filtered_ ? decoded(address, length, mask, decoded_bytes) : copy(address, length);
}

result<std::vector<std::byte>> hdf5_fractal_heap::object(std::span<const std::byte> id) {
  constexpr std::size_t kShortIds = 17;
  hdf5_cursor cursor(id);
  const auto first = static_cast<unsigned>(cursor.number(1));
  if (id.size() < id_bytes_ || first >> 6 != 0)
    return hdf5_damaged("an identifier of an object in a fractal heap is damaged");
  switch (first >> 4 & 3) {
    case 0: {
      const std::uint64_t offset = cursor.number(offset_width_), length = cursor.number(length_width_);
      if (!cursor.ok()) break;
      return managed(offset, length);
    }
    case 1:
      return huge(cursor);
    case 2: {
      std::uint64_t length = (first & 0x0F) + 1U;
      if (id_bytes_ > kShortIds) length = ((first & 0x0FU) << 8 | cursor.number(1)) + 1;
      const auto bytes = cursor.bytes(length);
      if (!cursor.ok()) break;
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    }
    default:
      break;
  }
  return hdf5_damaged("an identifier of an object in a fractal heap is damaged");
}

}  // namespace penstock::inline v0
