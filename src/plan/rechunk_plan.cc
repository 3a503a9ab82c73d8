#include "plan/rechunk_plan.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/counted.h"

namespace penstock::inline v0 {
namespace {

/// Blocks grow to this size if chunks and objects are smaller: fewer, longer requests.
constexpr std::uint64_t kGoodBlockBytes = std::uint64_t{16} << 20;
/// Beyond this number of parts, orders are not tried.
constexpr std::uint64_t kMostTried = std::uint64_t{1} << 24;

std::uint64_t longest(const grid_axis& of) {
  if (of.is_uniform()) return std::min(of.codec_length(0), of.extent());
  std::uint64_t out = 0;
  for (std::uint64_t i = 0; i < of.cells(); ++i) out = std::max(out, of.valid_length(i));
  return out;
}

result<grid_axis> axis_with(std::uint64_t extent, std::vector<std::uint64_t> edges) {
  if (edges.empty() || edges.back() < extent) edges.push_back(extent);
  return grid_axis::edges(extent, std::move(edges));
}

// `count` cells together.
result<grid_axis> grouped(const grid_axis& of, std::uint64_t count) {
  std::uint64_t length = 0;
  if (of.is_uniform()) {
    if (!checked_mul(of.codec_length(0), count, length)) length = of.extent();
    return grid_axis::uniform(of.extent(),
                              std::clamp<std::uint64_t>(length, 1, std::max<std::uint64_t>(of.extent(), 1)));
  }
  std::vector<std::uint64_t> edges;
  for (std::uint64_t i = 0; i < of.cells(); i += count) edges.push_back(of.origin(i));
  return axis_with(of.extent(), std::move(edges));
}

bool is_edge(const grid_axis& of, std::uint64_t at) { return at >= of.extent() || of.origin(of.cell_of(at)) == at; }

// Cells whose edges are edges of both grids.
result<grid_axis> common(const grid_axis& a, const grid_axis& b) {
  if (a.is_uniform() && b.is_uniform()) {
    const std::uint64_t whole = std::max<std::uint64_t>(a.extent(), 1);
    const std::uint64_t first = std::min(a.codec_length(0), whole), second = std::min(b.codec_length(0), whole);
    std::uint64_t length = 0;
    if (!checked_mul(first / std::gcd(first, second), second, length) || length > whole) length = whole;
    return grid_axis::uniform(a.extent(), length);
  }
  const grid_axis& listed = a.is_uniform() ? b : a;
  const grid_axis& other = a.is_uniform() ? a : b;
  std::vector<std::uint64_t> edges{0};
  for (std::uint64_t i = 1; i < listed.cells(); ++i)
    if (is_edge(other, listed.origin(i))) edges.push_back(listed.origin(i));
  return axis_with(a.extent(), std::move(edges));
}

/// Blocks of whole cells of a grid: this many along each axis.
class block_shape {
 public:
  block_shape(const chunk_grid& of, std::uint64_t item_bytes)
      : of_(of), item_bytes_(item_bytes), counts_(of.rank(), 1) {
    for (std::size_t d = 0; d < of.rank(); ++d) longest_.push_back(longest(of.axis(d)));
  }
  bool is_whole(std::size_t d) const { return counts_[d] >= of_.axis(d).cells(); }
  std::uint64_t length(std::size_t d) const {
    std::uint64_t out = 0;
    const std::uint64_t extent = of_.axis(d).extent();
    return checked_mul(longest_[d], counts_[d], out) ? std::min(out, extent) : extent;
  }
  std::uint64_t bytes() const {
    std::uint64_t out = item_bytes_;
    for (std::size_t d = 0; d < of_.rank(); ++d)
      if (!checked_mul(out, length(d), out)) return ~std::uint64_t{0};
    return out;
  }
  /// Twice as many cells along `d`, or as many more as `most` allows; false: none.
  bool grow(std::size_t d, std::uint64_t most) {
    if (is_whole(d)) return false;
    const std::uint64_t before = counts_[d];
    counts_[d] = std::min(before * 2, of_.axis(d).cells());
    while (bytes() > most && counts_[d] > before) --counts_[d];
    return counts_[d] > before;
  }
  result<chunk_grid> grid() const {
    std::vector<grid_axis> axes;
    for (std::size_t d = 0; d < of_.rank(); ++d) {
      PENSTOCK_ASSIGN(grid_axis axis, grouped(of_.axis(d), counts_[d]));
      axes.push_back(std::move(axis));
    }
    return chunk_grid::make(std::move(axes));
  }

