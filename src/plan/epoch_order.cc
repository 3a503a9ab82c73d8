#include "plan/epoch_order.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "plan/random.h"

namespace penstock::inline v0 {
namespace {

/// Samples of some blocks, drawn from a few of them at a time.
class lane {
 public:
  lane(const sample_space& of, std::uint64_t open_blocks, seeded_numbers draw)
      : of_(of), open_blocks_(static_cast<std::size_t>(open_blocks)), draw_(draw) {}

  void add(std::uint64_t block, std::uint64_t samples) {
    blocks_.push_back(block);
    left_ += samples;
  }
  std::uint64_t left() const noexcept { return left_; }

  std::uint64_t next() {
    while (open_ < open_blocks_ && next_block_ < blocks_.size()) open_next();
    const auto at = static_cast<std::size_t>(draw_.below(pool_.size()));
    const drawn taken = pool_[at];
    pool_[at] = pool_.back();
    pool_.pop_back();
    --left_;
    if (--of_block_[taken.slot] == 0) {
      free_slots_.push_back(taken.slot);
      --open_;
    }
    return taken.sample;
  }

 private:
  struct drawn {
    std::uint64_t sample;
    std::size_t slot;  // of its block
  };

  void open_next() {
    found_.clear();
    of_.samples_of(blocks_[next_block_++], found_);
    std::size_t slot = of_block_.size();
    if (free_slots_.empty()) {
      of_block_.push_back(0);
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
    }
    of_block_[slot] = found_.size();
    for (const std::uint64_t sample : found_) pool_.push_back({sample, slot});
    ++open_;
  }

  const sample_space& of_;
  const std::size_t open_blocks_;
  seeded_numbers draw_;
  std::vector<std::uint64_t> blocks_;
  std::size_t next_block_ = 0, open_ = 0;
  std::uint64_t left_ = 0;
  std::vector<drawn> pool_;
  std::vector<std::size_t> of_block_, free_slots_;  // remaining samples of each open block
  std::vector<std::uint64_t> found_;
};

}  // namespace

std::vector<std::uint64_t> epoch_order(const sample_space& of, const epoch_options& options) {
  std::vector<std::uint64_t> out;
  if (!options.shuffle) {
    out.resize(static_cast<std::size_t>(of.samples()));
    std::iota(out.begin(), out.end(), std::uint64_t{0});
    return out;
  }
  const seeded_numbers base(options.seed, options.epoch);
  const auto numbers = [&](std::uint64_t stream) { return seeded_numbers(seeded_numbers(base)(), stream); };
  std::vector<std::uint64_t> blocks(static_cast<std::size_t>(of.blocks()));
  std::iota(blocks.begin(), blocks.end(), std::uint64_t{0});
  seeded_numbers draw = numbers(0);
  for (std::size_t i = blocks.size(); i > 1; --i)
    std::swap(blocks[i - 1], blocks[static_cast<std::size_t>(draw.below(i))]);

  std::vector<lane> lanes;
  for (std::uint64_t i = 0; i < options.lanes; ++i) lanes.emplace_back(of, options.open_blocks, numbers(i + 1));
  for (const std::uint64_t block : blocks) {
    // To the lane with the fewest: they end at about the same time.
    const auto least =
        std::min_element(lanes.begin(), lanes.end(), [](const lane& a, const lane& b) { return a.left() < b.left(); });
    least->add(block, of.samples_in(block));
  }
  out.reserve(static_cast<std::size_t>(of.samples()));
  for (std::size_t turn = 0; lanes[turn].left() >= options.batch; turn = (turn + 1) % lanes.size())
    for (std::uint64_t i = 0; i < options.batch; ++i) out.push_back(lanes[turn].next());
  // The rest, with equal probability for each sample to be the next one.
  while (out.size() < of.samples()) {
    std::uint64_t at = draw.below(of.samples() - out.size());
    auto from = lanes.begin();
    for (; at >= from->left(); ++from) at -= from->left();
    out.push_back(from->next());
  }
  return out;
}

}  // namespace penstock::inline v0
