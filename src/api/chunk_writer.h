#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "api/chunk_pipeline.h"
#include "base/executor.h"
#include "codec/codec_chain.h"

namespace penstock::inline v0 {

/// What one worker keeps from chunk to chunk, and from batch to batch. As a sink and a buffer it takes old objects.
struct chunk_writer_memory final : completion_sink, read_buffer {
  void complete(std::uint64_t, result<read_done> done) override { arrived.emplace(std::move(done)); }
  result<std::span<std::byte>> reserve(std::uint64_t bytes) override { return old.reserve(bytes); }
  /// Gives back what is not worth keeping.
  void shrink() noexcept;

  worker_scratch scratch;
  buffer old, cell, encoded;
  std::optional<result<read_done>> arrived;
};

/// A batch of chunks to be written. What it refers to is borrowed until the job is done.
struct chunk_write_task {
  const codec_chain& chain;
  std::span<const std::byte> fill;
  const store& from;
  store* to;  ///< null: encoded chunks are handed back
  std::span<const chunk_item> items;
  bool write_empty_chunks;
};

/// Whether all elements are the fill value, as zarr-python counts: bit by bit, but every NaN is one, and the zeros of
/// complex numbers are equal.
bool is_all_fill(const std::byte* data, const strides& steps, const extents& shape, std::span<const std::byte> fill,
                 dtype type) noexcept;

/// Merges, encodes and stores each chunk of a batch; every chunk is one worker's.
class chunk_writer final : public job {
 public:
  chunk_writer(const chunk_write_task& task, std::vector<chunk_written>& out,
               std::span<const std::unique_ptr<chunk_writer_memory>> memories) noexcept
      : task_(task), out_(&out), memories_(memories), open_(task.items.size()) {}

  progress step(unsigned worker) override;
  void cancel() noexcept { fail(error(errc::cancelled, "the write was cancelled")); }
  std::uint64_t done_bytes() const noexcept { return done_bytes_.load(std::memory_order_relaxed); }
  /// Only when done.
  result<> outcome() const;

 private:
  result<> write(std::size_t which, chunk_writer_memory& mine);
  /// The chunk as it will be, in `mine.cell`.
  result<> merge(const chunk_item& item, chunk_writer_memory& mine);
  void fail(error what) noexcept;

  chunk_write_task task_;
  std::vector<chunk_written>* out_;
  std::span<const std::unique_ptr<chunk_writer_memory>> memories_;
  std::atomic<std::size_t> next_{0}, open_;
  std::atomic<std::uint64_t> done_bytes_{0};
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::optional<error> failure_;
};

}  // namespace penstock::inline v0
