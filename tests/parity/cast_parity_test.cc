// Elements that are converted during a read or a write: reads equal the model's values converted one by one, and so
// does storage after writes.

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include <penstock/penstock.h>
#include "array/conversion.h"
#include "support/cases.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

// Types that the elements of `from` can be converted to, and one that can be converted to it.
dtype random_target(std::mt19937_64& random, const dtype& from) {
  static constexpr const char* kNames[] = {"int8",    "int16",   "int32",     "int64",     "uint8",
                                           "uint16",  "uint32",  "uint64",    "float16",   "bfloat16",
                                           "float32", "float64", "complex64", "complex128"};
  for (int tries = 0; tries < 100; ++tries) {
    const dtype to = dtype::from_name(kNames[random() % std::size(kNames)]).value();
    if (converts(from, to)) return to;
  }
  return from;
}

std::vector<std::byte> converted(const std::vector<std::byte>& items, const dtype& from, const dtype& to) {
  const conversion how = conversion_of(from, to).value();
  if (!how.converts()) return items;
  std::vector<std::byte> out(items.size() / from.item_bytes() * to.item_bytes());
  for (std::size_t i = 0; i * from.item_bytes() < items.size(); ++i)
    convert_item(how, items.data() + i * from.item_bytes(), out.data() + i * to.item_bytes());
  return out;
}

class CastParity : public testing::TestWithParam<std::uint64_t> {
 protected:
  static array open_in(const std::shared_ptr<store>& from, unsigned threads) {
    context_options with;
    with.threads = threads;
    open_options where;
    where.context = context::make(with).value();
    where.path = "a";
    return open_array(from, where).value();
  }
};

TEST_P(CastParity, ReadsConvertEveryElement) {
  std::mt19937_64 random(GetParam());
  for (std::uint64_t round = 0; round < cases(60); ++round) {
    const model_options options = random_model(random);
    const auto store = make_memory_store();
    const model_array model = write_model(*store, "a/", options);
    const array opened = open_in(store, round % 2 == 0 ? 1 : 3);
    for (int i = 0; i < 8; ++i) {
      const selection which =
          i == 0 ? selection(basic_selection())
                 : random_any_selection(random, options.shape, options.shards.value_or(options.chunks));
      const dtype to = random_target(random, opened.type());
      const resolved_selection resolved = opened.select(which).value();
      const std::vector<std::byte> expected = converted(model.select(which), opened.type(), to);
      std::vector<std::byte> seen(expected.size());
      const tensor_view out = tensor_view::contiguous(seen.data(), to, resolved.shape);
      read_options with;
      with.type = to;
      if (i % 2 == 0) {
        const auto done = opened.read(resolved, out, with);
        ASSERT_TRUE(done.ok()) << done.error().to_string();
      } else {
        auto ticket = opened.read_async(resolved, out, with);
        ASSERT_TRUE(ticket.ok()) << ticket.error().to_string();
        ASSERT_TRUE(ticket->wait().ok());
      }
      ASSERT_EQ(seen, expected) << options.dtype << " to " << to.name() << " [" << to_text(which) << "] seed "
                                << options.seed;
    }
  }
}

TEST_P(CastParity, WritesConvertEveryValue) {
  std::mt19937_64 random(GetParam() + 100);
  for (std::uint64_t round = 0; round < cases(40); ++round) {
    const model_options options = random_model(random);
    const auto store = make_memory_store();
    model_array model = write_model(*store, "a/", options);
    const array opened = open_in(store, round % 2 == 0 ? 1 : 3);
    static constexpr const char* kSources[] = {"bool", "uint8", "int8", "int16", "uint32", "float32", "float64"};
    const dtype from = dtype::from_name(kSources[random() % std::size(kSources)]).value();
    if (!converts(from, opened.type())) continue;
    for (int i = 0; i < 4; ++i) {
      const selection which =
          i == 0 ? selection(basic_selection())
                 : random_any_selection(random, options.shape, options.shards.value_or(options.chunks));
      const resolved_selection resolved = opened.select(which).value();
      std::vector<std::byte> values(from.item_bytes());
      for (const std::uint64_t each : resolved.shape) values.resize(values.size() * each);
      for (std::byte& each : values) each = static_cast<std::byte>(from.name() == "bool" ? random() % 2 : random());
      const tensor_view value = tensor_view::contiguous(values.data(), from, resolved.shape);
      write_options with;
      with.convert = true;
      const auto done = opened.write(resolved, value, with);
      ASSERT_TRUE(done.ok()) << done.error().to_string();
      model.assign(which, converted(values, from, opened.type()));
      std::vector<std::byte> seen(model.values.size());
      ASSERT_TRUE(opened.read(tensor_view::contiguous(seen.data(), opened.type(), opened.shape())).ok());
      ASSERT_EQ(seen, model.values) << from.name() << " to " << options.dtype << " [" << to_text(which) << "] seed "
                                    << options.seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CastParity, testing::Range<std::uint64_t>(0, 6));

TEST(Cast, InvalidCastsAreRefusedBeforeAnythingIsRead) {
  model_options options;
  options.shape = {10};
  options.chunks = {3};
  options.dtype = "float32";
  const auto store = make_memory_store();
  write_model(*store, "a/", options);
  open_options where;
  where.path = "a";
  const array opened = open_array(std::shared_ptr<const penstock::store>(store), where).value();
  std::vector<std::byte> room(80);
  read_options with;
  with.type = dtype::from_name("int32").value();
  const auto down = opened.read(tensor_view::contiguous(room.data(), *with.type, {10}), with);
  ASSERT_FALSE(down.ok());
  EXPECT_EQ(down.error().code(), errc::invalid_argument);
  EXPECT_NE(down.error().to_string().find("float32 cannot become int32"), std::string::npos);
  with.type = dtype::from_name("float64").value();
  const auto other = opened.read(tensor_view::contiguous(room.data(), opened.type(), {10}), with);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().to_string().find("requested type is float64"), std::string::npos);
  EXPECT_FALSE(opened.read(tensor_view::contiguous(room.data(), *with.type, {10})).ok());  // not requested
  EXPECT_FALSE(opened.write(basic_selection(), tensor_view::contiguous(room.data(), *with.type, {10})).ok());
}

}  // namespace
}  // namespace penstock::test
