#pragma once

// Deflate (RFC 1951) in its three wrappings: raw, zlib (RFC 1950), gzip (RFC 1952). One lane reads symbols, up to 32
// matches and a buffer of literals at a time; all lanes put them together, make the tables of codes, and check the
// sums.

#include "cuda/decode/checksums.h"
#include "cuda/decode/lz_found.h"

namespace penstock::inline v0::device {

inline constexpr int kLengthTableBits = 10, kDistanceTableBits = 8, kMostCodeBits = 15;
inline constexpr std::uint32_t kLiteralBuffer = 1024;

/// A Huffman code: a table for its short codes (symbol above 4 bits of length; 0: a longer one or none), and for the
/// others how many there are of each length, and the symbols in the codes' order.
struct deflate_code {
  std::uint16_t counts[kMostCodeBits + 1];
  std::uint16_t symbols[288];
};

/// What the reading lane does next; but `length_code` and `codes` are made by all lanes.
enum class inflate_phase : std::uint32_t { header, block, stored, length_code, lengths, codes, symbols, trailer };

struct inflate_shared : lz_found<std::uint64_t> {
  lz_shared output;
  std::uint16_t length_table[1 << kLengthTableBits];
  std::uint16_t distance_table[1 << kDistanceTableBits];
  deflate_code lengths, distances;
  std::uint8_t code_lengths[320];
  std::uint8_t literal_bytes[kLiteralBuffer];
  // The reading lane's state between batches.
  std::uint64_t hold;
  std::int32_t held;
  std::uint32_t at;
  std::uint32_t made;
  std::uint32_t member;  ///< where the member's content starts in the target
  std::uint32_t stored_left;
  std::uint32_t length_symbols, distance_symbols;  ///< that the block has lengths for
  inflate_phase phase;
  std::uint32_t last;
  std::uint32_t cut;  ///< 1: the stream has more than the part, and that may be
  std::uint32_t bad;
};

/// Reads bits of a part forwards; zeros behind its end, and `held` below 0 when those were taken. The next word is
/// loaded before it is needed.
class deflate_bits {
 public:
  PENSTOCK_DEVICE deflate_bits(byte_view view, const inflate_shared& shared)
      : view_(view), hold_(shared.hold), held_(shared.held), at_(shared.at) {
    to_bits();
  }

  PENSTOCK_DEVICE void save(inflate_shared& shared) const {
    shared.hold = hold_;
    shared.held = held_;
    shared.at = position();
  }

  /// At least 32 bits, or all that are left.
  PENSTOCK_DEVICE void refill() {
    if (held_ > 32 || next_bits_ == 0) return;
    hold_ |= static_cast<std::uint64_t>(next_) << held_;
    held_ += next_bits_;
    load();
  }

  PENSTOCK_DEVICE std::uint32_t peek(int count) const {
    return static_cast<std::uint32_t>(hold_) & ((1u << count) - 1);
  }
  PENSTOCK_DEVICE void skip(int count) {
    hold_ >>= count;
    held_ -= count;
  }
  /// 0 to 16 bits, after a refill.
  PENSTOCK_DEVICE std::uint32_t take(int count) {
    const std::uint32_t value = peek(count);
    skip(count);
    return value;
  }
  PENSTOCK_DEVICE bool overrun() const { return held_ < 0; }

  /// Drops bits up to a whole byte, and gives back the bytes that are held: reading goes on at `position`.
  PENSTOCK_DEVICE void to_bytes() {
    at_ = position() - static_cast<std::uint32_t>(held_ / 8);
    next_bits_ = 0;
    hold_ = 0;
    held_ = 0;
  }
  PENSTOCK_DEVICE std::uint32_t position() const { return at_ - static_cast<std::uint32_t>(next_bits_ / 8); }
  /// Goes on with bits, behind whole bytes: takes those in front of the next aligned word.
  PENSTOCK_DEVICE void to_bits() {
    const std::uint32_t ahead = (4 - misalignment(view_.begin + at_, 4)) & 3u;
    const std::uint32_t count = ahead < left() ? ahead : left();
    if (count != 0) hold_ |= static_cast<std::uint64_t>(load_bytes(view_.begin + at_, count)) << held_;
    held_ += static_cast<std::int32_t>(8 * count);
    at_ += count;
    load();
  }
  // Of whole bytes, behind `to_bytes`.
  PENSTOCK_DEVICE void move(std::uint32_t count) { at_ += count; }
  PENSTOCK_DEVICE std::uint32_t left() const { return view_.size - at_; }
  PENSTOCK_DEVICE std::uint32_t byte() { return view_.begin[at_++]; }
  PENSTOCK_DEVICE const std::uint8_t* here() const { return view_.begin + at_; }

