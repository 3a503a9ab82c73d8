#pragma once

#include <cstdint>

namespace penstock::inline v0 {

/// Random numbers that depend only on the seed, on every machine. Source: G. Steele, D. Lea, C. Flood, "Fast splittable
/// pseudorandom number generators", OOPSLA 2014 (SplitMix64).
class seeded_numbers {
 public:
  explicit seeded_numbers(std::uint64_t seed) noexcept : state_(seed) {}
  /// For one stream among many with the same seed.
  seeded_numbers(std::uint64_t seed, std::uint64_t stream) noexcept : state_(mix(seed ^ mix(stream + kStep))) {}

  std::uint64_t operator()() noexcept { return mix(state_ += kStep); }
  /// Below `bound`, which is not 0, all equally likely.
  std::uint64_t below(std::uint64_t bound) noexcept {
    const std::uint64_t most = ~std::uint64_t{0} - (~std::uint64_t{0} % bound + 1) % bound;  // the rest would be biased
    while (true) {
      const std::uint64_t drawn = (*this)();
      if (drawn <= most) return drawn % bound;
    }
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
  static std::uint64_t mix(std::uint64_t x) noexcept {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  std::uint64_t state_;
};

}  // namespace penstock::inline v0
