// fuzz_main COUNT FILE_OR_FOLDER...: feeds a fuzz target its seeds, then inputs made from them by cuts, copies and
// changed bytes, COUNT in all (four times as many with PENSTOCK_ALL_CASES), the same ones every time. Exit status 1:
// the emulator found something.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "emulator/emulator.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::vector<std::string> read_seeds(int count, char** names) {
  std::vector<std::filesystem::path> paths;
  for (int i = 0; i < count; ++i) {
    if (!std::filesystem::is_directory(names[i])) {
      paths.emplace_back(names[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(names[i]))
      if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> out;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return out;
}

std::string changed(std::string bytes, const std::string& other, std::mt19937& random) {
  const auto below = [&](std::size_t most) { return most == 0 ? 0 : random() % most; };
  for (std::size_t left = 1 + random() % 4; left > 0; --left) {
    switch (random() % 5) {
      case 0:
        if (!bytes.empty()) bytes[below(bytes.size())] = static_cast<char>(random());
        break;
      case 1:
        if (!bytes.empty()) bytes[below(bytes.size())] ^= static_cast<char>(1 << random() % 8);
        break;
      case 2:
        bytes.resize(below(bytes.size() + 1));
        break;
      case 3:
        bytes.insert(below(bytes.size() + 1), other, below(other.size()), random() % 32);
        break;
      default:
        bytes.erase(below(bytes.size() + 1), random() % 8);
    }
  }
  return bytes;
}

bool sound() {
  const auto found = emulator::take_findings();
  for (const std::string& each : found) std::printf("the emulator found: %s\n", each.c_str());
  return found.empty();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::size_t count = std::strtoul(argv[1], nullptr, 10) * (std::getenv("PENSTOCK_ALL_CASES") != nullptr ? 4 : 1);
  const std::vector<std::string> seeds = read_seeds(argc - 2, argv + 2);
  if (seeds.empty()) return 2;
  std::mt19937 random(1);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& seed = seeds[i < seeds.size() ? i : random() % seeds.size()];
    const std::string input = i < seeds.size() ? seed : changed(seed, seeds[random() % seeds.size()], random);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    if (sound()) continue;
    std::ofstream("emulated_fuzz_input", std::ios::binary) << input;
    std::printf("input %zu; it is in ./emulated_fuzz_input\n", i);
    return 1;
  }
  const emulator::counts seen = emulator::counted();
  std::printf("%zu inputs, %.1f M collectives, %.1f M accesses\n", count, 1e-6 * static_cast<double>(seen.collectives),
              1e-6 * static_cast<double>(seen.shared_accesses + seen.global_accesses));
  return 0;
}
