#include "store/s3_account.h"

#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT: setenv is POSIX's

#include <fstream>
#include <string>

#include "store/store_fixture.h"

namespace penstock::test {
namespace {

// The user's own settings must not be used.
class S3Account : public testing::Test {
 protected:
  S3Account() {
    for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
                             "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"})
      ::unsetenv(name);
    ::setenv("AWS_SHARED_CREDENTIALS_FILE", (folder_.path() / "credentials").c_str(), 1);
    ::setenv("AWS_CONFIG_FILE", (folder_.path() / "config").c_str(), 1);
  }
  void write(const char* name, const char* text) { std::ofstream(folder_.path() / name) << text; }

  http_request request(const std::string& bucket = "bucket", s3_flavour flavour = s3_flavour::aws) {
    http_request out;
    const auto account = s3_account::make(flavour, bucket, options_);
    EXPECT_TRUE(account.ok()) << account.error().to_string();
    if (!account.ok()) return out;
    const auto done = (*account)->address("a b/c", "x=1", kUnsignedPayload, out);
    EXPECT_TRUE(done.ok());
    return out;
  }
  static std::string authorization(const http_request& of) {
    for (const http_header& each : of.headers)
      if (each.name == "Authorization") return each.value;
    return "";
  }

  temporary_folder folder_;
  remote_options options_;
};

TEST_F(S3Account, UsesTheEndpointOfRegionAndBucket) {
  EXPECT_EQ(request().url, "https://bucket.s3.us-east-1.amazonaws.com/a%20b/c?x=1");
  EXPECT_EQ(authorization(request()), "") << "requests without credentials are not signed";
  options_.region = "eu-west-1";
  EXPECT_EQ(request().url, "https://bucket.s3.eu-west-1.amazonaws.com/a%20b/c?x=1");
  EXPECT_EQ(request("with.dots").url, "https://s3.eu-west-1.amazonaws.com/with.dots/a%20b/c?x=1");
  options_.endpoint_url = "http://localhost:9000/";
  EXPECT_EQ(request().url, "http://localhost:9000/bucket/a%20b/c?x=1");
  options_.path_style = false;
  EXPECT_EQ(request().url, "http://bucket.localhost:9000/a%20b/c?x=1");
}

TEST_F(S3Account, LearnsTheRegionFromARefusal) {
  const auto account = s3_account::make(s3_flavour::aws, "bucket", options_);
  ASSERT_TRUE(account.ok());
  http_head head;
  head.status = 301;
  EXPECT_FALSE((*account)->learn_region(head, "us-east-1"));
  head.add("x-amz-bucket-region: ap-south-1");
  EXPECT_TRUE((*account)->learn_region(head, "us-east-1"));
  EXPECT_TRUE((*account)->learn_region(head, "us-east-1")) << "of a request that was sent before it was known";
  EXPECT_FALSE((*account)->learn_region(head, "ap-south-1"));
  http_request out;
  ASSERT_TRUE((*account)->address("k", "", kUnsignedPayload, out).ok());
  EXPECT_EQ(out.url, "https://bucket.s3.ap-south-1.amazonaws.com/k");
  EXPECT_EQ(out.region, "ap-south-1");
  head.add("x-amz-bucket-region: evil.example/");
  EXPECT_FALSE((*account)->learn_region(head, "us-east-1"));
}

TEST_F(S3Account, CredentialsAreTheOptionsThenTheEnvironmentsThenTheProfiles) {
  write("credentials",
        "# mine\n[default]\naws_access_key_id = FILE\naws_secret_access_key=s\n\n[other]\n"
        "aws_access_key_id=OTHER\naws_secret_access_key=s\naws_session_token=t\n");
  write("config",
        "[default]\nregion = eu-north-1\n[profile third]\naws_access_key_id=THIRD\naws_secret_access_key=s\n"
        "region=us-west-2\ns3 =\n  addressing_style = path\n");
  const auto key_of = [&] {
    const std::string text = authorization(request());
    const std::size_t at = text.find("Credential=");
    return at == std::string::npos ? "" : text.substr(at + 11, text.find('/', at) - at - 11);
  };
  EXPECT_EQ(key_of(), "FILE");
  EXPECT_EQ(request().url, "https://bucket.s3.eu-north-1.amazonaws.com/a%20b/c?x=1");
  ::setenv("AWS_PROFILE", "other", 1);
  EXPECT_EQ(key_of(), "OTHER");
  ::unsetenv("AWS_PROFILE");
  ::setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "s", 1);
  EXPECT_EQ(key_of(), "ENV");
  options_.profile = "third";
  EXPECT_EQ(key_of(), "THIRD") << "a requested profile has precedence over the environment";
  options_.key = "OPTION", options_.secret = "s";
  EXPECT_EQ(key_of(), "OPTION");
  options_.anonymous = true;
  EXPECT_EQ(key_of(), "");
  ::unsetenv("AWS_ACCESS_KEY_ID");
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
}

TEST_F(S3Account, GoogleTakesATokenOrItsOwnKeys) {
  EXPECT_EQ(request("b", s3_flavour::google).url, "https://storage.googleapis.com/b/a%20b/c?x=1");
  options_.token = "abc";
  EXPECT_EQ(authorization(request("b", s3_flavour::google)), "Bearer abc");
  options_.token = "";
  options_.key = "GOOG", options_.secret = "s";
  EXPECT_NE(authorization(request("b", s3_flavour::google)).find("/auto/s3/aws4_request"), std::string::npos);
}

TEST_F(S3Account, RefusesInvalidOptions) {
  const auto code = [&](const std::string& bucket) {
    const auto made = s3_account::make(s3_flavour::aws, bucket, options_);
    return made.ok() ? errc::internal : made.error().code();
  };
  for (const char* bucket : {"", "a/b", "a@evil", "a b"}) EXPECT_EQ(code(bucket), errc::invalid_argument) << bucket;
  options_.key = "alone";
  EXPECT_EQ(code("bucket"), errc::invalid_argument);
  options_ = {};
  options_.profile = "nobody";
  EXPECT_EQ(code("bucket"), errc::invalid_argument);
  options_ = {};
  options_.endpoint_url = "ftp://x";
  EXPECT_EQ(code("bucket"), errc::invalid_argument);
}

}  // namespace
}  // namespace penstock::test
