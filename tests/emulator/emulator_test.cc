// The emulator finds each of its kinds of faults, and names the place.

#include "emulator/emulator.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "emulator/faulty_lanes.h"

namespace emulator {
namespace {

std::vector<std::string> findings_of(const faulty& each, turn next) {
  alignas(16) static unsigned words[kFaultyWords + 96];  // lanes write beyond the announced memory
  std::fill(std::begin(words), std::end(words), 7U);
  forget_memory();
  give_memory(words, 64 * sizeof(unsigned), "words", content::written, use::write);
  give_memory(words + 64, 64 * sizeof(unsigned), "words", content::unwritten, use::write);
  set_turn(next);
  launch(each.blocks, each.threads, 32 * sizeof(unsigned), [&] { each.lane(words); });
  return take_findings();
}

TEST(Emulator, FindsEveryKindOfFault) {
  for (const faulty* each = kFaulty; each->lane != nullptr; ++each) {
    for (const turn next : {turn::lowest_first, turn::highest_first, turn::random}) {
      if (each->ends) {
        EXPECT_EXIT(findings_of(*each, next), testing::ExitedWithCode(3), each->finding);
        continue;
      }
      const auto found = findings_of(*each, next);
      const auto number = each - kFaulty;
      if (each->finding == nullptr) {
        EXPECT_TRUE(found.empty()) << number << ": " << found[0];
        continue;
      }
      ASSERT_FALSE(found.empty()) << number << ": " << each->finding;
      for (const std::string& sentence : found) {
        EXPECT_NE(sentence.find(each->finding), std::string::npos) << number << ": " << sentence;
        EXPECT_NE(sentence.find("faulty_lanes.cc:"), std::string::npos) << sentence;
      }
    }
  }
}

TEST(Emulator, RunsAreRepeatableBySeed) {
  // The last writing lane depends on the schedule; the emulator finds the race in any schedule.
  const auto last_writers = [](std::uint32_t seed) {
    std::vector<unsigned> out;
    set_schedule({turn::random, 2, seed});
    for (int i = 0; i < 20; ++i) {
      static unsigned words[kFaultyWords];
      forget_memory();
      give_memory(words, sizeof words, "words", content::written, use::write);
      launch(1, kFaulty[3].threads, 0, [&] { kFaulty[3].lane(words); });
      out.push_back(words[0]);
    }
    EXPECT_FALSE(take_findings().empty());
    return out;
  };
  EXPECT_EQ(last_writers(1), last_writers(1));
  EXPECT_NE(last_writers(1), last_writers(2));
  set_schedule({});
}

}  // namespace
}  // namespace emulator
