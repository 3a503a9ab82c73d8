#include "driver/schemes.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace penstock::inline v0 {
namespace {

option_value text(std::string value) {
  option_value out;
  out.is = option_value::kind::text;
  out.type = "str";
  out.truth = !value.empty();
  out.text = std::move(value);
  return out;
}

option_value number(double value) {
  option_value out;
  out.is = option_value::kind::number;
  out.type = "int";
  out.truth = value != 0;
  out.number = value;
  return out;
}

option_value yes() {
  option_value out;
  out.is = option_value::kind::boolean;
  out.type = "bool";
  out.truth = true;
  out.number = 1;
  return out;
}

option_value fields(storage_options values) {
  option_value out;
  out.is = option_value::kind::fields;
  out.type = "dict";
  out.truth = !values.empty();
  out.fields = std::move(values);
  return out;
}

option_value unknown(std::string type) {
  option_value out;
  out.is = option_value::kind::other;
  out.type = std::move(type);
  out.truth = true;
  return out;
}

std::string refusal(std::string_view uri, const storage_options& given) {
  const auto made = remote_options_of(uri, given);
  return made.ok() ? "" : made.error().message();
}

class GoogleVariable {
 public:
  explicit GoogleVariable(const char* value) {
    if (const char* const before = std::getenv(kName)) before_ = before;
    value == nullptr ? ::unsetenv(kName) : ::setenv(kName, value, 1);
  }
  ~GoogleVariable() { before_ ? ::setenv(kName, before_->c_str(), 1) : ::unsetenv(kName); }

