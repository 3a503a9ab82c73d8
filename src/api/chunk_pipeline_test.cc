#include "api/chunk_pipeline.h"

#include <gtest/gtest.h>

#include <penstock/open.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "support/without_threads.h"

namespace penstock::inline v0 {
namespace {

constexpr const char* kOneChunk =
    R"({"zarr_format":3,"node_type":"array","shape":[4],"data_type":"uint8","fill_value":7,"attributes":{},)"
    R"("chunk_grid":{"name":"regular","configuration":{"chunk_shape":[4]}},)"
    R"("chunk_key_encoding":{"name":"default"},"codecs":[{"name":"bytes"}]})";

#ifdef __GLIBC__
TEST(ChunkPipeline, AReadWithoutAThreadIsAnError) {
  const auto pipeline = chunk_pipeline::compile(kOneChunk);
  ASSERT_TRUE(pipeline.ok()) << pipeline.error().to_string();
  const std::shared_ptr<store> empty = make_memory_store();
  const std::shared_ptr<context> with = context::make({}).value();
  std::vector<std::byte> values(4);
  chunk_item item{"c/0", {{0, 1, 4}}, values.data(), {1}};
  const auto refused = test::without_threads([&] { return (*pipeline)->start(with, *empty, item, {}); });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::resource_exhausted);
  auto started = (*pipeline)->start(with, *empty, item, {});
  ASSERT_TRUE(started.ok()) << started.error().to_string();
  EXPECT_TRUE(started->wait().ok());
  EXPECT_EQ(values, std::vector<std::byte>(4, std::byte{7}));
}
#endif

}  // namespace
}  // namespace penstock::inline v0
