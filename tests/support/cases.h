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

/// Where PENSTOCK_ALL_CASES is set, a sanitizer's build runs all cases too.
inline bool all_cases() {
  static const bool asked = std::getenv("PENSTOCK_ALL_CASES") != nullptr;
  return asked || !(kAddressSanitizer || kThreadSanitizer);
}

/// Of `full` cases, how many to run: all of them, or a quarter under a sanitizer. There each takes five to twenty times
/// as long, and what a sanitizer looks for is in a place of the program, which the first of many similar cases reach;
/// what is particular to one case, wrong values, the release build finds.
inline std::uint64_t cases(std::uint64_t full) { return all_cases() ? full : std::max<std::uint64_t>(full / 4, 1); }

/// The same for cases in which one thread does everything: there ThreadSanitizer has nothing to find.
inline std::uint64_t cases_of_one_thread(std::uint64_t full) {
  return all_cases() || !kThreadSanitizer ? cases(full) : std::max<std::uint64_t>(full / 20, 1);
}

}  // namespace penstock::test
