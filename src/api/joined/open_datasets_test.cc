#include <gtest/gtest.h>
#include <penstock/datasets.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "api/joined/open_datasets.h"

namespace penstock::inline v0 {
namespace {

void put_seed(store& to, const std::string& key, const std::string& name) {
  std::ifstream file(PENSTOCK_SOURCE_DIR "/tests/data/fuzz/hdf5_file/" + name, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const part content(std::as_bytes(std::span(text)));
  EXPECT_TRUE(to.put(key, {&content, 1}, {}).ok());
}

std::vector<std::byte> values_of(const array& from) {
  std::size_t count = from.type().item_bytes();
  for (const std::uint64_t each : from.shape()) count *= each;
  std::vector<std::byte> out(count);
  const auto read = from.read(tensor_view::contiguous(out.data(), from.type(), from.shape()));
  EXPECT_TRUE(read.ok()) << read.error().to_string();
  return out;
}

dataset_options named(std::string dataset) {
  dataset_options out;
  out.dataset = std::move(dataset);
  return out;
}

TEST(OpenDatasets, FilesAreJoinedInTheGivenOrder) {
  const std::shared_ptr<store> memory = make_memory_store();
  for (const char* name : {"old", "tree", "single_filtered"}) {
    put_seed(*memory, "a", name);
    put_seed(*memory, "b", name);
    const auto one = open_datasets(memory, {"a"}, named("x"));
    ASSERT_TRUE(one.ok()) << name << one.error().to_string();
    const auto two = open_datasets(memory, {"b", "a"}, named("/x"));
    ASSERT_TRUE(two.ok()) << name << two.error().to_string();
    EXPECT_EQ(two->format(), "hdf5");
    EXPECT_EQ(two->shape()[0], 2 * one->shape()[0]);
    std::vector<std::byte> expected = values_of(*one);
    expected.insert(expected.end(), expected.begin(), expected.end());
    EXPECT_EQ(values_of(*two), expected) << name;
  }
}

TEST(OpenDatasets, LengthsAndTheNameAreReported) {
  const std::shared_ptr<store> memory = make_memory_store();
  put_seed(*memory, "a", "old");
  put_seed(*memory, "b", "old");
  dataset_options how = named("[x]");
  how.axis = -1;
  const auto made = merge_datasets({{memory, "a"}, {memory, "b"}}, how);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  ASSERT_TRUE(made->merged);
  EXPECT_EQ(made->axis, made->merged->shape().size() - 1);
  EXPECT_EQ(made->lengths.size(), 2u);
  EXPECT_EQ(made->lengths[0] + made->lengths[1], made->merged->shape()[made->axis]);
  EXPECT_EQ(made->dataset, "[x]");
}

TEST(OpenDatasets, UnreadableFilesAreNamed) {
  const std::shared_ptr<store> memory = make_memory_store();
  put_seed(*memory, "a", "old");
  const std::string text = "no such format";
  const part content(std::as_bytes(std::span(text)));
  ASSERT_TRUE(memory->put("b", {&content, 1}, {}).ok());
  const auto damaged = open_datasets(memory, {"a", "b"}, named("x"));
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code(), errc::corrupt_data);
  EXPECT_NE(damaged.error().message().find("1 of 2 files cannot be read"), std::string::npos);
  const auto absent = open_datasets(memory, {"a"}, named("nothing"));
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code(), errc::not_found);
  const auto none = open_datasets(memory, {}, named("x"));
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code(), errc::invalid_argument);
}

}  // namespace
}  // namespace penstock::inline v0
