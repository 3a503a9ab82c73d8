#include "format/reference/reference_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kMagic = "PSREFS01";
constexpr std::size_t kColumns = 5;
constexpr std::size_t kHeaderBytes = 8 + 8 + 8 + kColumns + 3;
enum column : std::uint8_t { kCell, kObject, kOffset, kLength, kChain };
constexpr std::array<std::string_view, kColumns> kNames = {"cell", "object", "offset", "length", "chain"};
constexpr std::array<std::uint8_t, kColumns> kWidest = {8, 4, 8, 8, 2};

std::uint64_t load(const std::byte* from, std::size_t bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<std::uint64_t>(from[i]);
  return value;
}

void append(std::vector<std::byte>& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

template <std::size_t kBytes, class Number>
void load_all(const std::byte* from, std::vector<Number>& out) noexcept {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<Number>(load(from + i * kBytes, kBytes));
}

template <class Number>
void load_column(const std::byte* from, std::size_t width, std::uint64_t entries, std::vector<Number>& out) {
  out.resize(static_cast<std::size_t>(entries));
  switch (width) {
    case 0:
      break;  // zeros
    case 1:
      load_all<1>(from, out);
      break;
    case 2:
      load_all<2>(from, out);
      break;
    case 4:
      load_all<4>(from, out);
      break;
    default:
      load_all<8>(from, out);
  }
}

std::uint8_t width_of(std::uint64_t largest) noexcept {
  if (largest == 0) return 0;
  if (largest <= std::numeric_limits<std::uint8_t>::max()) return 1;
  if (largest <= std::numeric_limits<std::uint16_t>::max()) return 2;
  return largest <= std::numeric_limits<std::uint32_t>::max() ? 4 : 8;
}

error damaged(std::string text) { return {errc::corrupt_data, "reference table: " + std::move(text)}; }

}  // namespace

result<std::shared_ptr<const reference_table>> reference_table::parse(std::span<const std::byte> saved) {
  if (saved.size() < kHeaderBytes || std::memcmp(saved.data(), kMagic.data(), kMagic.size()) != 0) {
    return damaged(fmt::format("it does not begin with {} and a header of {} bytes", kMagic, kHeaderBytes));
  }
  auto out = std::make_shared<reference_table>();
  const std::uint64_t entries = load(saved.data() + 8, 8);
  out->cell_count_ = load(saved.data() + 16, 8);
  std::array<std::uint8_t, kColumns> widths{};
  std::uint64_t row_bytes = 0, needed = 0;
  for (std::size_t i = 0; i < kColumns; ++i) {
    widths[i] = static_cast<std::uint8_t>(saved[24 + i]);
    if ((widths[i] & (widths[i] - 1U)) != 0 || widths[i] > kWidest[i]) {
      return damaged(fmt::format("column '{}' has {} bytes an entry, at most {}", kNames[i], widths[i], kWidest[i]));
    }
    row_bytes += widths[i];
  }
  if (!checked_mul(entries, row_bytes, needed) || needed != saved.size() - kHeaderBytes) {
    return damaged(
        fmt::format("{} entries of {} bytes, there are {} bytes", entries, row_bytes, saved.size() - kHeaderBytes));
  }
  if (entries > out->cell_count_) return damaged(fmt::format("{} entries for {} cells", entries, out->cell_count_));
  // Entries of no bytes would let a few bytes ask for any amount of memory.
  if (row_bytes == 0 && entries > 1) return damaged(fmt::format("{} entries that say nothing", entries));

  std::array<const std::byte*, kColumns> at{};
  const std::byte* next = saved.data() + kHeaderBytes;
  for (std::size_t i = 0; i < kColumns; ++i) {
    at[i] = next;
    next += entries * widths[i];
  }
  if (widths[kCell] != 0) load_column(at[kCell], widths[kCell], entries, out->cells_);
  if (widths[kObject] != 0) load_column(at[kObject], widths[kObject], entries, out->objects_);
  load_column(at[kOffset], widths[kOffset], entries, out->offsets_);
  if (widths[kLength] != 0) load_column(at[kLength], widths[kLength], entries, out->lengths_);
  if (widths[kChain] != 0) load_column(at[kChain], widths[kChain], entries, out->chains_);

  PENSTOCK_TRY(out->finish());
  return std::shared_ptr<const reference_table>(std::move(out));
}

