#pragma once

// Contents and comparisons shared by the tests of the device decoders.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <lz4.h>
#include <lz4hc.h>

#include "cuda/decode/host_decode.h"
#include "cuda/decode/host_run.h"
#include "cuda/decode/warp.h"
#include "support/cases.h"

namespace penstock::inline v0::device {

using bytes = std::vector<std::byte>;

template <class T>
bytes bytes_of(const std::vector<T>& items) {
  bytes out(items.size() * sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), items.data(), out.size());
  return out;
}

// `size` bytes of a kind of content that arrays have.
inline bytes content_of(const std::string& kind, std::size_t size, std::uint32_t seed = 1) {
  std::mt19937 random(seed);
  const std::size_t items = size / 4 + 1;
  std::vector<float> floats(items);
  std::vector<std::uint8_t> raw(size);
  const auto cut = [&](bytes made) {
    made.resize(size);
    return made;
  };
  if (kind == "zeros") return bytes(size);
  if (kind == "noise") {
    for (auto& byte : raw) byte = static_cast<std::uint8_t>(random());
    return bytes_of(raw);
  }
  if (kind == "skewed") {
    for (auto& byte : raw) byte = static_cast<std::uint8_t>(std::min(random() % 256, random() % 256) & random());
    return bytes_of(raw);
  }
  if (kind == "text") {
    const std::string words[] = {"chunk ", "grid ", "array ", "store ", "codec ", "shard ", "plan ", "\n"};
    std::string text;
    while (text.size() < size) text += words[random() % 8];
    return cut(
        bytes(reinterpret_cast<const std::byte*>(text.data()), reinterpret_cast<const std::byte*>(text.data()) + size));
  }
  if (kind == "period3" || kind == "period7") {
    const std::size_t period = kind == "period3" ? 3 : 7;
    for (std::size_t i = 0; i < size; ++i)
      raw[i] = static_cast<std::uint8_t>(random() % 50 == 0 ? random() : i < period ? random() : raw[i - period]);
    return bytes_of(raw);
  }
  if (kind == "rows") {  // repeats at long distances, with small changes
    for (std::size_t i = 0; i < size; ++i)
      raw[i] = static_cast<std::uint8_t>(i < 1000 || random() % 40 == 0 ? random() : raw[i - 1000]);
    return bytes_of(raw);
  }
  float value = 280;
  for (std::size_t i = 0; i < items; ++i) {
    if (kind == "arange") value = static_cast<float>(i + 16'000'000 / 4);
    if (kind == "walk") value += static_cast<float>(static_cast<int>(random() % 201) - 100) * 1e-3f;
    if (kind == "packed")
      value = std::round((value + static_cast<float>(static_cast<int>(random() % 21) - 10) * 0.1f) * 8) / 8;
    floats[i] = value;
  }
  return cut(bytes_of(floats));
}

inline const char* const kKinds[] = {"zeros",   "noise", "skewed", "text", "period3",
                                     "period7", "rows",  "arange", "walk", "packed"};

// An LZ4 block; levels from 1 on use LZ4 HC.
inline bytes lz4_of(const bytes& content, int level = 0) {
  const int size = static_cast<int>(content.size());
  bytes out(static_cast<std::size_t>(LZ4_compressBound(size)));
  const char none = 0;  // LZ4 HC reads it even if the content is empty
  auto* const from = content.empty() ? &none : reinterpret_cast<const char*>(content.data());
  auto* const to = reinterpret_cast<char*>(out.data());
  const int made = level == 0 ? LZ4_compress_default(from, to, size, static_cast<int>(out.size()))
                              : LZ4_compress_HC(from, to, size, static_cast<int>(out.size()), level);
  EXPECT_GT(made, 0);
  out.resize(static_cast<std::size_t>(made));
  return out;
}

// Decodes at an odd address, and in other orders of the lanes: in each of three orders, or in one of them if tests
// sample their cases and the content is long. The release build runs all orders, as does `make test-emulator` in the
// emulator.
inline void expect_decodes(std::span<const device_step> steps, const bytes& encoded, const bytes& content,
                           const std::string& what) {
  static int turn = 0;
  static std::uint32_t long_turn = 0;
  const bool one_order = !test::all_cases() && content.size() > 4096;
  const std::uint32_t chosen = one_order ? test::sampled(++long_turn, 3) : 0;
  const std::size_t shift = static_cast<std::size_t>(turn++ % 17);
  bytes source(encoded.size() + shift), target(content.size() + shift, std::byte{0xee});
  if (!encoded.empty()) std::memcpy(source.data() + shift, encoded.data(), encoded.size());
  for (const lane_order order : {lane_order::forward, lane_order::backward, lane_order::strided}) {
    if (one_order && static_cast<std::uint32_t>(order) != chosen) continue;
    host_lane_order = order;
    std::fill(target.begin(), target.end(), std::byte{0xee});
    const auto done = decode_on_host(steps, std::span(source).subspan(shift), std::span(target).subspan(shift));
    host_lane_order = lane_order::forward;
    ASSERT_TRUE(done.ok()) << what << ": " << done.error().to_string();
    const auto differs =
        std::mismatch(content.begin(), content.end(), target.begin() + static_cast<std::ptrdiff_t>(shift));
    ASSERT_EQ(differs.first, content.end()) << what << " differs at " << differs.first - content.begin();
  }
}

}  // namespace penstock::inline v0::device
