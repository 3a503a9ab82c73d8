#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include <penstock/config.h>

namespace penstock::inline v0 {

/// A boolean array as bits, with a directory of the number of set bits before any position. Immutable.
class bit_mask {
 public:
  bit_mask() noexcept = default;
  /// Bit i is bit i % 64 of words[i / 64]; `words` has at least `bits` of them, and bits beyond are ignored.
  bit_mask(std::vector<std::uint64_t> words, std::uint64_t bits);

  std::uint64_t size() const noexcept { return bits_; }
  /// Number of set bits.
  std::uint64_t ones() const noexcept { return before_.empty() ? 0 : before_.back(); }
  bool operator[](std::uint64_t at) const noexcept { return (words_[at / 64] >> at % 64 & 1) != 0; }

  /// Set bits before `at` (<= size).
  std::uint64_t rank(std::uint64_t at) const noexcept {
    std::uint64_t count = before_[at / kBlockBits];
    const std::uint64_t word = at / 64;
    for (std::uint64_t i = at / kBlockBits * kBlockWords; i < word; ++i) count += ones_in(words_[i]);
    if (at % 64 != 0) count += ones_in(words_[word] & ((std::uint64_t{1} << at % 64) - 1));
    return count;
  }

  /// The first set bit of [at, end), or `end`.
  std::uint64_t next_one(std::uint64_t at, std::uint64_t end) const noexcept { return next<false>(at, end); }
  /// The first clear bit of [at, end), or `end`.
  std::uint64_t next_zero(std::uint64_t at, std::uint64_t end) const noexcept { return next<true>(at, end); }

 private:
  static constexpr std::uint64_t kBlockWords = 8, kBlockBits = kBlockWords * 64;

  static std::uint64_t ones_in(std::uint64_t word) noexcept { return static_cast<std::uint64_t>(std::popcount(word)); }

  template <bool Inverted>
  std::uint64_t next(std::uint64_t at, std::uint64_t end) const noexcept {
    if (at >= end) return end;
    constexpr std::uint64_t kFlip = Inverted ? ~std::uint64_t{0} : 0;
    std::uint64_t i = at / 64;
    std::uint64_t word = (words_[i] ^ kFlip) >> at % 64 << at % 64;
    const std::uint64_t last = (end - 1) / 64;
    while (word == 0) {
      if (i == last) return end;
      word = words_[++i] ^ kFlip;
    }
    const std::uint64_t found = i * 64 + static_cast<std::uint64_t>(std::countr_zero(word));
    return found < end ? found : end;
  }

  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> before_;  // set bits before each block, and the total
  std::uint64_t bits_ = 0;
};

}  // namespace penstock::inline v0
