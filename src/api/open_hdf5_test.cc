#include "driver/open_hdf5.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "driver/registry.h"

namespace penstock::inline v0 {
namespace {

std::vector<std::byte> seed(const std::string& name) {
  std::ifstream file(PENSTOCK_SOURCE_DIR "/tests/data/fuzz/hdf5_file/" + name, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

/// A store that behaves like a network: reads complete on another thread. Counts round trips and bytes.
class distant_store final : public store {
 public:
  explicit distant_store(std::shared_ptr<const store> from) : from_(std::move(from)) {}
  store_traits traits() const override {
    store_traits out = from_->traits();
    out.inline_completion = false;
    out.request_bytes = 1 << 16;
    return out;
  }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    ++rounds;
    for (const byte_read& each : reads) bytes += each.range.length == byte_range::kAll ? 0 : each.range.length;
    std::thread([&] { from_->read(reads, sink, stop); }).join();
  }
  std::string uri() const override { return "far:"; }

  mutable std::atomic<std::uint64_t> rounds{0}, bytes{0};

 private:
  std::shared_ptr<const store> from_;
};

std::shared_ptr<store> memory_with(const std::string& key, const std::vector<std::byte>& bytes) {
  const std::shared_ptr<store> made = make_memory_store();
  const part content(bytes);
  EXPECT_TRUE(made->put(key, {&content, 1}, {}).ok());
  return made;
}

result<std::vector<std::uint8_t>> values_of(const array& from) {
  std::size_t count = from.type().item_bytes();
  for (const std::uint64_t each : from.shape()) count *= each;
  std::vector<std::uint8_t> out(count);
  tensor_view view;
  view.data = reinterpret_cast<std::byte*>(out.data());
  view.extents = from.shape();
  view.strides = strides(from.shape().size());
  std::int64_t step = from.type().item_bytes();
  for (std::size_t d = from.shape().size(); d-- > 0; step *= static_cast<std::int64_t>(from.shape()[d]))
    view.strides[d] = step;
  view.type = from.type();
  PENSTOCK_TRY(from.read(selection(), view));
  return out;
}

TEST(OpenHdf5, LocalAndRemoteFilesAreEqualArrays) {
  for (const char* name : {"old", "tree", "extensible_second", "single_filtered", "new_group", "old_group"}) {
    const std::shared_ptr<store> near = memory_with("f", seed(name));
    const auto far = std::make_shared<distant_store>(near);
    const auto local = open_hdf5(near, "f", "x", {});
    ASSERT_TRUE(local.ok()) << name << local.error().to_string();
    const auto remote = open_hdf5(far, "f", "x", {});
    ASSERT_TRUE(remote.ok()) << name << remote.error().to_string();
    const array& a = std::get<array>(*local);
    const array& b = std::get<array>(*remote);
    EXPECT_EQ(a.shape(), b.shape());
    EXPECT_EQ(a.format(), "hdf5");
    EXPECT_TRUE(a.read_only());
    const auto left = values_of(a), right = values_of(b);
    ASSERT_TRUE(left.ok()) << name << left.error().to_string();
    ASSERT_TRUE(right.ok());
    EXPECT_EQ(*left, *right) << name;
  }
}

TEST(OpenHdf5, PathsContinueInsideFilesOfAnyName) {
  const std::shared_ptr<store> from = memory_with("folder/file.h5", seed("latest_small"));
  for (const char* path : {"folder/file.h5/x", "folder/file.h5//x/"}) {
    open_options how;
    how.path = path;
    const auto found = open(from, how);
    ASSERT_TRUE(found.ok()) << found.error().to_string();
    EXPECT_EQ(std::get<array>(*found).shape(), (extents{4}));
  }
  open_options how;
  how.path = "folder/file.h5";
  const auto root = open(from, how);
  ASSERT_TRUE(root.ok()) << root.error().to_string();
  const group& top = std::get<group>(*root);
  EXPECT_EQ(*top.keys(), (std::vector<std::string>{"e", "ext", "g", "s", "vds", "x"}));
  const auto member = open(top, "x");
  ASSERT_TRUE(member.ok()) << member.error().to_string();
  EXPECT_EQ(open(top, "nothing").error().code(), errc::not_found);
  // Its values are in external files, which do not exist.
  const auto elsewhere = open(top, "ext");
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.error().to_string();
  const array& values = std::get<array>(*elsewhere);
  std::vector<std::byte> room(element_count(values.shape()).value() * values.type().item_bytes());
  const auto read = values.read(tensor_view::contiguous(room.data(), values.type(), values.shape()));
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().to_string().find("folder/a.bin"), std::string::npos) << read.error().to_string();
}

TEST(OpenHdf5, RemoteFilesNeedFewRounds) {
  // The first read obtains the version and reads all of these small files.
  const auto far = std::make_shared<distant_store>(memory_with("f.h5", seed("latest_dense")));
  open_options how;
  how.path = "f.h5/x";
  const auto found = open(far, how);
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(far->rounds, 1U);
}

/// Counts requests. It completes them at once, and lends no bytes, like a store of local files.
class counting_store final : public store {
 public:
  explicit counting_store(std::shared_ptr<const store> from) : from_(std::move(from)) {}
  store_traits traits() const override {
    store_traits out = from_->traits();
    out.lends_bytes = false;
    return out;
  }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    requests += reads.size();
    from_->read(reads, sink, stop);
  }
  std::string uri() const override { return "near:"; }

  mutable std::size_t requests = 0;

 private:
  std::shared_ptr<const store> from_;
};

TEST(OpenHdf5, AShortFileOfManyIsReadAtOnce) {
  const auto near = std::make_shared<counting_store>(memory_with("f", seed("old_group")));
  location at;
  at.context = context::make().value();
  at.from = near;
  at.path = "f";
  at.head = std::make_shared<const object_head>(**read_head(*near, "f"));
  EXPECT_GT(at.head->object_size, 2 * at.head->bytes.size());
  near->requests = 0;
  const auto described = describe_hdf5_group(at, {});
  ASSERT_TRUE(described.ok()) << described.error().to_string();
  EXPECT_EQ(described->datasets.size(), 1U);
  EXPECT_EQ(near->requests, 1U);
}

TEST(OpenHdf5, DamageIsRefusedAndNamed) {
  for (const char* name : {"old", "latest_small", "old_group"}) {
    const std::vector<std::byte> whole = seed(name);
    for (std::size_t length = 0; length < whole.size(); length += 61) {
      const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
      const auto found = open_hdf5(memory_with("f", cut), "f", "x", {});
      if (found.ok()) continue;
      EXPECT_TRUE(found.error().code() == errc::corrupt_data || found.error().code() == errc::unsupported)
          << found.error().to_string();
      EXPECT_NE(found.error().to_string().find("'memory:/f"), std::string::npos) << found.error().to_string();
    }
  }
}

}  // namespace
}  // namespace penstock::inline v0
