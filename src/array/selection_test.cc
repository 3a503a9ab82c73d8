#include <penstock/selection.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

// Positions of Python's `range(n)[start:stop:step]`, found one by one in wide arithmetic.
std::vector<std::int64_t> slow_slice(const slice& which, std::int64_t length) {
  __extension__ using wide = __int128;
  const wide step = which.step.value_or(1);
  const auto end = [&](const std::optional<std::int64_t>& given, wide otherwise) {
    if (!given) return otherwise;
    wide at = *given;
    if (at < 0) at += length;
    if (at < 0) return step > 0 ? wide{0} : wide{-1};
    if (at >= length) return step > 0 ? wide{length} : wide{length} - 1;
    return at;
  };
  const wide start = end(which.start, step > 0 ? wide{0} : wide{length} - 1);
  const wide stop = end(which.stop, step > 0 ? wide{length} : wide{-1});
  std::vector<std::int64_t> out;
  for (wide at = start; step > 0 ? at < stop : at > stop; at += step) out.push_back(static_cast<std::int64_t>(at));
  return out;
}

std::vector<std::int64_t> positions(const axis_range& range) {
  std::vector<std::int64_t> out;
  for (std::uint64_t i = 0; i < range.count; ++i) out.push_back(range.at(i));
  return out;
}

resolved_basic resolved(const basic_selection& which, const extents& shape) {
  auto value = resolve(which, shape);
  EXPECT_TRUE(value.ok()) << to_string(which) << " of " << to_string(shape);
  return value.ok() ? std::move(*value) : resolved_basic();
}

TEST(BasicSelection, SlicesLikePython) {
  std::mt19937_64 random(1);
  const std::vector<std::int64_t> extremes = {kMin, kMin + 1, kMax, kMax - 1, -1, 0, 1};
  const auto number = [&](std::int64_t reach) -> std::optional<std::int64_t> {
    const auto kind = random() % 10;
    if (kind == 0) return std::nullopt;
    if (kind == 1) return extremes[random() % extremes.size()];
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * reach + 1)) - reach;
  };
  for (int i = 0; i < 50000; ++i) {
    const auto length = static_cast<std::int64_t>(random() % 14);
    slice which{number(length + 3), number(length + 3), number(5)};
    if (which.step == 0) which.step = -1;
    const resolved_basic got = resolved({{which}}, {static_cast<std::uint64_t>(length)});
    const auto expected = slow_slice(which, length);
    ASSERT_EQ(positions(got.from[0]), expected) << to_string(basic_selection{{which}}) << " of " << length;
    ASSERT_EQ(got.shape[0], expected.size());
    ASSERT_EQ(got.axis[0], 0);
  }
}

TEST(BasicSelection, TakesExtremesOfTheLargestDimension) {
  const extents shape{static_cast<std::uint64_t>(kMax)};
  const auto range = [&](const slice& which) { return resolved({{which}}, shape).from[0]; };
  EXPECT_EQ(range({}), (axis_range{0, 1, static_cast<std::uint64_t>(kMax)}));
  EXPECT_EQ(range({std::nullopt, std::nullopt, -1}), (axis_range{kMax - 1, -1, static_cast<std::uint64_t>(kMax)}));
  EXPECT_EQ(range({std::nullopt, std::nullopt, kMin}), (axis_range{kMax - 1, 1, 1}));
  EXPECT_EQ(range({std::nullopt, std::nullopt, kMax}), (axis_range{0, 1, 1}));
  EXPECT_EQ(range({std::nullopt, std::nullopt, kMax - 1}), (axis_range{0, kMax - 1, 2}));
  EXPECT_EQ(range({kMin, kMax, 1}).count, static_cast<std::uint64_t>(kMax));
  EXPECT_EQ(range({kMax, kMin, -1}).count, static_cast<std::uint64_t>(kMax));
  EXPECT_EQ(resolved({{std::int64_t{-1}}}, shape).from[0].start, kMax - 1);
  EXPECT_EQ(resolve(basic_selection{{std::int64_t{kMin}}}, shape).error().code(), errc::out_of_range);
  EXPECT_EQ(resolve(basic_selection{{std::int64_t{kMax}}}, shape).error().code(), errc::out_of_range);
  EXPECT_EQ(resolve(basic_selection(), {static_cast<std::uint64_t>(kMax) + 1}).error().code(), errc::unsupported);
}

