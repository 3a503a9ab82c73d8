// Chains whose codecs are stages: transposes and swaps after others, structures, elements of variable length, and
// codecs of a provider.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "array/list_items.h"
#include "codec/byte_codecs.h"
#include "codec/codec_fixture.h"
#include "codec/library_contexts.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kZstd = R"({"name":"zstd","configuration":{"level":3}})";

codec_chain chain_of(std::string_view text, const dtype& type, const extents& cell,
                     const codec_chain_options& options = {}) {
  auto made = codec_chain::compile(parse_codecs(text), type, cell, options);
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  return std::move(made).value();
}

errc refusal(std::string_view text, const dtype& type, const extents& cell, const codec_chain_options& options = {}) {
  const auto made = codec_chain::compile(parse_codecs(text), type, cell, options);
  return made.ok() ? errc::internal : made.error().code();
}

/// Doubles each byte of an array; its output is an array of items twice as long.
class doubling_codec final : public byte_codec {
 public:
  std::string_view name() const override { return "doubling"; }
  std::string describe() const override { return "doubling"; }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override { return 2 * decoded_bytes; }
  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch&) const override {
    if (encoded.size() / 2 > out.size()) return error{errc::corrupt_data, "too much"};
    for (std::size_t i = 0; i < encoded.size() / 2; ++i) out[i] = encoded[2 * i];
    return std::span<const std::byte>(out.data(), encoded.size() / 2);
  }
  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    for (std::size_t i = 0; i < decoded.size(); ++i) out[2 * i] = out[2 * i + 1] = decoded[i];
    return 2 * decoded.size();
  }
};

class offered_codecs final : public codec_provider {
 public:
  result<compiled_codec> make(const codec_config& config, const stage_type& input) const override {
    if (config.name != "doubling") return error{errc::unsupported, "none of that name"};
    stage_type output = input;
    output.type = dtype::raw(2 * input.type.item_bytes());
    return compiled_codec{std::make_shared<doubling_codec>(), output};
  }
};

std::vector<variable_item> items_of(const std::vector<std::string>& texts) {
  std::vector<variable_item> items;
  for (const std::string& text : texts) items.push_back({reinterpret_cast<const std::byte*>(text.data()), text.size()});
  return items;
}

bytes encode_items(const codec_chain& chain, std::vector<variable_item> items, worker_scratch& scratch) {
  buffer out;
  const auto made = chain.encode(tensor_view::contiguous(items.data(), chain.type(), chain.cell()), out, scratch);
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  return made.ok() ? bytes(made->begin(), made->end()) : bytes();
}

result<> decode_items(const codec_chain& chain, std::span<const std::byte> encoded, std::vector<variable_item>& items,
                      worker_scratch& scratch) {
  return decode_all(chain, encoded, std::as_writable_bytes(std::span(items)), scratch);
}

const std::vector<std::string>& some_texts() {
  static const std::vector<std::string> texts = {"", "one", "zwölf", std::string(100'000, 'x'), "ende", ""};
  return texts;
}

TEST(Stages, MoveItemsOfVariableLength) {
  for (const std::string& rest : {std::string(), "," + std::string(kZstd),
                                  std::string(R"(,{"name":"gzip","configuration":{"level":1}},"crc32c")"),
                                  "," + std::string(kZstd) + "," + std::string(kZstd)}) {
    for (const char* transpose : {"", R"({"name":"transpose","configuration":{"order":[1,0]}},)"}) {
      const codec_chain chain =
          chain_of("[" + std::string(transpose) + "\"vlen-utf8\"" + rest + "]", dtype::variable_utf8(), {2, 3});
      EXPECT_EQ(chain.max_encoded_bytes(), kUnbounded);
      EXPECT_EQ(chain.decoded_bytes(), 96u);
      EXPECT_FALSE(chain.fixed_size());
      worker_scratch scratch;
      item_arena arena;
      scratch.arena = &arena;
      const bytes encoded = encode_items(chain, items_of(some_texts()), scratch);
      std::vector<variable_item> items(6);
      const auto done = decode_items(chain, encoded, items, scratch);
      ASSERT_TRUE(done.ok()) << done.error().to_string();
      for (std::size_t i = 0; i < items.size(); ++i) EXPECT_EQ(items[i].text(), some_texts()[i]);
    }
  }
}

TEST(Stages, WriteItemsAsSpecified) {
  const codec_chain chain = chain_of(R"(["vlen-utf8"])", dtype::variable_utf8(), {3});
  worker_scratch scratch;
  const bytes encoded = encode_items(chain, items_of({"ab", "", "\xc3\xa4"}), scratch);
  const std::string expected("\3\0\0\0\2\0\0\0ab\0\0\0\0\2\0\0\0\xc3\xa4", 20);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(encoded.data()), encoded.size()), expected);
}

