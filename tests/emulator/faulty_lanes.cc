// Built with -fsanitize=thread, as the kernels are.

#include "emulator/faulty_lanes.h"

#include "emulator/cuda_names.h"

namespace emulator {
namespace {

constexpr unsigned kAll = 0xffffffffU;

unsigned lane() { return threadIdx.x; }

void neighbours_in_order(unsigned* words) {
  words[lane()] = lane();
  __syncwarp();
  const unsigned next = words[(lane() + 1) % 32];
  __syncwarp();
  words[lane()] = next;
}
void reads_without_barrier(unsigned* words) {
  words[lane()] = lane();
  words[64 + lane()] = words[(lane() + 1) % 32];
}
void writes_without_barrier(unsigned* words) {
  const unsigned next = words[(lane() + 1) % 32];
  words[lane()] = next;
}
void all_write_one(unsigned* words) { words[0] = lane(); }
void all_count_in_one(unsigned* words) { atomicAdd(words, 1U); }
void counts_in_what_was_cleared(unsigned* words) {
  __shared__ unsigned count;
  if (lane() == 0) count = 0;
  __syncwarp();
  atomicAdd(&count, 1U);
  __syncwarp();
  words[lane()] = count;
}
void counts_in_what_another_clears(unsigned*) {
  __shared__ unsigned count;
  if (lane() == 0) count = 0;
  atomicAdd(&count, 1U);
}
void blocks_write_one(unsigned* words) {
  if (lane() == 0) words[0] = blockIdx.x;
}
void reads_unwritten(unsigned* words) { words[lane()] = words[64 + lane()]; }
void leaves_memory(unsigned* words) { words[kFaultyWords + lane()] = 1; }
void is_misaligned(unsigned* words) {
  if (lane() == 0) *reinterpret_cast<unsigned*>(reinterpret_cast<unsigned char*>(words) + 1) = 1;
}
void copies_and_waits(unsigned* words) {
  __pipeline_memcpy_async(words + 64 + lane(), words + lane(), 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  words[lane()] = words[64 + lane()];
}
void copies_and_does_not_wait(unsigned* words) {
  __pipeline_memcpy_async(words + 64 + lane(), words + lane(), 4);
  __pipeline_commit();
  __pipeline_wait_prior(1);
  words[lane()] = words[64 + lane()];
}
void keeps_to_itself(unsigned*) {
  [[maybe_unused]] volatile unsigned own[4];
  for (unsigned i = 0; i < 4; ++i) own[i] = i;
}
void sends_away_its_local_memory(unsigned* words) {
  volatile unsigned own = lane();
  const auto address = __shfl_sync(kAll, reinterpret_cast<std::uint64_t>(&own), 5);
  words[lane()] = *reinterpret_cast<volatile unsigned*>(address);
}
void leaves_lanes_out(unsigned*) { __ballot_sync(0x7fffffffU, 1); }
void asks_for_several_lanes(unsigned* words) { words[lane()] = __shfl_sync(kAll, lane(), static_cast<int>(lane())); }
void goes_two_ways(unsigned*) {
  if (lane() < 16)
    __syncwarp();
  else
    __ballot_sync(kAll, 1);
}
void ends_early(unsigned*) {
  if (lane() != 3) __syncwarp();
}
void leaves_its_shared_memory(unsigned*) {
  [[maybe_unused]] __shared__ volatile unsigned shared[64];  // the launch has 32
  shared[lane()] = 1;
  if (lane() == 31) shared[32] = 1;
}

// For blocks of two and of three warps.
void warps_in_order(unsigned* words) {
  words[lane()] = lane();
  __syncthreads();
  const unsigned other = words[(lane() + 32) % 64];
  if (lane() < 32) __syncwarp();  // warps need not do the same
  __syncthreads();
  words[lane()] = other;
}
void reads_another_warp_without_barrier(unsigned* words) {
  words[lane()] = lane();
  __syncwarp();
  words[64 + lane()] = words[(lane() + 32) % 64];
}
void writes_what_another_warp_reads(unsigned* words) {
  const unsigned other = words[(lane() + 32) % 64];
  __syncwarp();
  words[lane()] = other;
}
void writes_what_its_own_and_another_warp_read(unsigned* words) {
  const unsigned first = words[0];
  __syncwarp();
  if (lane() == 64) words[0] = first + 1;
}
void warps_write_one(unsigned* words) {
  __syncwarp();
  if (lane() % 32 == 0) words[0] = lane();
}
void warps_count_in_one(unsigned*) {
  __shared__ unsigned count;
  if (lane() == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1U);
}
void warps_go_two_ways(unsigned*) {
  if (lane() < 32)
    __syncthreads();
  else
    __syncthreads();
}
void lanes_of_a_warp_go_two_ways(unsigned*) {
  if (lane() < 40)
    __syncthreads();
  else
    __syncwarp();
}
void a_warp_ends_early(unsigned*) {
  if (lane() < 32) __syncthreads();
}

}  // namespace

const faulty kFaulty[] = {
    {nullptr, false, neighbours_in_order},
    {"a byte of words that another", false, reads_without_barrier},
    {"a byte of words that another", false, writes_without_barrier},
    {"two lanes write a byte of words", false, all_write_one},
    {nullptr, false, all_count_in_one},
    {nullptr, false, counts_in_what_was_cleared},
    {"a byte of shared memory", false, counts_in_what_another_clears},
    {"two blocks write a byte of words", false, blocks_write_one, 2},
    {"a byte of words is read that was never written", false, reads_unwritten},
    {"an access outside of all memory", false, leaves_memory},
    {"a misaligned access of 4 bytes to words", false, is_misaligned},
    {nullptr, false, copies_and_waits},
    {"a byte of words is read that was never written", false, copies_and_does_not_wait},
    {nullptr, false, keeps_to_itself},
    {"another lane's local memory", false, sends_away_its_local_memory},
    {"without all lanes in its mask", false, leaves_lanes_out},
    {"from different lanes", false, asks_for_several_lanes},
    {"lane 0 waits at", true, goes_two_ways},
    {"some lanes have ended", true, ends_early},
    {"outside of the kernel's shared memory", false, leaves_its_shared_memory},
    {nullptr, false, warps_in_order, 1, 64},
    {"a byte of words that another", false, reads_another_warp_without_barrier, 1, 64},
    {"a byte of words that another", false, writes_what_another_warp_reads, 1, 64},
    {"a byte of words that another", false, writes_what_its_own_and_another_warp_read, 1, 96},
    {"two lanes write a byte of words", false, warps_write_one, 1, 64},
    {nullptr, false, warps_count_in_one, 1, 64},
    {"waits at", true, warps_go_two_ways, 1, 64},
    {"waits at", true, lanes_of_a_warp_go_two_ways, 1, 64},
    {"some lanes have ended", true, a_warp_ends_early, 1, 64},
    {nullptr, false, nullptr},
};

}  // namespace emulator
