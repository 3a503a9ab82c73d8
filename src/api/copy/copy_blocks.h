#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <penstock/array.h>
#include <penstock/copy.h>
#include <penstock/variable.h>
#include "array/packed_fields.h"
#include "base/output_pool.h"
#include "plan/rechunk_plan.h"
#include "store/scratch_file.h"

namespace penstock::inline v0 {

class copy_pieces;

/// Executes a plan: reads blocks of one array, and writes blocks of the other or compares them.
class block_copier {
 public:
  struct settings {
    const copy_options& options;
    std::string path;  ///< within the copied node, for reports
    unsigned threads = 1;
    /// Whether all objects of a block of the destination already exist. Empty: none exist.
    std::function<bool(const box&)> is_there;
    /// Complete blocks are compared with the destination's, not written. The plan is one that compares.
    bool compares = false;
  };
  block_copier(const array& from, const array& to, const rechunk_plan& plan, settings with)
      : from_(from), to_(to), plan_(plan), with_(std::move(with)), left_for_each_(inner_threads()) {}

  /// \error corrupt_data  Elements differ, of a comparison; every NaN equals every other one.
  result<> run();
  /// Decoded bytes that were written, and those that already existed.
  std::uint64_t written_bytes() const noexcept { return written_; }
  std::uint64_t written_objects() const noexcept { return objects_; }
  std::uint64_t skipped_objects() const noexcept { return skipped_; }

 private:
  /// A block of the destination that is not complete yet.
  struct open_block {
    output_block memory;
    std::uint64_t left = 0;  ///< elements
  };

  unsigned inner_threads() const noexcept { return std::max(1U, with_.threads / std::max(plan_.workers, 1U)); }
  result<> each(std::uint64_t count, unsigned pass, unsigned passes, unsigned workers,
                const std::function<result<>(std::uint64_t, std::uint64_t&)>& piece);
  result<output_block> memory_for(const box& block) const;
  /// Elements in the copy's type.
  result<> read(const array& of, const box& block, std::byte* to, std::shared_ptr<item_arena> arena = nullptr) const;
  result<> write(const box& block, const std::byte* values);
  /// For reads and writes of blocks, which may be as large as the memory: the copy can be stopped within them. Empty:
  /// nothing stops it.
  progress_fn stopper() const;
  bool skips(const box& block);
  /// Of elements between reading and writing: structures have no gaps between their fields then.
  const dtype& copied_type() const noexcept { return has_gaps(from_.type()) ? to_.type() : from_.type(); }
  std::uint32_t item_bytes() const noexcept { return copied_type().item_bytes(); }
  std::uint64_t bytes_of(const box& block) const noexcept;
  /// Copies the elements of `piece` between a block and another one, both in C order.
  void move(const box& piece, const box& from, const std::byte* values, const box& to, std::byte* into) const noexcept;

  /// Writes a block that is complete, or compares it.
  /// \param spare  Memory that is not needed any longer.
  result<> finish(const box& block, const std::byte* values, output_block& spare);
  result<> compare_block(const box& block, const std::byte* values, output_block& spare) const;

  result<> direct();
  result<> gathered();
  result<> gather(std::uint64_t n, std::uint64_t& bytes);
  result<> spilled();
  std::vector<std::uint64_t> ranges() const;
  result<> spill(scratch_file& file, std::span<const std::uint64_t> begins);
  result<> collect(scratch_file& file, std::span<const std::uint64_t> begins);
  /// Whether the parts of each block of the destination form it, one after the other.
  bool parts_are_in_order() const noexcept;
  /// Whether an object of the block equals the fill value, and is therefore not stored.
  bool leaves_objects_out(const box& block, const std::byte* values) const;
  /// The position of a part in the range of its block, and of that range in the file.
  std::uint64_t place_of(const box& piece, const box& block) const noexcept;

  const array& from_;
  const array& to_;
  const rechunk_plan& plan_;
  const settings with_;
  const unsigned left_for_each_;
  copy_pieces* pieces_ = nullptr;  // of the current pass
  std::atomic<std::uint64_t> written_{0}, objects_{0}, skipped_{0};
  std::mutex mutex_;  // protects the members below
  std::unordered_map<chunk_id, std::shared_ptr<open_block>> open_;
};

}  // namespace penstock::inline v0
