#include "base/base64.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock {
namespace {

std::string encoded(std::string_view text) { return base64_encode(std::as_bytes(std::span(text.data(), text.size()))); }

TEST(Base64, EncodesTheVectorsOfItsSpecification) {
  EXPECT_EQ(encoded(""), "");
  EXPECT_EQ(encoded("f"), "Zg==");
  EXPECT_EQ(encoded("fo"), "Zm8=");
  EXPECT_EQ(encoded("foo"), "Zm9v");
  EXPECT_EQ(encoded("foob"), "Zm9vYg==");
  EXPECT_EQ(encoded("fooba"), "Zm9vYmE=");
  EXPECT_EQ(encoded("foobar"), "Zm9vYmFy");
}

TEST(Base64, RestoresEveryByte) {
  for (std::size_t length = 0; length < 300; ++length) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i) text.push_back(static_cast<char>(i * 7 + length));
    const auto back = base64_decode(encoded(text));
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(back->data()), back->size()), text);
  }
}

TEST(Base64, RefusesOtherText) {
  for (const char* text : {"A", "AA", "AAA", "A===", "AA=A", "AA==AAAA", "A AA", "====", "AAA-", "AAA\n"}) {
    EXPECT_FALSE(base64_decode(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace penstock
