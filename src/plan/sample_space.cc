#include "plan/sample_space.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/counted.h"
#include "plan/random.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 62;

std::string name_of(std::span<const sample_axis> axes, std::size_t a) {
  return axes[a].name.empty() ? fmt::format("axis {}", a) : axes[a].name;
}

result<> check(std::span<const sample_axis> axes) {
  if (axes.empty()) return error(errc::invalid_argument, "samples need an axis");
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const sample_axis& of = axes[a];
    if (of.crop == 0 || of.stride == 0 || of.block == 0)
      return error(errc::invalid_argument, fmt::format("crop and stride of {} are at least 1", name_of(axes, a)));
    if (of.extent > kMost || of.before > kMost / 4 || of.after > kMost / 4 || of.crop > kMost || of.stride > kMost)
      return error(errc::invalid_argument, fmt::format("{} exceeds 62 bits", name_of(axes, a)));
    if (of.crop > of.extent + of.before + of.after)
      return error(errc::invalid_argument,
                   fmt::format("a crop of {} does not fit into {}, which has {}{}", of.crop, name_of(axes, a),
                               counted(of.extent, "element"), of.before + of.after > 0 ? " and the padding" : ""));
  }
  return {};
}

std::uint64_t block_of(const sample_axis& of, std::int64_t origin) noexcept {
  const std::uint64_t inside = origin < 0 ? 0 : static_cast<std::uint64_t>(origin);
  return std::min(inside, of.extent == 0 ? 0 : of.extent - 1) / of.block;
}

// Samples at any position.
std::vector<sample_axis> anywhere(std::vector<sample_axis> axes) {
  for (sample_axis& each : axes) each.stride = 1;
  return axes;
}

std::int64_t first_origin(const sample_axis& of) noexcept { return -static_cast<std::int64_t>(of.before); }
std::uint64_t places(const sample_axis& of) noexcept { return of.extent + of.before + of.after - of.crop + 1; }

}  // namespace

error sample_space::too_many_samples(std::uint64_t count) {
  return {errc::invalid_argument, fmt::format("{} samples are too many for one epoch", count)};
}

result<sample_space> sample_space::grid(std::vector<sample_axis> axes) {
  PENSTOCK_TRY(check(axes));
  std::uint64_t all = 1;  // before there are lists of blocks
  for (const sample_axis& of : axes)
    if (!checked_mul(all, (places(of) - 1) / of.stride + 1, all))
      return error(errc::invalid_argument, "the number of samples does not fit in 64 bits");
  if (all > kMostSamples) return too_many_samples(all);
  sample_space made(std::move(axes));
  made.samples_ = all;
  made.blocks_ = 1;
  for (const sample_axis& of : made.axes_) {
    const std::uint64_t count = (places(of) - 1) / of.stride + 1;
    std::vector<std::uint64_t>& starts = made.starts_.emplace_back();
    for (std::uint64_t i = 0; i < count;) {
      starts.push_back(i);
      // The first sample that begins after this one's block; all remaining ones, in the last block.
      const std::uint64_t block = block_of(of, first_origin(of) + static_cast<std::int64_t>(i * of.stride));
      const std::uint64_t end = (block + 1) * of.block;
      i = end >= of.extent ? count : std::min(count, (end + of.before + of.stride - 1) / of.stride);
    }
    made.blocks_ *= starts.size();
    starts.push_back(count);
    made.counts_.push_back(count);
  }
  return made;
}

result<sample_space> sample_space::random(std::vector<sample_axis> axes, std::uint64_t count, std::uint64_t seed) {
  PENSTOCK_TRY(check(axes));
  sample_space made(anywhere(std::move(axes)));
  std::uint64_t numbers = 0;
  if (!checked_mul(count, made.axes_.size(), numbers) || numbers > made.origins_.max_size())
    return error(errc::invalid_argument, fmt::format("{} samples are too many", count));
  made.samples_ = count;
  made.origins_.reserve(static_cast<std::size_t>(numbers));
  seeded_numbers draw(seed);
  for (std::uint64_t i = 0; i < count; ++i)
    for (const sample_axis& of : made.axes_)
      made.origins_.push_back(first_origin(of) + static_cast<std::int64_t>(draw.below(places(of))));
  made.group_by_block();
  return made;
}

