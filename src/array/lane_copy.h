#pragma once

/// \file Copies between groups and lanes: a group is adjacent on one side (the samples of a pixel), a lane is adjacent
/// on the other (the pixels of a band). Sixteen bytes at once, each vector made by shuffles from all vectors of the
/// other side.

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "array/item_movers.h"
#include "array/vector16.h"

namespace penstock::inline v0 {

/// Groups of more items are copied by other code.
inline constexpr std::uint32_t kMaxGroup = 8;

/// `groups` groups of `Group` items of `Item` bytes on one side, `lanes` lanes on the other, `lane_stride` bytes apart.
/// If there are fewer lanes than items in a group, they are the first ones of each group. `Unit` as in `fixed_mover`.
template <std::uint32_t Item, std::uint32_t Unit, std::uint32_t Group>
class lane_copy {
  static_assert(Item <= 4 && (Unit <= 1 || Unit == Item));

 public:
  /// From groups to lanes.
  static void split(std::byte* to, std::int64_t lane_stride, const std::byte* from, std::uint64_t groups,
                    std::uint64_t lanes) noexcept {
    std::uint64_t i = 0;
#if defined(PENSTOCK_VECTOR16)
    // If a lane is missing, the last group may end at the end of readable memory.
    const std::uint64_t safe = lanes == Group ? groups : groups - 1;
    for (; i + kGroups <= safe; i += kGroups) {
      vector16::bytes16 have[Group];
      for (std::uint32_t v = 0; v < Group; ++v) have[v] = vector16::load(from + (i * Group * Item + v * 16));
      for (std::uint32_t lane = 0; lane < Group; ++lane) {
        if (lane >= lanes) break;
        vector16::store(to + (static_cast<std::int64_t>(lane) * lane_stride + static_cast<std::int64_t>(i * Item)),
                        picked(have, kSplit[lane]));
      }
    }
#endif
    for (; i < groups; ++i) {
      for (std::uint64_t lane = 0; lane < lanes; ++lane)
        kMove(to + (static_cast<std::int64_t>(lane) * lane_stride + static_cast<std::int64_t>(i * Item)),
              from + (i * Group + lane) * Item);
    }
  }

  /// From lanes, as many as a group has items, to groups.
  static void join(std::byte* to, const std::byte* from, std::int64_t lane_stride, std::uint64_t groups) noexcept {
    std::uint64_t i = 0;
#if defined(PENSTOCK_VECTOR16)
    for (; i + kGroups <= groups; i += kGroups) {
      vector16::bytes16 have[Group];
      for (std::uint32_t lane = 0; lane < Group; ++lane)
        have[lane] = vector16::load(
            from + (static_cast<std::int64_t>(lane) * lane_stride + static_cast<std::int64_t>(i * Item)));
      for (std::uint32_t v = 0; v < Group; ++v)
        vector16::store(to + (i * Group * Item + v * 16), picked(have, kJoin[v]));
    }
#endif
    for (; i < groups; ++i) {
      for (std::uint32_t lane = 0; lane < Group; ++lane)
        kMove(to + (i * Group + lane) * Item,
              from + (static_cast<std::int64_t>(lane) * lane_stride + static_cast<std::int64_t>(i * Item)));
    }
  }

 private:
  static constexpr fixed_mover<Item, Unit> kMove{};

#if defined(PENSTOCK_VECTOR16)
  static constexpr std::uint64_t kGroups = 16 / Item;
  /// For each vector of the result: the bytes that it takes from each vector of the source; 0x80 is none.
  using shuffles = std::array<std::array<std::array<std::uint8_t, 16>, Group>, Group>;

  // Byte `at` of the groups' side is byte `byte` of item `group` of a lane.
  template <class Visit>
  static constexpr void for_each_byte(const Visit& visit) {
    for (std::uint32_t at = 0; at < 16 * Group; ++at) {
      const std::uint32_t item = at / Item, byte = at % Item;
      visit(at, item % Group, item / Group * Item + (Unit <= 1 ? byte : Item - 1 - byte));
    }
  }
  static constexpr shuffles none() {
    shuffles out{};
    for (auto& made : out) {
      for (auto& from : made) {
        for (auto& each : from) each = 0x80;
      }
    }
    return out;
  }
  static constexpr shuffles split_shuffles() {
    shuffles out = none();
    for_each_byte([&](std::uint32_t at, std::uint32_t lane, std::uint32_t in_lane) {
      out[lane][at / 16][in_lane] = static_cast<std::uint8_t>(at % 16);
    });
    return out;
  }
  static constexpr shuffles join_shuffles() {
    shuffles out = none();
    for_each_byte([&](std::uint32_t at, std::uint32_t lane, std::uint32_t in_lane) {
      out[at / 16][lane][at % 16] = static_cast<std::uint8_t>(in_lane);
    });
    return out;
  }
  alignas(16) static constexpr shuffles kSplit = split_shuffles();
  alignas(16) static constexpr shuffles kJoin = join_shuffles();

  static vector16::bytes16 picked(const vector16::bytes16 (&have)[Group],
                                  const std::array<std::array<std::uint8_t, 16>, Group>& which) noexcept {
    vector16::bytes16 out = vector16::zero();
    for (std::uint32_t v = 0; v < Group; ++v)
      out = vector16::either(out, vector16::pick(have[v], vector16::load(which[v].data())));
    return out;
  }
#endif
};

/// Calls `run` with the lane_copy of groups of `group` items, 2 to kMaxGroup.
template <std::uint32_t Item, std::uint32_t Unit, class Run>
void with_lane_copy(std::uint64_t group, const Run& run) noexcept {
  [&]<std::uint32_t... I>(std::integer_sequence<std::uint32_t, I...>) {
    (void)((group == I + 2 && (run(lane_copy<Item, Unit, I + 2>()), true)) || ...);
  }(std::make_integer_sequence<std::uint32_t, kMaxGroup - 1>());
}

}  // namespace penstock::inline v0
