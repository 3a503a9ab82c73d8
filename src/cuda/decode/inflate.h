#pragma once

// Deflate (RFC 1951) in its three forms: raw, zlib (RFC 1950), gzip (RFC 1952). One lane reads symbols, up to 32
// matches and a buffer of literals at a time; all lanes write them, make the tables of codes, and verify the checksums.

#include "cuda/decode/checksums.h"
#include "cuda/decode/deflate_bits.h"
#include "cuda/decode/deflate_code.h"
#include "cuda/decode/lz_found.h"

namespace penstock::inline v0::device {

inline constexpr int kLengthTableBits = 10, kDistanceTableBits = 8;
inline constexpr std::uint32_t kLiteralBuffer = 1024;

/// The next task of the reading lane. For `length_code` and `codes`, all lanes make the tables.
enum class inflate_phase : std::uint32_t { header, block, stored, length_code, lengths, codes, symbols, trailer };

/// Literals are counted from the start of their buffer; those of stored blocks from the start of the source.
struct inflate_shared : lz_found<std::uint64_t> {
  lz_shared output;
  std::uint16_t length_table[1 << kLengthTableBits];
  std::uint16_t distance_table[1 << kDistanceTableBits];
  deflate_code lengths, distances;
  std::uint8_t code_lengths[320];
  std::uint8_t literal_bytes[kLiteralBuffer];
  // The reading lane's state between batches.
  std::uint32_t at;   ///< in the part, in bytes
  std::uint32_t bit;  ///< within that byte, while bits are read
  std::uint32_t made;
  std::uint32_t member;  ///< offset of the member's content in the target
  std::uint32_t stored_left;
  std::uint32_t length_symbols, distance_symbols;  ///< number of lengths in the block
  inflate_phase phase;
  std::uint32_t last;
  std::uint32_t cut;  ///< 1: the stream has more than the part's size, which is allowed
  std::uint32_t bad;
};

inline constexpr int kLengthCodeBits = 7;  ///< of the code in which the lengths of a block's codes are written

/// Reads the numbers of symbols in a block's codes, and the code in which their lengths are written (RFC 1951, 3.2.7).
PENSTOCK_DEVICE bool read_length_code(deflate_bits& bits, inflate_shared& shared) {
  shared.length_symbols = bits.take(5) + 257;
  shared.distance_symbols = bits.take(5) + 1;
  const std::uint32_t codes = bits.take(4) + 4;
  if (shared.length_symbols > 286 || shared.distance_symbols > 30) return false;
  const std::uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t i = 0; i < 19; ++i)
    shared.code_lengths[order[i]] = static_cast<std::uint8_t>(i < codes ? bits.take(3) : 0);
  return !bits.overrun();
}

/// Reads the code lengths of a block, which are encoded themselves. The table has all codes of that encoding.
PENSTOCK_DEVICE bool read_lengths(deflate_bits& stream, inflate_shared& shared) {
  deflate_bits bits = stream;
  const std::uint32_t symbols = shared.length_symbols + shared.distance_symbols;
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t i = 0; i < symbols;) {
    bits.refill();
    const std::uint32_t entry = shared.distance_table[low_bits(bits.ahead(), kLengthCodeBits)], symbol = entry >> 4;
    if (entry == 0) return false;
    bits.skip(entry & 15);
    if (symbol < 16) {
      shared.code_lengths[i++] = static_cast<std::uint8_t>(symbol);
      continue;
    }
    if (symbol == 16 && i == 0) return false;
    const std::uint8_t repeated = symbol == 16 ? shared.code_lengths[i - 1] : std::uint8_t{0};
    const std::uint32_t count = symbol == 16 ? 3 + bits.take(2) : symbol == 17 ? 3 + bits.take(3) : 11 + bits.take(7);
    if (count > symbols - i) return false;
    for (std::uint32_t k = 0; k < count; ++k) shared.code_lengths[i++] = repeated;
  }
  stream = bits;
  return !bits.overrun() && shared.code_lengths[256] != 0;
}

