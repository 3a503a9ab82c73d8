#pragma once

// What lanes must not do, one fault a function: shows that the emulator finds it.

namespace emulator {

struct faulty {
  const char* finding;                      ///< a part of its sentence; null: there is none
  bool ends = false;                        ///< the process, with that sentence
  void (*lane)(unsigned* words) = nullptr;  ///< of 64 written words, and 64 unwritten ones behind them
  unsigned blocks = 1;
  unsigned threads = 32;
};

/// All of them, up to one without a function.
extern const faulty kFaulty[];
inline constexpr unsigned kFaultyWords = 128;

}  // namespace emulator