TEST(Stages, RefuseItemsThatAreDamaged) {
  const codec_chain text = chain_of(R"(["vlen-utf8"])", dtype::variable_utf8(), {2});
  const codec_chain raw = chain_of(R"(["vlen-bytes"])", dtype::variable_bytes(), {2});
  worker_scratch scratch;
  const auto refused = [&](const codec_chain& chain, std::string_view data) {
    std::vector<variable_item> items(2);
    const auto done = decode_items(chain, std::as_bytes(std::span(data)), items, scratch);
    return done.ok() ? std::string("fine") : done.error().message();
  };
  using namespace std::string_view_literals;
  EXPECT_EQ(refused(text, "\2\0\0\0\1\0\0\0a\1\0\0\0b"sv), "fine");
  EXPECT_EQ(refused(text, ""sv), "vlen-utf8 data has 0 bytes, the lengths alone of 2 items have more");
  EXPECT_EQ(refused(text, "\3\0\0\0\1\0\0\0a\1\0\0\0b"sv), "vlen-utf8 data has 3 items, the chunk's shape needs 2");
  EXPECT_EQ(refused(text, "\2\0\0\0\2\0\0\0a\1\0\0\0"sv), "vlen-utf8 data ends within item 0 of 2");
  EXPECT_EQ(refused(text,
                    "\2\0\0\0\xff\xff\xff\xff"
                    "a\1\0\0\0b"sv),
            "vlen-utf8 data ends within item 0 of 2");
  EXPECT_EQ(refused(text, "\2\0\0\0\1\0\0\0a\2\0\0\0b"sv), "vlen-utf8 data ends within item 1 of 2");
  EXPECT_EQ(refused(text, "\2\0\0\0\1\0\0\0\xc3\1\0\0\0b"sv), "vlen-utf8 item 0 of 1 byte is not UTF-8");
  EXPECT_EQ(refused(raw, "\2\0\0\0\1\0\0\0\xc3\1\0\0\0b"sv), "fine");
}

TEST(Stages, ListsHaveTheByteOrderOfTheirCodec) {
  using namespace std::string_view_literals;
  const dtype lists = dtype::variable_list(dtype(dtype_kind::signed_integer, 16)).value();
  const codec_chain chain = chain_of(R"([{"name": "vlen-array", "configuration": {"dtype": ">i2"}}])", lists, {2});
  worker_scratch scratch;
  item_arena arena;
  scratch.arena = &arena;
  std::vector<variable_item> items(2);
  const std::string_view stored = "\2\0\0\0\4\0\0\0\1\2\3\4\0\0\0\0"sv;
  ASSERT_TRUE(decode_items(chain, std::as_bytes(std::span(stored)), items, scratch).ok());
  EXPECT_EQ(items[0].text(), "\2\1\4\3");
  EXPECT_EQ(items[1].size, 0U);
  const bytes encoded = encode_items(chain, items, scratch);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(encoded.data()), encoded.size()), stored);
  const std::string_view cut = "\2\0\0\0\3\0\0\0\1\2\3\0\0\0\0"sv;
  EXPECT_EQ(decode_items(chain, std::as_bytes(std::span(cut)), items, scratch).error().code(), errc::corrupt_data);
  EXPECT_EQ(refusal(R"(["vlen-array"])", dtype::variable_bytes(), {2}), errc::unsupported);
}

TEST(Stages, ListsOfArraysHaveWholeItemsInNativeOrder) {
  using namespace std::string_view_literals;
  const dtype type = dtype::variable_list(dtype(dtype_kind::signed_integer, 16), {2}).value();
  const codec_chain chain =
      chain_of(R"([{"name": "vlen-array", "configuration": {"dtype": [">i2", [2]]}}])", type, {1});
  worker_scratch scratch;
  item_arena arena;
  scratch.arena = &arena;
  std::vector<variable_item> items(1);
  const std::string_view stored = "\1\0\0\0\4\0\0\0\1\2\3\4"sv;
  ASSERT_TRUE(decode_items(chain, std::as_bytes(std::span(stored)), items, scratch).ok());
  EXPECT_EQ(items[0].text(), "\2\1\4\3");
  const std::string_view half = "\1\0\0\0\2\0\0\0\1\2"sv;
  EXPECT_EQ(decode_items(chain, std::as_bytes(std::span(half)), items, scratch).error().message(),
            "vlen-array item 0 has 2 bytes, not a multiple of 4");
}

