#pragma once

#include <span>

#include <penstock/plan.h>
#include <penstock/result.h>
#include <penstock/store.h>
#include "codec/worker_scratch.h"

namespace penstock::inline v0 {

/// One request of a read and its cells.
struct fetched_cells {
  std::uint32_t source_number = 0;
  const source* from = nullptr;
  const plan_object* object = nullptr;
  const fetch_op* fetch = nullptr;
  std::span<const decode_op> decodes;
  std::span<const std::byte> bytes;  ///< the bytes of the whole request
  std::uint32_t worker = 0;          ///< the calling worker
};

/// Receives fetched cells, instead of a decode into host memory: the interface to a device engine.
///
/// Belongs to one read. Called by its workers, without the job's lock unless stated otherwise; never blocks. It holds
/// work that it cannot do yet, and calls `read_job::nudge` when it can.
class cell_sink {
 public:
  virtual ~cell_sink() = default;

  /// Whether another request may be made. Called with the job's lock.
  virtual bool has_room() const noexcept = 0;
  /// Whether `advance` has work. Called with the job's lock.
  virtual bool can_advance() const noexcept = 0;

  /// The buffer for the bytes of one request, about `likely_bytes` of them; released when the request is over, however
  /// it ended. Null: no memory is free for it yet. Called with the job's lock.
  virtual read_buffer* take_buffer(std::uint64_t likely_bytes) = 0;
  virtual void give_buffer(read_buffer* buffer) noexcept = 0;

  /// Receives the cells of one request; the bytes are borrowed until this returns, unless they are in `buffer`.
  /// \error corrupt_data  A cell, found bad on the host; notes name it.
  virtual result<> take(const fetched_cells& what, read_buffer* buffer, worker_scratch& scratch) = 0;
  /// Receives a cell that was never written.
  virtual result<> fill(std::uint32_t source_number, const source& from, cell_id cell) = 0;

  /// Continues with held work. `last`: no further work follows; returns true when all work is queued, which ends the
  /// read.
  virtual result<bool> advance(bool last) = 0;
  /// Drops held work, because the read has failed or was cancelled.
  virtual void abandon() noexcept = 0;
};

}  // namespace penstock::inline v0