/// Makes the tables of `phase`, by all lanes; false: damaged. The code of the lengths uses the memory of the distances'
/// code.
PENSTOCK_DEVICE bool build_codes(inflate_shared& shared, inflate_phase phase, warp lanes) {
  const std::uint32_t lengths = shared.length_symbols, distances = shared.distance_symbols;
  const bool of_lengths = phase == inflate_phase::length_code;
  const bool good = of_lengths
                        ? build_deflate_code(shared.code_lengths, 19, deflate_alphabet::numbers, shared.distances,
                                             shared.distance_table, kLengthCodeBits, lanes)
                        : build_deflate_code(shared.code_lengths, lengths, deflate_alphabet::literals_and_lengths,
                                             shared.lengths, shared.length_table, kLengthTableBits, lanes) &&
                              build_deflate_code(shared.code_lengths + lengths, distances, deflate_alphabet::distances,
                                                 shared.distances, shared.distance_table, kDistanceTableBits, lanes);
  lanes.once([&] { shared.phase = of_lengths ? inflate_phase::lengths : inflate_phase::symbols; });
  return good;
}

/// The lengths of the fixed codes, which have no description.
PENSTOCK_DEVICE void set_fixed_lengths(inflate_shared& shared) {
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t i = 0; i < 288; ++i)
    shared.code_lengths[i] = static_cast<std::uint8_t>(i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8);
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t i = 288; i < 320; ++i) shared.code_lengths[i] = 5;
  shared.length_symbols = 288;
  shared.distance_symbols = 32;
}

PENSTOCK_DEVICE std::uint64_t address(const std::uint8_t* at) { return reinterpret_cast<std::uintptr_t>(at); }

/// The sequences of a batch while one lane finds them. Counts are in registers, until `finish` writes them.
class deflate_batch {
 public:
  PENSTOCK_DEVICE deflate_batch(inflate_shared& shared, std::uint32_t room)
      : shared_(&shared), room_(room - shared.made) {}

  PENSTOCK_DEVICE bool full() const { return count_ == kLanes || literals_ == kLiteralBuffer; }
  PENSTOCK_DEVICE std::uint32_t room() const { return room_; }
  /// The number of literals that can be added without further checks.
  PENSTOCK_DEVICE std::uint32_t literals_left() const {
    const std::uint32_t left = kLiteralBuffer - literals_;
    return left < room_ ? left : room_;
  }

  /// Adds one of `literals_left`.
  PENSTOCK_DEVICE void literal(std::uint32_t byte) {
    shared_->literal_bytes[literals_++] = static_cast<std::uint8_t>(byte);
    ++run_;
    --room_;
  }
  /// Adds a match of at most `room` bytes.
  PENSTOCK_DEVICE void match(std::uint32_t length, std::uint32_t distance) {
    room_ -= length;
    close(length, distance, literals_ - run_, run_);
    run_ = 0;
  }
  /// Adds bytes of a stored block, in the source.
  PENSTOCK_DEVICE bool stored(const std::uint8_t* from, std::uint32_t count) {
    if (count > room_) return false;
    end_run();
    if (count_ == kLanes)
      return false;  // the caller checks `full` first, and only calls without literals after the last match
    room_ -= count;
    close(0, 0, address(from) - address(shared_->literal_bytes), count);
    return true;
  }
  /// Literals without a match after them become a sequence.
  PENSTOCK_DEVICE void end_run() {
    if (run_ != 0) close(0, 0, literals_ - run_, run_);
    run_ = 0;
  }
  /// \param room  The value passed to the constructor.
  PENSTOCK_DEVICE void finish(std::uint32_t room) {
    end_run();
    shared_->count = count_;
    shared_->made = room - room_;
  }

 private:
  PENSTOCK_DEVICE void close(std::uint32_t length, std::uint32_t distance, std::uint64_t literals_at,
                             std::uint32_t literals) {
    shared_->literals_at[count_] = literals_at;
    shared_->literals[count_] = literals;
    shared_->match[count_] = length;
    shared_->offset[count_] = distance;
    ++count_;
  }

  inflate_shared* shared_;
  std::uint32_t room_;
  std::uint32_t count_ = 0, literals_ = 0, run_ = 0;
};

/// Ends reading a stream that has more than the part's size.
PENSTOCK_DEVICE bool cut_off(inflate_shared& shared) {
  shared.cut = 1;
  shared.phase = inflate_phase::trailer;
  return true;
}

