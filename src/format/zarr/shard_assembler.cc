#include "format/zarr/shard_assembler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "format/zarr/zarr_layout.h"

namespace penstock::inline v0 {

/// A cell that changes, and its entry in the new shard.
struct shard_assembler::change {
  std::uint64_t entry;
  std::uint32_t which;  // index among the given cells
};

namespace {

/// The content of one entry of a shard.
struct piece {
  std::uint64_t offset;  // in the old shard; kAbsent if the entry is new
  std::uint64_t length;
  std::uint64_t entry;
  std::size_t first, last;  // its changes; none if it is kept
  bool kept() const noexcept { return first == last; }
};

/// Merges adjacent kept bytes into one part.
class kept_run {
 public:
  kept_run(part old, assembled_object& out) noexcept : old_(old), out_(out) {}

  bool open() const noexcept { return open_; }
  std::uint64_t end() const noexcept { return end_; }
  /// Whether bytes from `offset` on belong to the run, or are adjacent to it.
  bool reaches(std::uint64_t offset) const noexcept { return open_ && offset <= end_; }

  void begin(std::uint64_t offset, std::uint64_t at) noexcept {
    open_ = true;
    begin_ = end_ = offset;
    at_ = at;
  }
  /// Adds [offset, offset + length); returns its position in the new shard.
  std::uint64_t take(std::uint64_t offset, std::uint64_t length) noexcept {
    end_ = std::max(end_, offset + length);
    return at_ + (offset - begin_);
  }
  /// Ends the run; returns its length.
  std::uint64_t close() {
    if (!open_) return 0;
    open_ = false;
    const std::uint64_t length = end_ - begin_;
    out_.parts.push_back(old_.subspan(static_cast<std::size_t>(begin_), static_cast<std::size_t>(length)));
    return length;
  }

