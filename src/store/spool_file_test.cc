#include "store/spool_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

namespace penstock {
namespace {

std::vector<std::byte> bytes(std::size_t count, int value) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

TEST(SpoolFile, KeepsAppendsOfSeveralThreadsAndHasNoName) {
  const std::string folder = ::testing::TempDir() + "spool_" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  auto made = spool_file::make(folder);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  spool_file& file = **made;
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_TRUE(file.map().ok());

  std::vector<std::uint64_t> places(64);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < places.size(); i += 4) {
        const auto at = file.append(bytes(i + 1, static_cast<int>(i)));
        places[i] = at.ok() ? *at : ~std::uint64_t{0};
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(file.size(), 64U * 65 / 2);
  const auto all = file.map();
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->bytes().size(), file.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto wanted = bytes(i + 1, static_cast<int>(i));
    EXPECT_EQ(std::memcmp(all->bytes().data() + places[i], wanted.data(), wanted.size()), 0);
    std::vector<std::byte> read(i + 1);
    ASSERT_TRUE(file.read(places[i], read).ok());
    EXPECT_EQ(read, wanted);
  }
  std::vector<std::byte> beyond(2);
  EXPECT_EQ(file.read(file.size() - 1, beyond).error().code(), errc::io_error);
  std::filesystem::remove(folder);
}

TEST(SpoolFile, NeedsAFolder) {
  const auto made = spool_file::make("/nowhere/at/all");
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message().find("/nowhere/at/all"), std::string::npos) << made.error().to_string();
}

}  // namespace
}  // namespace penstock