/// Reads symbols until the block or the batch ends; false: damaged. `or_more`: content beyond the part's size is
/// ignored.
PENSTOCK_DEVICE bool read_symbols(deflate_bits& stream, deflate_batch& to, inflate_shared& shared, bool or_more) {
  // Copies whose address is never taken, so that they stay in registers.
  deflate_bits bits = stream;
  deflate_batch batch = to;
  bool good = true;
  while (!batch.full()) {
    bits.refill();
    const std::uint32_t ahead = bits.ahead();
    std::uint32_t entry = shared.length_table[low_bits(ahead, kLengthTableBits)];
    if (is_literal(entry) && batch.literals_left() >= 3) {
      // Three short codes fit into the prefetched bits. They are looked up before any is checked.
      const std::uint32_t behind_one = ahead >> (entry & 15);
      const std::uint32_t second = shared.length_table[low_bits(behind_one, kLengthTableBits)];
      const std::uint32_t behind_two = behind_one >> (second & 15);
      const std::uint32_t third = shared.length_table[low_bits(behind_two, kLengthTableBits)];
      batch.literal(entry >> 4);
      bits.skip(entry & 15);
      if (!is_literal(second)) continue;
      batch.literal(second >> 4);
      bits.skip(second & 15);
      if (!is_literal(third)) continue;
      batch.literal(third >> 4);
      bits.skip(third & 15);
      continue;
    }
    if (!is_length(entry)) {
      if (entry == 0) entry = long_entry(ahead, shared.lengths, deflate_alphabet::literals_and_lengths);
      good = entry != 0;
      if (is_literal(entry)) {
        bits.skip(entry & 15);
        if (batch.room() != 0) {
          batch.literal(entry >> 4);
          continue;
        }
        good = or_more && !bits.overrun() && cut_off(shared);
        break;
      }
      if (!is_length(entry)) {
        bits.skip(entry & 15);
        good = (entry & kEndOfBlock) == kEndOfBlock;
        if (good) shared.phase = shared.last != 0 ? inflate_phase::trailer : inflate_phase::block;
        break;
      }
    }
    // Both codes and their extra bits are within the next 64 bits, and usually within 32: one refill for a match.
    const deflate_value length = length_of(entry, ahead);
    const std::uint32_t behind = bits.ahead_of(length.bits);
    const std::uint32_t place = shared.distance_table[low_bits(behind, kDistanceTableBits)];
    deflate_value distance = distance_of(place, behind);
    bits.skip(length.bits);
    if (place == 0 || distance.value > kMostDistance || length.value > batch.room() ||
        length.bits + distance.bits > 32) {
      bits.refill();
      if (place == 0) {
        const std::uint32_t found = long_entry(behind, shared.distances, deflate_alphabet::distances);
        distance = distance_of(found, behind);
        good = found != 0;
      }
      bits.skip(distance.bits);
      good = good && distance.value <= kMostDistance;
      if (!good) break;
      if (length.value > batch.room()) {
        good = or_more && !bits.overrun();
        if (!good) break;
        if (batch.room() != 0) batch.match(batch.room(), distance.value);
        cut_off(shared);
        break;
      }
    } else {
      bits.skip(distance.bits);
    }
    PENSTOCK_COUNT(matches, 1);
    PENSTOCK_COUNT(wide_matches, length.bits + distance.bits > 32 ? 1 : 0);
    batch.match(length.value, distance.value);
  }
  stream = bits;
  to = batch;
  return good && !bits.overrun();
}

/// Whole bytes of a part.
struct deflate_bytes {
  byte_view view;
  std::uint32_t at;

  PENSTOCK_DEVICE std::uint32_t left() const { return view.size - at; }
  PENSTOCK_DEVICE std::uint32_t byte() { return view.begin[at++]; }
};

