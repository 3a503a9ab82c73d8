#include "base/fork_local.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::inline v0 {
namespace {

struct guarded {
  std::mutex mutex;
  int value = 0;
};

// Exit status of a child that runs `body`; it must not hang, so an alarm ends it.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(body());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

TEST(ForkLocal, IsTheSameValueUntilAFork) {
  fork_local<guarded> local([] { return std::make_unique<guarded>(); });
  guarded* const first = &local.get();
  first->value = 7;
  EXPECT_EQ(&local.get(), first);
  EXPECT_EQ(in_child([] { return 0; }), 0);
  EXPECT_EQ(&local.get(), first) << "the parent keeps its value";
  EXPECT_EQ(local.get().value, 7);
}

TEST(ForkLocal, IsCreatedAtFirstUse) {
  int made = 0;
  fork_local<guarded> local([&made] {
    ++made;
    return std::make_unique<guarded>();
  });
  EXPECT_EQ(made, 0);
  local.get().value = 7;
  EXPECT_EQ(local.get().value, 7);
  EXPECT_EQ(made, 1);
}

TEST(ForkLocal, AChildHasANewValueWhileAnotherThreadHoldsTheLock) {
  int made = 0;
  fork_local<guarded> local([&made] {
    ++made;
    return std::make_unique<guarded>();
  });
  local.get().value = 7;
  std::mutex gate;
  gate.lock();
  std::atomic<bool> held{false};
  std::thread holder([&] {
    const std::lock_guard lock(local.get().mutex);
    held = true;
    const std::lock_guard wait(gate);
  });
  while (!held) std::this_thread::yield();
  const int outcome = in_child([&] {
    const std::lock_guard lock(local.get().mutex);  // a lock of the parent would make this hang
    return local.get().value * 10 + made;
  });
  gate.unlock();
  holder.join();
  EXPECT_EQ(outcome, 2) << "value 0, made by the second call of the factory";
  EXPECT_EQ(local.get().value, 7);
  EXPECT_EQ(made, 1);
}

TEST(ForkLocal, AGrandchildHasAValueOfItsOwn) {
  fork_local<guarded> local([] { return std::make_unique<guarded>(); });
  local.get().value = 1;
  EXPECT_EQ(in_child([&] {
              local.get().value += 2;
              const int below = in_child([&] { return local.get().value + 5; });
              return below * 10 + local.get().value;
            }),
            52);
}

TEST(ForkLocal, KeepsTheParentsValueWhenAChildDestroysIt) {
  static int destroyed;
  struct counted {
    ~counted() { ++destroyed; }
  };
  destroyed = 0;
  auto local = std::make_unique<fork_local<counted>>([] { return std::make_unique<counted>(); });
  local->get();
  EXPECT_EQ(in_child([&] {
              local.reset();  // never used in the child, which must not touch it
              return destroyed;
            }),
            0);
  EXPECT_EQ(in_child([&] {
              local->get();
              local.reset();
              return destroyed;
            }),
            1);
  local.reset();
  EXPECT_EQ(destroyed, 1);
}

TEST(ForkLocal, AllThreadsOfAChildHaveTheSameValue) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not follow threads that a child starts";
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "the thread sanitizer does not follow threads that a child starts";
#endif
#endif
  fork_local<guarded> local([] { return std::make_unique<guarded>(); });
  EXPECT_EQ(in_child([&] {
              std::vector<std::thread> threads;
              for (int t = 0; t < 4; ++t) {
                threads.emplace_back([&] {
                  const std::lock_guard lock(local.get().mutex);
                  ++local.get().value;
                });
              }
              for (auto& each : threads) each.join();
              return local.get().value;
            }),
            4);
}

}  // namespace
}  // namespace penstock::inline v0