TEST(Stages, ListsOfListsAndOfTextAreCheckedAndInNativeOrder) {
  using namespace std::string_view_literals;
  const dtype int16(dtype_kind::signed_integer, 16);
  const dtype type = dtype::variable_list(dtype::variable_list(int16).value()).value();
  const codec_chain lists = chain_of(
      R"([{"name": "vlen-array", "configuration": {"dtype": {"id": "vlen-array", "dtype": ">i2"}}}])", type, {1});
  worker_scratch scratch;
  item_arena arena;
  scratch.arena = &arena;
  std::vector<variable_item> items(1);
  const auto code = [&](const codec_chain& chain, std::string_view stored) {
    const auto done = decode_items(chain, std::as_bytes(std::span(stored)), items, scratch);
    return done.ok() ? std::string("fine") : std::string(done.error().message());
  };
  const std::string_view stored = "\1\0\0\0\x10\0\0\0\4\0\0\0\1\2\3\4\0\0\0\0\0\0\0\0"sv;
  EXPECT_EQ(code(lists, stored), "fine");
  const std::vector<variable_item> inner = split_list(items[0]);
  ASSERT_EQ(inner.size(), 3U);
  EXPECT_EQ(inner[0].text(), "\2\1\4\3");
  EXPECT_EQ(inner[1].size + inner[2].size, 0U);
  const bytes encoded = encode_items(lists, items, scratch);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(encoded.data()), encoded.size()), stored);
  EXPECT_EQ(code(lists, "\1\0\0\0\7\0\0\0\3\0\0\0\1\2\3"sv), "vlen-array item 0 has 3 bytes, not a multiple of 2");
  EXPECT_EQ(code(lists, "\1\0\0\0\7\0\0\0\4\0\0\0\1\2\3"sv), "vlen-array item 0 ends within item 0 of a list");
  EXPECT_EQ(code(lists, "\1\0\0\0\2\0\0\0\1\2"sv), "vlen-array item 0 ends within item 0 of a list");

  const codec_chain texts = chain_of(R"([{"name": "vlen-array", "configuration": {"dtype": {"id": "vlen-utf8"}}}])",
                                     dtype::variable_list(dtype::variable_utf8()).value(), {1});
  EXPECT_EQ(code(texts, "\1\0\0\0\x9\0\0\0\1\0\0\0a\0\0\0\0"sv), "fine");
  EXPECT_EQ(code(texts, "\1\0\0\0\5\0\0\0\1\0\0\0\xff"sv), "vlen-array item 0 has text of 1 byte that is not UTF-8");
}

TEST(Stages, KeepItemsOfTheirOwnUntilTheNextCell) {
  const codec_chain chain = chain_of(R"(["vlen-bytes"])", dtype::variable_bytes(), {1});
  worker_scratch scratch;
  const bytes encoded = encode_items(chain, items_of({"abc"}), scratch);
  std::vector<variable_item> items(1);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(decode_items(chain, encoded, items, scratch).ok());
    EXPECT_EQ(items[0].text(), "abc");
    EXPECT_EQ(scratch.items().bytes(), 3u);
  }
}

TEST(Stages, NeverMakeItemsOfPlainBytes) {
  EXPECT_EQ(refusal(R"(["bytes"])", dtype::variable_utf8(), {2}), errc::unsupported);
  EXPECT_EQ(refusal("[]", dtype::variable_utf8(), {2}), errc::corrupt_data);
  EXPECT_EQ(refusal(R"(["vlen-bytes"])", dtype::variable_utf8(), {2}), errc::unsupported);
  EXPECT_EQ(refusal(R"(["vlen-utf8"])", dtype::object(), {2}), errc::unsupported);
  codec_chain_options v2;
  v2.stored_order_filters = true;
  EXPECT_EQ(refusal("[]", dtype::variable_utf8(), {2}, v2), errc::corrupt_data);
  EXPECT_EQ(refusal(R"(["bytes"])", dtype::object(), {2}, v2), errc::unsupported);
  EXPECT_EQ(refusal("[" + std::string(kZstd) + "]", dtype::variable_bytes(), {2}, v2), errc::unsupported);
  EXPECT_EQ(refusal("[" + std::string(kZstd) + "]", dtype::raw(3), {2}, v2), errc::internal);
}

