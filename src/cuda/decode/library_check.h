#pragma once

// Runs after another library's decoder: converts its statuses to ours, and verifies the stream's checksum of the
// decoded bytes.

#include "cuda/decode/checksums.h"

namespace penstock::inline v0::device {

/// Converts nvCOMP's status of a stream (nvcompStatus_t). A status that does not concern the stream is the library's
/// failure; so is a status that was never written.
PENSTOCK_DEVICE chunk_status status_of_outcome(std::int32_t outcome) {
  switch (outcome) {
    case 0:
      return chunk_status::ok;
    case 12:  // cannot be decompressed
    case 16:  // wrong length of a header
    case 20:  // wrong length of the input
      return chunk_status::corrupt_stream;
    case 13:
      return chunk_status::wrong_checksum;
    case 15:  // more than the size of the target
      return chunk_status::wrong_size;
    default:
      return chunk_status::library_failed;
  }
}

/// The work of one warp for part `turn`.
PENSTOCK_DEVICE void library_check_warp(const library_wave& wave, std::uint32_t turn, warp lanes) {
  const decode_part& part = pointer<const decode_part>(wave.parts)[turn];
  chunk_status status = status_of_outcome(pointer<const std::int32_t>(wave.outcomes)[turn]);
  if (status == chunk_status::ok && pointer<const std::uint64_t>(wave.actual_bytes)[turn] != part.target_bytes)
    status = chunk_status::wrong_size;
  const auto check = static_cast<content_check>(part.parameter);
  if (status == chunk_status::ok && check != content_check::none) {
    const auto* const end = pointer<const std::uint8_t>(part.source) + part.source_bytes;
    const byte_view content{pointer<const std::uint8_t>(part.target), part.target_bytes};
    bool right;
    if (check == content_check::adler32) {  // big-endian
      const std::uint32_t sum = adler_by_warp(content, lanes);
      right =
          end[-1] == (sum & 255) && end[-2] == (sum >> 8 & 255) && end[-3] == (sum >> 16 & 255) && end[-4] == sum >> 24;
    } else {
      right = load_bytes(end - 8, 4) == crc_by_warp(content, kCrc32, lanes);
    }
    if (!right) status = chunk_status::wrong_checksum;
  }
  if (status != chunk_status::ok) lanes.once_alone([&] { report(wave.statuses, part.chunk, status); });
}

}  // namespace penstock::inline v0::device