 private:
  const chunk_grid& of_;
  std::uint64_t item_bytes_;
  std::vector<std::uint64_t> counts_, longest_;
};

// The last axes first, which are adjacent in memory.
void grow_to(block_shape& of, std::size_t rank, std::uint64_t most) {
  for (std::size_t d = rank; d-- > 0;)
    while (of.bytes() < most && of.grow(d, most)) {
    }
}

// Until the shared parts are as large as possible.
void grow_against(block_shape& of, const block_shape& other, std::size_t rank, std::uint64_t most) {
  std::vector<bool> stuck(rank, false);
  while (true) {
    std::size_t best = rank;
    double ratio = 1;
    for (std::size_t d = 0; d < rank; ++d) {
      const double now =
          static_cast<double>(other.length(d)) / static_cast<double>(std::max<std::uint64_t>(of.length(d), 1));
      if (!stuck[d] && !of.is_whole(d) && now > ratio) {
        ratio = now;
        best = d;
      }
    }
    if (best == rank) return;
    stuck[best] = !of.grow(best, most);
  }
}

std::uint64_t elements(const box& of) {
  std::uint64_t out = 1;
  for (const std::uint64_t length : of.size) out *= length;
  return out;
}

// The most bytes of incomplete blocks at a time, for any `together` consecutive reads.
std::uint64_t waiting_bytes(const chunk_grid& reads, const chunk_grid& writes, std::size_t slowest,
                            std::uint64_t item_bytes, std::uint64_t together) {
  std::unordered_map<chunk_id, std::uint64_t> left;
  std::uint64_t now = 0, most = 0;
  std::vector<std::uint64_t> done;  // bytes that each of the last reads would release
  for (std::uint64_t n = 0; n < reads.cells(); ++n) {
    std::uint64_t freed = 0;
    for_each_part(writes, box_of(reads, nth_block(reads, slowest, n)), [&](chunk_id id, const box& piece) {
      const auto [at, is_new] = left.try_emplace(id, 0);
      if (is_new) {
        at->second = elements(box_of(writes, id));
        now += at->second * item_bytes;
      }
      at->second -= elements(piece);
      if (at->second > 0) return;
      freed += elements(box_of(writes, id)) * item_bytes;
      left.erase(at);
    });
    most = std::max(most, now);
    done.push_back(freed);
    if (done.size() >= together) now -= done[done.size() - static_cast<std::size_t>(together)];
  }
  return most;
}

std::uint64_t parts_of(const chunk_grid& reads, const chunk_grid& writes) {
  std::uint64_t out = 1;
  for (std::size_t d = 0; d < reads.rank(); ++d)
    if (!checked_mul(out, reads.axis(d).cells() + writes.axis(d).cells(), out)) return ~std::uint64_t{0};
  return out;
}

}  // namespace

box box_of(const chunk_grid& grid, chunk_id id) {
  dim_vector<std::uint64_t> at;
  grid.coordinates(id, at);
  box out;
  for (std::size_t d = 0; d < grid.rank(); ++d) {
    out.origin.push_back(grid.axis(d).origin(at[d]));
    out.size.push_back(grid.axis(d).valid_length(at[d]));
  }
  return out;
}

void for_each_part(const chunk_grid& grid, const box& within, const std::function<void(chunk_id, const box&)>& each) {
  const std::size_t rank = grid.rank();
  dim_vector<std::uint64_t> low, high;
  for (std::size_t d = 0; d < rank; ++d) {
    if (within.size[d] == 0) return;
    low.push_back(grid.axis(d).cell_of(within.origin[d]));
    high.push_back(grid.axis(d).cell_of(within.origin[d] + within.size[d] - 1));
  }
  dim_vector<std::uint64_t> at = low;
  while (true) {
    box piece;
    for (std::size_t d = 0; d < rank; ++d) {
      const std::uint64_t begin = grid.axis(d).origin(at[d]), end = begin + grid.axis(d).valid_length(at[d]);
      const std::uint64_t first = std::max(begin, within.origin[d]);
      piece.origin.push_back(first);
      piece.size.push_back(std::min(end, within.origin[d] + within.size[d]) - first);
    }
    each(grid.id(at), piece);
    std::size_t d = rank;
    while (d > 0 && ++at[d - 1] > high[d - 1]) {
      --d;
      at[d] = low[d];
    }
    if (d == 0) return;
  }
}

chunk_id nth_block(const chunk_grid& reads, std::size_t slowest, std::uint64_t n) {
  dim_vector<std::uint64_t> at(reads.rank());
  for (std::size_t d = reads.rank(); d-- > 0;) {
    if (d == slowest) continue;
    at[d] = n % reads.axis(d).cells();
    n /= reads.axis(d).cells();
  }
  if (reads.rank() > 0) at[slowest] = n;
  return reads.id(at);
}

result<rechunk_plan> plan_rechunk(const rechunk_request& what) {
  const std::size_t rank = what.from.rank();
  const std::uint64_t memory = what.memory_bytes, item = what.item_bytes;
  const unsigned workers = std::max(what.workers, 1U);
  rechunk_plan out;

  std::vector<grid_axis> axes;
  for (std::size_t d = 0; d < rank; ++d) {
    PENSTOCK_ASSIGN(grid_axis axis, common(what.from.axis(d), what.to.axis(d)));
    axes.push_back(std::move(axis));
  }
  PENSTOCK_ASSIGN(const chunk_grid both, chunk_grid::make(std::move(axes)));
  block_shape shared(both, item);
  const std::uint64_t copies = what.compares ? 2 : 1;
  if (shared.bytes() <= memory / copies) {
    grow_to(shared, rank, std::min(kGoodBlockBytes, memory / workers / copies));
    PENSTOCK_ASSIGN(out.reads, shared.grid());
    out.writes = out.reads;
    const std::uint64_t together = memory / copies / std::max<std::uint64_t>(shared.bytes(), 1);
    out.workers = static_cast<unsigned>(std::clamp<std::uint64_t>(std::min(together, out.reads.cells()), 1, workers));
    out.memory_bytes = out.workers * copies * shared.bytes();
    return out;
  }

  block_shape read(what.from, item), write(what.to, item);
  std::uint64_t needed = 0;
  if (!checked_add(read.bytes(), write.bytes(), needed) || !checked_mul(needed, 2, needed)) needed = ~std::uint64_t{0};
  if (needed > memory)
    return error(errc::invalid_argument,
                 fmt::format("{} of memory is too little: a chunk of {} and an object of {} need {}",
                             counted(memory, "byte"), counted(read.bytes(), "byte"), write.bytes(), needed));

  // Without a file, if some order leaves few enough blocks incomplete.
  block_shape small_read = read, small_write = write;
  grow_to(small_read, rank, std::min(kGoodBlockBytes, memory / workers / 8));
  grow_to(small_write, rank, std::min(kGoodBlockBytes, memory / workers / 8));
  PENSTOCK_ASSIGN(out.reads, small_read.grid());
  PENSTOCK_ASSIGN(out.writes, small_write.grid());
  if (what.gathers && parts_of(out.reads, out.writes) <= kMostTried) {
    std::uint64_t best = ~std::uint64_t{0};
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const std::uint64_t waiting = waiting_bytes(out.reads, out.writes, axis, item, workers + 1);
      if (waiting >= best) continue;
      best = waiting;
      out.slowest = axis;
    }
    // A block of the destination is compared after the block that completed it is released.
    const std::uint64_t each = what.compares ? std::max(small_read.bytes(), small_write.bytes()) : small_read.bytes();
    const std::uint64_t reading = workers * each;
    if (best <= memory && reading <= memory - best) {
      out.way = rechunk_way::gathered;
      out.workers = workers;
      out.memory_bytes = best + reading;
      return out;
    }
  }

