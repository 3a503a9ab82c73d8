#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>

namespace penstock::test {

#ifdef __GLIBC__

/// Calls `work` while no thread can be started: the stack of a new thread would be larger than the address space.
template <class Work>
auto without_threads(const Work& work) {
  struct huge_stacks {
    pthread_attr_t before;
    huge_stacks() {
      pthread_attr_t huge;
      EXPECT_EQ(pthread_getattr_default_np(&before), 0);
      EXPECT_EQ(pthread_attr_init(&huge), 0);
      EXPECT_EQ(pthread_attr_setstacksize(&huge, std::size_t{1} << 50), 0);
      EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
      pthread_attr_destroy(&huge);
    }
    huge_stacks(const huge_stacks&) = delete;
    huge_stacks& operator=(const huge_stacks&) = delete;
    ~huge_stacks() {
      EXPECT_EQ(pthread_setattr_default_np(&before), 0);
      pthread_attr_destroy(&before);
    }
  };
  const huge_stacks all;
  return work();
}

#endif

}  // namespace penstock::test
