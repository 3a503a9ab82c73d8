#include "base/fast_sum.h"

#include <bit>
#include <cstring>

namespace penstock::inline v0 {
namespace {

// Odd numbers without a pattern: the first 64 bits of the fractions of square roots of primes (as in SHA-512), made
// odd.
constexpr std::uint64_t kKeys[9] = {0x6A09E667F3BCC909U, 0xBB67AE8584CAA73BU, 0x3C6EF372FE94F82BU,
                                    0xA54FF53A5F1D36F1U, 0x510E527FADE682D1U, 0x9B05688C2B3E6C1FU,
                                    0x1F83D9ABFB41BD6BU, 0x5BE0CD19137E2179U, 0xCBBB9D5DC1059ED9U};
constexpr std::size_t kLanes = 8, kStep = 16;

std::uint64_t word_at(const std::byte* from) noexcept {
  std::uint64_t out;
  std::memcpy(&out, from, sizeof(out));
  return out;
}

// All 128 bits of a product, folded into 64.
std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using wide = unsigned __int128;
  const wide product = static_cast<wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// Adds 16 bytes to a lane. The lane's old value stays in the sum even if a factor happens to be 0.
std::uint64_t taken(std::uint64_t lane, std::uint64_t key, std::uint64_t first, std::uint64_t second) noexcept {
  return std::rotl(lane, 29) + fold(first ^ key, second ^ lane);
}

}  // namespace

std::uint64_t fast_sum(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t lanes[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = seed ^ kKeys[i + 1];
  for (; left >= kLanes * kStep; at += kLanes * kStep, left -= kLanes * kStep)
    for (std::size_t i = 0; i < kLanes; ++i)
      lanes[i] = taken(lanes[i], kKeys[i], word_at(at + i * kStep), word_at(at + i * kStep + 8));
  std::size_t lane = 0;
  for (; left >= kStep; at += kStep, left -= kStep, ++lane)
    lanes[lane] = taken(lanes[lane], kKeys[lane], word_at(at), word_at(at + 8));
  if (left != 0) {
    std::byte rest[kStep] = {};
    std::memcpy(rest, at, left);
    lanes[lane] = taken(lanes[lane], kKeys[lane], word_at(rest), word_at(rest + 8));
  }
  std::uint64_t out = fold(seed ^ kKeys[0], bytes.size() ^ kKeys[8]);
  for (const std::uint64_t each : lanes) out = taken(out, kKeys[0], each, std::rotl(each, 32));
  return fold(out ^ kKeys[1], out ^ kKeys[2]);
}

}  // namespace penstock::inline v0
