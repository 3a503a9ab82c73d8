#include "api/loader/crop_sources.h"

#include <map>
#include <span>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "api/read_source.h"
#include "engine/array_state.h"
#include "plan/crop_list.h"

namespace penstock::inline v0 {
namespace {

/// The most arrays that an error names.
constexpr std::size_t kMostNamed = 4;

struct kept {
  std::vector<std::shared_ptr<const array_state>> arrays;
  std::vector<std::unique_ptr<crop_list>> lists;
};

std::string note_of(const std::vector<std::shared_ptr<const array_state>>& arrays) {
  if (arrays.size() == 1) return "array '" + arrays[0]->uri + "'";
  std::string out = "one of the arrays ";
  for (std::size_t i = 0; i < arrays.size() && i < kMostNamed; ++i)
    out += fmt::format("{}'{}'", i == 0 ? "" : ", ", arrays[i]->uri);
  if (arrays.size() > kMostNamed) out += fmt::format(" and {} more", arrays.size() - kMostNamed);
  return out;
}

}  // namespace

result<extents> crops_shape(std::span<const array_crop> crops) {
  if (crops.empty()) return error(errc::invalid_argument, "there is no crop to read");
  const extents& first = crops[0].which.shape;
  if (first.size() == kMaxRank)
    return error(errc::invalid_argument, fmt::format("a crop has at most {} dimensions", kMaxRank - 1));
  for (const array_crop& each : crops) {
    const array_state& state = *each.from.shared_state();
    const auto refuse = [&](errc code, std::string why) {
      return error(code, std::move(why)).note("array '" + state.uri + "'");
    };
    if (each.which.indexed) return refuse(errc::unsupported, "crops support slices and integers, not lists");
    if (state.type.variable_length())
      return refuse(errc::unsupported,
                    fmt::format("items of variable length ({}) are not read as crops", state.type.name()));
    if (!(each.which.shape == first))
      return refuse(errc::invalid_argument, fmt::format("the crops of a batch have one shape: {} and {}",
                                                        to_string(first), to_string(each.which.shape)));
  }
  extents out{crops.size()};
  for (const std::uint64_t each : first) out.push_back(each);
  return out;
}

crop_sources sources_of(std::span<const array_crop> crops, std::byte* to, const strides& to_strides) {
  const auto alive = std::make_shared<kept>();
  std::unordered_set<const array_state*> known;
  std::map<std::pair<const chunk_layout*, const store*>, std::size_t> numbers;
  std::vector<std::vector<crop>> boxes;
  strides of_one;
  for (std::size_t d = 1; d < to_strides.size(); ++d) of_one.push_back(to_strides[d]);
  crop_sources out;
  const penstock::context* const reads = crops[0].from.shared_state()->context.get();
  for (std::size_t i = 0; i < crops.size(); ++i) {
    const auto& state = crops[i].from.shared_state();
    if (known.insert(state.get()).second) alive->arrays.push_back(state);
    std::byte* const first = to + static_cast<std::int64_t>(i) * to_strides[0];
    const source one = source_of(*state, static_cast<const resolved_basic&>(crops[i].which), of_one, first);
    part_sources parts;
    std::span<const source> sources(&one, 1);
    if (state->parts) {
      parts = divide_by_parts(*state, one, nullptr).value();  // it fails for types only
      sources = parts.all;
    }
    for (const source& each : sources) {
      const auto [found, added] = numbers.try_emplace({each.layout, each.store}, boxes.size());
      if (added) {
        boxes.emplace_back();
        source& made = out.sources.emplace_back(each);
        made.from = {};
        made.to_strides = {};
        made.to = to;
        // Identifiers of open arrays belong to their context.
        if (state->context.get() != reads) made.uid = 0;
      }
      boxes[found->second].push_back({each.from, each.to - to, each.to_strides});
    }
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    alive->lists.push_back(std::make_unique<crop_list>(out.sources[i].layout->grid(), std::move(boxes[i])));
    out.sources[i].indexed = alive->lists.back().get();
  }
  out.note = note_of(alive->arrays);
  out.keep_alive = alive;
  return out;
}

}  // namespace penstock::inline v0