  out.way = rechunk_way::spilled;
  out.slowest = 0;
  // Each worker has a block, and as much again that is on its way to or from the file.
  const std::uint64_t least = std::max(read.bytes(), write.bytes());
  out.workers = static_cast<unsigned>(std::clamp<std::uint64_t>(memory / (2 * least), 1, workers));
  const std::uint64_t most = memory / out.workers / 2;
  for (int turn = 0; turn < 2; ++turn) {
    grow_against(read, write, rank, most);
    grow_against(write, read, rank, most);
  }
  grow_to(read, rank, std::min(most, kGoodBlockBytes));
  grow_to(write, rank, std::min(most, kGoodBlockBytes));
  PENSTOCK_ASSIGN(out.reads, read.grid());
  PENSTOCK_ASSIGN(out.writes, write.grid());
  out.memory_bytes = out.workers * 2 * std::max(read.bytes(), write.bytes());
  out.file_bytes = item;
  for (std::size_t d = 0; d < rank; ++d) out.file_bytes *= what.from.axis(d).extent();
  return out;
}

std::string to_string(const rechunk_plan& plan, std::uint64_t item_bytes) {
  const auto mib = [](std::uint64_t bytes) {
    return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  };
  const auto blocks = [&](const chunk_grid& of) {
    std::uint64_t bytes = item_bytes;
    std::string lengths;
    for (std::size_t d = 0; d < of.rank(); ++d) {
      const std::uint64_t length = longest(of.axis(d));
      bytes *= length;
      lengths += fmt::format("{}{}", d == 0 ? "" : " x ", length);
    }
    return fmt::format("{} of {} ({})", counted(of.cells(), "block"), lengths.empty() ? "one element" : lengths,
                       mib(bytes));
  };
  std::string out;
  switch (plan.way) {
    case rechunk_way::direct:
      out = fmt::format("one pass: reads and writes {}", blocks(plan.reads));
      break;
    case rechunk_way::gathered:
      out = fmt::format("one pass: reads {} into {}", blocks(plan.reads), blocks(plan.writes));
      break;
    case rechunk_way::spilled:
      out = fmt::format("two passes: reads {} into a file of {}, then writes {}", blocks(plan.reads),
                        mib(plan.file_bytes), blocks(plan.writes));
      break;
  }
  return out + fmt::format("; {} of memory, {} at a time", mib(plan.memory_bytes), plan.workers);
}

}  // namespace penstock::inline v0
