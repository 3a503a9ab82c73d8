// Memory that records accesses, and the functions that the compiler calls at every access.

#include "emulator/memory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

extern "C" {
extern char __executable_start, _end;  // the linker's
extern std::byte __start_emulated_shared[], __stop_emulated_shared[];
}

namespace emulator {
namespace {

using epoch_number = std::uint32_t;
constexpr epoch_number kNever = 0, kBefore = 1;
constexpr int kWarp = 32;
// The author of an access: a lane's number, or several lanes of a warp, or an atomic access of one.
using toucher = std::uint16_t;
constexpr toucher kSeveral = 0x1000, kAtomic = 0x2000;
static_assert(kMostLanes <= kSeveral);
constexpr int warp_of(toucher who) { return who < kSeveral ? who / kWarp : who & 0xff; }

// The last accesses to a byte: of readers also the last one of any other warp.
struct marks {
  epoch_number written = kNever, read = kNever, read_before = kNever;
  toucher writer = 0, reader = 0, reader_before = 0;
};

struct region {
  std::uintptr_t begin = 0, end = 0;
  std::string name;
  bool writable = false;
  std::vector<marks> bytes;

  bool holds(std::uintptr_t at) const { return at >= begin && at < end; }
};

std::vector<std::unique_ptr<region>> regions;  // regions by address
std::array<region*, 4> recent{};
region shared_memory;
std::uintptr_t shared_low = ~std::uintptr_t{0}, shared_high = 0;  // blocks that this thread block has touched
std::size_t shared_bytes_allowed = 0;
epoch_number latest = kBefore + 1, launch_began = latest, block_began = latest;
epoch_number all_met = latest;                          // the block's last barrier
std::array<epoch_number, kMostLanes / kWarp> epochs{};  // epoch of each warp
int atomic = 0;
bool end_soon = false;
std::uint64_t shared_accesses = 0, global_accesses = 0;
std::map<std::pair<std::string, const void*>, std::uint64_t> findings;

region* find(std::uintptr_t at) {
  for (region* each : recent)
    if (each != nullptr && each->holds(at)) return each;
  const auto behind =
      std::upper_bound(regions.begin(), regions.end(), at, [](auto to, const auto& each) { return to < each->begin; });
  if (behind == regions.begin() || !(*std::prev(behind))->holds(at)) return nullptr;
  std::rotate(recent.begin(), recent.end() - 1, recent.end());
  return recent[0] = std::prev(behind)->get();
}

// Not inlined: if this code, which formats messages, were inlined, each access would save all registers.
[[gnu::cold, gnu::noinline]] void finding(const char* before, const region& in, const char* behind, const void* site) {
  emulator::finding(before + in.name + behind, site);
}
[[gnu::cold, gnu::noinline]] void finding(const char* what, const void* site) {
  emulator::finding(std::string(what), site);
}
[[gnu::cold, gnu::noinline]] void misaligned(std::uint32_t bytes, const region& in, const void* site) {
  emulator::finding("a misaligned access of " + std::to_string(bytes) + " bytes to " + in.name, site);
}

void check_shared_range(std::uintptr_t at, std::uint32_t bytes, const void* site) {
  shared_low = std::min(shared_low, at);
  shared_high = std::max(shared_high, at + bytes);
  if (shared_high - shared_low > shared_bytes_allowed) finding("an access outside of the kernel's shared memory", site);
}

// The times that an access is compared with; in local variables, because the compiler must assume that marks may alias
// anything.
struct moments {
  epoch_number now, all_met, block_began, launch_began;
};

// Whether no barrier is between an earlier access and one now.
[[gnu::always_inline]] inline bool unordered(epoch_number when, toucher who, const moments& at, toucher me) {
  if (when < at.all_met || who == me) return false;
  if (warp_of(who) == warp_of(me)) return when == at.now;
  return (who & me & kAtomic) == 0;
}

[[gnu::always_inline]] inline void write_byte(const region& in, marks& byte, const moments& at, toucher lane,
                                              const void* site) {
  if (unordered(byte.written, byte.writer, at, lane)) finding("two lanes write a byte of ", in, "", site);
  if (unordered(byte.read, byte.reader, at, lane) || unordered(byte.read_before, byte.reader_before, at, lane))
    finding("a lane writes a byte of ", in, " that another reads", site);
  if (byte.written >= at.launch_began && byte.written < at.block_began)
    finding("two blocks write a byte of ", in, "", site);
  if (byte.read >= at.launch_began && byte.read < at.block_began)
    finding("a block writes a byte of ", in, " that another reads", site);
  byte.written = at.now;
  byte.writer = lane;
}

[[gnu::always_inline]] inline void read_byte(const region& in, marks& byte, const moments& at, toucher lane,
                                             const void* site) {
  if (unordered(byte.written, byte.writer, at, lane))
    finding("a lane reads a byte of ", in, " that another writes", site);
  if (byte.written >= at.launch_began && byte.written < at.block_began)
    finding("a block reads a byte of ", in, " that another writes", site);
  if (byte.written == kNever) finding("a byte of ", in, " is read that was never written", site);
  if (warp_of(byte.reader) != warp_of(lane)) {
    byte.reader_before = byte.reader;
    byte.read_before = byte.read;
    byte.reader = lane;
  } else if (byte.read != at.now) {
    byte.reader = lane;
  } else if (byte.reader != lane) {
    byte.reader = static_cast<toucher>(kSeveral | warp_of(lane));
  }
  byte.read = at.now;
}

[[gnu::always_inline]] inline void access(const void* address, std::uint32_t bytes, use how, const void* site) {
  if (current == kNobody) return;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at - stack_of(current) < kStackBytes) return;
  region* in = &shared_memory;
  if (shared_memory.holds(at)) {
    ++shared_accesses;
    check_shared_range(at, bytes, site);
  } else {
    ++global_accesses;
    in = find(at);
    if (in == nullptr) {
      if (at - all_stacks < kStackBytes * kMostLanes) return finding("an access to another lane's local memory", site);
      const bool in_program = address >= &__executable_start && address < &_end;  // constants
      if (how == use::write || !in_program) finding("an access outside of all memory", site);
      return;
    }
  }
  if (at % bytes != 0) misaligned(bytes, *in, site);
  if (at + bytes > in->end) return finding("an access past the end of ", *in, "", site);
  if (how == use::write && !in->writable) finding("a write to ", *in, "", site);
  // Atomic accesses do not conflict with each other; in shared memory, they conflict with all others.
  if (atomic != 0 && in != &shared_memory) return;
  const auto warp = static_cast<std::size_t>(current / kWarp);
  const auto lane = static_cast<toucher>(atomic != 0 ? kAtomic | warp : static_cast<std::size_t>(current));
  const moments times = {epochs[warp], all_met, block_began, launch_began};
  marks* const first = in->bytes.data() + (at - in->begin);
  for (std::uint32_t i = 0; i < bytes; ++i)
    how == use::write ? write_byte(*in, first[i], times, lane, site) : read_byte(*in, first[i], times, lane, site);
  if (atomic == 0 && until_switch != 0 && --until_switch == 0) switch_lanes();
}

}  // namespace

