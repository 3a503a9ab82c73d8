#pragma once

// A GPU's thread block on the CPU, for tests: lanes that take turns, and memory that records accesses.
//
// The host form of the kernels runs 32 lanes as a loop, and never compiles the code after `__CUDA_ARCH__`: it cannot
// detect a missing barrier, a collective that not all lanes reach, or a funnel shift with its operands swapped. Here
// that code runs unchanged. Each lane is a fiber, which yields at collectives, and at random at accesses to memory. The
// kernels are compiled as for ThreadSanitizer, so that every access calls the emulator. It checks
//
// - collectives: all lanes of a warp (of the block, at its barriers) arrive at the same one, with masks of all lanes
//   and the same source lane,
// - races: two lanes access a byte, one of them writes, and no barrier separates the accesses: one of their warp or,
//   for lanes of two warps, of the block. Accesses by two blocks of a launch are a race, too,
// - places: every access is aligned and within memory that the kernel was given, and not in another lane's stack.
//   Read-only memory is not written,
// - content: bytes of shared memory, workspace or targets that were never written are not read.
//
// Effects of ptxas, caches and real clocks are not simulated.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace emulator {

/// The order in which lanes continue.
enum class turn { lowest_first, highest_first, random };
/// How lanes take turns. All of it is repeatable.
struct schedule {
  turn next = turn::random;
  std::uint32_t switch_every =
      64;  ///< one of so many accesses, chosen at random, switches to another lane; 0: none does
  std::uint32_t seed = 1;
};
void set_schedule(const schedule& how);
/// Clears the recorded accesses, and leaves the rest unchanged.
void set_turn(turn next);

enum class content { written, unwritten };
enum class use { read, write };

/// Drops all memory and its recorded accesses.
void forget_memory();
/// Announces memory that kernels may touch from now on. It is merged with announced memory that it overlaps.
void give_memory(const void* at, std::size_t bytes, const char* name, content holds, use may);

/// Runs a kernel: `lane` once for each thread of each block, blocks one after the other.
/// \param threads       At most 256; collectives are for blocks of whole warps.
/// \param shared_bytes  Of its `__shared__` variables.
void launch(std::uint32_t grid, std::uint32_t threads, std::size_t shared_bytes, const std::function<void()>& lane);

/// Findings since the last call: sentences that name the place in the source, each once. If lanes wait for each other,
/// the process ends instead.
std::vector<std::string> take_findings();

/// Counts so far.
struct counts {
  std::uint64_t launches = 0, collectives = 0, shared_accesses = 0, global_accesses = 0, switches = 0;
};
counts counted();

/// Faults to plant, for the test of the tests (mutations.py). Sites are return addresses from the program's start.
struct mutation {
  std::vector<std::uintptr_t> dropped;  ///< barriers that are omitted
  int masked_line = 0, masked_bit = 0;  ///< collectives in this line of warp.h lack this lane in their mask
  int swapped_line = 0;  ///< funnel shifts and byte permutations in this line of their file swap operands
};
/// Also: the process ends at the first finding.
void plant(const mutation& fault);
/// The barriers that were met, in the form of `mutation::dropped`.
std::vector<std::uintptr_t> barriers_met();

}  // namespace emulator
