// python/tests/test_zfp.py compares streams and numbers with zfpy's; these tests cover memory: bounds, hostile streams,
// places without alignment.

#include <cstring>

#include "codec/codec_fixture.h"

namespace penstock::inline v0 {
namespace {

/// A mode of `zfp`, or of `zfpy`, for each path in libzfp: with and without a limit of bits, lossy and reversible.
const std::string_view kModes[] = {
    R"({"name":"zfp","configuration":{"mode":"reversible"}})",
    R"({"name":"zfp","configuration":{"mode":"fixed_rate","rate":7.3}})",
    R"({"name":"zfp","configuration":{"mode":"fixed_rate","rate":0}})",
    R"({"name":"zfp","configuration":{"mode":"fixed_rate","rate":128}})",
    R"({"name":"zfp","configuration":{"mode":"fixed_precision","precision":11}})",
    R"({"name":"zfp","configuration":{"mode":"fixed_accuracy","tolerance":0.25}})",
    R"({"name":"zfp","configuration":{"mode":"expert","minbits":0,"maxbits":1,"maxprec":64,"minexp":-1074}})",
    R"({"name":"zfp","configuration":{"mode":"expert","minbits":1,"maxbits":18,"maxprec":7,"minexp":-2147483648}})",
    R"({"name":"zfp","configuration":{"mode":"expert","minbits":400,"maxbits":4294967295,"maxprec":9,"minexp":-99}})",
    R"({"name":"zfp","configuration":{"mode":"expert","minbits":1,"maxbits":99,"maxprec":3,"minexp":2147483647}})",
    R"({"name":"numcodecs.zfpy","configuration":{"mode":4,"tolerance":0.25}})",
    R"({"name":"numcodecs.zfpy","configuration":{"mode":2,"rate":9}})",
    R"({"name":"numcodecs.zfpy","configuration":{"mode":5}})",
};
const extents kCells[] = {{1}, {4}, {37}, {5, 6}, {8, 4}, {3, 1, 9}, {4, 4, 8}, {1, 2, 1, 3}, {4, 5, 2, 7}, {0, 3}, {}};

/// Why this build or machine does not have libzfp; empty if it does. Any other failure must be found by the tests.
std::string why_no_zfp() {
  const auto made = compile("[" + std::string(kModes[0]) + "]", "float32", {4});
  if (made.ok()) return "";
  const std::string why = made.error().to_string();
  return why.find("libzfp") == std::string::npos ? "" : why;
}

class Zfp : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_zfp(); !why.empty()) GTEST_SKIP() << why;
  }
  static std::vector<codec_chain> chains() {
    std::vector<codec_chain> made;
    for (const extents& cell : kCells) {
      for (const char* type : {"int32", "int64", "float32", "float64"}) {
        made.push_back(compile("[" + std::string(GetParam()) + "]", type, cell).value());
      }
    }
    return made;
  }
};

TEST_P(Zfp, EncodesWithinItsBoundAtAnyPlace) {
  for (const codec_chain& chain : chains()) {
    const byte_codec& codec = chain.stage_codec(0);
    const std::uint64_t bound = codec.max_encoded_bytes(chain.decoded_bytes());
    for (const bytes& content : {smooth_bytes(chain.decoded_bytes(), 1), random_bytes(chain.decoded_bytes(), 2),
                                 bytes(chain.decoded_bytes(), std::byte{0xff})}) {
      bytes first;
      for (const std::size_t shift : {0, 1, 4}) {
        worker_scratch scratch;
        // Blocks end where the content and the target end, so that sanitizers detect accesses beyond them.
        const auto from = std::make_unique<std::byte[]>(shift + content.size());
        std::copy(content.begin(), content.end(), from.get() + shift);
        const auto out = std::make_unique<std::byte[]>(shift + bound);
        const auto made = codec.encode({from.get() + shift, content.size()}, {out.get() + shift, bound}, scratch);
        ASSERT_TRUE(made.ok()) << chain.describe() << made.error().to_string();
        ASSERT_LE(*made, bound) << chain.describe();
        ASSERT_EQ(*made % 8, 0u);
        const bytes encoded(out.get() + shift, out.get() + shift + *made);
        if (shift == 0) first = encoded;
        ASSERT_EQ(encoded, first) << chain.describe();
        bytes aligned(content.size());
        const auto moved = std::make_unique<std::byte[]>(shift + content.size());
        const auto done = codec.decode(encoded, aligned, scratch);
        ASSERT_TRUE(done.ok()) << chain.describe() << done.error().to_string();
        ASSERT_TRUE(codec.decode(encoded, {moved.get() + shift, content.size()}, scratch).ok());
        ASSERT_TRUE(std::equal(aligned.begin(), aligned.end(), moved.get() + shift)) << chain.describe();
        const bool lossless = chain.describe().find("reversible") != std::string::npos;
        ASSERT_TRUE(!lossless || aligned == content) << chain.describe();
      }
    }
  }
}

TEST_P(Zfp, ReadsAndWritesNothingOutsideForHostileStreams) {
  std::mt19937_64 random(3);
  for (const codec_chain& chain : chains()) {
    guarded_decode decode;
    const auto survives = [&](const bytes& hostile) {
      worker_scratch scratch;  // a new one, whose block has exactly the requested size
      static_cast<void>(decode(chain, hostile, scratch));
    };
    worker_scratch scratch;
    const bytes encoded = encode_all(chain, smooth_bytes(chain.decoded_bytes(), 4), scratch);
    for (std::size_t length = 0; length < encoded.size(); length += 1 + encoded.size() / 40) {
      survives(bytes(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(length)));
    }
    for (int i = 0; i < 60; ++i) {
      survives(random_bytes(random() % 400, random()));
      survives(bytes(random() % 400, std::byte{0xff}));
      if (encoded.empty()) continue;
      bytes damaged = encoded;
      const std::size_t from = i % 3 == 0 ? std::min<std::size_t>(19, damaged.size()) : damaged.size();  // the header
      for (int bit = 0; bit < 1 + i % 4; ++bit) damaged[random() % from] ^= std::byte{1} << random() % 8;
      survives(damaged);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Zfp, testing::ValuesIn(kModes),
                         [](const auto& each) { return std::to_string(each.index); });

TEST(ZfpOfTypes, RefusesOthers) {
  if (const std::string why = why_no_zfp(); !why.empty()) GTEST_SKIP() << why;
  const auto refusal = [](std::string_view text, std::string_view type, const extents& cell) {
    return compile(text, type, cell).error().to_string();
  };
  constexpr std::string_view kZfp = R"([{"name":"zfp","configuration":{"mode":"reversible"}}])";
  EXPECT_EQ(refusal(kZfp, "complex64", {4}).substr(0, 62),
            "unsupported: codec 'zfp' does not support complex64 of 1 dimen");
  EXPECT_EQ(refusal(kZfp, "float32", {1, 1, 1, 1, 1}).substr(0, 60),
            "unsupported: codec 'zfp' does not support float32 of 5 dimen");
  EXPECT_EQ(refusal(R"(["numcodecs.zfpy"])", "uint16", {4}).substr(0, 12), "unsupported:");
}

}  // namespace
}  // namespace penstock::inline v0