result<> reference_table::finish() {
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    if (cells_[i] >= cell_count_ || (i != 0 && cells_[i] <= cells_[i - 1])) {
      return damaged(fmt::format("entry {} is cell {} of {}, cells ascend", i, cells_[i], cell_count_));
    }
  }
  for (std::size_t i = 0; i < offsets_.size(); ++i) {
    std::uint64_t length = lengths_.empty() ? 0 : lengths_[i];
    std::uint64_t end = 0;
    if (length == 0 ? offsets_[i] != 0 : !checked_add(offsets_[i], length, end)) {
      return damaged(fmt::format("entry {} has {} bytes at {}", i, length, offsets_[i]));
    }
    if (length == 0 && !lengths_.empty()) lengths_[i] = byte_range::kAll;
  }
  return {};
}

result<std::shared_ptr<const reference_table>> reference_table::make(std::uint64_t cells, columns of) {
  const std::size_t entries = of.offsets.size();
  const auto fits = [entries](const auto& column) { return column.empty() || column.size() == entries; };
  if (!fits(of.cells) || !fits(of.lengths) || !fits(of.objects) || !fits(of.chains))
    return damaged("columns of different lengths");
  if (entries > cells) return damaged(fmt::format("{} entries for {} cells", entries, cells));
  auto out = std::make_shared<reference_table>();
  out->cell_count_ = cells;
  bool counts_up = true;
  for (std::size_t i = 0; i < of.cells.size() && counts_up; ++i) counts_up = of.cells[i] == i;
  if (!counts_up) out->cells_ = std::move(of.cells);
  out->offsets_ = std::move(of.offsets);
  out->lengths_ = std::move(of.lengths);
  out->objects_ = std::move(of.objects);
  out->chains_ = std::move(of.chains);
  PENSTOCK_TRY(out->finish());
  return std::shared_ptr<const reference_table>(std::move(out));
}

cell_reference reference_table::operator[](std::uint64_t entry) const noexcept {
  const auto i = static_cast<std::size_t>(entry);
  return {offsets_[i], lengths_.empty() ? byte_range::kAll : lengths_[i], objects_.empty() ? 0 : objects_[i],
          chains_.empty() ? std::uint16_t{0} : chains_[i]};
}

std::uint64_t reference_table::find(cell_id cell, std::uint64_t hint) const noexcept {
  if (cells_.empty()) return std::min<std::uint64_t>(cell, entries());
  if (hint < cells_.size() && cells_[static_cast<std::size_t>(hint)] == cell) return hint;
  const auto found = std::lower_bound(cells_.begin(), cells_.end(), cell);
  if (found == cells_.end() || *found != cell) return entries();
  return static_cast<std::uint64_t>(found - cells_.begin());
}

std::vector<std::byte> reference_table::save() const {
  std::array<std::uint64_t, kColumns> largest{};
  const std::uint64_t count = entries();
  const auto value = [this](std::size_t which, std::uint64_t i) -> std::uint64_t {
    const cell_reference each = (*this)[i];
    switch (which) {
      case kCell:
        return cell(i);
      case kObject:
        return each.object;
      case kOffset:
        return each.offset;
      case kLength:
        return each.length == byte_range::kAll ? 0 : each.length;
      default:
        return each.chain;
    }
  };
  for (std::size_t which = cells_.empty() ? 1 : 0; which < kColumns; ++which) {
    for (std::uint64_t i = 0; i < count; ++i) largest[which] = std::max(largest[which], value(which, i));
  }
  // A table of cell 0 alone has a column of one zero, which is what counting from 0 gives too.
  std::vector<std::byte> out(kMagic.size());
  std::memcpy(out.data(), kMagic.data(), kMagic.size());
  append(out, count, 8);
  append(out, cell_count_, 8);
  std::array<std::uint8_t, kColumns> widths{};
  for (std::size_t which = 0; which < kColumns; ++which) {
    widths[which] = width_of(largest[which]);
    if (which == kOffset && count > 1 && widths[which] == 0) widths[which] = 1;  // entries take room: see parse
    out.push_back(static_cast<std::byte>(widths[which]));
  }
  out.resize(kHeaderBytes);
  for (std::size_t which = 0; which < kColumns; ++which) {
    if (widths[which] == 0) continue;
    for (std::uint64_t i = 0; i < count; ++i) append(out, value(which, i), widths[which]);
  }
  return out;
}

}  // namespace penstock::inline v0
