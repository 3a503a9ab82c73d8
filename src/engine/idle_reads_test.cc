#include "engine/idle_reads.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "engine/context_state.h"
#include "engine/read_job.h"

namespace penstock::inline v0 {
namespace {

TEST(IdleReads, AJobIsUsedAgainWhenItHasNoOtherReferences) {
  context_state with{context_options()};
  idle_reads idle;
  EXPECT_EQ(idle.take(), nullptr);
  auto read = std::make_shared<read_job>(with);
  const read_job* const same = read.get();
  std::shared_ptr<read_job> of_the_pool = read;
  idle.give(std::move(read));
  EXPECT_EQ(idle.take(), nullptr);
  of_the_pool.reset();
  EXPECT_EQ(idle.take().get(), same);
  EXPECT_EQ(idle.take(), nullptr);
}

}  // namespace
}  // namespace penstock::inline v0
