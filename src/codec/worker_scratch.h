#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <penstock/variable.h>
#include "base/buffer.h"

namespace penstock::inline v0 {

/// The reusable memory of one worker: two buffers for a chain's stages, and each library's context.
///
/// Not thread-safe: a worker owns one. Nothing is allocated in steady state.
class worker_scratch {
 public:
  explicit worker_scratch(ledger* accounts = nullptr);
  ~worker_scratch();
  worker_scratch(const worker_scratch&) = delete;
  worker_scratch& operator=(const worker_scratch&) = delete;

  /// The stages' buffers: a chain alternates between 0 and 1; 2 holds the decoded cell before a scatter. 3 belongs to a
  /// codec that runs a chain of its own.
  buffer& stage(std::size_t which) noexcept { return stages_[which]; }

  /// Frees the buffers of more than `most` bytes, also those for chains inside a codec: others are kept for the next
  /// chunk.
  void free_large(std::uint64_t most) noexcept;

  /// Memory of the running codec (`scratch_memory`).
  buffer& codec_memory() noexcept { return codec_memory_; }

  /// When the last decode began its scatter, if it needed one and `timed` is set: profiles separate decoding from
  /// scattering.
  bool timed = false;
  std::optional<std::chrono::steady_clock::time_point> scatter_began;

  /// Set by a codec that refused its input only because `out` was too small.
  bool out_of_room = false;

  /// Memory for the bytes of decoded items of variable length; the reader sets it. Null: `items` is this worker's own,
  /// valid until the next cell is decoded.
  item_arena* arena = nullptr;
  item_arena& items() noexcept { return arena != nullptr ? *arena : own_items_; }
  void forget_own_items() noexcept { own_items_.clear(); }

  /// The chunk from which the last decode took a window, before that step. Windows of one chunk are adjacent in a
  /// request, so it is decoded once. Valid while the encoded bytes do not move: the decoder enables it, and clears
  /// `codecs` when another request begins.
  struct shared_chunk {
    bool enabled = false;
    std::span<const std::byte> encoded, decoded;  ///< `decoded` is in a stage's buffer
    std::string_view codecs;                      ///< the codecs that decoded it: text of a chain that lives as long
  };
  shared_chunk shared;

  /// Library contexts (ZSTD_DCtx, libdeflate decompressor, ...), created at first use and kept. Defined in
  /// library_contexts.h.
  struct contexts;
  contexts& libraries() noexcept { return *contexts_; }

  /// For a codec that runs a chain of its own inside a stage of this one: created at first use. Its items are stored
  /// with this one's.
  worker_scratch& inner();

 private:
  buffer stages_[4];
  buffer codec_memory_;
  ledger* accounts_;
  std::unique_ptr<worker_scratch> inner_;
  item_arena own_items_;
  std::unique_ptr<contexts> contexts_;
};

}  // namespace penstock::inline v0