void forget_memory() {
  regions.clear();
  recent = {};
  latest = launch_began = block_began = kBefore + 1;
  all_met = latest;
  epochs.fill(latest);
}

void give_memory(const void* at, std::size_t bytes, const char* name, content holds, use may) {
  if (bytes == 0) return;
  auto made = std::make_unique<region>();
  made->begin = reinterpret_cast<std::uintptr_t>(at);
  made->end = made->begin + bytes;
  made->name = name;
  made->writable = may == use::write;
  const epoch_number written = holds == content::written ? kBefore : kNever;
  for (auto each = regions.begin(); each != regions.end();) {
    if ((*each)->begin >= made->end || (*each)->end <= made->begin) {
      ++each;
      continue;
    }
    made->begin = std::min(made->begin, (*each)->begin);
    made->end = std::max(made->end, (*each)->end);
    each = regions.erase(each);
  }
  made->bytes.assign(made->end - made->begin, marks{written});
  recent = {};
  const auto behind = std::upper_bound(regions.begin(), regions.end(), made,
                                       [](const auto& a, const auto& b) { return a->begin < b->begin; });
  regions.insert(behind, std::move(made));
}

void begin_launch(std::size_t shared_bytes) {
  if (shared_memory.bytes.empty()) {
    shared_memory.begin = reinterpret_cast<std::uintptr_t>(__start_emulated_shared);
    shared_memory.end = reinterpret_cast<std::uintptr_t>(__stop_emulated_shared);
    shared_memory.name = "shared memory";
    shared_memory.writable = true;
    shared_memory.bytes.resize(shared_memory.end - shared_memory.begin);
  }
  shared_bytes_allowed = shared_bytes;
  begin_epoch();
  launch_began = latest;
}

