#pragma once

// The requirements of every codec of arrays, lossless or lossy, and of every codec that can only decode. A new codec is
// one more line in `kFilterRows` or `kReadOnlyRows` (src/codec/filter_fixture.h), with its guarantees. A codec that can
// only decode also has a line with a sample in filter_contract_test.cc.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <string_view>

#include "base/ledger.h"
#include "codec/codec_fixture.h"
#include "codec/device_form.h"
#include "codec/filter_fixture.h"
#include "codec/filters/half.h"
#include "contract/decode_exactly.h"
#include "cuda/chain_split.h"
#include "cuda/decode/host_decode.h"
#include "cuda/decode/step_settings.h"
#include "support/cases.h"

namespace penstock::inline v0 {
inline void PrintTo(const filter_row& row, std::ostream* out) { *out << row.type << " " << row.name << row.settings; }
inline void PrintTo(const read_only_row& row, std::ostream* out) { *out << row.name << row.settings; }
}  // namespace penstock::inline v0

namespace penstock::contract {

/// One number in the form of the row's type: complex numbers are two of them, `float8_*` their bits.
class number_form {
 public:
  explicit number_form(std::string_view type) : type_(type) {}
  std::size_t bytes_of_one() const {
    std::array<std::byte, 8> unused;
    return store(0, unused.data());
  }
  std::size_t store(double value, std::byte* to) const {
    if (type_ == "bool" || type_ == "int8" || type_ == "int4") return put(static_cast<std::int8_t>(value), to);
    if (type_.starts_with("float8")) return put(static_cast<std::uint8_t>(value), to);
    if (type_ == "int16") return put(static_cast<std::int16_t>(value), to);
    if (type_ == "uint16") return put(static_cast<std::uint16_t>(value), to);
    if (type_ == "int32") return put(static_cast<std::int32_t>(value), to);
    if (type_ == "int64") return put(static_cast<std::int64_t>(value), to);
    if (type_ == "uint64") return put(static_cast<std::uint64_t>(value), to);
    if (type_ == "float16") return put(half(value).bits, to);
    if (type_ == "bfloat16") {
      return put(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16), to);
    }
    if (type_ == "float32" || type_ == "complex64") return put(static_cast<float>(value), to);
    EXPECT_EQ(type_, "float64") << "the suite does not support the type of this row";
    return put(value, to);
  }
  double load(const std::byte* from) const {
    if (type_ == "int4") return (get<std::uint8_t>(from) & 15) - ((get<std::uint8_t>(from) & 8) << 1);
    if (type_ == "bool" || type_ == "int8") return get<std::int8_t>(from);
    if (type_.starts_with("float8")) return get<std::uint8_t>(from);
    if (type_ == "int16") return get<std::int16_t>(from);
    if (type_ == "uint16") return get<std::uint16_t>(from);
    if (type_ == "int32") return get<std::int32_t>(from);
    if (type_ == "int64") return static_cast<double>(get<std::int64_t>(from));
    if (type_ == "uint64") return static_cast<double>(get<std::uint64_t>(from));
    if (type_ == "float16") {
      half value;
      value.bits = get<std::uint16_t>(from);
      return static_cast<double>(value);
    }
    if (type_ == "bfloat16") return std::bit_cast<float>(std::uint32_t{get<std::uint16_t>(from)} << 16);
    if (type_ == "float32" || type_ == "complex64") return get<float>(from);
    return get<double>(from);
  }

 private:
  template <class T>
  static std::size_t put(T value, std::byte* to) {
    std::memcpy(to, &value, sizeof value);
    return sizeof value;
  }
  template <class T>
  static T get(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  std::string_view type_;
};

class FilterContract : public testing::TestWithParam<filter_row> {
 protected:
  static constexpr std::uint64_t kLengths[] = {1, 2, 7, 64, 255, 1021};