TEST(BasicSelection, DropsIntsAddsAxesAndExpandsAnEllipsis) {
  const resolved_basic got = resolved({{newaxis, std::int64_t{-1}, ellipsis, slice{1, 3, {}}, newaxis}}, {5, 6, 7, 8});
  EXPECT_EQ(got.shape, (extents{1, 6, 7, 2, 1}));
  ASSERT_EQ(got.from.size(), 4U);
  EXPECT_EQ(got.from[0], (axis_range{4, 1, 1}));
  EXPECT_EQ(got.from[1], (axis_range{0, 1, 6}));
  EXPECT_EQ(got.from[2], (axis_range{0, 1, 7}));
  EXPECT_EQ(got.from[3], (axis_range{1, 1, 2}));
  EXPECT_EQ(got.axis, (dim_vector<std::int8_t>{-1, 1, 2, 3}));
}

// NumPy's rule in another form: iterate over the items, then look up the origin of each result axis.
TEST(BasicSelection, AgreesWithASlowReferenceOnRandomItems) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    extents shape(random() % 5);
    for (auto& each : shape) each = random() % 6;
    basic_selection which;
    const std::size_t used = random() % (shape.size() + 1);
    const bool with_ellipsis = random() % 2 == 0;
    const std::size_t place = random() % (used + 1);
    struct source {
      std::size_t d;
      std::vector<std::int64_t> at;
      bool dropped;
    };
    std::vector<source> expected(shape.size());
    std::vector<std::int64_t> result_sizes;
    bool out_of_bounds = false;
    std::size_t d = 0;
    const auto everything = [&] {
      expected[d] = {d, slow_slice({}, static_cast<std::int64_t>(shape[d])), false};
      result_sizes.push_back(static_cast<std::int64_t>(shape[d]));
      ++d;
    };
    for (std::size_t item = 0; item <= used; ++item) {
      if (random() % 4 == 0) {
        which.items.emplace_back(newaxis);
        result_sizes.push_back(1);
      }
      if (with_ellipsis && item == place) {
        which.items.emplace_back(ellipsis);
        for (std::size_t k = shape.size() - used; k-- > 0;) everything();
      }
      if (item == used) break;
      const auto length = static_cast<std::int64_t>(shape[d]);
      if (random() % 3 == 0) {
        const auto index = static_cast<std::int64_t>(random() % 14) - 7;
        which.items.emplace_back(index);
        if (index < -length || index >= length) out_of_bounds = true;
        expected[d] = {d, {index < 0 ? index + length : index}, true};
      } else {
        const slice range{static_cast<std::int64_t>(random() % 14) - 7, static_cast<std::int64_t>(random() % 14) - 7,
                          random() % 2 == 0 ? -2 : 3};
        which.items.emplace_back(range);
        expected[d] = {d, slow_slice(range, length), false};
        result_sizes.push_back(static_cast<std::int64_t>(expected[d].at.size()));
      }
      ++d;
    }
    const auto got = resolve(which, shape);
    if (out_of_bounds) {
      ASSERT_FALSE(got.ok());
      ASSERT_EQ(got.error().code(), errc::out_of_range);
      continue;
    }
    while (d < shape.size()) everything();
    ASSERT_TRUE(got.ok()) << to_string(which) << " of " << to_string(shape);
    ASSERT_TRUE(
        std::equal(got.value().shape.begin(), got.value().shape.end(), result_sizes.begin(), result_sizes.end()));
    for (std::size_t k = 0; k < shape.size(); ++k) {
      ASSERT_EQ(positions(got.value().from[k]), expected[k].at);
      const int axis = got.value().axis[k];
      ASSERT_EQ(axis == -1, expected[k].dropped);
      if (axis >= 0) {
        ASSERT_EQ(got.value().shape[static_cast<std::size_t>(axis)], expected[k].at.size());
      }
    }
  }
}