 private:
  /// The next word, which is aligned; of the last, what the part has.
  PENSTOCK_DEVICE void load() {
    const std::uint32_t left = view_.size - at_, count = left < 4 ? left : 4;
    next_ = count == 4 ? load_word(view_.begin + at_) : load_bytes(view_.begin + at_, count);
    next_bits_ = static_cast<std::int32_t>(8 * count);
    at_ += count;
  }

  byte_view view_;
  std::uint64_t hold_;
  std::int32_t held_;
  std::uint32_t at_;        ///< behind what is loaded
  std::uint32_t next_ = 0;  ///< loaded, and not yet in `hold_`
  std::int32_t next_bits_ = 0;
};

/// Makes a code from the lengths of its symbols, 0 to 15 each, by all lanes; false when they make no prefix code. One
/// symbol of one bit may stand alone, and a code may be empty where `may_be_empty`.
PENSTOCK_DEVICE bool build_deflate_code(const std::uint8_t* lengths, std::uint32_t symbols, bool may_be_empty,
                                        deflate_code& code, std::uint16_t* table, int table_bits, warp lanes) {
  const auto length_of = [&](std::uint32_t group, int lane) -> std::uint32_t {
    const std::uint32_t symbol = group + static_cast<std::uint32_t>(lane);
    return symbol < symbols ? lengths[symbol] : 0;
  };
  // In lane i: how many symbols have length i, then the first of their codes, and its place among all symbols.
  per_lane<std::uint32_t> counts, firsts, places, mine;
  per_lane<bool> same;
  lanes.each([&](int lane) {
    counts[lane] = firsts[lane] = places[lane] = 0;
    PENSTOCK_SMALL_LOOP
    for (auto i = static_cast<std::uint32_t>(lane); i < (1u << table_bits); i += kLanes) table[i] = 0;
  });
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t group = 0; group < symbols; group += kLanes) {
    lanes.each_alone([&](int lane) { mine[lane] = length_of(group, lane); });
    PENSTOCK_SMALL_LOOP
    for (int length = 1; length <= kMostCodeBits; ++length) {
      lanes.each_alone([&](int lane) { same[lane] = mine[lane] == static_cast<std::uint32_t>(length); });
      const std::uint32_t found = bit_count(lanes.ballot(same));
      lanes.each_alone([&](int lane) { counts[lane] += lane == length ? found : 0; });
    }
  }
  std::int32_t space = 1;
  std::uint32_t used = 0, next = 0;
  PENSTOCK_SMALL_LOOP
  for (int length = 1; length <= kMostCodeBits; ++length) {
    const std::uint32_t count = lanes.from(counts, length);
    next <<= 1;
    lanes.each_alone([&](int lane) {
      if (lane != length) return;
      firsts[lane] = next;
      places[lane] = used;
    });
    next += count;
    used += count;
    space = 2 * space - static_cast<std::int32_t>(count);
    if (space < 0) return false;
  }
  if (used == 0 && !may_be_empty) return false;
  if (space != 0 && !(used == 0 || (used == 1 && lanes.from(counts, 1) == 1))) return false;
  // Symbols of one length have codes one behind the other. Streams hold codes from their highest bit, so tables are
  // indexed by them reversed.
  lanes.each_alone([&](int lane) {
    if (lane <= kMostCodeBits) code.counts[lane] = static_cast<std::uint16_t>(counts[lane]);
  });
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t group = 0; group < symbols; group += kLanes) {
    per_lane<int> which;
    per_lane<std::uint32_t> rank;
    lanes.each_alone([&](int lane) {
      mine[lane] = length_of(group, lane);
      which[lane] = static_cast<int>(mine[lane]);
      rank[lane] = 0;
    });
    const per_lane<std::uint32_t> first = lanes.pick(firsts, which), place = lanes.pick(places, which);
    PENSTOCK_SMALL_LOOP
    for (int length = 1; length <= kMostCodeBits; ++length) {
      lanes.each_alone([&](int lane) { same[lane] = mine[lane] == static_cast<std::uint32_t>(length); });
      const std::uint32_t found = lanes.ballot(same);
      lanes.each_alone([&](int lane) {
        if (same[lane]) rank[lane] = bit_count(found & ((1u << lane) - 1));
        if (lane != length) return;
        firsts[lane] += bit_count(found);
        places[lane] += bit_count(found);
      });
    }
    lanes.each_alone([&](int lane) {
      const int length = which[lane];
      if (length == 0) return;
      const std::uint32_t symbol = group + static_cast<std::uint32_t>(lane);
      code.symbols[place[lane] + rank[lane]] = static_cast<std::uint16_t>(symbol);
      if (length > table_bits) return;
      const auto entry = static_cast<std::uint16_t>(symbol << 4 | static_cast<std::uint32_t>(length));
      PENSTOCK_SMALL_LOOP
      for (std::uint32_t at = reversed_bits(first[lane] + rank[lane]) >> (32 - length); at < (1u << table_bits);
           at += 1u << length)
        table[at] = entry;
    });
  }
  return true;  // the caller's next barrier makes the tables seen
}

