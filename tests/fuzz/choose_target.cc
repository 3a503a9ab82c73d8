// Runs the target with the program's own name: fuzz_x runs fuzz_x.cc.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#define PENSTOCK_FUZZ_TARGET(what)                                                                           \
  extern "C" int run_##what(const std::uint8_t* data, std::size_t size);                                     \
  extern "C" [[gnu::weak]] std::size_t mutate_##what(std::uint8_t* data, std::size_t size, std::size_t most, \
                                                     unsigned random);
#include "targets.inc"
#undef PENSTOCK_FUZZ_TARGET

namespace {

struct target {
  std::string_view name;
  int (*run)(const std::uint8_t* data, std::size_t size);
  std::size_t (*mutate)(std::uint8_t* data, std::size_t size, std::size_t most,
                        unsigned random);  // null: the usual way
};

constexpr target kTargets[] = {
#define PENSTOCK_FUZZ_TARGET(what) {"fuzz_" #what, run_##what, mutate_##what},
#include "targets.inc"
#undef PENSTOCK_FUZZ_TARGET
};

const target* chosen = nullptr;

}  // namespace

extern "C" [[gnu::weak]] std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** argv) {
  const std::string_view path = (*argv)[0];
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (const target& each : kTargets) {
    if (each.name == name) chosen = &each;
  }
  if (chosen != nullptr) return 0;
  std::fprintf(stderr, "call this program by a target's name:");
  for (const target& each : kTargets) std::fprintf(stderr, " %s", each.name.data());
  std::fprintf(stderr, "\n");
  std::exit(2);
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned random) {
  return chosen->mutate != nullptr ? chosen->mutate(data, size, most, random) : LLVMFuzzerMutate(data, size, most);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { return chosen->run(data, size); }
