#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "cuda/move/move.h"

namespace penstock::inline v0::cuda {

struct device_chain;

/// One cell of a transfer batch.
struct parcel_cell {
  std::uint64_t offset = 0, length = 0;  ///< position of its bytes in the batch
  const device_chain* chain = nullptr;   ///< the part of the chain that is decoded on the device
  std::uint64_t decoded_bytes = 0;
  bool plain = false;   ///< its bytes are the elements, contiguous in the target: one copy, no kernel
  bool direct = false;  ///< decodes directly into the target, `item.to`
  move_item item;       ///< `from` counts from the decoded cell's beginning, axes and runs from the batch's
  std::uint32_t first_more = 0, more = 0;  ///< moves of the same cell to other destinations, in the batch's `more`
  failure_note note;
};

/// The bytes of one request that are being transferred to the device: in page-locked memory, or in ordinary memory if
/// they are too large for the page-locked memory. Reusable.
struct parcel {
  explicit parcel(ledger* accounts) : ordinary(accounts, memory_use::encoded) {}

  std::byte* block = nullptr;  ///< of the ring; null: the bytes are in `ordinary`
  buffer ordinary;
  std::uint64_t bytes = 0;
  std::vector<parcel_cell> cells;
  std::size_t next = 0;        ///< the first cell that is not being transferred yet
  bool copied = false;         ///< copies from `block` were queued on the copy stream
  bool copied_at_end = false;  ///< and on the stream of the read's end
  std::vector<move_axis> axes;
  std::vector<move_run> runs;
  std::vector<move_item> more;
  /// Cells, by number, that the device's decoders refuse, with the reason: the host decodes them from here, and the
  /// block is returned after that.
  struct refusal {
    std::size_t cell = 0;
    std::string reason;
  };
  std::vector<refusal> refused;

  std::optional<std::size_t> failed;  ///< the cell that an error of the engine names

  const std::byte* data() const noexcept { return block != nullptr ? block : ordinary.data(); }
  std::byte* data() noexcept { return block != nullptr ? block : ordinary.data(); }
  void clear() noexcept {
    block = nullptr;
    bytes = 0;
    next = 0;
    copied = copied_at_end = false;
    cells.clear();
    axes.clear();
    runs.clear();
    more.clear();
    refused.clear();
    failed.reset();
  }
};

}  // namespace penstock::inline v0::cuda