  void SetUp() override {
    const auto made = compile_filter(GetParam(), 16);
    if (!made.ok() && made.error().to_string().find("libzfp") != std::string::npos) GTEST_SKIP() << "no libzfp";
    ASSERT_TRUE(made.ok()) << made.error().to_string();
  }
  static codec_chain chain(std::uint64_t length) { return compile_filter(GetParam(), length).value(); }

  /// Values within the row's promise; mixed, and in order.
  static std::vector<bytes> contents(const codec_chain& codec) {
    const filter_promise& promise = GetParam().promise;
    const std::size_t size = codec.decoded_bytes();
    if (promise.count == 0) {
      return {smooth_bytes(size, size), random_bytes(size, size), bytes(size), bytes(size, std::byte{0xff})};
    }
    const number_form form(GetParam().type);
    std::vector<bytes> out(2, bytes(size));
    std::mt19937_64 random(size);
    std::uint64_t turn = random();
    for (std::size_t at = 0; at < size; at += form.bytes_of_one(), ++turn) {
      form.store(promise.low + promise.step * static_cast<double>(random() % promise.count), &out[0][at]);
      form.store(promise.low + promise.step * static_cast<double>(turn % promise.count), &out[1][at]);
    }
    return out;
  }
  static void expect_as_promised(const bytes& made, const bytes& content) {
    const filter_promise& promise = GetParam().promise;
    if (promise.lossless) {
      ASSERT_EQ(made, content);
      return;
    }
    const number_form form(GetParam().type);
    for (std::size_t at = 0; at < content.size(); at += form.bytes_of_one()) {
      const double given = form.load(&content[at]), got = form.load(&made[at]);
      const double most = std::max(promise.absolute, promise.relative * std::abs(given));
      ASSERT_TRUE(std::abs(got - given) <= most || most == kNoBound) << got << " for " << given << ", at byte " << at;
    }
  }

