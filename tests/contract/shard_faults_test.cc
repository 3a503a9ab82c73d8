// Shards that vanish, shrink or are replaced while they are read: the read names the file, and no element of it is
// ever taken from another version.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <penstock/penstock.h>
#include <penstock/shards.h>
#include "contract/fault_store.h"
#include "support/cases.h"

namespace penstock::test {
namespace {

constexpr std::uint64_t kFiles = 3, kRows = 150'000, kColumns = 4;  // several blocks in each file

std::string name_of(std::uint64_t file) { return fmt::format("run/shard_{:04d}.npy", file); }

std::vector<std::byte> npy_file(std::uint64_t rows, std::int32_t value) {
  std::string header = fmt::format("{{'descr': '<i4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, kColumns);
  header.resize(117, ' ');
  header += '\n';
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size());
  text += '\0';
  text += header;
  std::vector<std::byte> out(text.size() + rows * kColumns * sizeof value);
  std::memcpy(out.data(), text.data(), text.size());
  for (std::size_t at = text.size(); at < out.size(); at += sizeof value)
    std::memcpy(out.data() + at, &value, sizeof value);
  return out;
}

void put(store& to, const std::string& key, const std::vector<std::byte>& bytes) {
  const part whole(bytes);
  ASSERT_TRUE(to.put(key, {&whole, 1}, {}).ok());
}

enum class change { vanish, shrink, replace, rewrite };

void make(change what, fault_store& to, const std::string& key) {
  if (what == change::vanish) to.vanish(key);
  if (what == change::shrink) put(to, key, npy_file(kRows / 2, 7));
  if (what == change::replace) put(to, key, npy_file(kRows, 7));
  if (what == change::rewrite) to.change(key);
}

class ShardFaults : public testing::TestWithParam<change> {};

TEST_P(ShardFaults, AFileThatChangesBeforeARequestIsNamed) {
  bool all = false;  // a read had fewer requests than this: every request has been faulted
  std::uint64_t struck = 0;
  for (; !all; struck += all_cases() ? 1 : 3) {
    std::uint64_t seen = 0;
    bool armed = false;
    std::string changed;
    fault_store* self = nullptr;
    fault_script script;
    script.before = [&, struck](const byte_read& read) {
      if (!armed || seen++ != struck) return;
      armed = false;
      changed = read.key;
      make(GetParam(), *self, changed);
    };
    const auto faults = std::make_shared<fault_store>(make_memory_store(), script);
    self = faults.get();
    std::vector<std::string> keys;
    for (std::uint64_t file = 0; file < kFiles; ++file) {
      keys.push_back(name_of(file));
      put(*faults, keys.back(), npy_file(kRows, static_cast<std::int32_t>(file)));
    }
    shard_options options;
    context_options with;
    with.threads = 1;  // `before` counts the reads of one thread
    options.context = context::make(with).value();
    const auto array = open_shards(faults, keys, options);
    ASSERT_TRUE(array.ok()) << array.error().to_string();
    armed = true;
    std::vector<std::int32_t> values(kFiles * kRows * kColumns, -1);
    const auto done = array->read(
        tensor_view::contiguous(reinterpret_cast<std::byte*>(values.data()), array->type(), array->shape()));
    all = changed.empty();
    if (all) {
      ASSERT_TRUE(done.ok()) << done.error().to_string();
      ASSERT_EQ(std::count(values.begin(), values.end(), -1), 0);
      continue;
    }
    ASSERT_FALSE(done.ok()) << changed << ", request " << struck;
    EXPECT_EQ(done.error().code(), errc::conflict) << done.error().to_string();
    EXPECT_NE(done.error().to_string().find(changed), std::string::npos) << done.error().to_string();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == -1) continue;
      ASSERT_EQ(values[i], static_cast<std::int32_t>(i / (kRows * kColumns))) << "element " << i;
    }
  }
  EXPECT_GT(struck, kFiles);
}

INSTANTIATE_TEST_SUITE_P(All, ShardFaults,
                         testing::Values(change::vanish, change::shrink, change::replace, change::rewrite));

TEST(ShardHeaders, TheErrorNamesTheFirstFiveUnreadableFiles) {
  const auto faults = std::make_shared<fault_store>(make_memory_store());
  std::vector<std::string> keys;
  for (std::uint64_t file = 0; file < 9; ++file) {
    keys.push_back(name_of(file));
    put(*faults, keys.back(), npy_file(2, 1));
    if (file >= 2) faults->vanish(keys.back());
  }
  const auto array = open_shards(faults, keys);
  ASSERT_FALSE(array.ok());
  const std::string text = array.error().to_string();
  EXPECT_NE(text.find("7 of 9 files cannot be read"), std::string::npos) << text;
  for (std::uint64_t file = 2; file < 7; ++file) EXPECT_NE(text.find(name_of(file)), std::string::npos) << text;
  EXPECT_NE(text.find("and 2 more"), std::string::npos) << text;
}

TEST(ShardManifest, IsOutdatedOnceAFileIsReplaced) {
  const auto faults = std::make_shared<fault_store>(make_memory_store());
  const std::vector<std::string> keys{name_of(0), name_of(1)};
  for (const std::string& key : keys) put(*faults, key, npy_file(2, 1));
  const auto array = open_shards(faults, keys);
  ASSERT_TRUE(array.ok()) << array.error().to_string();
  EXPECT_FALSE(shards_changed(*array));
  faults->change(keys[1]);
  EXPECT_TRUE(shards_changed(*array));
}

}  // namespace
}  // namespace penstock::test
