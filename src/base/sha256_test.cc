#include "base/sha256.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

std::string hex_of(std::string_view text) { return to_hex(sha256::of(text)); }

// FIPS 180-2, appendix B, and the empty message of NIST's byte-oriented test vectors.
TEST(Sha256, AgreesWithItsStandard) {
  EXPECT_EQ(hex_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex_of(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnTheSizesOfUpdates) {
  std::string text;
  for (int i = 0; i < 300; ++i) text.push_back(static_cast<char>(i * 7));
  for (const std::size_t size : {1U, 55U, 56U, 63U, 64U, 65U, 119U, 120U, 128U, 300U}) {
    const std::string_view whole = std::string_view(text).substr(0, size);
    for (const std::size_t step : {1U, 3U, 64U, 100U}) {
      sha256 pieces;
      for (std::size_t at = 0; at < size; at += step) pieces.add(whole.substr(at, step));
      EXPECT_EQ(pieces.finish(), sha256::of(whole)) << size << " bytes by " << step;
    }
  }
}

// RFC 4231, cases 1, 2 and 6.
TEST(HmacSha256, AgreesWithItsStandard) {
  const auto hmac = [](std::string_view key, std::string_view text) {
    return to_hex(hmac_sha256(std::as_bytes(std::span(key)), text));
  };
  EXPECT_EQ(hmac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

}  // namespace
}  // namespace penstock