TEST(Stages, GrowWithinTheLedgerOnly) {
  const codec_chain chain = chain_of("[\"vlen-bytes\"," + std::string(kZstd) + "]", dtype::variable_bytes(), {1});
  worker_scratch free;
  const bytes encoded = encode_items(chain, items_of({std::string(30'000'000, 'z')}), free);
  ASSERT_LT(encoded.size(), 10'000u);
  std::vector<variable_item> items(1);
  {
    ledger accounts(4 << 20, 0);
    worker_scratch scratch(&accounts);
    const auto done = decode_items(chain, encoded, items, scratch);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code(), errc::resource_exhausted);
  }
  ledger accounts(std::uint64_t{256} << 20, 0);
  worker_scratch scratch(&accounts);
  ASSERT_TRUE(decode_items(chain, encoded, items, scratch).ok());
  EXPECT_EQ(items[0].size, 30'000'000u);
}

TEST(Stages, SwapStructuresFieldByField) {
  const dtype u2(dtype_kind::unsigned_integer, 16), i4(dtype_kind::signed_integer, 32);
  const dtype type = dtype::structured({{"a", u2, 0, {}}, {"b", i4, 0, {}}}).value();
  worker_scratch scratch;
  const bytes cell = random_bytes(60, 1);
  const codec_chain little = chain_of(R"([{"name":"bytes","configuration":{"endian":"little"}}])", type, {2, 5});
  EXPECT_TRUE(little.is_identity());
  EXPECT_EQ(encode_all(little, cell, scratch), cell);
  const codec_chain big = chain_of(R"([{"name":"transpose","configuration":{"order":[1,0]}},
                                       {"name":"bytes","configuration":{"endian":"big"}},)" +
                                       std::string(kZstd) + "]",
                                   type, {2, 5});
  EXPECT_EQ(big.describe(), "transpose(1, 0) | bytes(big) | zstd(level=3)");
  bytes out(60);
  ASSERT_TRUE(decode_all(big, encode_all(big, cell, scratch), out, scratch).ok());
  EXPECT_EQ(out, cell);
  const codec_chain plain = chain_of(R"([{"name":"bytes","configuration":{"endian":"big"}}])", type, {1});
  bytes one = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}, std::byte{6}};
  const bytes swapped = {std::byte{2}, std::byte{1}, std::byte{6}, std::byte{5}, std::byte{4}, std::byte{3}};
  EXPECT_EQ(encode_all(plain, one, scratch), swapped);
  EXPECT_FALSE(plain.is_identity());

  codec_chain_options v2;
  v2.stored_order_filters = true;
  const codec_chain mixed =
      chain_of(R"([{"name":"bytes","configuration":{"endian":["little","big"]}}])", type, {1}, v2);
  const bytes half = {std::byte{1}, std::byte{2}, std::byte{6}, std::byte{5}, std::byte{4}, std::byte{3}};
  EXPECT_EQ(encode_all(mixed, one, scratch), half);
  bytes back(6);
  ASSERT_TRUE(decode_all(mixed, half, back, scratch).ok());
  EXPECT_EQ(back, one);
  EXPECT_EQ(refusal(R"([{"name":"bytes","configuration":{"endian":["big"]}}])", type, {1}, v2), errc::corrupt_data);
  EXPECT_EQ(refusal(R"([{"name":"bytes","configuration":{"endian":["little","big"]}}])", type, {1}),
            errc::corrupt_data);
  // zarr-python 3.1 omits the byte order of structures.
  EXPECT_EQ(encode_all(chain_of(R"(["bytes"])", type, {1}), one, scratch), one);
}

