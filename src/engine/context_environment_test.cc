#include <gtest/gtest.h>
#include <penstock/context.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace penstock::inline v0 {
namespace {

class Environment : public testing::Test {
 protected:
  void set(const char* name, const char* value) {
    ::setenv(name, value, 1);
    names_.emplace_back(name);
  }
  void TearDown() override {
    for (const std::string& each : names_) ::unsetenv(each.c_str());
  }

 private:
  std::vector<std::string> names_;
};

TEST_F(Environment, ReplacesDefaults) {
  set("PENSTOCK_THREADS", "3");
  set("PENSTOCK_MEMORY_LIMIT", "2GiB");
  set("PENSTOCK_CHUNK_CACHE", "0");
  set("PENSTOCK_DISK_CACHE", "/tmp/x");
  set("PENSTOCK_IO_CONCURRENCY", "");
  const auto found = options_of_environment();
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(found->threads, 3U);
  EXPECT_EQ(found->memory_limit_bytes, std::uint64_t{2} << 30);
  EXPECT_EQ(found->chunk_cache_bytes, 0U);
  EXPECT_EQ(found->disk_cache, "/tmp/x");
  EXPECT_EQ(found->io_concurrency, 0U);
  EXPECT_EQ(found->output_pool_bytes, context_options().output_pool_bytes);
}

TEST_F(Environment, KeepsTheValuesOfTheCaller) {
  set("PENSTOCK_THREADS", "3");
  set("PENSTOCK_CHUNK_CACHE", "1GB");
  set("PENSTOCK_DISK_CACHE", "/tmp/x");
  context_options given;
  given.threads = 2;
  given.chunk_cache_bytes = 7;
  given.disk_cache = "/tmp/y";
  const auto found = options_of_environment(given);
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(found->threads, 2U);
  EXPECT_EQ(found->chunk_cache_bytes, 7U);
  EXPECT_EQ(found->disk_cache, "/tmp/y");
}

TEST_F(Environment, NamesAnInvalidVariable) {
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{{"PENSTOCK_THREADS", "many"},
                                                        {"PENSTOCK_THREADS", "0"},
                                                        {"PENSTOCK_THREADS", "-1"},
                                                        {"PENSTOCK_IO_CONCURRENCY", "4x"},
                                                        {"PENSTOCK_CHUNK_CACHE", "-1"},
                                                        {"PENSTOCK_MEMORY_LIMIT", "much"}}) {
    set(name, value);
    const auto found = options_of_environment();
    ASSERT_FALSE(found.ok()) << name << " " << value;
    EXPECT_EQ(found.error().code(), errc::invalid_argument);
    EXPECT_NE(found.error().to_string().find(name), std::string::npos) << found.error().to_string();
    ::unsetenv(name);
  }
}

}  // namespace
}  // namespace penstock::inline v0
