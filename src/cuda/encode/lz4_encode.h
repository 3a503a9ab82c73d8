#pragma once

// LZ4 blocks (lz4_Block_format.md), by one warp: matches as match_search.h finds them, written by all lanes. The same
// bytes in every run.

#include "cuda/decode/warp.h"
#include "cuda/encode/encode_parts.h"
#include "cuda/encode/match_search.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kLz4Window = 65535;
inline constexpr std::uint32_t kLz4LastLiterals = 5;  ///< a block ends with at least this many,
inline constexpr std::uint32_t kLz4MatchMargin = 12;  ///< and its last match begins at least this far from its end
inline constexpr std::uint32_t kLz4LeastMatch = 4;

struct lz4_encode_shared {
  match_table matches;
};

/// The most bytes that this many bytes encode to.
constexpr std::uint64_t lz4_bound(std::uint64_t size) { return size + size / 255 + 16; }

/// One part's target while it is filled. The same in all lanes.
class lz4_writer {
 public:
  PENSTOCK_DEVICE lz4_writer(std::uint8_t* target, std::uint32_t room) : target_(target), room_(room) {}

  PENSTOCK_DEVICE std::uint32_t at() const { return at_; }

  /// Writes literals and the match after them; `match` 0: no match. Returns false if they do not fit.
  PENSTOCK_DEVICE bool sequence(warp lanes, const std::uint8_t* literals, std::uint32_t count, std::uint32_t match,
                                std::uint32_t offset) {
    const std::uint32_t length = match == 0 ? 0 : match - kLz4LeastMatch;
    const std::uint32_t more_literals = count < 15 ? 0 : (count - 15) / 255 + 1;
    const std::uint32_t more_match = length < 15 ? 0 : (length - 15) / 255 + 1;
    const std::uint32_t tail = match == 0 ? 0 : 2 + more_match;
    if (room_ - at_ < 1 + more_literals || room_ - at_ - 1 - more_literals < count ||
        room_ - at_ - 1 - more_literals - count < tail)
      return false;
    std::uint8_t* const to = target_ + at_;
    lanes.each_alone([&](int lane) {
      const auto first = static_cast<std::uint32_t>(lane);
      if (lane == 0) {
        to[0] = static_cast<std::uint8_t>((count < 15 ? count : 15) << 4 | (length < 15 ? length : 15));
        if (match != 0) {
          to[1 + more_literals + count] = static_cast<std::uint8_t>(offset);
          to[2 + more_literals + count] = static_cast<std::uint8_t>(offset >> 8);
        }
      }
      put_length(to + 1, count, more_literals, first);
      PENSTOCK_SMALL_LOOP
      for (std::uint32_t i = first; i < count; i += kLanes) to[1 + more_literals + i] = literals[i];
      put_length(to + 3 + more_literals + count, length, more_match, first);
    });
    at_ += 1 + more_literals + count + tail;
    return true;
  }

 private:
  /// The bytes of a length of 15 or more.
  PENSTOCK_DEVICE static void put_length(std::uint8_t* to, std::uint32_t length, std::uint32_t count,
                                         std::uint32_t first) {
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = first; i < count; i += kLanes)
      to[i] = static_cast<std::uint8_t>(i + 1 < count ? 255 : (length - 15) % 255);
  }

  std::uint8_t* target_;
  std::uint32_t room_, at_ = 0;
};

/// Encodes `part`. Returns the number of bytes, or kDoesNotFit.
PENSTOCK_DEVICE std::uint32_t encode_lz4(const encode_part& part, lz4_encode_shared& shared, warp lanes) {
  const auto* const from = pointer<const std::uint8_t>(part.source);
  const std::uint32_t size = part.source_bytes;
  lz4_writer out(pointer<std::uint8_t>(part.target), part.target_bytes);
  const std::uint32_t last_start = size < kLz4MatchMargin + 1 ? 0 : size - kLz4MatchMargin;  // after the match
  match_search search(from, 0, last_start, size - kLz4LastLiterals, kLz4Window, shared.matches, lanes);
  std::uint32_t literals = 0;  // the beginning of the literals
  for (;;) {
    const found_match match = search.next(0, lanes);
    if (match.length == 0) break;
    if (!out.sequence(lanes, from + literals, match.at - literals, match.length, match.at - match.place))
      return kDoesNotFit;
    literals = match.at + match.length;
  }
  if (!out.sequence(lanes, from + literals, size - literals, 0, 0)) return kDoesNotFit;
  return out.at();
}

/// Encodes part `turn` of the wave with one warp.
PENSTOCK_DEVICE void encode_lz4_warp(const encode_wave& wave, std::uint32_t turn, lz4_encode_shared& shared,
                                     warp lanes) {
  encode_part part = pointer<const encode_part>(wave.parts)[turn];
  auto* const prefix = pointer<std::uint8_t>(part.target);
  const bool fits = part.target_bytes >= wave.prefix_bytes;
  part.target += wave.prefix_bytes;
  part.target_bytes -= wave.prefix_bytes;
  const std::uint32_t made = fits ? encode_lz4(part, shared, lanes) : kDoesNotFit;
  lanes.once_alone([&] {
    pointer<std::uint32_t>(wave.encoded_bytes)[turn] = made == kDoesNotFit ? made : made + wave.prefix_bytes;
    PENSTOCK_SMALL_LOOP
    for (std::uint32_t i = 0; fits && i < wave.prefix_bytes; ++i)
      prefix[i] = static_cast<std::uint8_t>(part.source_bytes >> (8 * i));
  });
}

}  // namespace penstock::inline v0::device