/// The next symbol; 0xffff when no code has these bits. At least 15 bits are held, or all that are left.
PENSTOCK_DEVICE std::uint32_t next_symbol(deflate_bits& bits, const deflate_code& code, const std::uint16_t* table,
                                          int table_bits) {
  const std::uint32_t entry = table[bits.peek(table_bits)];
  if (entry != 0) {
    bits.skip(static_cast<int>(entry & 15));
    return entry >> 4;
  }
  const std::uint32_t ahead = bits.peek(kMostCodeBits);
  std::int32_t value = 0, first = 0, index = 0;
  PENSTOCK_SMALL_LOOP
  for (int length = 1; length <= kMostCodeBits; ++length) {
    value |= static_cast<std::int32_t>(ahead >> (length - 1) & 1);
    const std::int32_t count = code.counts[length];
    if (value - count < first) {
      bits.skip(length);
      return code.symbols[index + (value - first)];
    }
    index += count;
    first = (first + count) << 1;
    value <<= 1;
  }
  return 0xffffu;
}

inline constexpr int kLengthCodeBits = 7;  ///< of the code that the lengths of a block's codes are written in

/// Reads how many symbols a block's codes have, and the code that their lengths are written in (RFC 1951, 3.2.7).
PENSTOCK_DEVICE bool read_length_code(deflate_bits& bits, inflate_shared& shared) {
  bits.refill();
  shared.length_symbols = bits.take(5) + 257;
  shared.distance_symbols = bits.take(5) + 1;
  const std::uint32_t codes = bits.take(4) + 4;
  if (shared.length_symbols > 286 || shared.distance_symbols > 30) return false;
  const std::uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t i = 0; i < 19; ++i) {
    bits.refill();
    shared.code_lengths[order[i]] = static_cast<std::uint8_t>(i < codes ? bits.take(3) : 0);
  }
  return !bits.overrun();
}

/// Reads the lengths of a block's codes.
PENSTOCK_DEVICE bool read_lengths(deflate_bits& bits, inflate_shared& shared) {
  const std::uint32_t symbols = shared.length_symbols + shared.distance_symbols;
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t i = 0; i < symbols;) {
    bits.refill();
    const std::uint32_t symbol = next_symbol(bits, shared.distances, shared.distance_table, kLengthCodeBits);
    if (symbol > 18 || bits.overrun()) return false;
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
  return !bits.overrun() && shared.code_lengths[256] != 0;
}

