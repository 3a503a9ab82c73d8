// Behaviour of the S3 store beyond the contract: parts, lost responses, pages, signatures.

#include "store/s3_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "store/store_fixture.h"
#include "support/http_server.h"

namespace penstock::test {
namespace {

using reply = http_server::reply;
using request = http_server::request;

class S3Store : public testing::Test {
 protected:
  std::shared_ptr<s3_store> make(s3_flavour flavour = s3_flavour::aws, const s3_store_options& sizes = {},
                                 unsigned retries = 2) {
    options_.endpoint_url = server_.url();
    options_.retries = retries;
    return std::make_shared<s3_store>(*http_transport::make(8), *s3_account::make(flavour, "bucket", options_),
                                      options_, sizes);
  }
  static result<version> put(store& to, std::string_view text, const write_condition& condition = {}) {
    const bytes data = to_bytes(text);
    const part whole(data);
    return to.put("k", {&whole, 1}, condition);
  }

  http_server server_;
  remote_options options_;
};

TEST_F(S3Store, LargeObjectsAreUploadedInParts) {
  s3_store_options sizes;
  sizes.multipart_bytes = 10;
  sizes.part_bytes = 4;
  const auto to = make(s3_flavour::aws, sizes);
  const bytes one = to_bytes("0123456"), two = to_bytes(""), three = to_bytes("789abcdefghijk");
  const part parts[] = {one, two, three};
  ASSERT_TRUE(to->put("k", parts, {}).ok());
  EXPECT_EQ(server_.objects().at("/bucket/k"), "0123456789abcdefghijk");
  EXPECT_EQ(server_.log().size(), 1u + 6u + 1u);
  server_.clear_log();
  ASSERT_TRUE(put(*to, "0123456789").ok());
  EXPECT_EQ(server_.log().size(), 1u) << "ten bytes are one request";
}

// Takes outcomes by their tags.
class outcomes final : public write_sink {
 public:
  void complete(std::uint64_t tag, result<version> done) override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(done_.emplace(tag, std::move(done)).second) << "write " << tag << " completed twice";
    arrived_.notify_all();
  }
  std::map<std::uint64_t, result<version>> wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(arrived_.wait_for(lock, std::chrono::seconds(20), [&] { return done_.size() == count; }));
    return std::exchange(done_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::uint64_t, result<version>> done_;
};

std::vector<byte_write> writes_of(const std::vector<std::string>& keys, const part& whole) {
  std::vector<byte_write> out(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    out[i].key = keys[i];
    out[i].parts = {&whole, 1};
    out[i].tag = i;
  }
  return out;
}

std::vector<std::string> numbered(std::size_t count) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back("k" + std::to_string(i));
  return out;
}

// No request is answered until as many have arrived as there are connections.
TEST_F(S3Store, OneThreadUsesAllConnectionsForWrites) {
  constexpr std::size_t kWrites = 24, kConnections = 8;
  std::atomic<std::size_t> asked{0};
  std::atomic<bool> waited_in_vain{false};
  server_.on_request([&](const request&, reply&) {
    const std::size_t wave = asked.fetch_add(1) / kConnections + 1;
    for (int i = 0; asked < wave * kConnections; ++i) {
      if (i == 5000) waited_in_vain = true;
      if (waited_in_vain) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const auto to = make();
  const bytes text = to_bytes("text");
  const part whole(text);
  const auto keys = numbered(kWrites);
  const auto writes = writes_of(keys, whole);
  outcomes sink;
  to->write(writes, sink, {});
  for (const auto& [tag, done] : sink.wait(kWrites)) EXPECT_TRUE(done.ok()) << done.error().to_string();
  EXPECT_FALSE(waited_in_vain);
  EXPECT_EQ(server_.objects().size(), kWrites);
}

TEST_F(S3Store, StoppedWritesEndAtOnceAndUploadsAreAborted) {
  s3_store_options sizes;
  sizes.multipart_bytes = 10;
  sizes.part_bytes = 4;
  // The server's threads may still use the script when the test is over: it owns its data.
  struct state {
    std::atomic<bool> hangs{true};
    std::atomic<int> asked{0};
  };
  const auto server = std::make_shared<state>();
  server_.on_request([server](const request& what, reply&) {
    if (what.method != "PUT") return;
    ++server->asked;
    for (int i = 0; server->hangs && i < 10'000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  const auto to = make(s3_flavour::aws, sizes);
  const bytes text = to_bytes("0123456789abcdef");
  const part whole(text);
  const auto keys = numbered(1);
  std::stop_source stop;
  outcomes sink;
  to->write(writes_of(keys, whole), sink, stop.get_token());
  while (server->asked < 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  stop.request_stop();
  const auto done = sink.wait(1);
  ASSERT_EQ(done.size(), 1u);
  ASSERT_FALSE(done.at(0).ok());
  EXPECT_EQ(done.at(0).error().code(), errc::cancelled);
  EXPECT_EQ(server_.log().back().method, "DELETE");
  EXPECT_TRUE(server_.objects().empty());
  server->hangs = false;
}

TEST_F(S3Store, WritesOfADestroyedStoreEnd) {
  for (int round = 0; round < 10; ++round) {
    const auto hangs = std::make_shared<std::atomic<bool>>(true);
    server_.on_request([hangs](const request&, reply&) {
      for (int i = 0; *hangs && i < 10'000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    const bytes text = to_bytes("text");
    const part whole(text);
    const auto keys = numbered(12);
    outcomes sink;
    auto to = make();
    to->write(writes_of(keys, whole), sink, {});
    std::this_thread::sleep_for(std::chrono::milliseconds(round));
    to.reset();
    *hangs = false;
    for (const auto& [tag, done] : sink.wait(12)) EXPECT_TRUE(done.ok()) << done.error().to_string();
  }
}

TEST_F(S3Store, AFailedUploadLeavesNoPartsBehind) {
  s3_store_options sizes;
  sizes.multipart_bytes = 10;
  sizes.part_bytes = 4;
  server_.on_request([](const request& asked, reply& out) {
    if (asked.target.find("partNumber=3") != std::string::npos) out.status = 403;
  });
  const auto done = put(*make(s3_flavour::aws, sizes), "0123456789abcdef");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::permission_denied);
  EXPECT_EQ(server_.log().back().method, "DELETE");
  EXPECT_TRUE(server_.objects().empty());
}

// The server answers "later" first, so that the second attempt may find what the first one did.
TEST_F(S3Store, AnUploadThatLostLeavesNoPartsBehind) {
  s3_store_options sizes;
  sizes.multipart_bytes = 10;
  sizes.part_bytes = 4;
  server_.set("/bucket/k", "theirs");
  write_condition absent;
  absent.what = write_condition::kind::must_be_absent;
  for (const auto& [status, code] : {std::pair(412, errc::version_changed), std::pair(403, errc::permission_denied)}) {
    server_.clear_log();
    std::atomic<int> ends{0};
    server_.on_request([&, status = status](const request& asked, reply& out) {
      const bool ends_upload = asked.method == "POST" && asked.target.find("uploadId") != std::string::npos;
      if (ends_upload) out.status = ends++ == 0 ? 503 : status;
    });
    const auto done = put(*make(s3_flavour::aws, sizes), "0123456789abcdef", absent);
    server_.on_request([](const request&, reply&) {});
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code(), code) << done.error().to_string();
    EXPECT_EQ(ends, 2);
    const auto log = server_.log();
    EXPECT_EQ(log.back().method, "DELETE");
    EXPECT_NE(log.back().target.find("uploadId"), std::string::npos);
    EXPECT_EQ(server_.objects().at("/bucket/k"), "theirs");
  }
}

bool ends_upload(const request& asked) {
  return asked.method == "POST" && asked.target.find("uploadId") != std::string::npos;
}

/// A response that reports an error in its body only.
void fail_in_body(reply& out, const std::string& code) {
  out.status = 200;
  out.body = " \n<Error><Code>" + code + "</Code><Message>sorry</Message></Error>";
}

TEST_F(S3Store, AnUploadThatFailsInItsLastResponseIsAnError) {
  s3_store_options sizes;
  sizes.multipart_bytes = 1;
  for (const auto& [reported, code] :
       {std::pair("InvalidPart", errc::io_error), std::pair("AccessDenied", errc::permission_denied)}) {
    server_.clear_log();
    server_.on_request([reported = reported](const request& asked, reply& out) {
      if (ends_upload(asked)) fail_in_body(out, reported);
    });
    const auto done = put(*make(s3_flavour::aws, sizes), "0123");
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code(), code);
    EXPECT_NE(done.error().to_string().find(std::string(reported) + ": sorry"), std::string::npos)
        << done.error().to_string();
    EXPECT_EQ(server_.log().size(), 4U) << "begin, one part, end, cancel";
  }
}

// Source: Amazon S3 API Reference, CompleteMultipartUpload: a response with status 200 may contain an error.
TEST_F(S3Store, AnUploadIsEndedAgainAfterATemporaryErrorInItsLastResponse) {
  s3_store_options sizes;
  sizes.multipart_bytes = 1;
  write_condition absent;
  absent.what = write_condition::kind::must_be_absent;
  for (const char* code : {"InternalError", "SlowDown", "ServiceUnavailable"}) {
    server_.set("/bucket/k", "so that the first attempt is not executed");
    std::atomic<int> ends{0};
    server_.on_request([&](const request& asked, reply& out) {
      if (!ends_upload(asked) || ends++ != 0) return;
      server_.remove("/bucket/k");
      fail_in_body(out, code);
    });
    const auto done = put(*make(s3_flavour::aws, sizes), "0123", absent);
    server_.on_request([](const request&, reply&) {});
    ASSERT_TRUE(done.ok()) << done.error().to_string();
    EXPECT_EQ(ends, 2);
    EXPECT_EQ(server_.objects().at("/bucket/k"), "0123");
  }
}

TEST_F(S3Store, AnUploadThatAlwaysFailsInItsLastResponseIsAnError) {
  s3_store_options sizes;
  sizes.multipart_bytes = 1;
  std::atomic<int> ends{0};
  server_.on_request([&](const request& asked, reply& out) {
    if (!ends_upload(asked)) return;
    ++ends;
    fail_in_body(out, "SlowDown");
  });
  const auto done = put(*make(s3_flavour::aws, sizes), "0123");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::io_error);
  EXPECT_NE(done.error().to_string().find("SlowDown: sorry"), std::string::npos) << done.error().to_string();
  EXPECT_EQ(ends, 3);
  EXPECT_EQ(server_.log().back().method, "DELETE");
}

// The first attempt may have been executed, or another writer was faster. The second one is refused in its body.
TEST_F(S3Store, AnUploadThatReportedATemporaryErrorIsRecognised) {
  s3_store_options sizes;
  sizes.multipart_bytes = 1;
  write_condition absent;
  absent.what = write_condition::kind::must_be_absent;
  for (const bool conditional : {false, true}) {
    for (const char* text : {"mine", "theirs"}) {
      server_.remove("/bucket/k");
      std::atomic<int> ends{0};
      server_.on_request([&](const request& asked, reply& out) {
        if (!ends_upload(asked)) return;
        server_.set("/bucket/k", text);
        fail_in_body(out, ends++ == 0 ? "InternalError" : conditional ? "PreconditionFailed" : "NoSuchUpload");
      });
      const auto done = put(*make(s3_flavour::aws, sizes), "mine", conditional ? absent : write_condition());
      server_.on_request([](const request&, reply&) {});
      EXPECT_EQ(ends, 2);
      EXPECT_EQ(done.ok(), text == std::string("mine")) << text;
      EXPECT_EQ(done.ok() ? errc::version_changed : done.error().code(), errc::version_changed);
      EXPECT_EQ(server_.objects().at("/bucket/k"), text);
    }
  }
}

// The first attempt is executed and its response lost; the second one finds the object that the first one wrote.
TEST_F(S3Store, AWriteWhoseResponseWasLostIsRecognised) {
  server_.on_request([](const request& asked, reply& out) {
    if (asked.number == 1) out.no_answer = true;
  });
  write_condition absent;
  absent.what = write_condition::kind::must_be_absent;
  const auto to = make();
  const auto first = put(*to, "mine", absent);
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  EXPECT_TRUE(read_now(*to, "k")->seen == *first);
  const auto second = put(*to, "mine", absent);
  ASSERT_FALSE(second.ok()) << "it belongs to another writer";
  EXPECT_EQ(second.error().code(), errc::version_changed);
}

TEST_F(S3Store, AWriteOfAnotherWriterIsDistinguishedFromItsOwn) {
  server_.set("/bucket/k", "theirs");
  server_.on_request([](const request& asked, reply& out) {
    if (asked.number == 1) out.no_answer = true;
  });
  write_condition absent;
  absent.what = write_condition::kind::must_be_absent;
  const auto done = put(*make(), "mine", absent);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), errc::version_changed);
  EXPECT_EQ(server_.objects().at("/bucket/k"), "theirs");
}

TEST_F(S3Store, GoogleReplacesByGeneration) {
  server_.on_request([](const request&, reply& out) { out.set("x-goog-generation", "17"); });
  const auto to = make(s3_flavour::google);
  EXPECT_EQ(to->uri(), "gs://bucket");
  const auto first = put(*to, "one");
  ASSERT_TRUE(first.ok());
  write_condition match;
  match.what = write_condition::kind::must_match;
  match.expected = *first;
  ASSERT_TRUE(put(*to, "two", match).ok());
  EXPECT_EQ(server_.log().back().field("x-goog-if-generation-match"), "17");
  match.what = write_condition::kind::must_be_absent;
  static_cast<void>(put(*to, "three", match));
  EXPECT_EQ(server_.log().back().field("x-goog-if-generation-match"), "0");
}

TEST_F(S3Store, SignsEveryAttempt) {
  options_.key = "me", options_.secret = "s", options_.session_token = "t";
  server_.set("/bucket/k", "x");
  ASSERT_TRUE(read_now(*make(), "k").ok());
  const request asked = server_.log().at(0);
  EXPECT_EQ(asked.field("authorization").substr(0, 31), "AWS4-HMAC-SHA256 Credential=me/");
  EXPECT_EQ(asked.field("x-amz-security-token"), "t");
}

// Each of them was sent before the region was known; no attempt was a failure.
TEST_F(S3Store, RequestsInFlightAreRepeatedInTheBucketsRegion) {
  options_.key = "me", options_.secret = "s";
  for (const char* key : {"/bucket/k0", "/bucket/k1", "/bucket/k2"}) server_.set(key, "text");
  server_.on_request([](const request& asked, reply& out) {
    if (asked.field("authorization").find("/eu-west-1/") != std::string::npos) return;
    out = reply();
    out.status = 301;
    out.set("x-amz-bucket-region", "eu-west-1");
    out.delay = std::chrono::milliseconds(100);
  });
  for (const unsigned retries : {0U, 2U}) {
    const auto to = make(s3_flavour::aws, {}, retries);
    const auto keys = numbered(3);
    std::vector<byte_read> reads(keys.size());
    std::vector<growing_buffer> rooms(keys.size());
    for (std::size_t i = 0; i < reads.size(); ++i) {
      reads[i].key = keys[i];
      reads[i].tag = i;
      reads[i].buffer = &rooms[i];
    }
    waiting_sink sink;
    to->read(reads, sink, {});
    for (const auto& [tag, done] : sink.wait(reads.size())) {
      ASSERT_TRUE(done.ok()) << done.error().to_string();
      EXPECT_EQ(to_text(done->bytes), "text");
    }
    const auto other = make(s3_flavour::aws, {}, retries);
    const bytes text = to_bytes("text");
    const part whole(text);
    outcomes written;
    other->write(writes_of(keys, whole), written, {});
    for (const auto& [tag, done] : written.wait(keys.size())) EXPECT_TRUE(done.ok()) << done.error().to_string();
  }
}

TEST_F(S3Store, AMissingBucketIsNotAnAbsentObject) {
  server_.on_request([](const request&, reply& out) {
    out.status = 404;
    out.body = "<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>";
  });
  EXPECT_EQ(code_of(read_now(*make(), "k")), errc::io_error);
  struct : key_sink {
    bool key(std::string_view, std::uint64_t) override { return true; }
  } sink;
  EXPECT_FALSE(make()->list("", listing::objects, sink).ok());
  EXPECT_FALSE(put(*make(), "x").ok());
}

TEST_F(S3Store, ACyclicListingEnds) {
  for (const int length : {1, 2, 3, 7}) {  // after two pages that do not repeat
    std::atomic<int> pages{0};
    server_.on_request([&](const request& asked, reply& out) {
      if (asked.target.find("list-type") == std::string::npos) return;
      const int token = ++pages <= 2 ? 100 + pages : pages % length;
      if (pages > 100) return;
      out.body = "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>" + std::to_string(token) +
                 "</NextContinuationToken></ListBucketResult>";
    });
    struct : key_sink {
      bool key(std::string_view, std::uint64_t) override { return true; }
    } sink;
    const auto done = make()->list("", listing::objects, sink);
    ASSERT_FALSE(done.ok()) << length;
    EXPECT_EQ(done.error().code(), errc::corrupt_data);
    EXPECT_LT(pages, 40) << length;
  }
}

TEST_F(S3Store, AListingWithEndlessNewTokensEnds) {
  for (const char* const keys : {"<Contents><Key>k</Key><Size>1</Size></Contents>", ""}) {
    std::atomic<int> pages{0};
    server_.on_request([&](const request& asked, reply& out) {
      if (asked.target.find("list-type") == std::string::npos || pages > 11000) return;
      out.body = "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>" + std::to_string(++pages) +
                 "</NextContinuationToken>" + keys + "</ListBucketResult>";
    });
    struct : key_sink {
      bool key(std::string_view, std::uint64_t) override { return true; }
    } sink;
    const auto done = make()->list("", listing::objects, sink);
    ASSERT_FALSE(done.ok()) << keys;
    EXPECT_EQ(done.error().code(), errc::corrupt_data);
    EXPECT_EQ(pages, *keys != '\0' ? 2 : 10000);
  }
}

}  // namespace
}  // namespace penstock::test
