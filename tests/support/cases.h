#pragma once

/// \file How many of its random cases a test runs in this build.

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#define PENSTOCK_TEST_ASAN
#elif defined(__SANITIZE_THREAD__)
#define PENSTOCK_TEST_TSAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PENSTOCK_TEST_ASAN
#elif __has_feature(thread_sanitizer)
#define PENSTOCK_TEST_TSAN
#endif
#endif

namespace penstock::test {

#if defined(PENSTOCK_TEST_ASAN)
inline constexpr bool kAddressSanitizer = true, kThreadSanitizer = false;
#elif defined(PENSTOCK_TEST_TSAN)
inline constexpr bool kAddressSanitizer = false, kThreadSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false, kThreadSanitizer = false;
#endif

// The emulator's tests (tests/emulator) are compiled with it.
#if defined(PENSTOCK_TEST_EMULATED)
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

/// If PENSTOCK_ALL_CASES is set, a sanitizer's build and the emulator run all cases, too.
inline bool all_cases() {
  static const bool asked = std::getenv("PENSTOCK_ALL_CASES") != nullptr;
  return asked || !(kAddressSanitizer || kThreadSanitizer || kEmulated);
}

/// Of `full` cases, how many to run: all of them, or a quarter under a sanitizer and in the emulator. There each takes
/// five to twenty times as long, and they find faults that depend on the place in the program, which the first of many
/// similar cases reach. The release build finds faults of single cases, such as wrong values.
inline std::uint64_t cases(std::uint64_t full) { return all_cases() ? full : std::max<std::uint64_t>(full / 4, 1); }

/// The same for cases in which one thread does everything: an eighth, and a twentieth under ThreadSanitizer, which
/// cannot find anything there.
inline std::uint64_t cases_of_one_thread(std::uint64_t full) {
  return all_cases() ? full : std::max<std::uint64_t>(full / (kThreadSanitizer ? 20 : 8), 1);
}

/// Which of `share` to take at the `turn`th of many cases. Mixed, so that a loop of `share` options, or of a multiple
/// of them, does not take the same one for each of them.
inline std::uint32_t sampled(std::uint32_t turn, std::uint32_t share) { return (turn * 0x9e3779b9u >> 16) % share; }

}  // namespace penstock::test
