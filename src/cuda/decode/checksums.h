#pragma once

// Checksums computed by all lanes: each processes a slice, and the slices' sums are combined.

#include "cuda/decode/warp.h"

namespace penstock::inline v0::device {

inline constexpr std::uint32_t kCrc32 = 0xedb88320u, kCrc32c = 0x82f63b78u;

/// `a * b` modulo the polynomial, both reflected: bit 31 is x^0.
PENSTOCK_DEVICE std::uint32_t crc_multiply(std::uint32_t a, std::uint32_t b, std::uint32_t polynomial) {
  std::uint32_t product = 0;
  PENSTOCK_SMALL_LOOP
  for (int i = 0; i < 32; ++i) {
    if ((a & 0x80000000u) != 0) product ^= b;
    a <<= 1;
    b = b >> 1 ^ ((b & 1) != 0 ? polynomial : 0);
  }
  return product;
}

/// x^(8 bytes) modulo the polynomial.
PENSTOCK_DEVICE std::uint32_t crc_shift(std::uint32_t bytes, std::uint32_t polynomial) {
  std::uint32_t result = 0x80000000u, power = 0x00800000u;  // x^0, x^8
  PENSTOCK_SMALL_LOOP
  for (; bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) result = crc_multiply(result, power, polynomial);
    power = crc_multiply(power, power, polynomial);
  }
  return result;
}

/// The plain remainder of some bytes, without CRC-32's initial and final inversion.
PENSTOCK_DEVICE std::uint32_t crc_of(const std::uint8_t* at, std::uint32_t count, std::uint32_t polynomial) {
  std::uint32_t crc = 0;
  PENSTOCK_SMALL_LOOP
  for (std::uint32_t i = 0; i < count; ++i) {
    crc ^= at[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? polynomial : 0);
  }
  return crc;
}

/// CRC-32 or CRC-32C of `content`, by all lanes.
PENSTOCK_DEVICE std::uint32_t crc_by_warp(byte_view content, std::uint32_t polynomial, warp lanes) {
  const std::uint32_t slice = content.size / kLanes + 1;
  per_lane<std::uint32_t> sums;
  lanes.each_alone([&](int lane) {
    const std::uint32_t start = static_cast<std::uint32_t>(lane) * slice;
    const std::uint32_t from = start < content.size ? start : content.size;
    const std::uint32_t end = content.size - from < slice ? content.size : from + slice;
    const std::uint32_t crc = crc_of(content.begin + from, end - from, polynomial);
    sums[lane] = crc_multiply(crc, crc_shift(content.size - end, polynomial), polynomial);
  });
  lanes.scan(sums, [](std::uint32_t before, std::uint32_t own) { return before ^ own; });
  return ~(lanes.from(sums, kLanes - 1) ^ crc_multiply(0xffffffffu, crc_shift(content.size, polynomial), polynomial));
}

/// The work of one warp: the last four bytes of part `turn` are the CRC-32C of those before them, little-endian.
PENSTOCK_DEVICE void crc32c_warp(const part_wave& wave, std::uint32_t turn, warp lanes) {
  const decode_part& part = pointer<const decode_part>(wave.parts)[pointer<const std::uint32_t>(wave.order)[turn]];
  const auto* const source = pointer<const std::uint8_t>(part.source);
  const std::uint32_t size = part.source_bytes - 4;  // the host has checked that they exist
  const std::uint32_t crc = crc_by_warp({source, size}, kCrc32c, lanes);
  if (crc != load_bytes(source + size, 4))
    lanes.once_alone([&] { report(wave.statuses, part.chunk, chunk_status::wrong_checksum); });
}

/// Adler-32 of `content` (RFC 1950), by all lanes.
PENSTOCK_DEVICE std::uint32_t adler_by_warp(byte_view content, warp lanes) {
  constexpr std::uint32_t kModulus = 65521;
  per_lane<std::uint32_t> low, high;
  lanes.each_alone([&](int lane) {
    std::uint64_t sum = 0, weighted = 0;
    PENSTOCK_SMALL_LOOP
    for (auto i = static_cast<std::uint64_t>(lane); i < content.size; i += kLanes) {
      const std::uint32_t byte = content.begin[i];
      sum += byte;
      weighted += (content.size - i) * byte;  // below 2^40 each
      if ((i / kLanes & 0xfffff) == 0xfffff) weighted %= kModulus;
    }
    low[lane] = static_cast<std::uint32_t>(sum % kModulus);
    high[lane] = static_cast<std::uint32_t>(weighted % kModulus);
  });
  lanes.sum_up(low);
  lanes.sum_up(high);
  const std::uint32_t a = (1 + lanes.from(low, kLanes - 1)) % kModulus;
  const std::uint32_t b = (content.size % kModulus + lanes.from(high, kLanes - 1)) % kModulus;
  return b << 16 | a;
}

}  // namespace penstock::inline v0::device