/// Makes the tables of `phase`, by all lanes; false: damaged. The code of the lengths lies where the distances' will
/// be.
PENSTOCK_DEVICE bool build_codes(inflate_shared& shared, inflate_phase phase, warp lanes) {
  const std::uint32_t lengths = shared.length_symbols, distances = shared.distance_symbols;
  const bool of_lengths = phase == inflate_phase::length_code;
  const bool good = of_lengths
                        ? build_deflate_code(shared.code_lengths, 19, false, shared.distances, shared.distance_table,
                                             kLengthCodeBits, lanes)
                        : build_deflate_code(shared.code_lengths, lengths, false, shared.lengths, shared.length_table,
                                             kLengthTableBits, lanes) &&
                              build_deflate_code(shared.code_lengths + lengths, distances, true, shared.distances,
                                                 shared.distance_table, kDistanceTableBits, lanes);
  lanes.once([&] { shared.phase = of_lengths ? inflate_phase::lengths : inflate_phase::symbols; });
  return good;
}

/// The lengths of the codes that need no description.
PENSTOCK_DEVICE void set_fixed_lengths(inflate_shared& shared) {
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t i = 0; i < 288; ++i)
    shared.code_lengths[i] = static_cast<std::uint8_t>(i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8);
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t i = 288; i < 320; ++i) shared.code_lengths[i] = 5;
  shared.length_symbols = 288;
  shared.distance_symbols = 32;
}

/// The sequences of a batch while one lane finds them. Counts are kept in registers, and written by `finish`.
class deflate_batch {
 public:
  PENSTOCK_DEVICE deflate_batch(inflate_shared& shared, std::uint32_t room)
      : shared_(&shared), room_(room - shared.made) {}

  PENSTOCK_DEVICE bool full() const { return count_ == kLanes || literals_ == kLiteralBuffer; }
  PENSTOCK_DEVICE std::uint32_t room() const { return room_; }
  /// How many literals are taken without a look at anything.
  PENSTOCK_DEVICE std::uint32_t literals_left() const {
    const std::uint32_t left = kLiteralBuffer - literals_;
    return left < room_ ? left : room_;
  }

  /// One of `literals_left`.
  PENSTOCK_DEVICE void literal(std::uint32_t byte) {
    shared_->literal_bytes[literals_++] = static_cast<std::uint8_t>(byte);
    ++run_;
    --room_;
  }
  /// Of at most `room`.
  PENSTOCK_DEVICE void match(std::uint32_t length, std::uint32_t distance) {
    room_ -= length;
    close(length, distance, address(shared_->literal_bytes + literals_ - run_), run_);
    run_ = 0;
  }
  /// Bytes of a stored block, in the source.
  PENSTOCK_DEVICE bool stored(const std::uint8_t* from, std::uint32_t count) {
    if (count > room_) return false;
    end_run();
    if (count_ == kLanes)
      return false;  // the caller asks `full` first, and calls with no literals behind the last match
    room_ -= count;
    close(0, 0, address(from), count);
    return true;
  }
  /// Literals that no match follows become a sequence.
  PENSTOCK_DEVICE void end_run() {
    if (run_ != 0) close(0, 0, address(shared_->literal_bytes + literals_ - run_), run_);
    run_ = 0;
  }
  /// \param room  As the constructor had it.
  PENSTOCK_DEVICE void finish(std::uint32_t room) {
    end_run();
    shared_->count = count_;
    shared_->made = room - room_;
  }

