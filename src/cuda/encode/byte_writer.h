#pragma once

// The outputs of encoders: memory for bytes, and a stream of bits that all lanes append to.

#include "cuda/decode/warp.h"

namespace penstock::inline v0::device {

/// Memory that is filled from its start. The same in all lanes.
class byte_writer {
 public:
  PENSTOCK_DEVICE byte_writer(std::uint8_t* target, std::uint32_t room) : target_(target), room_(room) {}

  /// The number of bytes written so far.
  PENSTOCK_DEVICE std::uint32_t size() const { return size_; }
  PENSTOCK_DEVICE std::uint32_t left() const { return room_ - size_; }
  /// False after the first `claim` for which there was no space. Nothing is written from then on.
  PENSTOCK_DEVICE bool fits() const { return fits_; }

  /// The next `count` bytes, for the caller to write; null if they do not fit.
  PENSTOCK_DEVICE std::uint8_t* claim(std::uint32_t count) {
    fits_ = fits_ && count <= left();
    if (!fits_) return nullptr;
    size_ += count;
    return target_ + size_ - count;
  }

  /// Writes the lowest `count` bytes of `value`, little-endian.
  PENSTOCK_DEVICE void number(std::uint64_t value, std::uint32_t count, warp lanes) {
    if (std::uint8_t* const to = claim(count)) put(to, value, count, lanes);
  }

  /// The same at a position that was claimed before.
  PENSTOCK_DEVICE static void put(std::uint8_t* to, std::uint64_t value, std::uint32_t count, warp lanes) {
    lanes.each_alone([&](int lane) {
      const auto i = static_cast<std::uint32_t>(lane);
      if (i < count) to[i] = static_cast<std::uint8_t>(value >> (8 * i));
    });
  }

  PENSTOCK_DEVICE void copy(const std::uint8_t* from, std::uint32_t count, warp lanes) {
    std::uint8_t* const to = claim(count);
    if (to == nullptr) return;
    lanes.each_alone([&](int lane) {
      PENSTOCK_SMALL_LOOP
      for (auto i = static_cast<std::uint32_t>(lane); i < count; i += kLanes) to[i] = from[i];
    });
  }

  /// Reserves space for at most `more` bytes.
  PENSTOCK_DEVICE void limit(std::uint32_t more) {
    if (more < left()) room_ = size_ + more;
  }

 private:
  std::uint8_t* target_;
  std::uint32_t room_, size_ = 0;
  bool fits_ = true;
};

}  // namespace penstock::inline v0::device
