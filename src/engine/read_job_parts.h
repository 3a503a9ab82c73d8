#pragma once

/// \file Internal types of a read_job; for its own source files.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <penstock/store.h>
#include "array/element_bits.h"
#include "base/buffer.h"
#include "base/nvtx.h"
#include "base/thrown.h"
#include "codec/worker_scratch.h"
#include "engine/item_store.h"
#include "engine/read_job.h"
#include "plan/placement.h"

namespace penstock::inline v0 {

/// Requests that are passed to a store at once, if it completes them later.
inline constexpr std::size_t kRequestsAtOnce = 16;
/// Encoded bytes in flight at stores that complete later.
inline constexpr std::uint64_t kMaxFlightBytes = std::uint64_t{32} << 20;

/// An index without a version, from a store with versions, is valid for one read only.
inline bool keeps_index(const source& from, const index_entry& entry) {
  return from.uid != 0 && (!from.store->traits().versions || entry.seen.known());
}

/// For reads without indexes from storage.
class no_indexes final : public index_lookup {
 public:
  const index_entry* find(const index_key&) const override { return nullptr; }
};

/// The state of one worker of a read. As a sink and a buffer it serves stores that complete inside `read`.
struct read_worker final : completion_sink, read_buffer {
  explicit read_worker(ledger* accounts)
      : scratch(accounts), encoded(accounts, memory_use::encoded), decoded(accounts, memory_use::scratch) {}

  void complete(std::uint64_t, result<read_done> done) override { arrived.emplace(std::move(done)); }
  result<std::span<std::byte>> reserve(std::uint64_t bytes) override { return encoded.reserve(bytes); }
  /// Passes one request to a store that completes inside `read`.
  void read_from(const store& from, const byte_read& what, std::stop_token stop) {
    try {
      from.read({&what, 1}, *this, std::move(stop));
    } catch (const std::exception& thrown) {
      arrived.emplace(thrown_error("the store", thrown));
    }
  }
  result<read_done> take() {
    if (!arrived) return error(errc::internal, "the store did not complete inside read, contrary to its traits");
    return std::move(*arrived);
  }

  worker_scratch scratch;
  buffer encoded;
  buffer decoded;  // of cells that only need a check
  placement where;
  std::vector<std::uint64_t> items;  // `item_read::items` of the current request
  // For an object that was requested as a whole: its index, and the locations of the cells in it.
  index_table indexes;
  std::vector<chunk_extent> extents;
  std::vector<cell_id> cells;
  std::vector<decode_op> found;
  read_buffer* sunk = nullptr;  // the sink's, of the current request
  std::optional<result<read_done>> arrived;

  /// Buffers above this size are not kept for the next read.
  static constexpr std::uint64_t kMaxKeptBytes = std::uint64_t{8} << 20;
  /// Drops the read and keeps reusable memory.
  void reset() {
    if (encoded.capacity() > kMaxKeptBytes) encoded.free();
    if (decoded.capacity() > kMaxKeptBytes) decoded.free();
    scratch.free_large(kMaxKeptBytes);
    scratch.arena = nullptr;
    scratch.shared = {};
    sunk = nullptr;
    arrived.reset();
  }
};

/// A request to a store that completes later.
struct read_job::flight final : read_buffer {
  explicit flight(ledger* accounts) : encoded(accounts, memory_use::encoded) {}
  result<std::span<std::byte>> reserve(std::uint64_t bytes) override { return encoded.reserve(bytes); }

  buffer encoded;
  piece* of = nullptr;  // null: an index
  std::size_t which = 0;
  std::uint64_t counted_bytes = 0;
  std::uint64_t begin_ns = 0;
  read_buffer* sunk = nullptr;
  std::vector<std::uint64_t> items;  // `item_read::items`
  std::uint64_t launch = 0;          // number of the request; 0: it is complete
  nvtx_id range = 0;
  std::optional<result<read_done>> arrived;
};

/// The selected elements of a cell as `item_read::items`. `where`: the cell's placement, `bits`: memory for them.
inline std::span<const std::uint64_t> items_of(const source& from, cell_id cell, const codec_chain& chain,
                                               const placement& where, std::vector<std::uint64_t>& bits) {
  constexpr std::uint64_t kMostBits = std::uint64_t{1} << 26;
  if (chain.decoded_bytes() / chain.type().item_bytes() > kMostBits) return {};
  if (where.target.indexed == nullptr && is_whole_cell(from, cell, where)) return {};
  mark_elements(where.target.in_cell, where.target.indexed, chain.cell(), bits);
  return bits;
}

/// The same for a request of a plan.
inline std::span<const std::uint64_t> items_of(const source& from, const read_plan& plan, const fetch_op& op,
                                               placement& where, std::vector<std::uint64_t>& bits) {
  if (op.what != request::data || op.decode_count != 1) return {};
  const decode_op& decode = plan.decodes[op.first_decode];
  if (places_of(from, decode.cell) != 1 || !place_cell(from, decode.cell, where)) return {};
  return items_of(from, decode.cell, from.layout->chains()[decode.chain], where, bits);
}

/// The store, if it can leave out elements that a read into memory does not need.
inline const item_store* item_store_of(const source& from) {
  const bool is_variable = from.to != nullptr && from.layout->chains()[0].type().variable_length();
  return is_variable ? dynamic_cast<const item_store*>(from.store) : nullptr;
}

inline bool read_job::may_send() const noexcept {
  return in_flight_ == 0 || (in_flight_ < io_concurrency_ && flight_bytes_ < kMaxFlightBytes);
}

}  // namespace penstock::inline v0