  worker_scratch scratch_;
};

TEST_P(FilterContract, RestoresEncodedContentAsGuaranteed) {
  for (const std::uint64_t length : kLengths) {
    const codec_chain codec = chain(length);
    for (const bytes& content : contents(codec)) {
      guarded_decode decode;
      const auto done = decode(codec, encode_all(codec, content, scratch_), scratch_);
      ASSERT_TRUE(done.ok()) << length << ": " << done.error().to_string();
      ASSERT_NO_FATAL_FAILURE(expect_as_promised(decode.content(), content)) << length;
    }
  }
}

TEST_P(FilterContract, EncodesWithinItsBound) {
  for (const std::uint64_t length : kLengths) {
    const codec_chain codec = chain(length);
    const std::uint64_t bound = codec.max_encoded_bytes();
    ASSERT_NE(bound, kUnbounded);
    for (bytes content : contents(codec)) {
      const std::size_t guard = 16;
      bytes out(bound + guard, std::byte{0xa5});
      const auto view = tensor_view::contiguous(content.data(), codec.type(), codec.cell());
      const auto made = codec.encode(view, std::span(out).first(bound), scratch_);
      ASSERT_TRUE(made.ok()) << length << ": " << made.error().to_string();
      EXPECT_LE(*made, bound) << length;
      if (codec.fixed_size()) {
        EXPECT_EQ(*made, bound) << length;
      }
      EXPECT_TRUE(std::all_of(out.end() - guard, out.end(), [](std::byte b) { return b == std::byte{0xa5}; }))
          << length;
      // Equal content encodes to equal bytes, wherever they are written.
      bytes again(bound, std::byte{0x5a});
      ASSERT_TRUE(codec.encode(view, again, scratch_).ok());
      EXPECT_TRUE(std::equal(again.begin(), again.begin() + static_cast<std::ptrdiff_t>(*made), out.begin())) << length;
    }
  }
}

TEST_P(FilterContract, RefusesOrSurvivesHostileBytes) {
  constexpr std::uint64_t kLength = 37;
  ledger accounts(kMostFilterMemory, 0);
  worker_scratch scratch(&accounts);
  const codec_chain codec = chain(kLength);
  const bytes encoded = encode_all(codec, contents(codec)[0], scratch_);
  // Accepted bytes fill the whole cell, with the same values whatever it contained before.
  const auto decodes_alike = [&](const bytes& hostile) {
    guarded_decode decode(true, GetParam().name == "n5_default");
    const bool accepted = decode(codec, hostile, scratch).ok();
    bytes other(codec.decoded_bytes(), std::byte{0x3c});
    EXPECT_EQ(decode_all(codec, hostile, other, scratch).ok(), accepted);
    if (accepted) {
      EXPECT_EQ(decode.content(), other);
    }
    return accepted;
  };
  for (std::size_t length = 0; length < encoded.size(); ++length) {
    const bytes part(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(length));
    const bool accepted = decodes_alike(part);
    EXPECT_FALSE(accepted && (length == 0 || codec.fixed_size())) << length << " of " << encoded.size();
  }
  std::mt19937_64 random(7);
  for (std::uint64_t i = test::cases_of_one_thread(400); i > 0; --i) {
    bytes damaged = encoded;
    damaged[random() % damaged.size()] ^= std::byte{1} << random() % 8;
    decodes_alike(damaged);
    decodes_alike(random_bytes(random() % 300, random()));
  }
  if (codec.stages() != 1) return;
  for (const std::size_t room : {std::size_t{0}, codec.decoded_bytes() - 1, codec.decoded_bytes() + 9}) {
    bytes out(room + 16, std::byte{0xa5});
    const auto made = codec.stage_codec(0).decode(encoded, std::span(out).first(room), scratch);
    EXPECT_TRUE(std::all_of(out.end() - 16, out.end(), [](std::byte b) { return b == std::byte{0xa5}; })) << room;
    if (made.ok()) {
      EXPECT_EQ(made->size(), codec.decoded_bytes()) << room;
    }
  }
}

TEST_P(FilterContract, ItsDeviceFormDecodesToTheSameBytes) {
  for (const std::uint64_t length : kLengths) {
    const codec_chain codec = chain(length);
    const cuda::device_chain split = cuda::split_chain(codec);
    if (split.decodes_on_host()) {
      EXPECT_FALSE(split.reason.empty());
      continue;
    }
    if (split.is_raw()) continue;
    for (const bytes& content : contents(codec)) {
      const bytes encoded = encode_all(codec, content, scratch_);
      bytes out(content.size()), expected(content.size());
      ASSERT_TRUE(decode_all(codec, encoded, expected, scratch_).ok());
      const auto done = device::decode_on_host(split.steps, encoded, out);
      ASSERT_TRUE(done.ok()) << length << ": " << done.error().to_string();
      ASSERT_EQ(out, expected) << length;
    }
  }
}

/// Bytes with the bytes that they decode to, made by hand or by another program.
struct read_sample {
  std::string_view name, settings;
  bytes encoded, decoded;
};
inline void PrintTo(const read_sample& sample, std::ostream* out) { *out << sample.name << sample.settings; }

class ReadOnlyCodecContract : public testing::TestWithParam<read_only_row> {
 protected:
  /// Decodes bytes as if they were encoded, into three sizes of output.
  void survives(const byte_codec& codec, std::span<const std::byte> hostile) {
    for (const std::size_t room : {std::size_t{0}, std::size_t{61}, std::size_t{480}}) {
      const auto first = decode_exactly(codec, hostile, room, std::byte{0x3c}, scratch_);
      EXPECT_EQ(first, decode_exactly(codec, hostile, room, std::byte{0xc3}, scratch_)) << codec.describe();
    }
  }
  ledger accounts_{kMostFilterMemory, 0};
  worker_scratch scratch_{&accounts_};
};

TEST_P(ReadOnlyCodecContract, RefusesOrSurvivesHostileBytes) {
  const auto codec = make_codec(GetParam());
  ASSERT_TRUE(codec.ok()) << codec.error().to_string();
  EXPECT_EQ((*codec)->name(), GetParam().name);
  survives(**codec, {});
  std::mt19937_64 random(8);
  for (std::uint64_t i = test::cases_of_one_thread(400); i > 0; --i) {
    const bytes noise = random_bytes(random() % 300, random());
    survives(**codec, noise);
    // Only a few bits are set: short lengths and small numbers, which more codecs accept.
    bytes sparse(random() % 300);
    for (std::byte& each : sparse) each = static_cast<std::byte>(random() & random() & random() & random());
    survives(**codec, sparse);
  }
}

TEST_P(ReadOnlyCodecContract, EncodesOrRefusesAsStated) {
  const auto codec = make_codec(GetParam());
  ASSERT_TRUE(codec.ok());
  for (const std::size_t size : {1, 2, 255, 1531}) {
    const bytes content = smooth_bytes(size, size);
    if (!GetParam().writes) {
      std::byte none[8];
      const auto made = (*codec)->encode(content, none, scratch_);
      ASSERT_FALSE(made.ok());
      EXPECT_EQ(made.error().code(), errc::unsupported);
      continue;
    }
    bytes encoded((*codec)->max_encoded_bytes(size));
    const auto made = (*codec)->encode(content, encoded, scratch_);
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    ASSERT_LE(*made, encoded.size());
    EXPECT_EQ(decode_exactly(**codec, std::span(encoded).first(*made), size, std::byte{0x3c}, scratch_), content);
  }
}

class ReadSampleContract : public testing::TestWithParam<read_sample> {
 protected:
  void SetUp() override {
    const auto made = make_codec(read_only_row{GetParam().name, GetParam().settings});
    if (!made.ok() && made.error().to_string().find("libzfp") != std::string::npos) GTEST_SKIP() << "no libzfp";
  }
  std::shared_ptr<const byte_codec> codec() const {
    return make_codec(read_only_row{GetParam().name, GetParam().settings}).value();
  }
  ledger accounts_{kMostFilterMemory, 0};
  worker_scratch scratch_{&accounts_};
};

TEST_P(ReadSampleContract, DecodesToTheWrittenBytes) {
  const auto& [name, settings, encoded, decoded] = GetParam();
  EXPECT_EQ(decode_exactly(*codec(), encoded, decoded.size(), std::byte{0x3c}, scratch_), decoded);
  EXPECT_EQ(decode_exactly(*codec(), encoded, decoded.size() + 64, std::byte{0xc3}, scratch_), decoded);
}

TEST_P(ReadSampleContract, RefusesOrSurvivesDamage) {
  const bytes &encoded = GetParam().encoded, &decoded = GetParam().decoded;  // clang 14 does not capture bindings
  const auto survives = [&, with = codec()](std::span<const std::byte> hostile) {
    const auto first = decode_exactly(*with, hostile, decoded.size(), std::byte{0x3c}, scratch_);
    EXPECT_EQ(first, decode_exactly(*with, hostile, decoded.size(), std::byte{0xc3}, scratch_));
    return first;
  };
  for (std::size_t length = 0; length < encoded.size(); ++length) {
    EXPECT_NE(survives(std::span(encoded).first(length)), decoded) << length << " of " << encoded.size();
  }
  for (std::size_t i = 0; i < 8 * encoded.size(); ++i) {
    bytes damaged = encoded;
    damaged[i / 8] ^= std::byte{1} << i % 8;
    survives(damaged);
  }
  for (std::size_t room = 0; room < decoded.size(); ++room) {
    const auto made = decode_exactly(*codec(), encoded, room, std::byte{0x3c}, scratch_);
    EXPECT_NE(made, decoded) << room;
  }
}

TEST_P(ReadSampleContract, ItsDeviceFormDecodesToTheSameBytes) {
  const auto& [name, settings, encoded, decoded] = GetParam();
  const auto form = codec()->form_on_device();
  const auto step = form ? device::step_of(*form) : std::nullopt;
  if (!step) return;
  const device::device_step steps[] = {*step};
  bytes out(decoded.size());
  const auto done = device::decode_on_host(steps, encoded, out);
  ASSERT_TRUE(done.ok()) << done.error().to_string();
  EXPECT_EQ(out, decoded);
}

}  // namespace penstock::contract
