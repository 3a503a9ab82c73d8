#pragma once

// Streams of bits, from the lowest bit of the first byte on: the reverse of decode/backward_bits.h (RFC 8878, 4.1).

#include "cuda/encode/byte_writer.h"

namespace penstock::inline v0::device {

/// Bits that one lane writes, at most 32 at a time.
class serial_bits {
 public:
  PENSTOCK_DEVICE explicit serial_bits(std::uint8_t* to) : to_(to) {}

  PENSTOCK_DEVICE void put(std::uint32_t value, int count) {
    held_ |= static_cast<std::uint64_t>(value) << count_;
    PENSTOCK_SMALL_LOOP
    for (count_ += count; count_ >= 8; count_ -= 8, held_ >>= 8) to_[size_++] = static_cast<std::uint8_t>(held_);
  }

  /// Fills up the last byte with zeros. Returns the number of bytes.
  PENSTOCK_DEVICE std::uint32_t finish() {
    if (count_ > 0) to_[size_++] = static_cast<std::uint8_t>(held_);
    return size_;
  }

 private:
  std::uint8_t* to_;
  std::uint64_t held_ = 0;
  std::uint32_t size_ = 0;
  int count_ = 0;
};

inline constexpr std::uint32_t kMostBitsPut = 64;  ///< for one lane at a time

struct lane_bits_shared {
  std::uint32_t words[kLanes * kMostBitsPut / 32 + 2];
};

/// Bits that all lanes write, those of lane 0 first: a prefix sum of their counts places them in words of shared
/// memory, and whole words are written to `out`. Between uses, all words are zero except for the bits of an unfinished
/// one.
class lane_bits {
 public:
  PENSTOCK_DEVICE lane_bits(lane_bits_shared& shared, byte_writer& out, warp lanes) : shared_(shared), out_(out) {
    lanes.each([&](int lane) {
      PENSTOCK_SMALL_LOOP
      for (auto i = static_cast<std::uint32_t>(lane); i < sizeof shared.words / 4; i += kLanes) shared.words[i] = 0;
    });
  }

  /// Appends the lowest `counts`, 0 to 64, of each lane's `bits`; those above must be zero.
  PENSTOCK_DEVICE void put(const per_lane<std::uint64_t>& bits, const per_lane<std::uint32_t>& counts, warp lanes) {
    per_lane<std::uint32_t> ends = counts;
    lanes.sum_up(ends);
    lanes.each([&](int lane) {
      const std::uint32_t at = pending_ + ends[lane] - counts[lane];
      std::uint32_t* const word = shared_.words + at / 32;
      const std::uint64_t low = bits[lane] << at % 32;
      const auto high = at % 32 == 0 ? 0 : static_cast<std::uint32_t>(bits[lane] >> (64 - at % 32));
      if (static_cast<std::uint32_t>(low) != 0) set_bits(word[0], static_cast<std::uint32_t>(low));
      if (low >> 32 != 0) set_bits(word[1], static_cast<std::uint32_t>(low >> 32));
      if (high != 0) set_bits(word[2], high);
    });
    pending_ += lanes.from(ends, kLanes - 1);
    flush(pending_ / 32, lanes);
  }

  /// Appends the bit that marks the end, and writes the remaining bits.
  PENSTOCK_DEVICE void finish(warp lanes) {
    if (std::uint8_t* const to = out_.claim(pending_ / 8 + 1)) {
      lanes.each([&](int lane) {
        const auto i = static_cast<std::uint32_t>(lane);
        if (i <= pending_ / 8) to[i] = static_cast<std::uint8_t>((shared_.words[0] | 1u << pending_) >> (8 * i));
      });
    }
  }

 private:
  PENSTOCK_DEVICE void flush(std::uint32_t count, warp lanes) {
    if (count == 0) return;
    std::uint8_t* const to = out_.claim(4 * count);
    per_lane<std::uint32_t> rest;
    lanes.each([&](int lane) {
      PENSTOCK_SMALL_LOOP
      for (auto i = static_cast<std::uint32_t>(lane); i < count && to != nullptr; i += kLanes) {
        const std::uint32_t word = shared_.words[i];
        for (std::uint32_t j = 0; j < 4; ++j) to[4 * i + j] = static_cast<std::uint8_t>(word >> (8 * j));
      }
      rest[lane] = shared_.words[count];
    });
    lanes.each([&](int lane) {
      PENSTOCK_SMALL_LOOP
      for (auto i = static_cast<std::uint32_t>(lane); i <= count; i += kLanes)
        shared_.words[i] = i == 0 ? rest[lane] : 0;
    });
    pending_ %= 32;
  }

  lane_bits_shared& shared_;
  byte_writer& out_;
  std::uint32_t pending_ = 0;  ///< bits in `words`; fewer than 32 between calls
};

}  // namespace penstock::inline v0::device