void begin_block() {
  begin_epoch();
  block_began = latest;
  if (shared_low >= shared_high) return;
  // The previous block's remaining data has no meaning.
  std::memset(reinterpret_cast<void*>(shared_low), 0xa5, shared_high - shared_low);
  std::fill(shared_memory.bytes.begin() + static_cast<std::ptrdiff_t>(shared_low - shared_memory.begin),
            shared_memory.bytes.begin() + static_cast<std::ptrdiff_t>(shared_high - shared_memory.begin), marks{});
  shared_low = shared_memory.end;
  shared_high = shared_memory.begin;
}

void begin_epoch(int warp) { epochs[static_cast<std::size_t>(warp)] = ++latest; }
void begin_epoch() {
  all_met = ++latest;
  epochs.fill(all_met);
}

void add_accesses(counts& to) {
  to.shared_accesses += shared_accesses;
  to.global_accesses += global_accesses;
}

std::uintptr_t offset_in_program(const void* site) {
  return reinterpret_cast<std::uintptr_t>(site) - reinterpret_cast<std::uintptr_t>(&__executable_start);
}

std::string place_of(const void* site) {
  char command[128], line[512];
  // One byte before, so that the call is found and not the line after it.
  std::snprintf(command, sizeof command, "addr2line -Cie /proc/%d/exe 0x%zx 2>/dev/null", static_cast<int>(getpid()),
                offset_in_program(site) - 1);
  std::string out;
  if (std::FILE* const said = popen(command, "r"); said != nullptr) {
    while (std::fgets(line, sizeof line, said) != nullptr) {
      std::string place = line;
      place.erase(std::remove(place.begin(), place.end(), '\n'), place.end());
      place.erase(0, place.rfind('/') + 1);
      if (place.find("cuda_names.h") == std::string::npos) out += (out.empty() ? "" : " < ") + place;
    }
    pclose(said);
  }
  char offset[32];
  std::snprintf(offset, sizeof offset, "0x%zx", offset_in_program(site));
  return out.empty() ? offset : out;
}

void finding(const std::string& what, const void* site) {
  if (findings[{what, site}]++ != 0 || !end_soon) return;
  std::fprintf(stderr, "FINDING %s, at %s\n", what.c_str(), place_of(site).c_str());
  std::_Exit(3);  // lanes may still run: no destructors
}

void end_at_first_finding() { end_soon = true; }

std::vector<std::string> take_findings() {
  std::vector<std::string> out;
  for (const auto& [found, times] : findings)
    out.push_back(found.first + ", at " + place_of(found.second) + ", " + std::to_string(times) + " times");
  findings.clear();
  return out;
}

void begin_atomic() { ++atomic; }
void end_atomic() { --atomic; }

}  // namespace emulator

// The functions that the compiler calls with `-fsanitize=thread`. (The runtime that usually has them is not linked.)
#define EMULATOR_ACCESSES(bytes)                                                                                       \
  void __tsan_read##bytes(void* at) { emulator::access(at, bytes, emulator::use::read, __builtin_return_address(0)); } \
  void __tsan_write##bytes(void* at) { emulator::access(at, bytes, emulator::use::write, __builtin_return_address(0)); }
extern "C" {
EMULATOR_ACCESSES(1)
EMULATOR_ACCESSES(2)
EMULATOR_ACCESSES(4)
EMULATOR_ACCESSES(8)
EMULATOR_ACCESSES(16)
void __tsan_read_range(void* at, unsigned long bytes) {
  for (unsigned long i = 0; i < bytes; ++i)
    emulator::access(static_cast<std::byte*>(at) + i, 1, emulator::use::read, __builtin_return_address(0));
}
void __tsan_write_range(void* at, unsigned long bytes) {
  for (unsigned long i = 0; i < bytes; ++i)
    emulator::access(static_cast<std::byte*>(at) + i, 1, emulator::use::write, __builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}