/// Skips a zlib or gzip header; false: damaged.
PENSTOCK_DEVICE_CALL bool skip_header(deflate_bytes& bytes, deflate_format format) {
  if (format == deflate_format::raw) return true;
  if (format == deflate_format::zlib || format == deflate_format::zlib_or_more) {
    if (bytes.left() < 2) return false;
    const std::uint32_t method = bytes.byte(), flags = bytes.byte();
    return (method & 15) == 8 && method >> 4 <= 7 && (method << 8 | flags) % 31 == 0 && (flags & 32) == 0;
  }
  if (bytes.left() < 10) return false;
  if (bytes.byte() != 0x1f || bytes.byte() != 0x8b || bytes.byte() != 8) return false;
  const std::uint32_t flags = bytes.byte();
  if ((flags & 0xe0) != 0) return false;
  bytes.at += 6;
  if ((flags & 4) != 0) {
    if (bytes.left() < 2) return false;
    std::uint32_t extra = bytes.byte();
    extra |= bytes.byte() << 8;
    if (extra > bytes.left()) return false;
    bytes.at += extra;
  }
  for (std::uint32_t text = 8; text <= 16; text *= 2) {  // a name, a comment: up to a zero
    if ((flags & text) == 0) continue;
    do {
      if (bytes.left() == 0) return false;
    } while (bytes.byte() != 0);
  }
  if ((flags & 2) != 0) {
    if (bytes.left() < 2) return false;
    bytes.at += 2;
  }
  return true;
}

/// Reads a block's header; false: damaged.
PENSTOCK_DEVICE bool read_block_header(deflate_bits& bits, inflate_shared& shared) {
  shared.last = bits.take(1);
  const std::uint32_t type = bits.take(2);
  if (bits.overrun() || type == 3) return false;
  if (type == 1) {
    set_fixed_lengths(shared);
    shared.phase = inflate_phase::codes;
    return true;
  }
  if (type == 2) {
    shared.phase = inflate_phase::length_code;
    return read_length_code(bits, shared);
  }
  bits.to_byte();
  const std::uint32_t length = bits.take(16), check = bits.take(16);
  if (bits.overrun()) return false;
  shared.stored_left = length;
  shared.phase = inflate_phase::stored;
  return (length ^ check) == 0xffffu;
}

PENSTOCK_DEVICE bool is_for_all(inflate_phase phase) {
  return phase == inflate_phase::length_code || phase == inflate_phase::codes;
}

/// Fills a batch in the reading lane: up to a trailer or to tables, or as much as fits.
PENSTOCK_DEVICE void read_inflate_batch(const decode_part& part, inflate_shared& shared) {
  const byte_view source{pointer<const std::uint8_t>(part.source), part.source_bytes};
  const auto format = static_cast<deflate_format>(part.parameter);
  const bool or_more = format == deflate_format::zlib_or_more;
  bool good = true;
  if (shared.phase == inflate_phase::header) {
    deflate_bytes header{source, shared.at};
    good = skip_header(header, format);
    shared.at = header.at;
    shared.phase = inflate_phase::block;
  }
  deflate_bits bits(source, shared.at, &part);
  bits.skip(shared.bit);
  deflate_batch batch(shared, part.target_bytes);
  while (good && !batch.full() && shared.phase != inflate_phase::trailer && !is_for_all(shared.phase)) {
    switch (shared.phase) {
      case inflate_phase::block:
        good = read_block_header(bits, shared);
        break;
      case inflate_phase::lengths:
        good = read_lengths(bits, shared);
        shared.phase = inflate_phase::codes;
        break;
      case inflate_phase::symbols:
        good = read_symbols(bits, batch, shared, or_more);
        break;
      case inflate_phase::stored: {
        batch.end_run();
        if (batch.full()) break;
        const std::uint32_t at = bits.byte(), left = source.size - at, count = shared.stored_left;
        if (or_more && count > batch.room() && count <= left) {
          good = batch.stored(source.begin + at, batch.room()) && cut_off(shared);
          break;
        }
        good = count <= left && batch.stored(source.begin + at, count);
        if (good) bits.seek(at + count);
        shared.phase = shared.last != 0 ? inflate_phase::trailer : inflate_phase::block;
        break;
      }
      default:
        good = false;
    }
  }
  if (!good) shared.bad = 1;
  batch.finish(part.target_bytes);
  if (shared.phase == inflate_phase::trailer) bits.to_byte();
  shared.at = bits.byte();
  shared.bit = bits.bit();
}

PENSTOCK_DEVICE std::uint32_t reversed_bytes(std::uint32_t x) {
  return x >> 24 | (x >> 8 & 0xff00u) | (x << 8 & 0xff0000u) | x << 24;
}

