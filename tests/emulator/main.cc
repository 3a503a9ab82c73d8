// Runs tests on the emulator: a finding fails the test in which it occurs.
//
// PENSTOCK_EMULATOR_SEED and _SWITCH choose the schedule. PENSTOCK_EMULATOR_MUTATION plants a fault and ends the
// process at the first finding ("", "barrier OFFSET...", "mask LINE BIT", "swap LINE"; see mutations.py). _BARRIERS
// names a file that gets the offsets of the barriers that were met.

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "emulator/emulator.h"

namespace {

class findings_fail : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo&) override {
    for (const std::string& each : emulator::take_findings()) ADD_FAILURE() << "the emulator found: " << each;
  }
};

std::uint32_t number(const char* variable, std::uint32_t otherwise) {
  const char* const said = std::getenv(variable);
  return said == nullptr ? otherwise : static_cast<std::uint32_t>(std::strtoul(said, nullptr, 10));
}

emulator::mutation mutation_of(const std::string& words) {
  std::istringstream in(words);
  emulator::mutation out;
  std::string kind;
  in >> kind;
  if (kind == "barrier")
    for (std::uintptr_t offset; in >> std::hex >> offset;) out.dropped.push_back(offset);
  if (kind == "mask") in >> out.masked_line >> out.masked_bit;
  if (kind == "swap") in >> out.swapped_line;
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new findings_fail);
  emulator::schedule how;
  how.seed = number("PENSTOCK_EMULATOR_SEED", how.seed);
  how.switch_every = number("PENSTOCK_EMULATOR_SWITCH", how.switch_every);
  emulator::set_schedule(how);
  if (const char* const words = std::getenv("PENSTOCK_EMULATOR_MUTATION")) {
    emulator::plant(mutation_of(words));
    testing::GTEST_FLAG(fail_fast) = true;
  }
  const int status = RUN_ALL_TESTS();
  if (const char* const file = std::getenv("PENSTOCK_EMULATOR_BARRIERS")) {
    std::ofstream out(file);
    for (const std::uintptr_t each : emulator::barriers_met()) out << std::hex << each << '\n';
  }
  const emulator::counts seen = emulator::counted();
  std::printf(
      "%.1f k launches, %.1f M collectives, %.1f M accesses to shared and %.1f M to global memory, %.2f M of them with "
      "a switch of lanes\n",
      1e-3 * static_cast<double>(seen.launches), 1e-6 * static_cast<double>(seen.collectives),
      1e-6 * static_cast<double>(seen.shared_accesses), 1e-6 * static_cast<double>(seen.global_accesses),
      1e-6 * static_cast<double>(seen.switches));
  return status;
}
