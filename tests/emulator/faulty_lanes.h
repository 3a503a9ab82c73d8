#pragma once

// Forbidden behaviour of lanes, one fault for each function: shows that the emulator finds it.

namespace emulator {

struct faulty {
  const char* finding;                      ///< a part of its message; null: no finding
  bool ends = false;                        ///< whether the process ends, with that message
  void (*lane)(unsigned* words) = nullptr;  ///< 64 written words, and 64 unwritten ones after them
  unsigned blocks = 1;
  unsigned threads = 32;
};

/// All of them, up to one without a function.
extern const faulty kFaulty[];
inline constexpr unsigned kFaultyWords = 128;

}  // namespace emulator
