#pragma once

// The interface between lanes.cc and memory.cc.

#include <cstddef>
#include <cstdint>
#include <string>

#include "emulator/emulator.h"

namespace emulator {

// memory.cc: logical time. Accesses of one epoch are not ordered; accesses of two warps are not ordered either, unless
// a barrier of the block is between them.
void begin_launch(std::size_t shared_bytes);
void begin_block();
/// A barrier of a warp, and one of the block.
void begin_epoch(int warp);
void begin_epoch();
void add_accesses(counts& to);

void finding(const std::string& what, const void* site);
void end_at_first_finding();
/// The source line of a return address, with the lines into which it was inlined.
std::string place_of(const void* site);
std::uintptr_t offset_in_program(const void* site);

// lanes.cc: the running lane. Read at every access, so these are not functions.
inline constexpr int kNobody = -1;
// An odd number of pages: otherwise, the tops of all stacks would be in few sets of the TLB and the caches.
inline constexpr std::size_t kStackBytes = 260 * 1024;
inline constexpr int kMostLanes = 256;
extern int current;                ///< the lane, or kNobody
extern std::uintptr_t all_stacks;  ///< stacks of kMostLanes lanes
extern std::uint32_t until_switch;
inline std::uintptr_t stack_of(int lane) { return all_stacks + kStackBytes * static_cast<std::size_t>(lane); }
/// Records that another lane continues.
void switch_lanes();

}  // namespace emulator
