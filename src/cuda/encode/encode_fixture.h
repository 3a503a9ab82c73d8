#pragma once

// Arrays like those of bench/gpu, for tests of the encoders' ratios.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "cuda/decode/decode_fixture.h"

namespace penstock::inline v0::device {

inline const char* const kArrays[] = {"ramp", "field", "rounded", "walk", "ocean"};

// The kinds of bench/gpu/arrays.py: float32, but for `ocean`, which is int16. `shuffled`: byte 0 of each item first.
inline bytes array_of(const std::string& kind, std::size_t size, bool shuffled) {
  std::mt19937 random(5);
  std::normal_distribution<double> noise;
  const auto keep_bits = [](double value, int kept) {
    const auto given = static_cast<float>(value);
    std::uint32_t bits;
    std::memcpy(&bits, &given, 4);
    const int dropped = 23 - kept;
    bits = (bits + (1u << dropped >> 1)) >> dropped << dropped;
    float out;
    std::memcpy(&out, &bits, 4);
    return out;
  };
  const std::size_t item = kind == "ocean" ? 2 : 4, items = size / item;
  std::vector<float> floats;
  std::vector<std::int16_t> packed;
  double sum = 0;
  for (std::size_t i = 0; i < items; ++i) {
    const auto at = static_cast<double>(i);
    const double smooth = 280 + 15 * std::sin(at / 700) + 8 * std::sin(at / 90'000);
    if (kind == "ramp") floats.push_back(static_cast<float>(at));
    if (kind == "field") floats.push_back(static_cast<float>(smooth + noise(random)));
    if (kind == "rounded") floats.push_back(keep_bits(smooth + 0.05 * noise(random), 13));
    if (kind == "walk") floats.push_back(keep_bits(280 + 0.05 * (sum += noise(random)), 9));
    if (kind == "ocean")
      packed.push_back(std::sin(at / 3000) > 0
                           ? static_cast<std::int16_t>(8000 * std::sin(at / 700) + 4 * noise(random))
                           : std::int16_t{-32768});
  }
  const bytes plain = item == 2 ? bytes_of(packed) : bytes_of(floats);
  if (!shuffled) return plain;
  bytes out(plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) out[i % item * items + i / item] = plain[i];
  return out;
}

}  // namespace penstock::inline v0::device
