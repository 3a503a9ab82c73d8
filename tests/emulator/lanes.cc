// Lanes as fibers, and the collectives at which they wait for each other.

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <set>

#include "emulator/cuda_names.h"
#include "emulator/emulator.h"
#include "emulator/memory.h"

// Switches from one stack to another: registers that a function must preserve (System V ABI, x86-64) are pushed, and
// popped from the other stack.
extern "C" void emulator_switch(void** leave, void* enter);
__asm__(R"(
.text
.globl emulator_switch
.type emulator_switch, @function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

namespace emulator {

index thread_index, block_index, block_size;
int swapped_line = 0;
int current = kNobody;
std::uintptr_t all_stacks = 0;
std::uint32_t until_switch = 0;

namespace {

constexpr int kWarp = 32;
// Stacks begin at different offsets in their pages: otherwise, the lanes' data would compete for the same sets of the
// caches.
constexpr std::uintptr_t kStackOffset = 9 * 64;

struct fiber {
  void* stack_pointer = nullptr;
  // The collective that it waits at.
  collective_kind kind{};
  std::uint64_t value = 0, result = 0;
  unsigned argument = 0;
  const void* site = nullptr;
};

// Copies that a lane has started and not waited for, and the number of groups of copies that it has ended.
struct lane_copies {
  struct copy {
    unsigned* to;
    const unsigned* from;
    unsigned group;
  };
  std::deque<copy> waiting;
  unsigned groups = 0;
};

// The lanes for which a condition holds.
class lane_set {
 public:
  void insert(int lane) { words_[word(lane)] |= bit(lane); }
  void erase(int lane) { words_[word(lane)] &= ~bit(lane); }
  bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  int lowest() const {
    for (std::size_t i = 0; i < 4; ++i)
      if (words_[i] != 0) return static_cast<int>(64 * i) + std::countr_zero(words_[i]);
    return kNobody;
  }
  int highest() const {
    for (std::size_t i = 4; i-- > 0;)
      if (words_[i] != 0) return static_cast<int>(64 * i) + 63 - std::countl_zero(words_[i]);
    return kNobody;
  }
  /// The first lane at or after `from`, cyclically.
  int after(int from) const {
    for (std::size_t i = word(from); i < 4; ++i) {
      const std::uint64_t rest = i == word(from) ? words_[i] & ~(bit(from) - 1) : words_[i];
      if (rest != 0) return static_cast<int>(64 * i) + std::countr_zero(rest);
    }
    return lowest();
  }

 private:
  static std::size_t word(int lane) { return static_cast<std::size_t>(lane) / 64; }
  static std::uint64_t bit(int lane) { return std::uint64_t{1} << (lane % 64); }
  std::array<std::uint64_t, 4> words_{};
};

schedule how;
std::minstd_rand chance;
mutation planted;
bool mutated = false;
counts total;
std::set<std::uintptr_t> met;

std::array<fiber, kMostLanes> fibers;
std::array<lane_copies, kMostLanes> all_copies;
lane_set runnable;
int lanes = 0;
std::array<int, kMostLanes / kWarp> waiting{};  // at a collective of their warp
int waiting_for_all = 0;                        // at a barrier of the block
void* scheduler = nullptr;                      // its stack pointer
const std::function<void()>* body = nullptr;

void choose_next_switch() {
  until_switch = how.switch_every == 0 ? 0 : 1 + static_cast<std::uint32_t>(chance()) % (2 * how.switch_every);
}

int choose_lane() {
  switch (how.next) {
    case turn::lowest_first:
      return runnable.lowest();
    case turn::highest_first:
      return runnable.highest();
    default:
      return runnable.empty() ? kNobody : runnable.after(static_cast<int>(chance()) % lanes);
  }
}

void enter(int lane) {
  current = lane;
  thread_index.x = static_cast<unsigned>(lane);
}

// Switches from the current lane to another one, or to the scheduler if none can run.
void give_way(int next) {
  if (next == current) return;
  fiber& from = fibers[static_cast<std::size_t>(current)];
  if (next == kNobody) {
    current = kNobody;
    emulator_switch(&from.stack_pointer, scheduler);
    return;
  }
  enter(next);
  emulator_switch(&from.stack_pointer, fibers[static_cast<std::size_t>(next)].stack_pointer);
}

[[noreturn]] void lane_begins() {
  (*body)();
  runnable.erase(current);
  give_way(choose_lane());
  __builtin_unreachable();
}

[[noreturn]] void end_diverged(const std::string& what) {
  std::fprintf(stderr, "FINDING %s\n", what.c_str());
  std::_Exit(3);  // lanes may still run: no destructors
}

std::string waits_at(int lane) {
  return "lane " + std::to_string(lane) + " waits at " + place_of(fibers[static_cast<std::size_t>(lane)].site);
}

// Called when all lanes have ended or wait, and no collective is complete.
[[noreturn]] void end_waiting() {
  const auto is_waiting = [](int lane) { return fibers[static_cast<std::size_t>(lane)].site != nullptr; };
  int one = 0, other = 0;
  while (!is_waiting(one)) ++one;
  while (other < lanes && is_waiting(other)) ++other;
  if (other < lanes)
    end_diverged("some lanes have ended, others wait at " + place_of(fibers[static_cast<std::size_t>(one)].site));
  const auto differs = [&](int lane) { return fibers[static_cast<std::size_t>(lane)].site != fibers[0].site; };
  for (other = 0; other + 1 < lanes && !differs(other);) ++other;
  end_diverged(waits_at(0) + ", " + waits_at(other));
}

// Distributes results to lanes that have arrived, all of a warp or of the block.
void meet(int begin, int end) {
  const auto at = [&](int lane) -> fiber& { return fibers[static_cast<std::size_t>(lane)]; };
  const fiber first = at(begin);
  std::uint64_t ballot = 0;
  for (int lane = begin; lane < end; ++lane) {
    const fiber& each = at(lane);
    if (each.site != first.site || each.kind != first.kind) end_diverged(waits_at(begin) + ", " + waits_at(lane));
    if (each.argument != first.argument && first.kind != collective_kind::from_any_lane)
      finding("lanes take a value from different lanes", first.site);
    ballot |= (each.value & 1) << (lane - begin);
  }
  if (first.kind == collective_kind::barrier) begin_epoch(begin / kWarp);
  if (first.kind == collective_kind::block_barrier) begin_epoch();
  for (int lane = begin; lane < end; ++lane) {
    fiber& each = at(lane);
    if (first.kind == collective_kind::ballot) each.result = ballot;
    if (first.kind == collective_kind::from_lane)
      each.result = at(begin + static_cast<int>(first.argument % kWarp)).value;
    if (first.kind == collective_kind::from_any_lane)
      each.result = at(begin + static_cast<int>(each.argument % kWarp)).value;
    if (first.kind == collective_kind::from_lanes_before) {
      const int from = lane - static_cast<int>(first.argument);
      each.result = at(from < begin ? lane : from).value;
    }
    each.site = nullptr;
    runnable.insert(lane);
  }
}

void run_block(std::uint32_t block, std::uint32_t threads) {
  lanes = static_cast<int>(threads);
  block_index.x = block;
  block_size.x = threads;
  waiting = {};
  waiting_for_all = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    auto* const top =
        reinterpret_cast<void**>(stack_of(lane + 1) - kStackOffset * static_cast<std::uintptr_t>(lane % kWarp)) - 2;
    *top = reinterpret_cast<void*>(&lane_begins);
    fibers[static_cast<std::size_t>(lane)] = fiber{};
    fibers[static_cast<std::size_t>(lane)].stack_pointer = std::fill_n(top - 6, 6, nullptr) - 6;
    runnable.insert(lane);
  }
  for (lane_copies& each : all_copies) each = {};
  for (;;) {
    const int next = choose_lane();
    if (next == kNobody) {
      const bool all_ended =
          waiting_for_all == 0 && std::all_of(waiting.begin(), waiting.end(), [](int n) { return n == 0; });
      if (all_ended) return;
      end_waiting();
    }
    enter(next);
    emulator_switch(&scheduler, fibers[static_cast<std::size_t>(next)].stack_pointer);
  }
}

}  // namespace

std::uint64_t collective(collective_kind kind, unsigned mask, std::uint64_t value, unsigned argument, int line) {
  const void* const site = __builtin_return_address(0);
  ++total.collectives;
  if (mutated) {
    if (kind == collective_kind::barrier || kind == collective_kind::block_barrier) {
      const std::uintptr_t offset = offset_in_program(site);
      met.insert(offset);
      if (std::find(planted.dropped.begin(), planted.dropped.end(), offset) != planted.dropped.end()) return 0;
    }
    if (line == planted.masked_line) mask &= ~(1U << planted.masked_bit);
  }
  if (lanes % kWarp != 0) end_diverged("a collective in a block of " + std::to_string(lanes) + " at " + place_of(site));
  if (mask != 0xffffffffU) finding("a collective without all lanes in its mask", site);
  fiber& mine = fibers[static_cast<std::size_t>(current)];
  mine.kind = kind;
  mine.value = value;
  mine.argument = argument;
  mine.site = site;
  runnable.erase(current);
  int& of_warp = waiting[static_cast<std::size_t>(current / kWarp)];
  if (kind == collective_kind::block_barrier) {
    if (++waiting_for_all == lanes) {
      waiting_for_all = 0;
      meet(0, lanes);
    }
  } else if (++of_warp == kWarp) {
    of_warp = 0;
    meet(current / kWarp * kWarp, current / kWarp * kWarp + kWarp);
  }
  give_way(choose_lane());
  return mine.result;
}

bool start_copy(unsigned* to, const unsigned* from) {
  if (current % 2 == 0) return true;
  lane_copies& mine = all_copies[static_cast<std::size_t>(current)];
  mine.waiting.push_back({to, from, mine.groups});
  return false;
}
void end_copies() { ++all_copies[static_cast<std::size_t>(current)].groups; }
bool next_copy(unsigned groups, unsigned*& to, const unsigned*& from) {
  lane_copies& mine = all_copies[static_cast<std::size_t>(current)];
  if (mine.waiting.empty() || mine.groups - mine.waiting.front().group <= groups) return false;
  to = mine.waiting.front().to;
  from = mine.waiting.front().from;
  mine.waiting.pop_front();
  return true;
}

void switch_lanes() {
  choose_next_switch();
  ++total.switches;
  const int next = runnable.after(static_cast<int>(chance()) % lanes);
  if (next != kNobody) give_way(next);
}

void set_schedule(const schedule& asked) {
  how = asked;
  chance.seed(asked.seed);
}
void set_turn(turn next) { how.next = next; }

void launch(std::uint32_t grid, std::uint32_t threads, std::size_t shared_bytes, const std::function<void()>& lane) {
  ++total.launches;
  body = &lane;
  if (all_stacks == 0) {
    void* const memory = mmap(nullptr, kStackBytes * kMostLanes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    all_stacks = reinterpret_cast<std::uintptr_t>(memory);
  }
  choose_next_switch();
  begin_launch(shared_bytes);
  for (std::uint32_t block = 0; block < grid; ++block) {
    begin_block();
    run_block(block, threads);
  }
  body = nullptr;
}

counts counted() {
  counts out = total;
  add_accesses(out);
  return out;
}

void plant(const mutation& fault) {
  planted = fault;
  mutated = true;
  swapped_line = fault.swapped_line;
  end_at_first_finding();
}

std::vector<std::uintptr_t> barriers_met() { return {met.begin(), met.end()}; }

}  // namespace emulator
