#include "format/reference/reference_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/little_endian.h"

namespace penstock::inline v0 {
namespace {

__extension__ using wide_int = __int128;

constexpr std::string_view kMagic = "PSREFS01", kRecordMagic = "PSREFS02";
constexpr std::size_t kColumns = reference_table::kColumns;
constexpr std::size_t kHeaderBytes = 8 + 8 + 8 + kColumns + 3;
constexpr std::size_t kRecordNumbers = 10, kRecordBytes = kRecordNumbers * 8 + 2 + kColumns + 1;
enum column : std::uint8_t { kCell, kObject, kOffset, kLength, kChain };
constexpr std::array<std::string_view, kColumns> kNames = {"cell", "object", "offset", "length", "chain"};
constexpr std::array<std::uint8_t, kColumns> kWidest = {8, 4, 8, 8, 2};
/// The longest run, so that its offsets are computed without overflow.
constexpr std::uint64_t kMostOfRun = std::uint64_t{1} << 48;
/// A run of fewer entries does not justify a record.
constexpr std::uint64_t kLeastOfRun = 16;
constexpr std::size_t kMostRows = 4096;

void append(std::vector<std::byte>& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

std::uint8_t bytes_of(std::uint64_t largest) noexcept {
  std::uint8_t out = 0;
  for (; largest != 0; largest >>= 8) ++out;
  return out;
}

std::uint8_t width_of(std::uint64_t largest) noexcept {
  const std::uint8_t bytes = bytes_of(largest);
  return bytes <= 2 ? bytes : bytes <= 4 ? std::uint8_t{4} : std::uint8_t{8};
}

std::uint64_t row_bytes_of(const std::array<std::uint8_t, kColumns>& widths) noexcept {
  std::uint64_t out = 0;
  for (const std::uint8_t each : widths) out += each;
  return out;
}

error damaged(std::string text) { return {errc::corrupt_data, "reference table: " + std::move(text)}; }

/// base + in * step + out * outer; `check` has verified that nothing overflows.
std::uint64_t follow(std::uint64_t base, std::uint64_t in, std::int64_t step, std::uint64_t out,
                     std::int64_t outer) noexcept {
  return base + in * static_cast<std::uint64_t>(step) + out * static_cast<std::uint64_t>(outer);
}

/// The smallest and the largest number of a run by its steps.
std::pair<wide_int, wide_int> bounds_of(const reference_run& run, std::uint64_t base, std::int64_t step,
                                        std::int64_t outer) noexcept {
  const wide_int in = wide_int(run.inner - 1) * step, out = wide_int(run.count / run.inner - 1) * outer;
  return {wide_int(base) + std::min<wide_int>(in, 0) + std::min<wide_int>(out, 0),
          wide_int(base) + std::max<wide_int>(in, 0) + std::max<wide_int>(out, 0)};
}

/// Whether `value` is exactly base + count * step.
bool continues(std::uint64_t base, std::uint64_t count, std::int64_t step, std::uint64_t value) noexcept {
  return wide_int(base) + wide_int(count) * step == wide_int(value);
}

bool follows(const reference_run& run, const reference_run& before) noexcept {
  return run.cell == before.cell + before.count && run.length == before.length && run.chain == before.chain;
}

}  // namespace

result<std::shared_ptr<const reference_table>> reference_table::parse(std::span<const std::byte> saved) {
  if (saved.size() >= kHeaderBytes && std::memcmp(saved.data(), kRecordMagic.data(), kRecordMagic.size()) == 0)
    return parse_records(saved);
  if (saved.size() < kHeaderBytes || std::memcmp(saved.data(), kMagic.data(), kMagic.size()) != 0)
    return damaged(fmt::format("it does not begin with {} and a header of {} bytes", kMagic, kHeaderBytes));
  return parse_columns(saved);
}

result<std::shared_ptr<const reference_table>> reference_table::parse_columns(std::span<const std::byte> saved) {
  const std::uint64_t entries = little_endian(saved.data() + 8, 8), cells = little_endian(saved.data() + 16, 8);
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
  if (entries > cells) return damaged(fmt::format("{} entries for {} cells", entries, cells));
  // Entries without stored bytes would let a file of a few bytes cause unlimited work.
  if (row_bytes == 0 && entries > 1) return damaged(fmt::format("{} entries without data", entries));

  std::array<const std::byte*, kColumns> at{};
  const std::byte* next = saved.data() + kHeaderBytes;
  for (std::size_t i = 0; i < kColumns; ++i) {
    at[i] = next;
    next += entries * widths[i];
  }
  reference_table_builder builder(cells);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const auto value = [&](column which) { return little_endian(at[which] + i * widths[which], widths[which]); };
    const std::uint64_t length = value(kLength);
    builder.add(widths[kCell] == 0 ? i : value(kCell),
                {value(kOffset), length == 0 ? byte_range::kAll : length, static_cast<std::uint32_t>(value(kObject)),
                 static_cast<std::uint16_t>(value(kChain))});
  }
  return std::move(builder).finish();
}

result<std::shared_ptr<const reference_table>> reference_table::parse_records(std::span<const std::byte> saved) {
  auto out = std::make_shared<reference_table>();
  out->entries_ = little_endian(saved.data() + 8, 8);
  out->cell_count_ = little_endian(saved.data() + 16, 8);
  const std::uint64_t count = little_endian(saved.data() + 24, 8);
  if (count > (saved.size() - kHeaderBytes) / kRecordBytes)
    return damaged(
        fmt::format("{} records of {} bytes, there are {} bytes", count, kRecordBytes, saved.size() - kHeaderBytes));
  const std::span<const std::byte> rows = saved.subspan(kHeaderBytes + static_cast<std::size_t>(count) * kRecordBytes);
  out->rows_.assign(rows.begin(), rows.end());
  out->records_.reserve(static_cast<std::size_t>(count));
  const std::byte* from = saved.data() + kHeaderBytes;
  std::uint64_t entry = 0, begin = 0, next_cell = 0;
  for (std::uint64_t i = 0; i < count; ++i, from += kRecordBytes) {
    record made;
    const auto number = [from](std::size_t which) { return little_endian(from + 8 * which, 8); };
    made.cell = number(0);
    made.count = number(1);
    made.inner = number(2);
    made.offset = number(3);
    made.offset_step = static_cast<std::int64_t>(number(4));
    made.offset_outer = static_cast<std::int64_t>(number(5));
    made.length = number(6);
    made.object = number(7);
    made.object_step = static_cast<std::int64_t>(number(8));
    made.object_outer = static_cast<std::int64_t>(number(9));
    made.chain = static_cast<std::uint16_t>(little_endian(from + 80, 2));
    for (std::size_t k = 0; k < kColumns; ++k) made.widths[k] = static_cast<std::uint8_t>(from[82 + k]);
    made.entry = entry;
    made.rows = begin;
    const auto refuse = [i](std::string_view what) { return damaged(fmt::format("record {} {}", i, what)); };
    for (const std::uint8_t width : made.widths)
      if (width > 8) return refuse(fmt::format("has {} bytes in a column", width));
    const std::uint64_t row_bytes = row_bytes_of(made.widths);
    std::uint64_t bytes = 0, end = 0;
    if (made.count == 0 || made.count > kMostOfRun || made.inner == 0 || made.count % made.inner != 0)
      return refuse(fmt::format("has {} entries in groups of {}", made.count, made.inner));
    if (!checked_mul(made.count, row_bytes, bytes) || bytes > rows.size() - begin)
      return refuse(
          fmt::format("has {} rows of {} bytes, there are {} bytes", made.count, row_bytes, rows.size() - begin));
    if (made.cell < next_cell || !checked_add(made.cell, made.count, end))
      return refuse(fmt::format("begins with cell {}, cells ascend", made.cell));
    begin += bytes;
    auto checked = out->check(made);
    if (!checked.ok()) return std::move(checked).error();
    next_cell = out->cell(made, made.count - 1) + 1;
    entry += made.count;  // at most the number of cells, which has 64 bits
    out->records_.push_back(made);
  }
  if (begin != rows.size()) return damaged(fmt::format("{} bytes after its rows", rows.size() - begin));
  if (entry != out->entries_) return damaged(fmt::format("{} entries, its records have {}", out->entries_, entry));
  return std::shared_ptr<const reference_table>(std::move(out));
}

// The rows of `of` are within `rows_`.
result<> reference_table::check(const record& of) const {
  const auto refuse = [&](std::uint64_t i, std::string_view what) {
    return damaged(fmt::format("entry {} {}", of.entry + i, what));
  };
  const bool rows = !of.is_run();
  if (rows &&
      (of.inner != 1 || of.offset_step != 0 || of.offset_outer != 0 || of.object_step != 0 || of.object_outer != 0))
    return refuse(0, "has both steps and rows");
  const auto bounds = bounds_of(of, of.object, of.object_step, of.object_outer);
  if (bounds.first < 0 || bounds.second > std::numeric_limits<std::uint32_t>::max())
    return refuse(0, "begins a run of objects whose numbers do not fit in 32 bits");
  if (!rows) {
    if (of.cell >= cell_count_ || of.count > cell_count_ - of.cell)
      return refuse(0, fmt::format("is cell {} of {}, cells ascend", of.cell + of.count - 1, cell_count_));
    const auto offsets = bounds_of(of, of.offset, of.offset_step, of.offset_outer);
    const bool whole = of.length == 0;
    const wide_int most = std::numeric_limits<std::uint64_t>::max();
    if (whole ? offsets.first != 0 || offsets.second != 0 : offsets.first < 0 || offsets.second + of.length > most)
      return refuse(0, fmt::format("has {} bytes at {}", of.length, of.offset));
    return {};
  }
  std::uint64_t before = 0;
  for (std::uint64_t i = 0; i < of.count; ++i) {
    const std::byte* from = rows_.data() + of.rows;
    std::array<std::uint64_t, kColumns> values = {of.cell, of.object, of.offset, of.length, of.chain};
    for (std::size_t k = 0; k < kColumns; ++k) {
      const std::uint64_t more = of.widths[k] != 0 ? little_endian(from + i * of.widths[k], of.widths[k])
                                 : k == kCell      ? i
                                                   : 0;
      if (!checked_add(values[k], more, values[k])) return refuse(i, fmt::format("exceeds 64 bits in '{}'", kNames[k]));
      from += of.count * of.widths[k];
    }
    if (values[kCell] >= cell_count_ || (i != 0 && values[kCell] <= before))
      return refuse(i, fmt::format("is cell {} of {}, cells ascend", values[kCell], cell_count_));
    before = values[kCell];
    if (values[kObject] > std::numeric_limits<std::uint32_t>::max() ||
        values[kChain] > std::numeric_limits<std::uint16_t>::max())
      return refuse(i, fmt::format("names object {}, chain {}", values[kObject], values[kChain]));
    std::uint64_t end = 0;
    if (values[kLength] == 0 ? values[kOffset] != 0 : !checked_add(values[kOffset], values[kLength], end))
      return refuse(i, fmt::format("has {} bytes at {}", values[kLength], values[kOffset]));
  }
  return {};
}

result<std::shared_ptr<const reference_table>> reference_table::make(std::uint64_t cells, const columns& of) {
  const std::size_t entries = of.offsets.size();
  const auto fits = [entries](const auto& column) { return column.empty() || column.size() == entries; };
  if (!fits(of.cells) || !fits(of.lengths) || !fits(of.objects) || !fits(of.chains))
    return damaged("columns of different lengths");
  if (entries > cells) return damaged(fmt::format("{} entries for {} cells", entries, cells));
  reference_table_builder builder(cells);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::uint64_t length = of.lengths.empty() ? 0 : of.lengths[i];
    builder.add(of.cells.empty() ? i : of.cells[i],
                {of.offsets[i], length == 0 ? byte_range::kAll : length, of.objects.empty() ? 0 : of.objects[i],
                 of.chains.empty() ? std::uint16_t{0} : of.chains[i]});
  }
  return std::move(builder).finish();
}

