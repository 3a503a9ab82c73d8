#pragma once

#include <cstdint>

namespace penstock::inline v0 {

/// Ranges that profilers show on their time line, in the domain `penstock`.
enum class nvtx_name : std::uint8_t {
  disk,      ///< `read::disk`: bytes are requested from storage
  transfer,  ///< `read::transfer`: bytes are queued for transfer to a device
  decode,    ///< `read::decode`: chunks are decoded here, or their decoding is queued on a device's stream
  scatter,   ///< `read::scatter`: values are copied to their destination, here or on a device's stream
};
inline constexpr unsigned kNvtxNames = 4;

/// True if a profiler is attached: the environment variable NVTX_INJECTION64_PATH names its library, as set by Nsight's
/// tools and CUPTI. The library is loaded at the first call.
bool nvtx_listens() noexcept;

/// A range on this thread, for a scope. Ranges of one thread nest. Costs one test without a profiler.
class nvtx_scope {
 public:
  explicit nvtx_scope(nvtx_name name) noexcept : open_(nvtx_listens()) {
    if (open_) [[unlikely]]
      push(name);
  }
  ~nvtx_scope() {
    if (open_) [[unlikely]]
      pop();
  }
  nvtx_scope(const nvtx_scope&) = delete;
  nvtx_scope& operator=(const nvtx_scope&) = delete;

 private:
  static void push(nvtx_name name) noexcept;
  static void pop() noexcept;

  bool open_;
};

/// A range that may end on another thread: 0 is none.
using nvtx_id = std::uint64_t;
nvtx_id nvtx_start(nvtx_name name) noexcept;
void nvtx_end(nvtx_id range) noexcept;

}  // namespace penstock::inline v0
