#pragma once

/// \file Selections of every kind, created at random, and their elements found in a simple way.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <penstock/selection.h>
#include <penstock/shape.h>

namespace penstock::test {

// Calls `each` with every coordinate below `shape`, in C order.
inline void for_each_position(const extents& shape, const std::function<void(const extents&)>& each) {
  for (const std::uint64_t size : shape)
    if (size == 0) return;
  extents at(shape.size());
  for (;;) {
    each(at);
    std::size_t d = shape.size();
    while (d-- > 0) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
    if (d == static_cast<std::size_t>(-1)) return;
  }
}

inline std::uint64_t flat_number(const extents& at, const extents& shape) {
  std::uint64_t out = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) out = out * shape[d] + at[d];
  return out;
}

inline std::uint64_t element_product(const extents& shape) {
  std::uint64_t out = 1;
  for (const std::uint64_t each : shape) out *= each;
  return out;
}

/// The C-order numbers of the elements that `which` names in an array of `shape`, in the order of the result; blocks
/// are those of `blocks`. Written in the simplest way, one element after the other.
inline std::vector<std::uint64_t> selected_elements(const selection& which, const extents& shape,
                                                    const extents& blocks) {
  std::vector<std::uint64_t> out;
  const auto wrap = [](std::int64_t at, std::uint64_t size) {
    return static_cast<std::uint64_t>(at < 0 ? at + static_cast<std::int64_t>(size) : at);
  };
  const auto take = [&](const std::vector<std::vector<std::uint64_t>>& axes) {
    extents counts, at(axes.size());
    for (const auto& each : axes) counts.push_back(each.size());
    for_each_position(counts, [&](const extents& i) {
      for (std::size_t d = 0; d < axes.size(); ++d) at[d] = axes[d][i[d]];
      out.push_back(flat_number(at, shape));
    });
  };
  const auto sliced = [](const slice& which_of, std::uint64_t size) {
    const auto range = resolve(basic_selection{{which_of}}, extents{size});
    if (!range.ok()) throw std::runtime_error(range.error().to_string());
    std::vector<std::uint64_t> positions;
    for (std::uint64_t i = 0; i < range->from[0].count; ++i)
      positions.push_back(static_cast<std::uint64_t>(range->from[0].at(i)));
    return positions;
  };
  if (const auto* basic = std::get_if<basic_selection>(&which)) {
    const auto resolved = resolve(*basic, shape);
    if (!resolved.ok()) throw std::runtime_error(resolved.error().to_string());
    std::vector<std::vector<std::uint64_t>> axes(shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d)
      for (std::uint64_t i = 0; i < resolved->from[d].count; ++i)
        axes[d].push_back(static_cast<std::uint64_t>(resolved->from[d].at(i)));
    take(axes);
  } else if (const auto* orthogonal = std::get_if<orthogonal_selection>(&which)) {
    std::vector<std::vector<std::uint64_t>> axes(shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const orthogonal_item item = d < orthogonal->items.size() ? orthogonal->items[d] : slice{};
      if (const auto* index = std::get_if<std::int64_t>(&item)) {
        axes[d] = {wrap(*index, shape[d])};
      } else if (const auto* range = std::get_if<slice>(&item)) {
        axes[d] = sliced(*range, shape[d]);
      } else {
        for (const std::int64_t each : std::get<index_list>(item)) axes[d].push_back(wrap(each, shape[d]));
      }
    }
    take(axes);
  } else if (const auto* points = std::get_if<coordinate_selection>(&which)) {
    extents at(shape.size());
    for (std::uint64_t i = 0; i < element_product(points->shape); ++i) {
      for (std::size_t d = 0; d < shape.size(); ++d) at[d] = wrap(points->points[d][i], shape[d]);
      out.push_back(flat_number(at, shape));
    }
  } else if (const auto* mask = std::get_if<mask_selection>(&which)) {
    for (std::uint64_t i = 0; i < element_product(shape); ++i)
      if ((mask->words[i / 64] >> i % 64 & 1) != 0) out.push_back(i);
  } else {
    const auto& of = std::get<block_selection>(which);
    std::vector<std::vector<std::uint64_t>> axes(shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::uint64_t count = (shape[d] + blocks[d] - 1) / blocks[d];
      std::vector<std::uint64_t> wanted = sliced({}, count);
      if (d < of.items.size()) {
        const auto* index = std::get_if<std::int64_t>(&of.items[d]);
        wanted = index ? std::vector<std::uint64_t>{wrap(*index, count)} : sliced(std::get<slice>(of.items[d]), count);
      }
      for (const std::uint64_t block : wanted)
        for (std::uint64_t k = block * blocks[d]; k < std::min(shape[d], (block + 1) * blocks[d]); ++k)
          axes[d].push_back(k);
    }
    take(axes);
  }
  return out;
}

/// A random basic selection for `shape`: ints, slices of any step, Ellipsis, newaxis.
inline basic_selection random_selection(std::mt19937_64& random, const extents& shape) {
  const auto pick = [&](std::uint64_t below) { return random() % below; };
  basic_selection out;
  std::size_t next = 0;
  const std::size_t used = shape.size() == 0 ? 0 : pick(shape.size() + 1);
  bool dotted = false;
  for (std::size_t i = 0; i < used; ++i) {
    if (pick(8) == 0) out.items.emplace_back(newaxis);
    if (!dotted && pick(6) == 0) {
      out.items.emplace_back(ellipsis);
      dotted = true;
      next = shape.size() - (used - i);
    }
    const auto size = static_cast<std::int64_t>(shape[next++]);
    if (size > 0 && pick(4) == 0) {
      out.items.emplace_back(static_cast<std::int64_t>(pick(static_cast<std::uint64_t>(2 * size))) - size);
      continue;
    }
    const auto bound = [&]() -> std::optional<std::int64_t> {
      if (pick(3) == 0) return std::nullopt;
      return static_cast<std::int64_t>(pick(static_cast<std::uint64_t>(3 * size + 3))) - size - 1;
    };
    std::optional<std::int64_t> step;
    if (pick(2) == 0) {
      step = static_cast<std::int64_t>(pick(9)) - 4;
      if (*step == 0) step = 5;
    }
    out.items.emplace_back(slice{bound(), bound(), step});
  }
  return out;
}

