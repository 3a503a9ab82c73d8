#pragma once

// The locations of a wave's tables and its scratch memory.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "cuda/decode/descriptors.h"

namespace penstock::inline v0::device {

constexpr std::uint64_t aligned(std::uint64_t bytes) { return (bytes + 255) / 256 * 256; }

/// A part whose addresses may be relative to the workspace.
struct planned_part {
  decode_part part;
  bool source_in_workspace;
  bool target_in_workspace;
};

/// How the parts of one wave are moved into another wave.
struct relocation {
  std::uint32_t chunks;     ///< chunks before them
  std::uint64_t workspace;  ///< bytes of the workspace before theirs, a multiple of 256

  planned_part moved(planned_part planned) const noexcept {
    planned.part.chunk += chunks;
    if (planned.source_in_workspace) planned.part.source += workspace;
    if (planned.target_in_workspace) planned.part.target += workspace;
    return planned;
  }
};

/// Allocates entries of the descriptors and ranges of the workspace.
class decode_layout {
 public:
  decode_layout(std::span<std::byte> descriptors, std::uint64_t device_descriptors, std::uint64_t workspace)
      : descriptors_(descriptors), device_(device_descriptors), workspace_(workspace) {}

  /// Copies `items` to the descriptors; their address on the device.
  template <class T>
  std::uint64_t put(std::span<const T> items) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::uint64_t at = used_;
    used_ += aligned(items.size_bytes());
    if (!items.empty()) std::memcpy(descriptors_.data() + at, items.data(), items.size_bytes());
    return device_ + at;
  }
  template <class T>
  std::uint64_t put(const std::vector<T>& items) {
    return put(std::span<const T>(items));
  }
  std::uint64_t put(const std::vector<planned_part>& parts) {
    std::vector<decode_part> made;
    made.reserve(parts.size());
    for (const planned_part& planned : parts) made.push_back(placed(planned));
    return put(made);
  }

  decode_part placed(const planned_part& planned) const {
    decode_part part = planned.part;
    if (planned.source_in_workspace) part.source += workspace_;
    if (planned.target_in_workspace) part.target += workspace_;
    return part;
  }

  /// Reserves bytes of the workspace after those reserved before.
  std::uint64_t take(std::uint64_t bytes) {
    const std::uint64_t at = workspace_used_;
    workspace_used_ += aligned(bytes);
    return workspace_ + at;
  }

 private:
  std::span<std::byte> descriptors_;
  std::uint64_t device_, workspace_;
  std::uint64_t used_ = 0, workspace_used_ = 0;
};

}  // namespace penstock::inline v0::device