cell_id reference_table::cell(const record& of, std::uint64_t i) const noexcept {
  const std::uint8_t width = of.widths[kCell];
  return of.cell + (width == 0 ? i : little_endian(rows_.data() + of.rows + i * width, width));
}

cell_reference reference_table::at(const record& of, std::uint64_t i) const noexcept {
  cell_reference out;
  std::uint64_t length = of.length;
  if (of.is_run()) {
    const std::uint64_t groups = i / of.inner, in = i % of.inner;
    out.offset = follow(of.offset, in, of.offset_step, groups, of.offset_outer);
    out.object = static_cast<std::uint32_t>(follow(of.object, in, of.object_step, groups, of.object_outer));
    out.chain = of.chain;
  } else {
    const std::byte* from = rows_.data() + of.rows + of.count * of.widths[kCell];
    const auto next = [&](column which) {
      const std::uint8_t width = of.widths[which];
      const std::uint64_t value = little_endian(from + i * width, width);
      from += of.count * width;
      return value;
    };
    out.object = static_cast<std::uint32_t>(of.object + next(kObject));
    out.offset = of.offset + next(kOffset);
    length += next(kLength);
    out.chain = static_cast<std::uint16_t>(of.chain + next(kChain));
  }
  if (length != 0) out.length = length;
  return out;
}