 private:
  part old_;
  assembled_object& out_;
  bool open_ = false;
  std::uint64_t begin_ = 0, end_ = 0;  // in the old shard
  std::uint64_t at_ = 0;               // in the new one
};

}  // namespace

result<> shard_assembler::assemble(object_id object, const part* old, std::span<const new_cell> cells,
                                   assembled_object& out) const {
  out.clear();
  if (layout_.depth() == 0) {
    if (cells.size() != 1)
      return error(errc::internal, "an object of one chunk is written with another number of them");
    if (!cells[0].absent) out.parts.push_back(cells[0].bytes);
    out.bytes = cells[0].bytes.size();
    return {};
  }
  std::vector<change> changes(cells.size());
  for (std::uint32_t i = 0; i < cells.size(); ++i) changes[i].which = i;
  auto bytes = assemble_shard(object, 0, old, changes, cells, out);
  if (!bytes.ok()) {
    std::string key;
    layout_.key(object, key);
    return std::move(bytes).error().note(fmt::format("taking the shard '{}' apart", key));
  }
  out.bytes = *bytes;
  return {};
}

// Appends one shard to `out` and returns its length: 0, and nothing appended, if it has no chunks.
result<std::uint64_t> shard_assembler::assemble_shard(object_id object, std::size_t level, const part* old,
                                                      std::span<change> changes, std::span<const new_cell> cells,
                                                      assembled_object& out) const {
  const zarr_layout::level& here = layout_.level_of(level, object);
  const bool innermost = level + 1 == layout_.depth();
  const std::uint64_t entries = here.index.entries();

  dim_vector<std::uint64_t> at;
  for (change& each : changes) {
    layout_.grid().coordinates(cells[each.which].cell, at);
    each.entry = layout_.entry_of(level, object, at);
  }
  std::sort(changes.begin(), changes.end(), [&](const change& a, const change& b) {
    return a.entry != b.entry ? a.entry < b.entry : cells[a.which].cell < cells[b.which].cell;
  });

  // Without its trailing checksums the old shard is chunks and index, in either order.
  std::shared_ptr<const shard_index> index;
  part shard;
  if (old != nullptr) {
    shard = *old;
    if (shard.size() < here.index.least_shard_bytes()) {
      return error(errc::corrupt_data,
                   fmt::format("shard has {} bytes, its index needs {}", shard.size(), here.index.least_shard_bytes()));
    }
    const auto index_bytes = static_cast<std::size_t>(here.index.index_bytes());
    const part request = here.index.reads_whole_shard() ? shard
                         : here.index.at_start()        ? shard.first(index_bytes)
                                                        : shard.last(index_bytes);
    PENSTOCK_ASSIGN(index, here.index.decode(request, shard.size()));
  }

  // The entries of the new shard, in its order.
  std::vector<piece> pieces;
  bool sorted = true;
  std::size_t first = 0;
  const auto add = [&](std::uint64_t offset, std::uint64_t length, std::uint64_t entry, std::size_t last) {
    sorted = sorted && (pieces.empty() || pieces.back().offset <= offset);
    pieces.push_back({offset, length, entry, first, last});
  };
  const auto end_of = [&](std::uint64_t entry) {
    std::size_t last = first;
    while (last < changes.size() && changes[last].entry == entry) ++last;
    return last;
  };
  if (index) {
    pieces.reserve(static_cast<std::size_t>(entries));
    for (std::uint64_t entry = 0; entry < entries; ++entry) {
      const std::size_t last = end_of(entry);
      const shard_index::entry found = (*index)[entry];
      if (!found.absent() || last != first) add(found.offset, found.length, entry, last);
      first = last;
    }
  } else {
    pieces.reserve(changes.size());
    while (first < changes.size()) {
      const std::uint64_t entry = changes[first].entry;
      const std::size_t last = end_of(entry);
      add(shard_index::kAbsent, shard_index::kAbsent, entry, last);
      first = last;
    }
  }
  // New entries have the largest possible offset, so they are last.
  if (!sorted) {
    std::sort(pieces.begin(), pieces.end(), [](const piece& a, const piece& b) {
      return a.offset != b.offset ? a.offset < b.offset : a.entry < b.entry;
    });
  }

  const std::size_t parts_before = out.parts.size();
  const std::size_t made_before = out.made_count;
  const std::span<std::byte> new_index = out.make_room(static_cast<std::size_t>(here.index.index_bytes()));
  if (here.index.at_start()) out.parts.emplace_back(new_index);
  std::uint64_t size = here.index.at_start() ? here.index.index_bytes() : 0;
  std::vector<std::uint64_t> words(static_cast<std::size_t>(2 * entries), shard_index::kAbsent);
  bool any = false;
  const auto name = [&](std::uint64_t entry, std::uint64_t offset, std::uint64_t length) {
    words[static_cast<std::size_t>(2 * entry)] = offset;
    words[static_cast<std::size_t>(2 * entry + 1)] = length;
    any = true;
  };

  const auto replace = [&](const piece& each) -> result<> {
    if (innermost) {
      const new_cell& cell = cells[changes[each.first].which];
      if (cell.absent) return {};
      out.parts.push_back(cell.bytes);
      name(each.entry, size, cell.bytes.size());
      size += cell.bytes.size();
      return {};
    }
    part inner;
    const bool present = each.offset != shard_index::kAbsent;
    if (present) inner = shard.subspan(static_cast<std::size_t>(each.offset), static_cast<std::size_t>(each.length));
    auto bytes = assemble_shard(object, level + 1, present ? &inner : nullptr,
                                changes.subspan(each.first, each.last - each.first), cells, out);
    if (!bytes.ok()) return std::move(bytes).error().note(fmt::format("in entry {} of its index", each.entry));
    if (*bytes == 0) return {};
    name(each.entry, size, *bytes);
    size += *bytes;
    return {};
  };

  kept_run run(shard, out);
  std::vector<const piece*> waiting;  // replaced entries within the run
  const auto close = [&]() -> result<> {
    size += run.close();
    for (const piece* each : waiting) PENSTOCK_TRY(replace(*each));
    waiting.clear();
    return {};
  };
  for (const piece& each : pieces) {
    if (each.kept()) {
      if (!run.reaches(each.offset)) {
        PENSTOCK_TRY(close());
        run.begin(each.offset, size);
      }
      name(each.entry, run.take(each.offset, each.length), each.length);
    } else if (run.open() && each.offset < run.end()) {
      waiting.push_back(&each);  // a run that ends there would copy bytes twice
    } else {
      PENSTOCK_TRY(close());
      PENSTOCK_TRY(replace(each));
    }
  }
  PENSTOCK_TRY(close());

  if (!any) {
    out.parts.resize(parts_before);
    out.made_count = made_before;
    return std::uint64_t{0};
  }
  PENSTOCK_TRY(here.index.encode(words, new_index));
  if (!here.index.at_start()) {
    out.parts.emplace_back(new_index);
    size += new_index.size();
  }
  if (here.index.checksum_bytes() != 0) {
    const std::span<std::byte> room = out.make_room(static_cast<std::size_t>(here.index.checksum_bytes()));
    here.index.checksum(std::span(out.parts).subspan(parts_before), room);
    out.parts.emplace_back(room);
    size += room.size();
  }
  return size;
}

}  // namespace penstock::inline v0