/// A random selection of any kind: lists and points with duplicates, unsorted, negative; empty ones too.
inline selection random_any_selection(std::mt19937_64& random, const extents& shape, const extents& blocks) {
  const auto pick = [&](std::uint64_t below) { return random() % below; };
  const auto position = [&](std::uint64_t size) {
    const auto at = static_cast<std::int64_t>(pick(size));
    return pick(4) == 0 ? at - static_cast<std::int64_t>(size) : at;
  };
  const auto list = [&](std::uint64_t size) {
    index_list out;
    if (size == 0 || pick(10) == 0) return out;
    const std::uint64_t count = 1 + pick(2 * size);
    auto at = position(size);
    for (std::uint64_t i = 0; i < count; ++i) {
      // Neighbours, the same again, and jumps.
      const std::uint64_t kind = pick(4);
      at = kind < 2 ? at + 1 : kind == 2 ? at : position(size);
      if (at >= static_cast<std::int64_t>(size)) at = position(size);
      out.push_back(at);
    }
    return out;
  };
  switch (pick(5)) {
    case 0:
      return random_selection(random, shape);
    case 1: {
      orthogonal_selection out;
      const std::size_t used = pick(shape.size() + 1);
      for (std::size_t d = 0; d < used; ++d) {
        const std::uint64_t kind = pick(4);
        if (kind == 0 && shape[d] != 0) {
          out.items.emplace_back(position(shape[d]));
        } else if (kind == 1) {
          const auto size = static_cast<std::int64_t>(shape[d]);
          const auto start = static_cast<std::int64_t>(pick(shape[d] + 2));
          const bool down = pick(2) == 0;
          const auto step = static_cast<std::int64_t>(1 + pick(4));
          out.items.emplace_back(slice{down ? size - start : start, {}, down ? -step : step});
        } else {
          out.items.emplace_back(list(shape[d]));
        }
      }
      return out;
    }
    case 2: {
      coordinate_selection out;
      const bool none = std::any_of(shape.begin(), shape.end(), [](std::uint64_t size) { return size == 0; });
      out.shape = none ? extents{0} : pick(3) == 0 ? extents{1 + pick(4), 1 + pick(6)} : extents{pick(40)};
      const std::uint64_t count = element_product(out.shape);
      out.points.resize(shape.size());
      for (std::size_t d = 0; d < shape.size(); ++d) {
        for (std::uint64_t i = 0; i < count; ++i) {
          // Often the neighbour of the one before, in the last dimension.
          const std::int64_t before = i == 0 ? 0 : out.points[d][i - 1];
          const bool follows = i != 0 && i % 5 != 0;
          const std::int64_t next = d + 1 == shape.size() ? before + 1 : before;
          out.points[d].push_back(follows && next < static_cast<std::int64_t>(shape[d]) ? next : position(shape[d]));
        }
      }
      return out;
    }
    case 3: {
      std::vector<std::uint8_t> mask(element_product(shape));
      const std::uint64_t kind = pick(4);
      for (std::size_t i = 0; i < mask.size(); ++i)
        mask[i] = kind == 0 ? pick(2) != 0 : kind == 1 ? pick(12) != 0 : kind == 2 ? (i / 7) % 2 == 0 : 1;
      return mask_selection::pack(shape, mask);
    }
    default: {
      block_selection out;
      const std::size_t used = pick(shape.size() + 1);
      for (std::size_t d = 0; d < used; ++d) {
        const std::uint64_t count = (shape[d] + blocks[d] - 1) / blocks[d];
        if (pick(2) == 0 && count != 0) {
          out.items.emplace_back(position(count));
        } else {
          const auto start = static_cast<std::int64_t>(pick(count + 1));
          out.items.emplace_back(slice{start, start + static_cast<std::int64_t>(pick(count + 1)), {}});
        }
      }
      return out;
    }
  }
}

/// `points (2,) [0,1,]`: for messages of tests.
inline std::string to_text(const selection& which) {
  if (const auto* basic = std::get_if<basic_selection>(&which)) return "basic " + to_string(*basic);
  if (const auto* orthogonal = std::get_if<orthogonal_selection>(&which)) {
    std::string out = "orthogonal";
    for (const orthogonal_item& item : orthogonal->items) {
      if (const auto* index = std::get_if<std::int64_t>(&item)) {
        out += fmt::format(" {}", *index);
      } else if (const auto* range = std::get_if<slice>(&item)) {
        out += " " + to_string(basic_selection{{*range}});
      } else {
        out += " [";
        for (const std::int64_t each : std::get<index_list>(item)) out += fmt::format("{},", each);
        out += "]";
      }
    }
    return out;
  }
  if (const auto* points = std::get_if<coordinate_selection>(&which)) {
    std::string out = "points " + to_string(points->shape);
    for (const index_list& each : points->points) {
      out += " [";
      for (const std::int64_t at : each) out += fmt::format("{},", at);
      out += "]";
    }
    return out;
  }
  if (const auto* mask = std::get_if<mask_selection>(&which)) return "mask of " + to_string(mask->shape);
  return fmt::format("{} blocks", std::get<block_selection>(which).items.size());
}

}  // namespace penstock::test
