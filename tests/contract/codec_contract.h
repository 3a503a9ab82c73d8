#pragma once

// The requirements of every bytes-to-bytes codec. A new codec is one more line in `byte_codec_texts`
// (src/codec/codec_fixture.h); a codec from outside the library is a line in codec_contract_test.cc.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <random>
#include <span>
#include <string>

#include "base/ledger.h"
#include "codec/codec_fixture.h"
#include "codec/device_form.h"
#include "cuda/chain_split.h"
#include "cuda/decode/host_decode.h"
#include "support/cases.h"

namespace penstock::contract {

struct codec_case {
  std::string text;                                    ///< as in a list of codecs
  std::shared_ptr<const codec_provider> made_by = {};  ///< null: the library
};
inline void PrintTo(const codec_case& which, std::ostream* out) { *out << which.text; }

class CodecContract : public testing::TestWithParam<codec_case> {
 protected:
  static constexpr std::size_t kSizes[] = {1, 2, 255, 1531, 4096, 65'537};
  codec_chain chain(std::size_t size) const {
    codec_chain_options options;
    options.external = GetParam().made_by.get();
    return byte_chain(GetParam().text, size, options);
  }
  static std::vector<bytes> contents(std::size_t size) {
    return {smooth_bytes(size, size), random_bytes(size, size), bytes(size), bytes(size, std::byte{0xff})};
  }

  worker_scratch scratch_;
};

TEST_P(CodecContract, RestoresEncodedContent) {
  for (const std::size_t size : kSizes) {
    const codec_chain codec = chain(size);
    for (const bytes& content : contents(size)) {
      guarded_decode decode;
      const auto done = decode(codec, encode_all(codec, content, scratch_), scratch_);
      ASSERT_TRUE(done.ok()) << size << ": " << done.error().to_string();
      ASSERT_EQ(decode.content(), content) << size;
    }
  }
}

TEST_P(CodecContract, DecodesChunksOfManyBlocks) {
  const std::size_t size = test::all_cases() ? 1'000'003 : 300'003;  // several blocks of each codec, too
  const codec_chain codec = chain(size);
  for (const bytes& content : {smooth_bytes(size, 1), random_bytes(size, 2), bytes(size)}) {
    bytes out(size);
    ASSERT_TRUE(decode_all(codec, encode_all(codec, content, scratch_), out, scratch_).ok());
    ASSERT_EQ(out, content);
  }
}

TEST_P(CodecContract, EncodesWithinItsBound) {
  for (const std::size_t size : kSizes) {
    const codec_chain codec = chain(size);
    const byte_codec& stage = codec.stage_codec(0);
    const std::uint64_t bound = stage.max_encoded_bytes(size);
    for (const bytes& content : contents(size)) {
      if (bound == kUnbounded) {
        buffer room;
        ASSERT_TRUE(stage.encode_growing(content, room, scratch_).ok());
        continue;
      }
      // An allocation of exactly the bound, for address sanitizers, with a guard for libraries without them.
      const std::size_t guard = 16;
      bytes out(bound + guard, std::byte{0xa5});
      const auto made = stage.encode(content, std::span(out).first(bound), scratch_);
      ASSERT_TRUE(made.ok()) << size << ": " << made.error().to_string();
      EXPECT_LE(*made, bound) << size;
      EXPECT_TRUE(std::all_of(out.end() - guard, out.end(), [](std::byte b) { return b == std::byte{0xa5}; })) << size;
    }
  }
}

TEST_P(CodecContract, RefusesHostileBytesInBoundedMemory) {
  constexpr std::size_t kSize = 1531;
  constexpr std::uint64_t kMostMemory = std::uint64_t{32} << 20;  // more is an error of the ledger
  ledger accounts(kMostMemory, 0);
  worker_scratch scratch(&accounts);
  guarded_decode decode(true);
  const codec_chain codec = chain(kSize);
  const bytes encoded = encode_all(codec, smooth_bytes(kSize, 4), scratch_);
  const auto refuses = [&](const bytes& hostile) { return !decode(codec, hostile, scratch).ok(); };
  for (std::size_t length = 0; length < encoded.size(); ++length) {
    const bytes part(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(length));
    ASSERT_TRUE(refuses(part)) << length << " of " << encoded.size();
  }
  bytes longer = encoded;
  longer.push_back(std::byte{1});
  EXPECT_TRUE(refuses(longer));
  std::mt19937_64 random(6);
  for (int i = 0; i < 300; ++i) {
    bytes noise = random_bytes(random() % 300, random());
    const std::size_t kept = std::min<std::size_t>({random() % 24, noise.size(), encoded.size()});
    std::copy_n(encoded.begin(), kept, noise.begin());
    EXPECT_TRUE(refuses(noise)) << i;
  }
  for (int i = 0; i < 300; ++i) {
    bytes damaged = encoded;
    damaged[random() % damaged.size()] ^= std::byte{1} << random() % 8;
    static_cast<void>(refuses(damaged));  // may succeed: not every codec has a checksum
  }
}

TEST_P(CodecContract, ItsDeviceFormDecodesToTheSameBytes) {
  const bool has_form = chain(16).stage_codec(0).form_on_device().has_value();
  for (const std::size_t size : kSizes) {
    const codec_chain codec = chain(size);
    const cuda::device_chain split = cuda::split_chain(codec);
    if (split.decodes_on_host()) {
      EXPECT_FALSE(split.reason.empty());
      continue;
    }
    ASSERT_TRUE(has_form);
    for (const bytes& content : contents(size)) {
      bytes out(size);
      const auto done = device::decode_on_host(split.steps, encode_all(codec, content, scratch_), out);
      ASSERT_TRUE(done.ok()) << size << ": " << done.error().to_string();
      ASSERT_EQ(out, content) << size;
    }
  }
}

}  // namespace penstock::contract
