#include "base/memory_node.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::inline v0 {
namespace {

constexpr int kDefault = 0, kPreferred = 1;

// The calling thread's policy, with the nodes below 64; false if the system does not report it.
bool policy(int& mode, unsigned long& nodes) {
  unsigned long all[preferred_node::kMostNodes / 64] = {};
  if (syscall(SYS_get_mempolicy, &mode, all, preferred_node::kMostNodes + 1UL, nullptr, 0UL) != 0) return false;
  nodes = all[0];
  return true;
}

TEST(PreferredNode, IsTheThreadsPolicyWhileItExists) {
  int mode = -1;
  unsigned long nodes = 0;
  if (!policy(mode, nodes) || mode != kDefault) GTEST_SKIP() << "the system reports no policy, or has one of its own";
  const unsigned long first[preferred_node::kMostNodes / 64] = {1};
  if (syscall(SYS_set_mempolicy, kPreferred, first, preferred_node::kMostNodes + 1UL) != 0)
    GTEST_SKIP() << "the system lets no process choose a node";
  ASSERT_EQ(syscall(SYS_set_mempolicy, kDefault, nullptr, 0UL), 0);
  {
    const preferred_node near(0U);
    ASSERT_TRUE(policy(mode, nodes));
    EXPECT_EQ(mode, kPreferred);
    EXPECT_EQ(nodes, 1U);
    {
      const preferred_node nowhere(std::nullopt);
      ASSERT_TRUE(policy(mode, nodes));
      EXPECT_EQ(mode, kPreferred);
    }
  }
  ASSERT_TRUE(policy(mode, nodes));
  EXPECT_EQ(mode, kDefault);
}

TEST(PreferredNode, AnAbsentNodeHasNoEffect) {
  int mode = -1, before = -1;
  unsigned long nodes = 0;
  if (!policy(before, nodes)) GTEST_SKIP() << "the system reports no policy";
  for (const unsigned node : {preferred_node::kMostNodes - 1, preferred_node::kMostNodes, ~0U}) {
    const preferred_node near(node);
    ASSERT_TRUE(policy(mode, nodes));
    EXPECT_EQ(mode, before);
  }
}

}  // namespace
}  // namespace penstock::inline v0
