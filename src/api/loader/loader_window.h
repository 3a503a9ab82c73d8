#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <penstock/array.h>
#include <penstock/extend/chunk_grid.h>
#include <penstock/loader.h>
#include "api/early_read.h"
#include "base/output_pool.h"

namespace penstock::inline v0 {

/// The longest part of an axis in one of its cells.
std::uint64_t longest_cell(const grid_axis& of);

/// The decoded chunks that a loader holds: it reads ahead of their use, and drops the chunk that is needed last.
///
/// The uses of an epoch are known: `begin` receives them in order, `read_ahead` processes them as far as memory
/// permits, `wait` and `release` follow. Memory is taken from chunks without a further use, then from the chunk whose
/// next use is farthest (L. Belady, IBM Systems Journal 5 (1966) 78). The choice is that of the time of the use for
/// which the chunk is read. So the read begins after the preceding use of the dropped chunk, and no chunk is read more
/// often than without reading ahead.
///
/// Chunks of stores that complete later are requested before that (`early_read`): a part of the memory is for their
/// encoded bytes, which are usually fewer, so that more requests are in flight.
///
/// One thread at a time; `counts` from any.
class loader_window {
 public:
  /// A chunk of one of the arrays: the first array's chunks have the first numbers.
  using chunk_number = std::uint64_t;

  /// `most_reads` run at a time. `early_bytes` of the limit are for encoded bytes, if an array can be read early.
  loader_window(const std::vector<array>& arrays, std::uint64_t limit_bytes, std::uint64_t early_bytes,
                unsigned most_reads);
  loader_window(const loader_window&) = delete;
  loader_window& operator=(const loader_window&) = delete;

  chunk_number number_of(std::size_t array, chunk_id id) const noexcept { return sources_[array].first + id; }
  /// The uses of an epoch, in order, with the first one of each sample, and the end: a sample needs its chunks
  /// together. Cached chunks are kept.
  void begin(std::vector<chunk_number> uses, std::vector<std::uint64_t> samples);
  /// Starts the reads for which there is memory.
  /// \error  A chunk cannot be read, or its memory cannot be allocated.
  result<> read_ahead();
  /// Whether the chunks of uses [first, last) are in memory.
  bool are_here(std::uint64_t first, std::uint64_t last) const;
  /// Waits for these chunks. `may_go_on` is called repeatedly.
  result<> wait(std::uint64_t first, std::uint64_t last, const std::function<bool()>& may_go_on);
  /// The values of a chunk in memory, in C order: its part inside the array.
  const std::byte* values(chunk_number which) const { return chunks_.at(which).memory.data(); }
  /// Marks the uses before `end` as done.
  void release(std::uint64_t end) noexcept { released_ = end; }
  /// Ends all reads.
  void stop();

  loader_counts counts() const;

 private:
  struct source {
    const array* from;
    chunk_number first;
    std::uint64_t cell_bytes;  ///< bytes of the largest chunk
    bool is_early;             ///< its chunks are requested before there is memory for them
    std::vector<output_block> free;
  };
  struct chunk {
    output_block memory;
    std::size_t owner = 0;       ///< its index in sources_
    std::uint64_t next_use = 0;  ///< at or after `ahead_`, or kNever
    std::uint64_t last_use = 0;  ///< before `ahead_`, plus one; 0: none
    bool reading = false;
    ticket read;
    std::optional<early_read> early;  ///< in place of `read`
    ticket& under_way() noexcept { return early ? early->under_way() : read; }
    bool is_here() const noexcept { return !reading || (early ? early->done() : read.done()); }
  };
  /// A chunk that was requested, and the bytes that are counted for it.
  struct early_chunk {
    early_read read;
    std::uint64_t bytes;
  };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  /// By next use; among chunks without one, the last used one comes first.
  using chunk_order = std::set<std::tuple<std::uint64_t, std::uint64_t, chunk_number>>;

  static chunk_order::value_type order_of(chunk_number which, const chunk& of) noexcept {
    return {of.next_use, kNever - of.last_use, which};
  }
  std::size_t source_of(chunk_number which) const noexcept;
  result<bool> make_room(std::size_t owner, output_block& out);
  result<> start(chunk_number which, std::size_t owner, output_block memory, bool again);
  resolved_selection box_of_chunk(chunk_number which, std::size_t owner) const;
  result<> request_early();
  std::uint64_t likely_bytes(std::uint64_t decoded) const noexcept;
  void end_read(chunk& of, bool ended_well);
  chunk& add_chunk(chunk_number which);
  void drop(chunk_number which);
  std::optional<chunk_number> least_needed() const;
  void set_uses(chunk_number which, chunk& of, std::uint64_t last, std::uint64_t next);
  void add_bytes(std::int64_t bytes);

  std::vector<source> sources_;
  const std::uint64_t early_limit_, limit_;  ///< of encoded bytes, and of decoded chunks
  const std::size_t most_reads_;
  std::vector<chunk_number> uses_;
  std::vector<std::uint64_t> next_;  ///< for each use: the next one of the same chunk, or kNever
  std::vector<bool> was_read_;       ///< for each use: whether its chunk was read before, in this epoch
  std::vector<std::uint64_t> samples_;
  std::uint64_t ahead_ = 0;     ///< the first use that was not processed
  std::size_t sample_ = 0;      ///< the owner
  std::uint64_t released_ = 0;  ///< uses before it are done
  std::unordered_map<chunk_number, chunk> chunks_;
  chunk_order by_next_use_;
  // The nodes of the chunk that was dropped last, for the next one.
  std::unordered_map<chunk_number, chunk>::node_type idle_chunk_;
  chunk_order::node_type idle_order_;
  std::deque<chunk_number> under_way_;
  std::uint64_t bytes_ = 0;
  std::unordered_map<chunk_number, early_chunk> early_;
  std::uint64_t next_early_ = 0;  ///< the first use that was not requested
  std::uint64_t early_bytes_ = 0;
  // Of the reads that have ended: encoded and decoded bytes.
  std::uint64_t encoded_bytes_ = 0, decoded_bytes_ = 0;

  mutable std::mutex mutex_;  // protects the members below
  loader_counts counts_;
};

}  // namespace penstock::inline v0