result<sample_space> sample_space::listed(std::vector<sample_axis> axes, std::vector<std::int64_t> origins) {
  PENSTOCK_TRY(check(axes));
  sample_space made(anywhere(std::move(axes)));
  const std::size_t rank = made.axes_.size();
  if (origins.size() % rank != 0)
    return error(errc::invalid_argument, fmt::format("a list of {} is not a list of samples with {}",
                                                     counted(origins.size(), "number"), counted(rank, "axis", "axes")));
  for (std::size_t i = 0; i < origins.size(); ++i) {
    const sample_axis& of = made.axes_[i % rank];
    const std::int64_t first = first_origin(of);
    if (origins[i] < first || origins[i] > first + static_cast<std::int64_t>(places(of) - 1))
      return error(errc::out_of_range, fmt::format("sample {} begins at {} of {}: a crop of {} fits from {} to {}",
                                                   i / rank, origins[i], name_of(made.axes_, i % rank), of.crop, first,
                                                   first + static_cast<std::int64_t>(places(of) - 1)));
  }
  made.samples_ = origins.size() / rank;
  made.origins_ = std::move(origins);
  made.group_by_block();
  return made;
}

void sample_space::group_by_block() {
  const std::size_t rank = axes_.size();
  // Blocks by their number in C order; it may wrap around 64 bits, which only puts two blocks into one.
  std::vector<std::uint64_t> block(static_cast<std::size_t>(samples_));
  for (std::size_t i = 0; i < block.size(); ++i) {
    std::uint64_t at = 0;
    for (std::size_t a = 0; a < rank; ++a)
      at = at * ((axes_[a].extent + axes_[a].block - 1) / axes_[a].block) + block_of(axes_[a], origins_[i * rank + a]);
    block[i] = at;
  }
  members_.resize(block.size());
  std::iota(members_.begin(), members_.end(), std::uint64_t{0});
  std::stable_sort(members_.begin(), members_.end(),
                   [&](std::uint64_t a, std::uint64_t b) { return block[a] < block[b]; });
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (i == 0 || block[members_[i]] != block[members_[i - 1]]) begins_.push_back(i);
  blocks_ = begins_.size();
  begins_.push_back(members_.size());
}

void sample_space::origin(std::uint64_t sample, std::span<std::int64_t> out) const noexcept {
  const std::size_t rank = axes_.size();
  if (!starts_.empty()) {
    for (std::size_t a = rank; a-- > 0;) {
      out[a] = first_origin(axes_[a]) + static_cast<std::int64_t>(sample % counts_[a] * axes_[a].stride);
      sample /= counts_[a];
    }
    return;
  }
  std::copy_n(origins_.begin() + static_cast<std::ptrdiff_t>(sample * rank), rank, out.begin());
}

std::uint64_t sample_space::most_blocks(const sample_axis& of, std::uint64_t length) noexcept {
  const std::uint64_t all = of.extent == 0 ? 1 : (of.extent + length - 1) / length;
  // If all crops begin at multiples of the blocks' length, they cover no more than necessary.
  const bool aligned = of.stride % length == 0 && of.before % length == 0;
  return std::min(all, aligned ? (of.crop + length - 1) / length : (of.crop + length - 2) / length + 1);
}

std::uint64_t sample_space::samples_in(std::uint64_t which) const noexcept {
  if (starts_.empty()) return begins_[static_cast<std::size_t>(which) + 1] - begins_[static_cast<std::size_t>(which)];
  std::uint64_t count = 1;
  for (std::size_t a = axes_.size(); a-- > 0;) {
    const std::uint64_t blocks = starts_[a].size() - 1;
    const auto at = static_cast<std::size_t>(which % blocks);
    count *= starts_[a][at + 1] - starts_[a][at];
    which /= blocks;
  }
  return count;
}

void sample_space::samples_of(std::uint64_t which, std::vector<std::uint64_t>& out) const {
  if (starts_.empty()) {
    const auto at = static_cast<std::size_t>(which);
    out.insert(out.end(), members_.begin() + static_cast<std::ptrdiff_t>(begins_[at]),
               members_.begin() + static_cast<std::ptrdiff_t>(begins_[at + 1]));
    return;
  }
  const std::size_t rank = axes_.size();
  std::vector<std::uint64_t> from(rank), to(rank), now;
  for (std::size_t a = rank; a-- > 0;) {
    const std::uint64_t blocks = starts_[a].size() - 1;
    from[a] = starts_[a][static_cast<std::size_t>(which % blocks)];
    to[a] = starts_[a][static_cast<std::size_t>(which % blocks) + 1];
    which /= blocks;
  }
  now = from;
  while (true) {
    std::uint64_t sample = 0;
    for (std::size_t a = 0; a < rank; ++a) sample = sample * counts_[a] + now[a];
    out.push_back(sample);
    std::size_t a = rank;
    while (a-- > 0) {
      if (++now[a] < to[a]) break;
      now[a] = from[a];
    }
    if (a == static_cast<std::size_t>(-1)) return;
  }
}

}  // namespace penstock::inline v0