/// Whether all bytes are 0.
PENSTOCK_DEVICE bool all_zero(byte_view bytes, warp lanes) {
  per_lane<bool> other;
  lanes.each_alone([&](int lane) {
    other[lane] = false;
    PENSTOCK_SMALL_LOOP
    for (auto i = static_cast<std::uint32_t>(lane); i < bytes.size; i += kLanes)
      other[lane] = other[lane] || bytes.begin[i] != 0;
  });
  return lanes.ballot(other) == 0;
}

/// Checks a member's trailer, at `shared.at`, and skips it; `more`: another member follows. Returns the status.
PENSTOCK_DEVICE chunk_status check_trailer(const decode_part& part, inflate_shared& shared, bool& more, warp lanes) {
  const auto format = static_cast<deflate_format>(part.parameter);
  const std::uint32_t at = shared.at, made = shared.made, member = shared.member;
  lanes.sync();
  more = false;
  if (shared.cut != 0) return chunk_status::ok;
  const std::uint32_t bytes = format == deflate_format::raw ? 0 : format == deflate_format::gzip ? 8 : 4;
  if (part.source_bytes - at < bytes) return chunk_status::corrupt_stream;
  const auto* const trailer = pointer<const std::uint8_t>(part.source) + at;
  const byte_view content{pointer<const std::uint8_t>(part.target) + member, made - member};
  bool right = true;
  if (format == deflate_format::zlib || format == deflate_format::zlib_or_more)
    right = reversed_bytes(load_bytes(trailer, 4)) == adler_by_warp(content, lanes);
  if (format == deflate_format::gzip)
    right = load_bytes(trailer, 4) == crc_by_warp(content, kCrc32, lanes) && load_bytes(trailer + 4, 4) == content.size;
  const std::uint32_t left = part.source_bytes - at - bytes;
  // Only gzip has several members; zeros may follow the last.
  more = left != 0 && format == deflate_format::gzip && !all_zero({trailer + bytes, left}, lanes);
  const bool ends = left == 0 || format == deflate_format::gzip || format == deflate_format::zlib_or_more;
  lanes.once_alone([&] {
    shared.at = at + bytes;
    shared.bit = 0;
    shared.member = made;
    shared.phase = inflate_phase::header;
  });
  return !right ? chunk_status::wrong_checksum : ends ? chunk_status::ok : chunk_status::corrupt_stream;
}

/// The work of one warp: the part with index `turn` in the wave's order.
PENSTOCK_DEVICE void inflate_warp(const part_wave& wave, std::uint32_t turn, inflate_shared& shared, warp lanes) {
  const decode_part& part = pointer<const decode_part>(wave.parts)[pointer<const std::uint32_t>(wave.order)[turn]];
  lz_output out(shared.output, pointer<std::uint8_t>(part.target), part.target_bytes, lanes);
  lanes.once_alone([&] {
    shared.at = shared.bit = shared.made = shared.member = shared.stored_left = shared.last = shared.cut = shared.bad =
        0;
    shared.phase = inflate_phase::header;
  });
  chunk_status status = chunk_status::ok;
  for (bool more = true; more && status == chunk_status::ok;) {
    lanes.once([&] { read_inflate_batch(part, shared); });
    if (shared.bad != 0) status = chunk_status::corrupt_stream;
    const inflate_phase phase = shared.phase;
    const bool at_trailer = phase == inflate_phase::trailer;
    if (status == chunk_status::ok && !append_found(lanes, out, shared, address(shared.literal_bytes)))
      status = chunk_status::corrupt_match;
    if (status == chunk_status::ok && is_for_all(phase) && !build_codes(shared, phase, lanes))
      status = chunk_status::corrupt_stream;
    if (status != chunk_status::ok || !at_trailer) continue;
    out.finish(lanes);
    out.begin_frame();
    status = check_trailer(part, shared, more, lanes);
  }
  out.finish(lanes);
  if (status == chunk_status::ok && out.room() != 0) status = chunk_status::wrong_size;
  if (status != chunk_status::ok) lanes.once_alone([&] { report(wave.statuses, part.chunk, status); });
}

}  // namespace penstock::inline v0::device
