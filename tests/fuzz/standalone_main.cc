// Replaces libFuzzer: feeds every file of the given files and folders to the target once, then an empty input.
//
// Measures each input, and fails if one needs more than 1 s of processor time or 256 MiB for each MB of input (an input
// below 1 MB counts as one). Sanitizers multiply both. `fuzz_limits` tests this.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" [[gnu::weak]] int LLVMFuzzerInitialize(int* argc, char*** argv);

namespace {

#ifndef __has_feature
#define __has_feature(name) 0  // clang's; gcc has macros of its own
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
constexpr double kSlower = 15;
constexpr double kLarger = 8;
#elif defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
constexpr double kSlower = 5;
constexpr double kLarger = 4;
#else
constexpr double kSlower = 1;
constexpr double kLarger = 1;
#endif
constexpr double kMegabyte = 1e6;
constexpr double kMostSeconds = 1;
constexpr double kMostBytes = 256.0 * (1 << 20);

// Time of all threads, so that other programs on the machine do not count.
double processor_seconds() {
  std::timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double resident_bytes(const std::string& member) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(member, 0) == 0) return 1024 * std::strtod(line.c_str() + member.size(), nullptr);
  return 0;
}

// Returns false if this input exceeded a limit.
bool measure(const char* name, const std::string& bytes) {
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak
  const double resident = resident_bytes("VmRSS:");
  const double begin = processor_seconds();
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  const double seconds = processor_seconds() - begin;
  const double memory = resident_bytes("VmHWM:") - resident;
  const double megabytes = std::max(1.0, static_cast<double>(bytes.size()) / kMegabyte);
  if (seconds <= kMostSeconds * kSlower * megabytes && memory <= kMostBytes * kLarger * megabytes) return true;
  std::printf("%s: %zu bytes took %.2f s and %.0f MiB\n", name, bytes.size(), seconds, memory / (1 << 20));
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  std::vector<fs::path> inputs;
  for (int i = 1; i < argc; ++i) {
    const fs::path given = argv[i];
    if (fs::is_directory(given)) {
      for (const auto& entry : fs::recursive_directory_iterator(given)) {
        if (entry.is_regular_file()) inputs.push_back(entry.path());
      }
    } else if (fs::exists(given)) {
      inputs.push_back(given);
    }
  }
  std::size_t expensive = 0;
  std::sort(inputs.begin(), inputs.end());
  for (const auto& path : inputs) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::printf("%s\n", path.c_str());  // before the call: after a crash, the last line names the input
    std::fflush(stdout);
    if (!measure(path.c_str(), bytes)) ++expensive;
  }
  LLVMFuzzerTestOneInput(nullptr, 0);
  std::printf("%zu inputs replayed\n", inputs.size() + 1);
  if (expensive != 0) std::printf("%zu of them took too long or too much memory\n", expensive);
  return expensive == 0 ? 0 : 1;
}