 private:
  static constexpr const char* kName = "GOOGLE_APPLICATION_CREDENTIALS";
  std::optional<std::string> before_;
};

TEST(Schemes, DetermineTheLibraryOfAName) {
  const GoogleVariable none(nullptr);
  const std::pair<const char*, uri_server> kNames[] = {
      {"data.zarr", uri_server::this_machine},
      {"/a/b://c", uri_server::this_machine},
      {"file:///a", uri_server::this_machine},
      {"zip:///a.zip/x", uri_server::this_machine},
      {"http://h/x", uri_server::library},
      {"HTTPS://h/x", uri_server::library},
      {"s3://b/x", uri_server::library},
      {"gs://b/x", uri_server::library},
      {"abfs://c/x", uri_server::another},
      {"git+ssh://h/x", uri_server::another},
      {"simplecache::https://h/x", uri_server::another},
      {"zip://x::s3://b/y.zip", uri_server::another},
  };
  for (const auto& [name, server] : kNames) EXPECT_EQ(server_of(name, {}), server) << name;
}

TEST(Schemes, UnknownOptionsNeedAnotherLibrary) {
  EXPECT_EQ(server_of("s3://b/x", {{"anon", yes()}}), uri_server::library);
  EXPECT_EQ(server_of("s3://b/x", {{"requester_pays", yes()}}), uri_server::another);
  EXPECT_EQ(server_of("http://h/x", {{"anon", yes()}}), uri_server::another);
  EXPECT_EQ(server_of("s3://b/x", {{"client_kwargs", fields({{"region_name", text("r")}})}}), uri_server::library);
  EXPECT_EQ(server_of("s3://b/x", {{"client_kwargs", fields({{"verify", yes()}})}}), uri_server::another);
  EXPECT_EQ(server_of("gs://b/x", {{"client_kwargs", fields({{"region", text("r")}})}}), uri_server::another);
}

TEST(Schemes, CredentialsToExchangeForTokensNeedAnotherLibrary) {
  const GoogleVariable file("/a/key.json");
  EXPECT_EQ(server_of("gs://b/x", {}), uri_server::another_if_installed);
  EXPECT_EQ(server_of("s3://b/x", {}), uri_server::library);
  for (const char* const token : {"anon", "ya29.a"})
    EXPECT_EQ(server_of("gs://b/x", {{"token", text(token)}}), uri_server::library) << token;
  for (const char* const token : {"google_default", "cloud", "cache", "browser", "/a/key.json"})
    EXPECT_EQ(server_of("gs://b/x", {{"token", text(token)}}), uri_server::another) << token;
  EXPECT_EQ(server_of("gs://b/x", {{"token", unknown("Credentials")}}), uri_server::another);
}

TEST(Schemes, AcceptOptionNamesOfOtherLibraries) {
  const auto ours = remote_options_of("s3://b/x", {{"key", text("k")}, {"secret", text("s")}, {"token", text("t")}});
  const auto theirs = remote_options_of(
      "s3://b/x",
      {{"aws_access_key_id", text("k")}, {"aws_secret_access_key", text("s")}, {"aws_session_token", text("t")}});
  ASSERT_TRUE(ours.ok() && theirs.ok());
  for (const remote_options* each : {&*ours, &*theirs}) {
    EXPECT_EQ(each->key, "k");
    EXPECT_EQ(each->secret, "s");
    EXPECT_EQ(each->session_token, "t");
    EXPECT_EQ(each->token, "");
  }
  const auto client = remote_options_of(
      "s3://b/x", {{"client_kwargs", fields({{"endpoint_url", text("inner")}, {"region_name", text("r")}})},
                   {"endpoint_url", text("outer")}});
  ASSERT_TRUE(client.ok());
  EXPECT_EQ(client->endpoint_url, "outer");
  EXPECT_EQ(client->region, "r");
}

TEST(Schemes, ValuesBecomeTheLibrarysOptions) {
  const auto made = remote_options_of("https://h/x", {{"headers", fields({{"A", text("b")}})},
                                                      {"netrc", yes()},
                                                      {"timeout", text("2.5")},
                                                      {"retries", number(3)},
                                                      {"token", {}}});
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  ASSERT_EQ(made->headers.size(), 1U);
  EXPECT_EQ(made->headers[0].second, "b");
  EXPECT_EQ(made->netrc, "~");
  EXPECT_EQ(made->timeout_s, 2.5);
  EXPECT_EQ(made->retries, 3U);
  EXPECT_EQ(made->token, "");
  const auto anonymous = remote_options_of("gs://b/x", {{"token", text("anon")}});
  ASSERT_TRUE(anonymous.ok());
  EXPECT_TRUE(anonymous->anonymous);
  EXPECT_EQ(anonymous->token, "");
}

TEST(Schemes, AWrongValueIsNamedByItsOption) {
  EXPECT_EQ(refusal("http://h/x", {{"timeout", number(0)}}), "storage_options['timeout']: not a time above 0");
  EXPECT_EQ(refusal("http://h/x", {{"retries", number(1001)}}), "storage_options['retries']: not between 0 and 1000");
  EXPECT_EQ(refusal("http://h/x", {{"retries", text("1.5")}}), "storage_options['retries']: not a whole number");
  EXPECT_EQ(refusal("http://h/x", {{"timeout", text("1s")}}), "storage_options['timeout']: not a number: '1s'");
  EXPECT_EQ(refusal("http://h/x", {{"token", number(1)}}), "storage_options['token']: not a text but a int");
  EXPECT_EQ(refusal("http://h/x", {{"token", text("a\nb")}}),
            "storage_options['token']: a text with control characters");
  EXPECT_EQ(refusal("http://h/x", {{"headers", fields({{"A", text("b\r\nC: d")}})}}),
            "storage_options['headers']: a text with control characters");
  EXPECT_EQ(refusal("http://h/x", {{"headers", text("A: b")}}),
            "storage_options['headers']: not names and values but a str");
}

TEST(Schemes, AnOptionCanBeSetBeforeTheUriIsKnown) {
  remote_options made;
  EXPECT_TRUE(set_remote_option(made, "anon", yes()).ok());
  EXPECT_TRUE(set_remote_option(made, "netrc", yes()).ok());
  EXPECT_TRUE(set_remote_option(made, "region", text("eu")).ok());
  EXPECT_TRUE(set_remote_option(made, "retries", text("7")).ok());
  EXPECT_TRUE(made.anonymous);
  EXPECT_EQ(made.netrc, "~");
  EXPECT_EQ(made.region, "eu");
  EXPECT_EQ(made.retries, 7U);
  EXPECT_EQ(set_remote_option(made, "retries", text("2.5")).error().message(), "not a whole number");
  EXPECT_EQ(set_remote_option(made, "timeout", text("0")).error().message(), "not a time above 0");
  EXPECT_EQ(set_remote_option(made, "shape", text("7")).error().message(), "no scheme has the storage option 'shape'");
}

TEST(Schemes, NameTheirOptions) {
  for (const std::string scheme : {"http", "s3", "gs"}) {
    const auto names = storage_option_names(scheme);
    EXPECT_GT(names.size(), 5U);
    for (const std::string_view name : names)
      EXPECT_EQ(server_of(scheme + "://b/x", {{std::string(name), {}}}), uri_server::library) << scheme << ' ' << name;
  }
  EXPECT_TRUE(storage_option_names("az").empty());
}

TEST(Schemes, SplitUrisThatContinueInsideFiles) {
  const auto split = [](std::string_view uri) {
    const object_uri made = split_at_object(uri);
    return made.object + " " + made.inner;
  };
  EXPECT_EQ(split("https://h/d/x.h5/g/t2m"), "https://h/d/x.h5 g/t2m");
  EXPECT_EQ(split("https://h/X.NC4//t2m/"), "https://h/X.NC4 t2m");
  EXPECT_EQ(split("https://h/x.h5/g?signature=1"), "https://h/x.h5?signature=1 g");
  EXPECT_EQ(split("s3://b/what?/x.nc/t2m"), "s3://b/what?/x.nc t2m");
  EXPECT_EQ(split("ftp://h/x.nc/t2m"), "ftp://h/x.nc t2m");
  for (const char* const whole : {"https://h/x.h5", "https://h/x.h5/", "https://h.nc/t2m", "https://h/get?file=x.h5/g",
                                  "https://h/d.zarr/t2m", "/a/x.h5/g", "zip://x.h5/g::https://h/y.zip"})
    EXPECT_EQ(split(whole), std::string(whole) == "https://h/x.h5/" ? "https://h/x.h5 " : std::string(whole) + " ");
}

TEST(Schemes, NamesWithPossibleSecretsAreNotPassedOn) {
  for (const char* const name : {"https://h/x", "s3://b/what?", "gs://b/x", "abfs://c/x", "https://h/a@b"})
    EXPECT_TRUE(names_for_others(name)) << name;
  for (const char* const name :
       {"/a/b", "file:///a", "zip:///a.zip", "https://h/x?signature=1", "https://u:p@h/x", "simplecache::https://h/x"})
    EXPECT_FALSE(names_for_others(name)) << name;
}

}  // namespace
}  // namespace penstock::inline v0
