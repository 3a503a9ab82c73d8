// The device's decoders for TIFF, and numbers after decompressors, on the host: compared with the codecs that the host
// engine uses.

#include <libdeflate.h>

#include "codec/codec_chain.h"
#include "codec/tiff/tiff_codecs.h"
#include "codec/tiff/tiff_samples.h"
#include "codec/worker_scratch.h"
#include "cuda/decode/lzw.h"
#include "cuda/decode/numbers.h"
#include "support/cases.h"

#include "cuda/decode/decode_fixture.h"  // after the headers above, which use the same names

namespace penstock::inline v0::device {
namespace {

const device_step kLzw[] = {{step_kind::lzw}};
const device_step kPackBits[] = {{step_kind::packbits}};

// TIFF's LZW: a greedy encoder of strings in a plain trie. `old`: least significant bit first.
bytes lzw_of(const bytes& content, bool old, bool ends = true) {
  bytes out;
  std::uint64_t hold = 0;
  unsigned held = 0, width = 9;
  const auto put = [&](unsigned code) {
    hold = old ? hold | std::uint64_t{code} << held : hold << width | code;
    held += width;
    for (; held >= 8; held -= 8) {
      out.push_back(static_cast<std::byte>(old ? hold : hold >> (held - 8)));
      if (old) hold >>= 8;
    }
  };
  std::vector<std::vector<int>> children;
  unsigned next = 0;
  const auto clear = [&] {
    put(kLzwClear);
    children.assign(kLzwCodes, std::vector<int>());
    next = kLzwFirst;
    width = 9;
  };
  clear();
  for (std::size_t at = 0; at < content.size();) {
    auto code = static_cast<unsigned>(content[at++]);
    while (at < content.size() && !children[code].empty() && children[code][static_cast<unsigned>(content[at])] != 0)
      code = static_cast<unsigned>(children[code][static_cast<unsigned>(content[at++])]);
    put(code);
    if (at == content.size()) break;
    if (children[code].empty()) children[code].resize(256);
    children[code][static_cast<unsigned>(content[at])] = static_cast<int>(next++);
    // The decoder has one string fewer than the encoder.
    if (next - 1 + (old ? 0 : 1) >= 1u << width && width < 12) ++width;
    if (next == 4094) clear();
  }
  if (ends) put(kLzwEnd);
  if (held > 0) out.push_back(static_cast<std::byte>(old ? hold : hold << (8 - held)));
  return out;
}

bytes packbits_of(const bytes& content, std::mt19937& random) {
  bytes out;
  for (std::size_t at = 0; at < content.size();) {
    std::size_t run = 1;
    while (run < 128 && at + run < content.size() && content[at + run] == content[at]) ++run;
    if (random() % 16 == 0) out.push_back(std::byte{128});  // a byte without a meaning
    if (run > 1) {
      out.push_back(static_cast<std::byte>(257 - run));
      out.push_back(content[at]);
      at += run;
      continue;
    }
    const std::size_t count = std::min<std::size_t>(1 + random() % 128, content.size() - at);
    out.push_back(static_cast<std::byte>(count - 1));
    out.insert(out.end(), content.begin() + static_cast<long>(at), content.begin() + static_cast<long>(at + count));
    at += count;
  }
  return out;
}

// The result of the host engine's codec: exactly `size` bytes, or nothing.
std::optional<bytes> host_decodes(const byte_codec& codec, const bytes& encoded, std::size_t size) {
  worker_scratch scratch;
  bytes out(size);
  const auto made = codec.decode(encoded, out, scratch);
  if (!made.ok() || made->size() != size) return std::nullopt;
  return bytes(made->begin(), made->end());
}

// Damaged bytes: the device accepts the same as the host, with the same result.
void expect_like_the_host(std::span<const device_step> steps, const byte_codec& codec, const bytes& encoded,
                          std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (std::uint64_t round = encoded.empty() ? 0 : test::cases(300); round-- > 0;) {
    bytes damaged = encoded;
    for (std::uint32_t i = 0; i <= random() % 3; ++i)
      damaged[random() % damaged.size()] ^= std::byte(1u << random() % 8);
    if (round % 3 == 0) damaged.resize(random() % damaged.size());
    bytes ours(size);
    const bool accepted = decode_on_host(steps, damaged, ours).ok();
    const auto theirs = host_decodes(codec, damaged, size);
    ASSERT_EQ(accepted, theirs.has_value()) << "seed " << seed << " round " << round;
    if (!accepted) continue;
    ASSERT_EQ(ours, *theirs) << "seed " << seed << " round " << round;
  }
}

TEST(DeviceLzw, DecodesBothBitOrdersAtEverySize) {
  for (const char* kind : kKinds)
    for (const bool old : {false, true})
      for (const std::size_t size : {0u, 1u, 2u, 300u, 5'000u, 200'001u}) {
        const bytes content = content_of(kind, size), encoded = lzw_of(content, old);
        const std::string what = kind + std::string(old ? " old" : " new") + " of " + std::to_string(size);
        ASSERT_EQ(host_decodes(*make_tiff_lzw_codec(), encoded, size), content) << what;
        expect_decodes(kLzw, encoded, content, what);
        expect_decodes(kLzw, lzw_of(content, old, false), content, what + " without an end");
      }
}

TEST(DeviceLzw, IgnoresBytesBeyondTheOutput) {
  const bytes content = content_of("text", 3000), encoded = lzw_of(content, false);
  for (const std::size_t size : {0u, 1u, 77u, 2999u})
    expect_decodes(kLzw, encoded, bytes(content.begin(), content.begin() + static_cast<long>(size)),
                   std::to_string(size));
}

TEST(DeviceLzw, DecodesDamagedBytesAsTheHostDoes) {
  for (const char* kind : kKinds)
    for (const bool old : {false, true})
      expect_like_the_host(kLzw, *make_tiff_lzw_codec(), lzw_of(content_of(kind, 2000), old), 2000, 7);
}

TEST(DevicePackBits, DecodesEveryKindOfContent) {
  std::mt19937 random(3);
  for (const char* kind : kKinds)
    for (const std::size_t size : {0u, 1u, 2u, 129u, 5'000u, 100'001u}) {
      const bytes content = content_of(kind, size);
      expect_decodes(kPackBits, packbits_of(content, random), content,
                     kind + std::string(" of ") + std::to_string(size));
    }
}

TEST(DevicePackBits, DecodesDamagedBytesAsTheHostDoes) {
  std::mt19937 random(4);
  for (const char* kind : kKinds)
    expect_like_the_host(kPackBits, *make_tiff_packbits_codec(), packbits_of(content_of(kind, 2000), random), 2000, 9);
}

bytes zlib_of(const bytes& content, int level) {
  libdeflate_compressor* const compressor = libdeflate_alloc_compressor(level);
  bytes out(libdeflate_zlib_compress_bound(compressor, content.size()));
  out.resize(libdeflate_zlib_compress(compressor, content.data(), content.size(), out.data(), out.size()));
  libdeflate_free_compressor(compressor);
  return out;
}

TEST(DeviceInflate, IgnoresBytesBeyondTheOutputIfAllowed) {
  const device_step steps[] = {{step_kind::zlib_or_more}}, exact[] = {{step_kind::zlib}};
  for (const char* kind : kKinds)
    for (const int level : {0, 1, 6}) {
      const bytes content = content_of(kind, 90'000);
      bytes encoded = zlib_of(content, level);
      expect_decodes(steps, encoded, content, kind);
      encoded.resize(encoded.size() + 9, std::byte{0x5a});
      expect_decodes(steps, encoded, content, std::string(kind) + " padded");
      for (const std::size_t size : {0u, 1u, 40'000u, 89'999u}) {
        const bytes first(content.begin(), content.begin() + static_cast<long>(size));
        expect_decodes(steps, encoded, first, kind + std::string(" of ") + std::to_string(size));
        bytes out(size);
        EXPECT_FALSE(decode_on_host(exact, encoded, out).ok());
      }
      encoded[encoded.size() - 9 - 1] ^= std::byte{1};
      bytes out(content.size());
      EXPECT_FALSE(decode_on_host(steps, encoded, out).ok()) << "the sum of a stream that fits is verified";
    }
}

row_layout layout_of(const tiff_samples& from, const std::vector<std::uint32_t>& picked) {
  row_layout out{};
  const bool complex = from.kind == sample_kind::complex_floating;
  out.rows = static_cast<std::uint32_t>(from.rows);
  out.width = static_cast<std::uint32_t>(from.width);
  out.samples = from.samples;
  out.item_bytes = from.bits / 8;
  out.unit_bytes = complex && from.predictor == 1 ? from.bits / 16 : std::min(from.bits / 8, 8u);
  out.predictor = from.predictor;
  out.big_endian = from.big_endian ? 1 : 0;
  out.wanted = static_cast<std::uint32_t>(picked.size());
  for (std::size_t j = 0; j < picked.size(); ++j) out.picked[j] = static_cast<std::uint8_t>(picked[j]);
  return out;
}

TEST(DeviceRows, UndoEveryPredictorForAllLayouts) {
  const std::vector<std::vector<std::uint32_t>> picks[] = {
      {{0}}, {{0, 1}, {1}, {1, 0}}, {{0, 1, 2}, {2}, {2, 0}}, {{0, 1, 2, 3}, {3, 1}}, {{0, 1, 2, 3, 4}, {4, 2, 0}}};
  for (const sample_kind kind : {sample_kind::unsigned_integer, sample_kind::floating, sample_kind::complex_floating})
    for (const std::uint32_t bits : {8u, 16u, 32u, 64u, 128u})
      for (std::uint32_t predictor = 1; predictor <= 3; ++predictor)
        for (const bool big : {false, true})
          for (std::uint32_t samples = 1; samples <= 5; ++samples)
            for (const auto& picked : picks[samples - 1])
              for (const std::uint64_t width : {1u, 31u, 33u, 100u}) {
                tiff_samples from;
                from.rows = 5;
                from.width = width;
                from.samples = samples;
                from.bits = bits;
                from.kind = kind;
                from.big_endian = big;
                from.predictor = predictor;
                auto codec = make_tiff_samples(from, picked);
                if (!codec.ok()) continue;  // the selected samples do not exist
                const bytes stored = content_of("noise", from.bytes(), bits + predictor);
                const std::size_t made = from.rows * width * picked.size() * bits / 8;
                const auto wanted = host_decodes(**codec, stored, made);
                ASSERT_TRUE(wanted);
                device_step step{step_kind::rows};
                step.rows = layout_of(from, picked);
                expect_decodes({&step, 1}, stored, *wanted, (*codec)->describe() + " width " + std::to_string(width));
              }
}

TEST(DeviceRows, RefuseTooFewBytesAndInvalidLayouts) {
  tiff_samples from;
  from.rows = 3;
  from.width = 10;
  device_step step{step_kind::rows};
  step.rows = layout_of(from, {0});
  bytes stored(29), out(30);
  EXPECT_FALSE(decode_on_host({&step, 1}, stored, out).ok());
  stored.resize(35);  // a strip may have bytes after its rows
  EXPECT_TRUE(decode_on_host({&step, 1}, stored, out).ok());
  out.resize(31);
  EXPECT_FALSE(decode_on_host({&step, 1}, stored, out).ok());
  for (auto damage : {+[](row_layout& rows) { rows.item_bytes = 3; }, +[](row_layout& rows) { rows.picked[0] = 1; },
                      +[](row_layout& rows) { rows.wanted = 0; }, +[](row_layout& rows) { rows.predictor = 4; },
                      +[](row_layout& rows) { rows.width = rows.rows = 0xffffffffu; }}) {
    device_step bad = step;
    damage(bad.rows);
    EXPECT_FALSE(decode_wave::make({&bad, 1}).ok());
  }
}

// A chain of one filter on `count` items, and the device's steps for it.
void check_filter(const std::string& name, const char* settings, const dtype& type, std::uint64_t count,
                  const device_step& step) {
  const codec_config config{name, *json::parse(settings)};
  const codec_config to_bytes{"bytes", *json::parse(R"({"endian":"little"})")};
  const codec_config codecs[] = {config, to_bytes};
  auto chain = codec_chain::compile(codecs, type, extents{count});
  ASSERT_TRUE(chain.ok()) << chain.error().to_string();
  bytes items = content_of("noise", count * type.item_bytes(), 5);
  if (type.kind() == dtype_kind::boolean)
    for (auto& each : items) each &= std::byte{1};
  worker_scratch scratch;
  bytes encoded(chain->max_encoded_bytes());
  const auto used = chain->encode(tensor_view::contiguous(items.data(), type, extents{count}), encoded, scratch);
  ASSERT_TRUE(used.ok()) << used.error().to_string();
  encoded.resize(*used);
  const std::string what = chain->describe() + " of " + std::to_string(count);
  expect_decodes({&step, 1}, encoded, items, what);
  bytes out(items.size());
  if (encoded.empty()) return;
  encoded.resize(encoded.size() - 1);
  EXPECT_FALSE(decode_on_host({&step, 1}, encoded, out).ok()) << what;
}

TEST(DeviceDelta, SumsIntegersOfEveryWidth) {
  struct pair {
    const char *type, *decoded, *encoded;
    delta_layout how;
  };
  const pair pairs[] = {
      {"uint8", "|u1", "|u1", {1, 1, false, false, false}},  {"int8", "|i1", "|i1", {1, 1, true, false, false}},
      {"uint16", "<u2", "<u2", {2, 2, false, false, false}}, {"int32", "<i4", "<i4", {4, 4, true, false, false}},
      {"int64", "<i8", "<i8", {8, 8, true, false, false}},   {"uint64", "<u8", "<u8", {8, 8, false, false, false}},
      {"int32", "<i4", "<i8", {8, 4, true, false, false}},   {"int16", "<i2", "<i4", {4, 2, true, false, false}},
  };
  for (const pair& each : pairs)
    for (const std::uint64_t count : {1u, 31u, 32u, 33u, 1000u, 4097u}) {
      device_step step{step_kind::delta};
      step.settings = each.how.parameter();
      const std::string settings =
          std::string(R"({"dtype":")") + each.decoded + R"(","astype":")" + each.encoded + "\"}";
      check_filter("numcodecs.delta", settings.c_str(), *dtype::from_name(each.type), count, step);
    }
}

TEST(DevicePackedBits, BecomeBooleansInBothOrders) {
  for (const std::uint64_t count : {1u, 7u, 8u, 9u, 1000u, 70'001u}) {
    device_step step{step_kind::unpack_bits};
    step.settings = kHighestBitFirst | kPaddingInFirstByte;
    check_filter("numcodecs.packbits", "{}", *dtype::from_name("bool"), count, step);
  }
  device_step step{step_kind::unpack_bits};
  step.settings = kPaddingInLastByte;
  bytes out(11);
  expect_decodes({&step, 1}, bytes{std::byte{0xa5}, std::byte{0x05}, std::byte{5}},
                 bytes{std::byte{1}, std::byte{0}, std::byte{1}, std::byte{0}, std::byte{0}, std::byte{1}, std::byte{0},
                       std::byte{1}, std::byte{1}, std::byte{0}, std::byte{1}},
                 "lowest first");
  EXPECT_FALSE(decode_on_host({&step, 1}, bytes{std::byte{0xa5}, std::byte{0x05}, std::byte{4}}, out).ok())
      << "the padding is another";
}

TEST(DeviceWave, RunsStepsThatChangeTheSize) {
  const bytes items = content_of("noise", 4000);
  bytes small(items.size() / 4);  // small values, which change size by sign extension
  std::vector<std::int32_t> sums(small.size());
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < small.size(); ++i) {
    small[i] = items[4 * i];
    sums[i] = sum += static_cast<std::int8_t>(small[i]);
  }
  device_step delta{step_kind::delta};
  delta.settings = delta_layout{1, 4, true, false, false}.parameter();
  const device_step steps[] = {{step_kind::zlib}, delta, {step_kind::byte_swap, 4}};
  bytes swapped = bytes_of(sums);
  for (std::size_t i = 0; i < swapped.size(); i += 4)
    std::reverse(swapped.begin() + static_cast<long>(i), swapped.begin() + static_cast<long>(i) + 4);
  expect_decodes(steps, zlib_of(small, 6), swapped, "zlib, delta, byte swap");
}

}  // namespace
}  // namespace penstock::inline v0::device