const reference_table::record& reference_table::of_entry(std::uint64_t entry) const noexcept {
  const auto after = std::upper_bound(records_.begin(), records_.end(), entry,
                                      [](std::uint64_t value, const record& each) { return value < each.entry; });
  return *std::prev(after);
}

cell_id reference_table::cell(std::uint64_t entry) const noexcept {
  const record& of = of_entry(entry);
  return cell(of, entry - of.entry);
}

cell_reference reference_table::operator[](std::uint64_t entry) const noexcept {
  const record& of = of_entry(entry);
  return at(of, entry - of.entry);
}

bool reference_table::find_in(const record& of, cell_id cell, cell_reference& out) const noexcept {
  std::uint64_t i = cell - of.cell;
  if (of.widths[kCell] == 0) {
    if (i >= of.count) return false;
  } else {
    const std::uint8_t width = of.widths[kCell];
    const std::byte* const from = rows_.data() + of.rows;
    std::uint64_t begin = 0, end = of.count;
    while (begin < end) {
      const std::uint64_t middle = begin + (end - begin) / 2;
      if (little_endian(from + middle * width, width) < i) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    if (begin == of.count || little_endian(from + begin * width, width) != i) return false;
    i = begin;
  }
  out = at(of, i);
  return true;
}

bool reference_table::find(cell_id cell, std::size_t& hint, cell_reference& out) const noexcept {
  const auto covers = [&](std::size_t i) {
    return i < records_.size() && records_[i].cell <= cell && (i + 1 == records_.size() || cell < records_[i + 1].cell);
  };
  if (covers(hint)) return find_in(records_[hint], cell, out);
  if (covers(hint + 1)) return find_in(records_[++hint], cell, out);
  const auto after = std::upper_bound(records_.begin(), records_.end(), cell,
                                      [](cell_id value, const record& each) { return value < each.cell; });
  if (after == records_.begin()) return false;
  hint = static_cast<std::size_t>(after - records_.begin()) - 1;
  return find_in(records_[hint], cell, out);
}

std::array<std::uint64_t, kColumns> reference_table::largest() const noexcept {
  std::array<std::uint64_t, kColumns> out{};
  for (const record& each : records_) {
    const auto take = [&](std::uint64_t i) {
      const cell_reference value = at(each, i);
      out[kObject] = std::max<std::uint64_t>(out[kObject], value.object);
      out[kOffset] = std::max(out[kOffset], value.offset);
      if (value.length != byte_range::kAll) out[kLength] = std::max(out[kLength], value.length);
      out[kChain] = std::max<std::uint64_t>(out[kChain], value.chain);
    };
    if (each.is_run()) {
      for (const std::uint64_t i : {std::uint64_t{0}, each.inner - 1, each.count - each.inner, each.count - 1}) take(i);
    } else {
      for (std::uint64_t i = 0; i < each.count; ++i) take(i);
    }
  }
  // Entries that count up from cell 0 need no column of cells.
  if (entries_ != 0 && cell(records_.back(), records_.back().count - 1) != entries_ - 1)
    out[kCell] = cell(records_.back(), records_.back().count - 1);
  return out;
}

std::vector<std::byte> reference_table::save() const {
  const std::array<std::uint64_t, kColumns> most = largest();
  std::uint64_t row_bytes = 0;
  for (const std::uint64_t each : most) row_bytes += width_of(each);
  row_bytes = std::max<std::uint64_t>(row_bytes, 1);
  const std::uint64_t as_columns = saturating_mul(entries_, row_bytes);
  return as_columns <= records_.size() * kRecordBytes + rows_.size() ? save_columns(most) : save_records();
}

std::vector<std::byte> reference_table::save_columns(const std::array<std::uint64_t, kColumns>& largest) const {
  std::vector<std::byte> out(kMagic.size());
  std::memcpy(out.data(), kMagic.data(), kMagic.size());
  append(out, entries_, 8);
  append(out, cell_count_, 8);
  std::array<std::uint8_t, kColumns> widths{};
  std::uint64_t row_bytes = 0;
  for (std::size_t which = 0; which < kColumns; ++which) {
    widths[which] = width_of(largest[which]);
    if (which == kOffset && entries_ > 1 && widths[which] == 0) widths[which] = 1;  // entries need memory: see parse
    out.push_back(static_cast<std::byte>(widths[which]));
    row_bytes += widths[which];
  }
  out.resize(kHeaderBytes);
  out.reserve(kHeaderBytes + static_cast<std::size_t>(entries_ * row_bytes));
  for (std::size_t which = 0; which < kColumns; ++which) {
    if (widths[which] == 0) continue;
    for (const record& each : records_) {
      for (std::uint64_t i = 0; i < each.count; ++i) {
        const cell_reference value = at(each, i);
        const std::uint64_t number = which == kCell                     ? cell(each, i)
                                     : which == kObject                 ? value.object
                                     : which == kOffset                 ? value.offset
                                     : which == kChain                  ? value.chain
                                     : value.length == byte_range::kAll ? 0
                                                                        : value.length;
        append(out, number, widths[which]);
      }
    }
  }
  return out;
}

std::vector<std::byte> reference_table::save_records() const {
  std::vector<std::byte> out(kRecordMagic.size());
  std::memcpy(out.data(), kRecordMagic.data(), kRecordMagic.size());
  out.reserve(kHeaderBytes + records_.size() * kRecordBytes + rows_.size());
  append(out, entries_, 8);
  append(out, cell_count_, 8);
  append(out, records_.size(), 8);
  for (const record& each : records_) {
    for (const std::uint64_t number :
         {each.cell, each.count, each.inner, each.offset, static_cast<std::uint64_t>(each.offset_step),
          static_cast<std::uint64_t>(each.offset_outer), each.length, each.object,
          static_cast<std::uint64_t>(each.object_step), static_cast<std::uint64_t>(each.object_outer)})
      append(out, number, 8);
    append(out, each.chain, 2);
    for (const std::uint8_t width : each.widths) append(out, width, 1);
    append(out, 0, 1);
  }
  out.insert(out.end(), rows_.begin(), rows_.end());
  return out;
}

reference_table_builder::reference_table_builder(std::uint64_t cells) : made_(std::make_shared<reference_table>()) {
  made_->cell_count_ = cells;
}

bool reference_table_builder::accepts(cell_id cell, std::uint64_t count) {
  if (failed_) return false;
  const std::uint64_t cells = made_->cell_count_;
  if (cell < next_cell_ || cell >= cells || count > cells - cell) {
    failed_ = damaged(fmt::format("entry {} is cell {} of {}, cells ascend", entries_, cell, cells));
    return false;
  }
  next_cell_ = cell + count;
  return true;
}

void reference_table_builder::add(cell_id cell, const cell_reference& what) {
  if (!accepts(cell, 1)) return;
  const std::uint64_t length = what.length == byte_range::kAll ? 0 : what.length;
  std::uint64_t end = 0;
  if (length == 0 ? what.offset != 0 : !checked_add(what.offset, length, end)) {
    failed_ = damaged(fmt::format("entry {} has {} bytes at {}", entries_, length, what.offset));
    return;
  }
  ++entries_;
  const bool alike = run_.count != 0 && cell == run_.cell + run_.count && length == run_.length &&
                     what.chain == run_.chain && run_.count < kMostOfRun;
  if (alike && run_.count == 1) {
    run_.offset_step = static_cast<std::int64_t>(what.offset - run_.offset);
    run_.object_step = static_cast<std::int64_t>(what.object) - static_cast<std::int64_t>(run_.object);
    // A distance of 2^63 or more is not a step.
    if ((what.offset >= run_.offset) == (run_.offset_step >= 0)) {
      run_.count = run_.inner = 2;
      return;
    }
    run_.offset_step = run_.object_step = 0;
  } else if (alike && continues(run_.offset, run_.count, run_.offset_step, what.offset) &&
             continues(run_.object, run_.count, run_.object_step, what.object)) {
    run_.inner = ++run_.count;
    return;
  }
  if (run_.count != 0) close(run_);
  run_ = {cell, 1, 1, what.offset, 0, 0, length, what.object, 0, 0, what.chain};
}

void reference_table_builder::add(const reference_run& run) {
  if (!accepts(run.cell, run.count)) return;
  reference_table::record whole;
  static_cast<reference_run&>(whole) = run;
  whole.entry = entries_;
  if (run.count > kMostOfRun || run.inner == 0 || run.count % run.inner != 0) {
    failed_ = damaged(fmt::format("a run of {} entries in groups of {}", run.count, run.inner));
    return;
  }
  if (auto checked = made_->check(whole); !checked.ok()) {
    failed_ = std::move(checked).error();
    return;
  }
  entries_ += run.count;
  if (run_.count != 0) close(std::exchange(run_, {}));
  close(run);
}

// Extends `outer_` if it repeats, or replaces it.
void reference_table_builder::close(const reference_run& run) {
  const bool repeats = outer_.count != 0 && follows(run, outer_) && run.inner == run.count &&
                       run.count == outer_.inner && run.offset_step == outer_.offset_step &&
                       run.object_step == outer_.object_step && outer_.count < kMostOfRun - run.count;
  if (repeats && outer_.count == outer_.inner) {
    const auto step = static_cast<std::int64_t>(run.offset - outer_.offset);
    if ((run.offset >= outer_.offset) == (step >= 0)) {
      outer_.offset_outer = step;
      outer_.object_outer = static_cast<std::int64_t>(run.object) - static_cast<std::int64_t>(outer_.object);
      outer_.count += run.count;
      return;
    }
  } else if (repeats) {
    const std::uint64_t groups = outer_.count / outer_.inner;
    if (continues(outer_.offset, groups, outer_.offset_outer, run.offset) &&
        continues(outer_.object, groups, outer_.object_outer, run.object)) {
      outer_.count += run.count;
      return;
    }
  }
  flush_outer();
  outer_ = run;
}

void reference_table_builder::flush_outer() {
  if (outer_.count == 0) return;
  reference_table::record whole;
  static_cast<reference_run&>(whole) = std::exchange(outer_, {});
  if (whole.count < kLeastOfRun) {
    for (std::uint64_t i = 0; i < whole.count; ++i) {
      const cell_reference each = made_->at(whole, i);
      pending_.push_back({whole.cell + i, each.offset, whole.length, each.object, each.chain});
      if (pending_.size() == kMostRows) flush_rows();
    }
    return;
  }
  flush_rows();
  whole.entry = made_->entries_;
  whole.rows = made_->rows_.size();
  made_->entries_ += whole.count;
  made_->records_.push_back(whole);
}

void reference_table_builder::flush_rows() {
  if (pending_.empty()) return;
  reference_table::record made;
  row least = pending_.front(), most = pending_.front();
  for (const row& each : pending_) {
    least.offset = std::min(least.offset, each.offset);
    most.offset = std::max(most.offset, each.offset);
    least.length = std::min(least.length, each.length);
    most.length = std::max(most.length, each.length);
    least.object = std::min(least.object, each.object);
    most.object = std::max(most.object, each.object);
    least.chain = std::min(least.chain, each.chain);
    most.chain = std::max(most.chain, each.chain);
  }
  made.cell = least.cell;
  made.count = pending_.size();
  made.offset = least.offset;
  made.length = least.length;
  made.object = least.object;
  made.chain = least.chain;
  const std::uint64_t last = pending_.back().cell - least.cell;
  made.widths = {last == pending_.size() - 1 ? std::uint8_t{0} : bytes_of(last), bytes_of(most.object - least.object),
                 bytes_of(most.offset - least.offset), bytes_of(most.length - least.length),
                 bytes_of(static_cast<std::uint64_t>(most.chain - least.chain))};
  made.entry = made_->entries_;
  made.rows = made_->rows_.size();
  if (made.is_run()) {  // all rows are alike
    made.inner = made.count;
  } else {
    made_->rows_.reserve(made_->rows_.size() + pending_.size() * row_bytes_of(made.widths));
    const auto add = [&](column which, const auto& value) {
      for (const row& each : pending_) append(made_->rows_, value(each), made.widths[which]);
    };
    add(kCell, [&](const row& each) { return each.cell - least.cell; });
    add(kObject, [&](const row& each) -> std::uint64_t { return each.object - least.object; });
    add(kOffset, [&](const row& each) { return each.offset - least.offset; });
    add(kLength, [&](const row& each) { return each.length - least.length; });
    add(kChain, [&](const row& each) -> std::uint64_t { return static_cast<std::uint64_t>(each.chain - least.chain); });
  }
  made_->entries_ += made.count;
  made_->records_.push_back(made);
  pending_.clear();
}

result<std::shared_ptr<const reference_table>> reference_table_builder::finish() && {
  if (run_.count != 0) close(std::exchange(run_, {}));
  flush_outer();
  flush_rows();
  if (failed_) return std::move(*failed_);
  made_->records_.shrink_to_fit();
  made_->rows_.shrink_to_fit();
  return std::shared_ptr<const reference_table>(std::move(made_));
}

}  // namespace penstock::inline v0
