#include "api/chunk_pipeline.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <penstock/open.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace penstock::inline v0 {
namespace {

constexpr const char* kOneChunk =
    R"({"zarr_format":3,"node_type":"array","shape":[4],"data_type":"uint8","fill_value":7,"attributes":{},)"
    R"("chunk_grid":{"name":"regular","configuration":{"chunk_shape":[4]}},)"
    R"("chunk_key_encoding":{"name":"default"},"codecs":[{"name":"bytes"}]})";

#ifdef __GLIBC__
TEST(ChunkPipeline, AReadWithoutAThreadIsAnError) {
  pthread_attr_t before, huge;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, std::size_t{1} << 50), 0);
  const auto pipeline = chunk_pipeline::compile(kOneChunk);
  ASSERT_TRUE(pipeline.ok()) << pipeline.error().to_string();
  const std::shared_ptr<store> empty = make_memory_store();
  const std::shared_ptr<context> with = context::make({}).value();
  std::vector<std::byte> values(4);
  chunk_item item{"c/0", {{0, 1, 4}}, values.data(), {1}};
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);  // no thread can be started
  const auto refused = (*pipeline)->start(with, *empty, item, {});
  ASSERT_EQ(pthread_setattr_default_np(&before), 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::resource_exhausted);
  auto started = (*pipeline)->start(with, *empty, item, {});
  ASSERT_TRUE(started.ok()) << started.error().to_string();
  EXPECT_TRUE(started->wait().ok());
  EXPECT_EQ(values, std::vector<std::byte>(4, std::byte{7}));
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&before);
}
#endif

}  // namespace
}  // namespace penstock::inline v0
