#pragma once

#include <optional>
#include <span>

#include "api/chunk_pipeline.h"
#include "codec/codec_chain.h"

namespace penstock::inline v0 {

/// What one worker keeps from chunk to chunk, and from batch to batch. As a sink and a buffer it takes old objects.
struct chunk_writer_memory final : completion_sink, read_buffer {
  void complete(std::uint64_t, result<read_done> done) override { arrived.emplace(std::move(done)); }
  result<std::span<std::byte>> reserve(std::uint64_t bytes) override { return old.reserve(bytes); }
  /// Gives back what is not worth keeping.
  void shrink() noexcept;

  worker_scratch scratch;
  buffer old, cell, encoded, values;
  std::optional<result<read_done>> arrived;
};

/// What all chunks of a batch have in common; borrowed.
struct chunk_write_task {
  const codec_chain& chain;
  std::span<const std::byte> fill;
  const store& from;
  store* to;  ///< null: encoded chunks are handed back
  bool write_empty_chunks;
  cell_source* values = nullptr;  ///< the door to the items' values, where they are not in host memory
};

/// Merges, encodes and stores one chunk, or hands it back.
result<> write_chunk(const chunk_write_task& task, const chunk_item& item, chunk_writer_memory& mine,
                     chunk_written& out);

}  // namespace penstock::inline v0
