#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <penstock/array.h>
#include <penstock/selection.h>

namespace penstock::inline v0 {

/// A read that begins before there is memory for its elements: its requests are made, and the encoded bytes that arrive
/// are decoded after `give_target`. More requests are then in flight than decoded chunks fit into memory.
class early_read {
 public:
  /// Of arrays in stores that complete their reads later, in one part.
  static bool is_possible(const array& from) noexcept;
  /// Requests a box that has elements, for one worker.
  /// \pre is_possible(from)
  static result<early_read> begin(const array& from, const resolved_basic& which);

  /// Decodes into `to`, memory for the elements in C order that is borrowed until the read has ended. Once.
  void give_target(std::byte* to);
  /// The read. It does not end before it has a target, unless it fails.
  ticket& under_way() noexcept { return read_; }
  bool done() const noexcept { return read_.done(); }
  /// The bytes that were decoded; after the end of the read.
  std::uint64_t encoded_bytes() const noexcept;

 private:
  explicit early_read(std::shared_ptr<read_job> job) noexcept;

  read_job* job_;  // the ticket's
  ticket read_;
};

}  // namespace penstock::inline v0