TEST(BasicSelection, ReportsTheErrorsOfNumPy) {
  EXPECT_EQ(resolve(basic_selection{{std::int64_t{7}}}, {5}).error().to_string(),
            "out_of_range: index 7 is out of bounds for axis 0 with size 5");
  EXPECT_EQ(resolve(basic_selection{{slice{}, std::int64_t{-6}}}, {2, 5}).error().message(),
            "index -6 is out of bounds for axis 1 with size 5");
  EXPECT_EQ(resolve(basic_selection{{slice{}, slice{}}}, {5}).error().to_string(),
            "out_of_range: too many indices for array: array is 1-dimensional, but 2 were indexed");
  EXPECT_EQ(resolve(basic_selection{{ellipsis, ellipsis}}, {5}).error().to_string(),
            "out_of_range: an index can only have a single ellipsis ('...')");
  EXPECT_EQ(resolve(basic_selection{{slice{1, 2, 0}}}, {5}).error().to_string(),
            "invalid_argument: slice step cannot be zero");
  basic_selection many;
  many.items.assign(33, newaxis);
  EXPECT_EQ(resolve(many, {}).error().code(), errc::out_of_range);
  many.items.pop_back();
  EXPECT_EQ(resolved(many, {}).shape.size(), 32U);
  EXPECT_EQ(resolve(many, {5}).error().code(), errc::out_of_range);
  EXPECT_EQ(resolved(basic_selection(), {}).shape.size(), 0U);
}

TEST(OrthogonalSelection, KeepsListsSlicesAndDropsInts) {
  const auto got = resolve(orthogonal_selection{{std::int64_t{-1}, index_list{3, -1, 0, 3}}}, {4, 5, 6});
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got.value().shape, (extents{4, 6}));
  EXPECT_EQ(got.value().axis, (dim_vector<std::int8_t>{-1, 0, 1}));
  EXPECT_EQ(std::get<axis_range>(got.value().from[0]), (axis_range{3, 1, 1}));
  EXPECT_EQ(std::get<index_list>(got.value().from[1]), (index_list{3, 4, 0, 3}));
  EXPECT_EQ(std::get<axis_range>(got.value().from[2]), (axis_range{0, 1, 6}));
  EXPECT_EQ(resolve(orthogonal_selection{{index_list{0, 4}}}, {4}).error().message(),
            "index 4 is out of bounds for axis 0 with size 4");
  EXPECT_EQ(resolve(orthogonal_selection{{slice{}, slice{}}}, {4}).error().code(), errc::out_of_range);
}

TEST(CoordinateSelection, WrapsAndChecksPoints) {
  const auto got = resolve(coordinate_selection{{{0, -1}, {2, 2}}, {2, 1}}, {4, 3});
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got.value().points, (std::vector<index_list>{{0, 3}, {2, 2}}));
  EXPECT_EQ(got.value().shape, (extents{2, 1}));
  EXPECT_EQ(resolve(coordinate_selection{{{0, 4}}, {2}}, {4}).error().code(), errc::out_of_range);
  EXPECT_EQ(resolve(coordinate_selection{{{0}}, {1}}, {4, 4}).error().code(), errc::out_of_range);
  EXPECT_EQ(resolve(coordinate_selection{{{0}, {0}}, {1}}, {4}).error().code(), errc::out_of_range);
  EXPECT_EQ(resolve(coordinate_selection{{{0, 1, 2}}, {2}}, {4}).error().code(), errc::invalid_argument);
}

TEST(MaskSelection, ListsTruePositionsInCOrder) {
  const auto got = resolve(mask_selection{{2, 3}, {0b010101}}, {2, 3});
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got.value().points, (std::vector<index_list>{{0, 0, 1}, {0, 2, 1}}));
  EXPECT_EQ(got.value().shape, (extents{3}));
  EXPECT_EQ(resolve(mask_selection{{2}, {3}}, {3}).error().message(),
            "boolean index did not match indexed array along axis 0; size of axis is 3 but size of corresponding "
            "boolean axis is 2");
  EXPECT_EQ(resolve(mask_selection{{2}, {}}, {2}).error().code(), errc::invalid_argument);
  EXPECT_EQ(resolve(mask_selection{{0, 3}, {}}, {0, 3}).value().shape, (extents{0}));
}

