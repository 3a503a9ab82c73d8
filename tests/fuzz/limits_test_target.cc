// A target that is slow or greedy on request: shows that standalone_main.cc finds such inputs.

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view asked(reinterpret_cast<const char*>(data), size);
  if (asked == "slow") {
    const std::clock_t begin = std::clock();
    while (std::clock() - begin < CLOCKS_PER_SEC * 5 / 4) continue;
  }
  if (asked == "large") {
    std::vector<std::uint8_t> memory(std::size_t{300} << 20, 1);
    volatile std::uint8_t last = memory.back();
    static_cast<void>(last);
  }
  return 0;
}
