#pragma once

// A compressed block (RFC 8878, 3.1.1.3): matches are found, the literals between them are collected, and both sections
// are written. A block can be encoded without those before it: matches are searched in their content, and of the repeat
// offsets it uses only those that it set itself.

#include "cuda/encode/match_search.h"
#include "cuda/encode/zstd_encode_literals.h"
#include "cuda/encode/zstd_encode_sequences.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kMostEncodedSequences = kMostBlockBytes / kLeastMatchSearched;
static_assert(kMostEncodedSequences < 0x7f00);  // which would need a third byte

/// Global memory that a warp needs to encode a block; at a multiple of 8.
struct zstd_encode_workspace {
  packed_sequence sequences[kMostEncodedSequences];
  std::uint8_t literals[kMostBlockBytes];
};

/// Shared memory that a warp needs: for one step at a time.
union zstd_encode_block_shared {
  match_table matches;
  zstd_encode_literals_shared literals;
  zstd_encode_sequences_shared sequences;
};

/// The three repeat offsets (RFC 8878, 3.1.1.5); 0: not known, as at the start of a block that is not the first of its
/// frame.
class repeat_memory {
 public:
  PENSTOCK_DEVICE explicit repeat_memory(bool frame_start)
      : first_(frame_start ? 1 : 0), second_(frame_start ? 4 : 0), third_(frame_start ? 8 : 0) {}

  PENSTOCK_DEVICE std::uint32_t last() const { return first_; }

  /// The offset value of a sequence with `offset`, which is recorded.
  PENSTOCK_DEVICE std::uint32_t value_of(std::uint32_t offset, bool no_literals) {
    std::uint32_t value = offset + 3;
    if (offset == first_ && !no_literals) return 1;
    if (offset == second_) {
      value = no_literals ? 1 : 2;
    } else {
      if (offset == third_) value = no_literals ? 2 : 3;
      if (offset != third_ && no_literals && offset + 1 == first_) value = 3;
      third_ = second_;
    }
    second_ = first_;
    first_ = offset;
    return value;
  }

 private:
  std::uint32_t first_, second_, third_;
};

/// A range of a frame's content, and the content before it.
struct content_block {
  const std::uint8_t* frame;
  std::uint32_t begin, size;  ///< in bytes
};

/// Finds the sequences of a block. Returns their number; `literal_bytes` receives the number of literals.
PENSTOCK_DEVICE std::uint32_t find_sequences(const content_block& block, zstd_encode_workspace& workspace,
                                             std::uint32_t& literal_bytes, match_table& table, warp lanes) {
  const std::uint32_t history = block.begin < kMatchHistory ? block.begin : kMatchHistory;
  const std::uint8_t* const from = block.frame + block.begin - history;
  const std::uint32_t end = history + block.size;
  match_search search(from, history, end < kLeastMatchSearched ? 0 : end - kLeastMatchSearched + 1, end, end, table,
                      lanes);
  repeat_memory repeats(block.begin == 0);
  byte_writer literals(workspace.literals, kMostBlockBytes);
  std::uint32_t begin = history, count = 0;
  for (;;) {
    const found_match match = search.next(repeats.last(), lanes);
    literals.copy(from + begin, match.at - begin, lanes);
    if (match.length == 0) break;
    const std::uint32_t offset_value = repeats.value_of(match.at - match.place, match.at == begin);
    lanes.once_alone(
        [&] { workspace.sequences[count] = packed_sequence::of(match.at - begin, match.length, offset_value); });
    ++count;
    begin = match.at + match.length;
  }
  literal_bytes = literals.size();
  return count;
}

/// Writes a block's content to `out`. `out.fits()` is false afterwards if there was no room.
PENSTOCK_DEVICE void encode_zstd_block(const content_block& block, zstd_encode_workspace& workspace,
                                       zstd_encode_block_shared& shared, byte_writer& out, warp lanes) {
  std::uint32_t literal_bytes = 0;
  const std::uint32_t count = find_sequences(block, workspace, literal_bytes, shared.matches, lanes);
  write_literals(workspace.literals, literal_bytes, shared.literals, out, lanes);
  lanes.sync();  // all lanes have read the input of a code; the next step overwrites it
  if (out.fits()) write_sequences(workspace.sequences, count, shared.sequences, out, lanes);
}

}  // namespace penstock::inline v0::device