TEST(BlockSelection, CoversBlocksAndEndsAtTheArraysEdge) {
  const auto got = resolve(block_selection{{std::int64_t{-1}, slice{1, 3, {}}}}, {10, 20, 7}, {4, 5, 7});
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got.value().from[0], (axis_range{8, 1, 2}));
  EXPECT_EQ(got.value().from[1], (axis_range{5, 1, 10}));
  EXPECT_EQ(got.value().from[2], (axis_range{0, 1, 7}));
  EXPECT_EQ(got.value().shape, (extents{2, 10, 7})) << "an int keeps its dimension";
  EXPECT_EQ(got.value().axis, (dim_vector<std::int8_t>{0, 1, 2}));
  EXPECT_EQ(resolve(block_selection{{std::int64_t{3}}}, {10}, {4}).error().code(), errc::out_of_range);
  EXPECT_EQ(resolve(block_selection{{slice{{}, {}, 2}}}, {10}, {4}).error().code(), errc::out_of_range);
  EXPECT_EQ(resolve(block_selection{{slice{2, 2, {}}}}, {10}, {4}).value().shape, (extents{0}));
  EXPECT_EQ(
      resolve(block_selection{{slice{0, kMax, {}}}}, {static_cast<std::uint64_t>(kMax)}, {1ULL << 62}).value().shape,
      (extents{static_cast<std::uint64_t>(kMax)}));
  EXPECT_EQ(resolve(block_selection{}, {10}, {0}).error().code(), errc::invalid_argument);
}

basic_selection parsed(std::string_view text) {
  auto value = parse_selection(text);
  EXPECT_TRUE(value.ok()) << text << ": " << (value.ok() ? "" : value.error().to_string());
  return value.ok() ? std::move(*value) : basic_selection();
}

TEST(SelectionText, ReadsTheSelectionsOfPython) {
  EXPECT_EQ(parsed("0:10, ::2, ..., 3, None").items,
            (std::vector<basic_item>{slice{0, 10, {}}, slice{{}, {}, 2}, ellipsis, std::int64_t{3}, newaxis}));
  EXPECT_EQ(parsed("[ 1 : -2 : +3 ,]").items, (std::vector<basic_item>{slice{1, -2, 3}}));
  EXPECT_EQ(parsed("(-5, None:3)").items, (std::vector<basic_item>{std::int64_t{-5}, slice{{}, 3, {}}}));
  EXPECT_EQ(parsed("[(1, 2)]").items, (std::vector<basic_item>{std::int64_t{1}, std::int64_t{2}}));
  for (const char* text : {"", "  ", "()", "[]", "[()]"}) EXPECT_TRUE(parsed(text).items.empty()) << text;
  EXPECT_EQ(parsed("-9223372036854775808").items, (std::vector<basic_item>{kMin}));
  EXPECT_EQ(parsed("-99999999999999999999:99999999999999999999").items,
            (std::vector<basic_item>{slice{kMin, kMax, {}}}));
}

TEST(SelectionText, NamesThePartThatItCannotRead) {
  for (const char* text : {"1.5", "a",   "1:2:3:4", "1,,2", ",", "[1",   "1]",    "(1]",   "..",  "....", "none",
                           "1 2", "--1", "+-1",     "+",    "-", "0x10", "[[1]]", "([1])", "1:x", "\xff", "::a"}) {
    const auto value = parse_selection(text);
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_EQ(value.error().code(), errc::invalid_argument);
  }
  EXPECT_EQ(parse_selection("0:3, x").error().message(),
            "a selection is made of ints, slices, '...' and None, found 'x'");
  EXPECT_NE(parse_selection("9223372036854775808").error().message().find("does not fit"), std::string::npos);
  EXPECT_LT(parse_selection(std::string(100000, 'x')).error().message().size(), 200U);
}

TEST(SelectionText, ReadsBackWhatItWrites) {
  std::mt19937_64 random(3);
  const auto number = [&]() -> std::optional<std::int64_t> {
    if (random() % 3 == 0) return std::nullopt;
    return static_cast<std::int64_t>(random() >> (random() % 64)) * (random() % 2 == 0 ? 1 : -1);
  };
  for (int i = 0; i < 5000; ++i) {
    basic_selection which;
    for (auto n = random() % 6; n-- > 0;) {
      switch (random() % 4) {
        case 0:
          which.items.emplace_back(number().value_or(kMin));
          break;
        case 1:
          which.items.emplace_back(slice{number(), number(), number()});
          break;
        case 2:
          which.items.emplace_back(ellipsis);
          break;
        default:
          which.items.emplace_back(newaxis);
          break;
      }
    }
    ASSERT_EQ(parsed(to_string(which)).items, which.items) << to_string(which);
  }
  EXPECT_EQ(to_string(basic_selection{{slice{0, 10, {}}, slice{{}, {}, 2}, ellipsis, std::int64_t{3}, newaxis}}),
            "0:10, ::2, ..., 3, None");
  EXPECT_EQ(to_string(basic_selection{}), "()");
}

}  // namespace
}  // namespace penstock::inline v0
