#include "array/bit_mask.h"

#include <algorithm>

namespace penstock::inline v0 {

bit_mask::bit_mask(std::vector<std::uint64_t> words, std::uint64_t bits) : words_(std::move(words)), bits_(bits) {
  words_.resize(bits / 64 + 1);  // one word more than needed, so that the rank of the end needs no branch
  if (bits % 64 != 0) {
    words_.back() &= (std::uint64_t{1} << bits % 64) - 1;
  } else {
    words_.back() = 0;
  }
  before_.reserve(words_.size() / kBlockWords + 2);
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < words_.size(); i += kBlockWords) {
    before_.push_back(count);
    const std::size_t end = std::min<std::size_t>(i + kBlockWords, words_.size());
    for (std::size_t k = i; k < end; ++k) count += ones_in(words_[k]);
  }
  before_.push_back(count);
}

}  // namespace penstock::inline v0