TEST(Stages, ReceiveTheOutputTypeOfTheStageBefore) {
  const offered_codecs others;
  codec_chain_options options;
  options.external = &others;
  const dtype type(dtype_kind::unsigned_integer, 16);
  // Two-byte items become four-byte ones, which the transpose after them must move.
  const codec_chain chain = chain_of(R"([{"name":"transpose","configuration":{"order":[1,0]}},"doubling",
                                         {"name":"transpose","configuration":{"order":[1,0]}},"doubling","bytes",)" +
                                         std::string(kZstd) + R"(,"crc32c"])",
                                     type, {4, 6}, options);
  EXPECT_EQ(chain.describe(),
            "transpose(1, 0) | doubling | transpose(1, 0) | doubling | bytes | zstd(level=3) | crc32c");
  worker_scratch scratch;
  const bytes cell = random_bytes(48, 5);
  bytes out(48);
  ASSERT_TRUE(decode_all(chain, encode_all(chain, cell, scratch), out, scratch).ok());
  EXPECT_EQ(out, cell);

  const codec_chain plain = chain_of(R"(["doubling",{"name":"transpose","configuration":{"order":[1,0]}},"bytes"])",
                                     dtype(dtype_kind::unsigned_integer, 8), {2, 2}, options);
  EXPECT_TRUE(plain.fixed_size());
  EXPECT_EQ(plain.max_encoded_bytes(), 8u);
  const bytes made = encode_all(plain, {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}}, scratch);
  const bytes expected = {std::byte{1}, std::byte{1}, std::byte{3}, std::byte{3},
                          std::byte{2}, std::byte{2}, std::byte{4}, std::byte{4}};
  EXPECT_EQ(made, expected);
  EXPECT_FALSE(decode_all(plain, std::span(expected).first(6), out, scratch).ok());
  EXPECT_EQ(refusal(R"(["doubling"])", type, {2}, options), errc::corrupt_data);
  EXPECT_EQ(refusal(R"(["tripling","bytes"])", type, {2}, options), errc::unsupported);
}

TEST(Stages, PassTheStoredByteOrderToFilters) {
  const offered_codecs others;
  codec_chain_options v2;
  v2.external = &others;
  v2.stored_order_filters = true;
  const dtype type(dtype_kind::unsigned_integer, 16);
  const codec_chain chain =
      chain_of(R"([{"name":"bytes","configuration":{"endian":"big"}},"doubling"])", type, {1}, v2);
  worker_scratch scratch;
  const bytes one = {std::byte{1}, std::byte{2}};
  const bytes stored = {std::byte{2}, std::byte{2}, std::byte{1}, std::byte{1}};
  EXPECT_EQ(encode_all(chain, one, scratch), stored);
  bytes out(2);
  ASSERT_TRUE(decode_all(chain, stored, out, scratch).ok());
  EXPECT_EQ(out, one);
}

TEST(Stages, SupportTheCodecsOfZarr2) {
  const auto codec = codec_of_v2(json::parse(R"({"id":"zstd","level":1})").value());
  ASSERT_TRUE(codec.ok());
  EXPECT_EQ(codec->name, "numcodecs.zstd");
  EXPECT_EQ(codec->configuration, json::parse(R"({"level":1})").value());
  EXPECT_TRUE(make_byte_codec(*codec, 1).ok());
  for (const char* text : {"[]", "{}", R"({"id":1})", "null", "\"zstd\""})
    EXPECT_EQ(codec_of_v2(json::parse(text).value()).error().code(), errc::corrupt_data) << text;
}

TEST(Stages, RefuseAnOutputThatIsTooSmallForItems) {
  const codec_chain chain = chain_of(R"(["vlen-bytes"])", dtype::variable_bytes(), {1});
  worker_scratch scratch;
  const std::vector<std::string> texts = {"abcdef"};
  auto items = items_of(texts);
  bytes out(13);
  const tensor_view view = tensor_view::contiguous(items.data(), chain.type(), chain.cell());
  EXPECT_EQ(chain.encode(view, std::span(out), scratch).error().code(), errc::invalid_argument);
  out.resize(14);
  EXPECT_EQ(chain.encode(view, std::span(out), scratch).value(), 14u);
}

TEST(Stages, LargeBuffersOfAllLevelsAreFreed) {
  worker_scratch scratch;
  worker_scratch* const levels[] = {&scratch, &scratch.inner(), &scratch.libraries().nested()};
  for (worker_scratch* const each : levels) {
    ASSERT_TRUE(each->stage(0).reserve(1000).ok());
    ASSERT_TRUE(each->stage(3).reserve(100'000).ok());
    ASSERT_TRUE(each->codec_memory().reserve(100'000).ok());
  }
  scratch.free_large(50'000);
  for (worker_scratch* const each : levels) {
    EXPECT_GE(each->stage(0).capacity(), 1000u);
    EXPECT_EQ(each->stage(3).capacity(), 0u);
    EXPECT_EQ(each->codec_memory().capacity(), 0u);
  }
}

}  // namespace
}  // namespace penstock::inline v0