 private:
  PENSTOCK_DEVICE static std::uint64_t address(const std::uint8_t* at) { return reinterpret_cast<std::uintptr_t>(at); }
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

/// Ends the reading of a stream that has more than the part.
PENSTOCK_DEVICE bool cut_off(inflate_shared& shared) {
  shared.cut = 1;
  shared.phase = inflate_phase::trailer;
  return true;
}

/// Whether a table's entry is a literal with a short code.
PENSTOCK_DEVICE bool is_literal(std::uint32_t entry) { return entry - 1 < (256u << 4) - 1; }

/// Reads symbols until the block or the batch ends; false: damaged. `or_more`: what the part has no room for is left
/// out.
PENSTOCK_DEVICE bool read_symbols(deflate_bits& stream, deflate_batch& to, inflate_shared& shared, bool or_more) {
  // Copies, of which nobody has the address: they stay in registers.
  deflate_bits bits = stream;
  deflate_batch batch = to;
  bool good = true;
  while (!batch.full()) {
    bits.refill();
    const std::uint32_t entry = shared.length_table[bits.peek(kLengthTableBits)];
    if (is_literal(entry) && batch.literals_left() >= 3) {
      // Three literals often have short codes, which fit into a refill. They are looked up before any is asked.
      deflate_bits ahead = bits;
      ahead.skip(static_cast<int>(entry & 15));
      const std::uint32_t second = shared.length_table[ahead.peek(kLengthTableBits)];
      ahead.skip(static_cast<int>(second & 15));
      const std::uint32_t third = shared.length_table[ahead.peek(kLengthTableBits)];
      batch.literal(entry >> 4);
      if (is_literal(second) && is_literal(third)) {
        batch.literal(second >> 4);
        batch.literal(third >> 4);
        ahead.skip(static_cast<int>(third & 15));
        bits = ahead;
      } else {
        bits.skip(static_cast<int>(entry & 15));
      }
      continue;
    }
    const std::uint32_t symbol = next_symbol(bits, shared.lengths, shared.length_table, kLengthTableBits);
    if (symbol < 256) {
      if (batch.room() == 0) {
        good = or_more && !bits.overrun() && cut_off(shared);
        break;
      }
      batch.literal(symbol);
      continue;
    }
    if (symbol == 256 || symbol > 285) {
      good = symbol == 256;
      if (good) shared.phase = shared.last != 0 ? inflate_phase::trailer : inflate_phase::block;
      break;
    }
    // Lengths and distances double every four and every two symbols (RFC 1951, 3.2.5).
    const std::uint32_t step = symbol - 257, extra = step < 8 || step == 28 ? 0 : (step >> 2) - 1;
    std::uint32_t length = ((step < 4 ? step : 4 | (step & 3)) << extra) + 3 + bits.take(static_cast<int>(extra));
    if (step == 28) length = 258;
    bits.refill();
    const std::uint32_t code = next_symbol(bits, shared.distances, shared.distance_table, kDistanceTableBits);
    const std::uint32_t more = code < 4 || code > 29 ? 0 : (code >> 1) - 1;
    const std::uint32_t distance = ((code < 2 ? code : 2 | (code & 1)) << more) + 1 + bits.take(static_cast<int>(more));
    good = code <= 29 && !bits.overrun();
    if (good && length <= batch.room()) {
      batch.match(length, distance);
      continue;
    }
    // No room for all of it.
    good = good && or_more;
    if (!good) break;
    if (batch.room() != 0) batch.match(batch.room(), distance);
    cut_off(shared);
    break;
  }
  stream = bits;
  to = batch;
  return good && !bits.overrun();
}

/// Skips a zlib or gzip header; false: damaged. The reader stands on whole bytes.
PENSTOCK_DEVICE_CALL bool skip_header(deflate_bits& bits, deflate_format format) {
  if (format == deflate_format::raw) return true;
  if (format == deflate_format::zlib || format == deflate_format::zlib_or_more) {
    if (bits.left() < 2) return false;
    const std::uint32_t method = bits.byte(), flags = bits.byte();
    return (method & 15) == 8 && method >> 4 <= 7 && (method << 8 | flags) % 31 == 0 && (flags & 32) == 0;
  }
  if (bits.left() < 10) return false;
  if (bits.byte() != 0x1f || bits.byte() != 0x8b || bits.byte() != 8) return false;
  const std::uint32_t flags = bits.byte();
  if ((flags & 0xe0) != 0) return false;
  bits.move(6);
  if ((flags & 4) != 0) {
    if (bits.left() < 2) return false;
    std::uint32_t extra = bits.byte();
    extra |= bits.byte() << 8;
    if (extra > bits.left()) return false;
    bits.move(extra);
  }
  for (std::uint32_t text = 8; text <= 16; text *= 2) {  // a name, a comment: up to a zero
    if ((flags & text) == 0) continue;
    do {
      if (bits.left() == 0) return false;
    } while (bits.byte() != 0);
  }
  if ((flags & 2) != 0) {
    if (bits.left() < 2) return false;
    bits.move(2);
  }
  return true;
}

/// Reads a block's header; false: damaged.
PENSTOCK_DEVICE bool read_block_header(deflate_bits& bits, inflate_shared& shared) {
  bits.refill();
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
  bits.to_bytes();
  if (bits.left() < 4) return false;
  std::uint32_t length = bits.byte();
  length |= bits.byte() << 8;
  std::uint32_t check = bits.byte();
  check |= bits.byte() << 8;
  shared.stored_left = length;
  shared.phase = inflate_phase::stored;
  return (length ^ check) == 0xffffu;
}

PENSTOCK_DEVICE bool is_for_all(inflate_phase phase) {
  return phase == inflate_phase::length_code || phase == inflate_phase::codes;
}

/// What the reading lane does for a batch: up to a trailer or to tables, or as much as fits.
PENSTOCK_DEVICE void read_inflate_batch(const decode_part& part, inflate_shared& shared) {
  deflate_bits bits({pointer<const std::uint8_t>(part.source), part.source_bytes}, shared);
  deflate_batch batch(shared, part.target_bytes);
  bool good = true;
  const bool or_more = static_cast<deflate_format>(part.parameter) == deflate_format::zlib_or_more;
  while (good && !batch.full() && shared.phase != inflate_phase::trailer && !is_for_all(shared.phase)) {
    switch (shared.phase) {
      case inflate_phase::header:
        bits.to_bytes();
        good = skip_header(bits, static_cast<deflate_format>(part.parameter));
        bits.to_bits();
        shared.phase = inflate_phase::block;
        break;
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
        bits.to_bytes();
        const std::uint32_t count = shared.stored_left;
        if (or_more && count > batch.room() && count <= bits.left()) {
          good = batch.stored(bits.here(), batch.room()) && cut_off(shared);
          break;
        }
        good = count <= bits.left() && batch.stored(bits.here(), count);
        if (good) bits.move(count);
        bits.to_bits();
        shared.phase = shared.last != 0 ? inflate_phase::trailer : inflate_phase::block;
        break;
      }
      default:
        good = false;
    }
  }
  if (!good) shared.bad = 1;
  batch.finish(part.target_bytes);
  if (shared.phase == inflate_phase::trailer) bits.to_bytes();
  bits.save(shared);
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

/// Checks a member's trailer, at `shared.at`, and moves on; `more`: another member follows. What is wrong, or ok.
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
    shared.member = made;
    shared.phase = inflate_phase::header;
  });
  return !right ? chunk_status::wrong_checksum : ends ? chunk_status::ok : chunk_status::corrupt_stream;
}

/// What one warp does: the part that is `turn` in the wave's order.
PENSTOCK_DEVICE void inflate_warp(const part_wave& wave, std::uint32_t turn, inflate_shared& shared, warp lanes) {
  const decode_part& part = pointer<const decode_part>(wave.parts)[pointer<const std::uint32_t>(wave.order)[turn]];
  lz_output out(shared.output, pointer<std::uint8_t>(part.target), part.target_bytes, lanes);
  lanes.once_alone([&] {
    shared.hold = 0;
    shared.held = 0;
    shared.at = shared.made = shared.member = shared.stored_left = shared.last = shared.cut = shared.bad = 0;
    shared.phase = inflate_phase::header;
  });
  chunk_status status = chunk_status::ok;
  for (bool more = true; more && status == chunk_status::ok;) {
    lanes.once([&] { read_inflate_batch(part, shared); });
    if (shared.bad != 0) status = chunk_status::corrupt_stream;
    const inflate_phase phase = shared.phase;
    const bool at_trailer = phase == inflate_phase::trailer;
    if (status == chunk_status::ok && !append_found(lanes, out, shared, 0)) status = chunk_status::corrupt_match;
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
