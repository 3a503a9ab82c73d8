#pragma once

// Decodes bytes that may be damaged, for the contracts of codecs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/ledger.h"
#include "codec/codec_fixture.h"

namespace penstock::contract {

constexpr std::uint64_t kMostFilterMemory = std::uint64_t{32} << 20;  // more is an error of the ledger

/// Decodes with exactly `room` bytes of its own, between guards.
inline std::optional<bytes> decode_exactly(const byte_codec& codec, std::span<const std::byte> encoded,
                                           std::size_t room, std::byte before, worker_scratch& scratch) {
  const auto copy = std::make_unique<std::byte[]>(encoded.size());
  std::copy(encoded.begin(), encoded.end(), copy.get());
  constexpr std::size_t kGuard = 64;
  bytes memory(room + 2 * kGuard, std::byte{0xa5});
  const std::span<std::byte> out = std::span(memory).subspan(kGuard, room);
  std::fill(out.begin(), out.end(), before);
  const std::span<const std::byte> from(copy.get(), encoded.size());
  const auto made = codec.decode(from, out, scratch);
  const auto touched = [](std::byte b) { return b != std::byte{0xa5}; };
  EXPECT_TRUE(std::none_of(memory.begin(), memory.begin() + kGuard, touched)) << codec.describe();
  EXPECT_TRUE(std::none_of(memory.end() - kGuard, memory.end(), touched)) << codec.describe();
  if (!made.ok()) {
    const errc code = made.error().code();  // unsupported: the format has it, this library does not read it
    EXPECT_TRUE(code == errc::corrupt_data || code == errc::unsupported || code == errc::resource_exhausted)
        << made.error().to_string();
    return std::nullopt;
  }
  const auto within = [&](std::span<const std::byte> all) {
    return made->data() >= all.data() && made->data() + made->size() <= all.data() + all.size();
  };
  EXPECT_TRUE(made->empty() || within(out) || within(from)) << codec.describe();
  return bytes(made->begin(), made->end());
}

}  // namespace penstock::contract
