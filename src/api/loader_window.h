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
#include <unordered_set>
#include <vector>

#include <penstock/array.h>
#include <penstock/extend/chunk_grid.h>
#include <penstock/loader.h>
#include "base/output_pool.h"

namespace penstock::inline v0 {

/// The longest part of an axis that one of its cells has.
std::uint64_t longest_cell(const grid_axis& of);

/// The decoded chunks that a loader holds: it reads ahead of their use, and gives up what is needed last.
///
/// The uses of an epoch are known: `begin` gets them in order, `read_ahead` goes through them as far as there is room,
/// `wait` and `release` follow. Room is made by chunks without a use, then by the one whose next use is farthest (L.
/// Belady, IBM Systems Journal 5 (1966) 78), as it is at the use that is read for; so the read begins once that chunk's
/// last use before has been made, and no chunk is read more often than if nothing was read ahead. One thread at a time;
/// `counts` from any.
class loader_window {
 public:
  /// A chunk of one of the arrays: numbers of the first array's chunks come first.
  using chunk_number = std::uint64_t;

  /// `most_reads` are under way at a time.
  loader_window(const std::vector<array>& arrays, std::uint64_t limit_bytes, unsigned most_reads);
  loader_window(const loader_window&) = delete;
  loader_window& operator=(const loader_window&) = delete;

  chunk_number number_of(std::size_t array, chunk_id id) const noexcept { return sources_[array].first + id; }
  /// The uses of an epoch, in order, and where those of each sample begin, and the end of all: a sample needs its
  /// chunks together. Chunks that are here stay.
  void begin(std::vector<chunk_number> uses, std::vector<std::uint64_t> samples);
  /// Starts the reads that there is room for.
  /// \error  A chunk cannot be read, or there is no memory for it.
  result<> read_ahead();
  /// Whether the chunks of uses [first, last) are here.
  bool are_here(std::uint64_t first, std::uint64_t last) const;
  /// Waits until they are. `may_go_on` is asked now and then.
  result<> wait(std::uint64_t first, std::uint64_t last, const std::function<bool()>& may_go_on);
  /// Of a chunk that is here: its values, in C order, of its part inside the array.
  const std::byte* values(chunk_number which) const { return chunks_.at(which).memory.data(); }
  /// The uses before `end` have been made.
  void release(std::uint64_t end) noexcept { released_ = end; }
  /// Ends all reads.
  void stop();

  loader_counts counts() const;

 private:
  struct source {
    const array* from;
    chunk_number first;
    std::uint64_t cell_bytes;  ///< of the largest chunk
    std::vector<output_block> free;
  };
  struct chunk {
    output_block memory;
    std::size_t owner = 0;       ///< its place in sources_
    std::uint64_t next_use = 0;  ///< at or behind `ahead_`, or kNever
    std::uint64_t last_use = 0;  ///< before `ahead_`, plus one; 0: none
    bool reading = false;
    ticket read;
  };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  std::size_t source_of(chunk_number which) const noexcept;
  result<bool> make_room(std::size_t owner, output_block& out);
  result<> start(chunk_number which, std::size_t owner, output_block memory);
  void drop(chunk_number which);
  std::optional<chunk_number> least_needed() const;
  void set_uses(chunk_number which, chunk& of, std::uint64_t last, std::uint64_t next);
  void add_bytes(std::int64_t bytes);

  std::vector<source> sources_;
  const std::uint64_t limit_;
  const std::size_t most_reads_;
  std::vector<chunk_number> uses_;
  std::vector<std::uint64_t> next_;  ///< of each use: that of the same chunk, or kNever
  std::vector<std::uint64_t> samples_;
  std::uint64_t ahead_ = 0;     ///< the first use that nothing was done for
  std::size_t sample_ = 0;      ///< whose it is
  std::uint64_t released_ = 0;  ///< uses before it have been made
  std::unordered_map<chunk_number, chunk> chunks_;
  // By next use; of those without one, what was used last comes first.
  std::set<std::tuple<std::uint64_t, std::uint64_t, chunk_number>> by_next_use_;
  std::deque<chunk_number> under_way_;
  std::unordered_set<chunk_number> was_read_;  ///< in this epoch
  std::uint64_t bytes_ = 0;

  mutable std::mutex mutex_;  // of what follows
  loader_counts counts_;
};

}  // namespace penstock::inline v0
