#pragma once

// TIFF's LZW (TIFF 6.0, section 13), and the old kind with the least significant bit first. A string of the table is
// already in the output, so a code is a match: one lane reads codes, all lanes write their strings.

#include "cuda/decode/lz_found.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kLzwClear = 256, kLzwEnd = 257, kLzwFirst = 258, kLzwCodes = 4096;
inline constexpr std::uint32_t kLzwLiterals = 256;

struct lzw_shared : lz_found<std::uint64_t> {
  lz_shared output;
  std::uint32_t begins[kLzwCodes - kLzwFirst];   ///< position of a code's string in the output
  std::uint16_t lengths[kLzwCodes - kLzwFirst];  ///< at most the number of codes plus one
  std::uint8_t literal_bytes[kLzwLiterals];
  // The reading lane's state between batches.
  std::uint64_t hold;
  std::uint32_t held;
  std::uint32_t at, made;
  std::uint32_t width, next;
  std::uint32_t last_begin, last_length;  ///< the string of the preceding code; length 0: after a clear
  std::uint32_t old;                      ///< 1: least significant bit first
  std::uint32_t more, bad;
};

/// Reads codes from a part's bytes.
class lzw_codes {
 public:
  PENSTOCK_DEVICE lzw_codes(byte_view view, const lzw_shared& shared)
      : view_(view), hold_(shared.hold), held_(shared.held), at_(shared.at), old_(shared.old != 0) {}

  PENSTOCK_DEVICE void save(lzw_shared& shared) const {
    shared.hold = hold_;
    shared.held = held_;
    shared.at = at_;
  }

  /// The next `width` bits, 9 to 12; kLzwEnd if fewer are left.
  PENSTOCK_DEVICE std::uint32_t next(std::uint32_t width) {
    PENSTOCK_SMALL_LOOP
    for (; held_ < width; held_ += 8) {
      if (at_ == view_.size) return kLzwEnd;
      const std::uint64_t byte = view_.begin[at_++];
      hold_ = old_ ? hold_ | byte << held_ : hold_ << 8 | byte;
    }
    held_ -= width;
    const std::uint32_t mask = (1u << width) - 1;
    if (!old_) return static_cast<std::uint32_t>(hold_ >> held_) & mask;
    const std::uint32_t code = static_cast<std::uint32_t>(hold_) & mask;
    hold_ >>= width;
    return code;
  }

 private:
  byte_view view_;
  std::uint64_t hold_;
  std::uint32_t held_, at_;
  bool old_;
};

/// Fills a batch in the reading lane: codes until the target is full, the codes end, or the batch is full.
PENSTOCK_DEVICE void read_lzw_batch(const decode_part& part, lzw_shared& shared) {
  lzw_codes codes({pointer<const std::uint8_t>(part.source), part.source_bytes}, shared);
  std::uint32_t count = 0, literals = 0, run = 0;
  std::uint32_t made = shared.made, width = shared.width, next = shared.next;
  std::uint32_t last_begin = shared.last_begin, last_length = shared.last_length;
  const std::uint32_t old = shared.old;
  const auto close = [&](std::uint32_t length, std::uint32_t offset) {
    shared.literals_at[count] = reinterpret_cast<std::uintptr_t>(shared.literal_bytes + literals - run);
    shared.literals[count] = run;
    shared.match[count] = length;
    shared.offset[count] = offset;
    run = 0;
    ++count;
  };
  bool more = true, good = true;
  // The last entry is for literals without a match after them.
  while (count != kLanes - 1 && literals != kLzwLiterals) {
    if (made == part.target_bytes) {
      more = false;
      break;
    }
    const std::uint32_t code = codes.next(width);
    if (code == kLzwEnd) {
      more = false;
      break;
    }
    if (code == kLzwClear) {
      width = 9;
      next = kLzwFirst;
      last_length = 0;
      continue;
    }
    const bool first = last_length == 0;
    if (first ? code > 255 : (code > next || code == kLzwCodes)) {
      good = false;
      break;
    }
    // The string that this code adds; its last byte is the first byte of the string that is written now.
    if (!first && next < kLzwCodes) {
      shared.begins[next - kLzwFirst] = last_begin;
      shared.lengths[next - kLzwFirst] = static_cast<std::uint16_t>(last_length + 1);
    }
    std::uint32_t length = 1;
    if (code < 256) {
      shared.literal_bytes[literals++] = static_cast<std::uint8_t>(code);
      ++run;
      last_begin = made;
    } else {
      const std::uint32_t begin = shared.begins[code - kLzwFirst], room = part.target_bytes - made;
      length = shared.lengths[code - kLzwFirst];
      if (length > room) length = room;
      close(length, made - begin);
      last_begin = made;
    }
    last_length = length;
    made += length;
    if (first) continue;
    if (next < kLzwCodes) ++next;
    // The old kind changes width when the table needs it, the other one a code earlier.
    if (next + 1 - old >= 1u << width && width < 12) ++width;
  }
  if (run != 0) close(0, 0);
  shared.count = count;
  shared.made = made;
  shared.width = width;
  shared.next = next;
  shared.last_begin = last_begin;
  shared.last_length = last_length;
  shared.more = more ? 1 : 0;
  shared.bad = good ? 0 : 1;
  codes.save(shared);
}

/// The work of one warp: the part with index `turn` in the wave's order. Codes after a full target are ignored.
PENSTOCK_DEVICE void lzw_warp(const part_wave& wave, std::uint32_t turn, lzw_shared& shared, warp lanes) {
  const decode_part& part = pointer<const decode_part>(wave.parts)[pointer<const std::uint32_t>(wave.order)[turn]];
  lz_output out(shared.output, pointer<std::uint8_t>(part.target), part.target_bytes, lanes);
  lanes.once_alone([&] {
    const auto* const source = pointer<const std::uint8_t>(part.source);
    shared.hold = 0;
    shared.held = shared.at = shared.made = shared.last_begin = shared.last_length = 0;
    shared.width = 9;
    shared.next = kLzwFirst;
    // The old kind begins with a clear code in the other bit order.
    shared.old = part.source_bytes >= 2 && source[0] == 0 && (source[1] & 1) != 0 ? 1 : 0;
  });
  chunk_status status = chunk_status::ok;
  for (bool more = true; more && status == chunk_status::ok;) {
    lanes.once([&] { read_lzw_batch(part, shared); });
    if (shared.bad != 0) status = chunk_status::corrupt_stream;
    more = shared.more != 0;
    if (status == chunk_status::ok && !append_found(lanes, out, shared, 0)) status = chunk_status::corrupt_match;
  }
  out.finish(lanes);
  if (status == chunk_status::ok && out.room() != 0) status = chunk_status::wrong_size;
  if (status != chunk_status::ok) lanes.once_alone([&] { report(wave.statuses, part.chunk, status); });
}

}  // namespace penstock::inline v0::device
