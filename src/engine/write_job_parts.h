#pragma once

/// \file Internal types of a write_job; for its own source files.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/extend/layout.h>
#include <penstock/store.h>
#include "base/buffer.h"
#include "base/output_pool.h"
#include "codec/worker_scratch.h"
#include "engine/index_cache.h"
#include "engine/write_job.h"
#include "plan/placement.h"

namespace penstock::inline v0 {

/// Up to this size memory is the job's own, above it comes from the context's pool.
inline constexpr std::uint64_t kOwnMemoryBytes = std::uint64_t{1} << 20;

/// A cell of an open object.
struct write_job::touched_cell {
  cell_id cell = 0;
  std::uint16_t chain = 0;
  bool whole = false;      ///< every element of the array in it is replaced
  bool counted = false;    ///< counted in the progress
  bool by_source = false;  ///< the source of the values encoded it, and has recorded that
  bool encoded = false;    ///< its new state is in `bytes` or `absent`
  bool absent = false;
  bool present = false;    ///< the old object has the cell, at `old`
  bool edge = false;       ///< it extends beyond the array's edge, where other writers may have elements
  bool unchanged = false;  ///< with `skip_unchanged`: the object's own value is kept
  byte_range old;
  part bytes;
};

/// Memory for encoded cells, one after the other, counted as such. Large blocks come from the context's pool: the next
/// write finds their pages warm.
class write_job::block {
 public:
  explicit block(context_state& state);
  block(const block&) = delete;
  block& operator=(const block&) = delete;
  ~block();

  /// Provides `bytes`; earlier content is not kept.
  result<> reserve(std::uint64_t bytes);
  std::byte* data() noexcept { return large_.data() != nullptr ? large_.data() : small_.data(); }
  std::uint64_t capacity() const noexcept { return large_.data() != nullptr ? large_.bytes() : small_.capacity(); }

  std::size_t used = 0;

 private:
  void free() noexcept;

  context_state& state_;
  buffer small_;
  output_block large_;
};

/// A storage object that is being written.
struct write_job::open_object {
  explicit open_object(write_job& owner);

  enum class phase : std::uint8_t {
    closed,
    load,      ///< the old object must be requested
    answered,  ///< the requested data has arrived
    encode,
    commit,
    busy,    ///< a worker processes it
    flight,  ///< the store processes it
  };
  phase what = phase::closed;
  const source* from = nullptr;  ///< source whose selection touches it
  object_id object = 0;
  std::string key;  ///< in the store, prefix included
  touched_object touched;
  std::vector<touched_cell> cells;
  std::size_t next = 0;           ///< the first cell that has no worker
  std::size_t unfinished = 0;     ///< cells that are not encoded yet
  bool waits_for_memory = false;  ///< of objects in flight
  bool starts_over = false;       ///< all of its cells are then encoded again
  unsigned encoding = 0;          ///< workers that process cells of it
  bool covered = false;           ///< nothing of the old object is needed, not even whether it exists
  bool replaced = false;          ///< every element of the array in it is replaced
  bool is_cell = false;           ///< the object is exactly one encoded cell
  unsigned tries = 0;
  std::uint64_t opening = 0;          ///< no other opened object of this job has the same number
  std::vector<chunk_extent> located;  ///< of `cells`; only kept to reuse its memory

  /// Receives the object as it is read, and provides memory for its bytes.
  class old_bytes final : public completion_sink, public read_buffer {
   public:
    explicit old_bytes(open_object& of);
    void complete(std::uint64_t tag, result<read_done> done) override;
    result<std::span<std::byte>> reserve(std::uint64_t bytes) override;
    void forget();

   private:
    open_object& of_;
    buffer small_;
    output_block large_;
  };
  /// Receives the outcome of a put or an erase.
  class written final : public write_sink {
   public:
    explicit written(open_object& of) noexcept : of_(of) {}
    void complete(std::uint64_t tag, result<version> done) override;

   private:
    open_object& of_;
  };

  write_job& job;
  old_bytes reader;
  written writer{*this};
  bool asked_for_bytes = false;  ///< reads its bytes, and not only its version
  std::optional<result<read_done>> answer;
  std::uint64_t flight_ns = 0;  ///< begin of the request in flight
  std::uint64_t flight = 0;     ///< number of the request in flight; 0: none, or it is complete
  unsigned worker = 0;          ///< the operation that requested it
  read_done old;
  std::uint64_t old_bytes_held = 0;
  bool existed = false;  ///< `old` has its version
  bool blind = false;    ///< `old` does not have its bytes: they are not needed
  index_table indexes;

  std::vector<std::unique_ptr<block>> blocks;
  assembled_object assembled;  ///< content of the put
};

/// An object that was encoded and staged, and the data to begin again if its condition does not hold.
struct write_job::staged {
  std::unique_ptr<staged_object> object;
  const source* from = nullptr;
  touched_object touched;
  object_id id = 0;
  std::string key;
  std::uint64_t bytes = 0;
  unsigned tries = 0;
};

/// The state of one worker.
struct write_job::worker_state {
  explicit worker_state(ledger* accounts)
      : scratch(accounts),
        encoded(accounts, memory_use::encoded),
        cell(accounts, memory_use::scratch),
        values(accounts, memory_use::scratch),
        before(accounts, memory_use::scratch) {}

  worker_scratch scratch;
  buffer encoded;  // for chains without a bound
  buffer cell;     // a decoded cell that is merged from old and new elements
  buffer values;   // of a cell, from a device, if page-locked memory is full
  buffer before;   // the old decoded cell
  placement where;
  block* current = nullptr;  // the memory for its encoded cells, a block of the object of that opening
  std::uint64_t current_opening = 0;
  std::vector<new_cell> new_cells;
};

}  // namespace penstock::inline v0
