#include "codec/library_versions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace penstock::inline v0 {
namespace {

TEST(LibraryVersions, AreNumbers) {
  std::set<std::string> names;
  for (const library_version& each : codec_library_versions()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    if (!each.version) continue;
    EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(each.version->front()))) << *each.version;
    EXPECT_NE(each.version->find('.'), std::string::npos) << *each.version;
    EXPECT_EQ(each.version->find_first_of(" ,\n"), std::string::npos) << *each.version;
  }
  for (const char* name : {"zstd", "lz4", "blosc", "libdeflate", "bzip2", "lzma"}) EXPECT_TRUE(names.contains(name));
}

}  // namespace
}  // namespace penstock::inline v0
