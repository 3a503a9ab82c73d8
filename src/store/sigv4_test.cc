#include "store/sigv4.h"

#include <gtest/gtest.h>

#include "base/sha256.h"

namespace penstock {
namespace {

std::string signature_of(const http_request& signed_request) {
  const std::string& text = signed_request.headers.back().value;
  const std::size_t at = text.find("Signature=");
  return at == std::string::npos ? text : text.substr(at + 10);
}

// docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
std::string s3_example(http_method method, const std::string& target, std::vector<http_header> headers,
                       std::string_view body = "") {
  http_request request;
  request.method = method;
  request.url = "https://examplebucket.s3.amazonaws.com" + target;
  request.headers = std::move(headers);
  const s3_credentials with{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
  const auto done = sign_v4(request, with, "20130524T000000Z", "us-east-1", "s3", to_hex(sha256::of(body)));
  EXPECT_TRUE(done.ok());
  return signature_of(request);
}

TEST(SignatureV4, AgreesWithTheExamplesOfS3) {
  EXPECT_EQ(s3_example(http_method::get, "/test.txt", {{"Range", "bytes=0-9"}}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(s3_example(http_method::put, "/test$file.text",
                       {{"Date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                       "Welcome to Amazon S3."),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  EXPECT_EQ(s3_example(http_method::get, "/?lifecycle", {}),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(s3_example(http_method::get, "/?max-keys=2&prefix=J", {}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

// The cases get-vanilla* and get-unreserved of AWS's Signature Version 4 test suite.
std::string suite(const std::string& target, const std::string& token = "") {
  http_request request;
  request.url = "https://example.amazonaws.com" + target;
  const s3_credentials with{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token};
  const auto done = sign_v4(request, with, "20150830T123600Z", "us-east-1", "service", to_hex(sha256::of("")));
  EXPECT_TRUE(done.ok());
  return signature_of(request);
}

TEST(SignatureV4, AgreesWithItsTestSuite) {
  EXPECT_EQ(suite("/"), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  EXPECT_EQ(suite(""), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  EXPECT_EQ(suite("/?Param2=value2&Param1=value1"), "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
  EXPECT_EQ(suite("/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
            "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f");
}

TEST(SignatureV4, SignsTheCanonicalFormOfAUrl) {
  EXPECT_EQ(suite("/a%20b?x=%7e&y"), suite("/a%20b?y=&x=~"));
  EXPECT_NE(suite("/a"), suite("/b"));
  EXPECT_NE(suite("/"), suite("/", "a session"));
}

// The header `Host` does not have them.
TEST(SignatureV4, PortsThatTheSchemeImpliesAreNotSigned) {
  const auto signed_for = [](const std::string& url) {
    http_request request;
    request.url = url;
    EXPECT_TRUE(sign_v4(request, {"key", "secret", ""}, "20150830T123600Z", "us-east-1", "s3", kUnsignedPayload).ok());
    return signature_of(request);
  };
  EXPECT_EQ(signed_for("https://minio:443/b/k"), signed_for("https://minio/b/k"));
  EXPECT_EQ(signed_for("http://minio:80/b/k"), signed_for("http://minio/b/k"));
  EXPECT_EQ(signed_for("http://[::1]:80/b/k"), signed_for("http://[::1]/b/k"));
  EXPECT_NE(signed_for("http://minio:443/b/k"), signed_for("http://minio/b/k"));
  EXPECT_NE(signed_for("https://minio:80/b/k"), signed_for("https://minio/b/k"));
}

TEST(SignatureV4, TheTimeHasTheRequiredForm) {
  const std::string now = signing_time();
  ASSERT_EQ(now.size(), 16u);
  EXPECT_EQ(now[8], 'T');
  EXPECT_EQ(now[15], 'Z');
}

}  // namespace
}  // namespace penstock
