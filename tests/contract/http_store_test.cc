// HTTP stores with servers that are slow, interrupt, refuse, or return wrong data.

#include "store/http_store.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "engine/blocking_read.h"
#include "store/store_fixture.h"
#include "support/http_server.h"
#include "support/without_threads.h"

namespace penstock::test {
namespace {

using reply = http_server::reply;
using request = http_server::request;

class HttpStore : public testing::Test {
 protected:
  HttpStore() {
    server_.set("/base/k", kText);
    options_.retries = 3;
  }

  // A store with a transport of its own, which has the current options.
  std::shared_ptr<http_store> make(unsigned connections = 8, unsigned short_ones = 0) const {
    return std::make_shared<http_store>(*http_transport::make(connections, short_ones),
                                        *http_url::parse(server_.url() + "/base"), options_);
  }
  result<read_outcome> read(byte_range range = {4, 4, false}, const version* expected = nullptr) const {
    return read_now(*make(), "k", range, expected);
  }
  // Changes every answer to a GET.
  void change(const std::function<void(reply&)>& how) {
    server_.on_request([how](const request&, reply& out) { how(out); });
  }
  // Changes the first `times` answers.
  void change_first(std::uint64_t times, const std::function<void(reply&)>& how) {
    server_.on_request([=](const request& asked, reply& out) {
      if (asked.number <= times) how(out);
    });
  }
  std::string error_of(const byte_range& range, errc code) const {
    const auto outcome = read(range);
    EXPECT_EQ(code_of(outcome), code) << to_string(range) << (outcome.ok() ? "" : outcome.error().to_string());
    return outcome.ok() ? "" : outcome.error().to_string();
  }

  static constexpr const char* kText = "0123456789abcdef";
  http_server server_;
  remote_options options_;
};

TEST_F(HttpStore, SendsTheReadsOfOneCallTogether) {
  std::atomic<int> now{0}, most{0};
  server_.on_request([&](const request&, reply&) {
    const int mine = ++now;
    for (int seen = most; seen < mine && !most.compare_exchange_weak(seen, mine);) continue;
    for (int i = 0; i < 200 && most < 8; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    --now;
  });
  std::vector<byte_read> reads(8);
  std::vector<growing_buffer> rooms(8);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    reads[i].key = "k";
    reads[i].range = {i, 2, false};
    reads[i].tag = i;
    reads[i].buffer = &rooms[i];
  }
  waiting_sink sink;
  const auto from = make();
  from->read(reads, sink, {});
  for (const auto& [tag, done] : sink.wait(8)) {
    ASSERT_TRUE(done.ok()) << done.error().to_string();
    EXPECT_EQ(to_text(done->bytes), std::string(kText).substr(tag, 2));
  }
  EXPECT_EQ(most, 8);
}

TEST_F(HttpStore, LimitsAndReusesItsConnections) {
  std::vector<byte_read> reads(40);
  std::vector<growing_buffer> rooms(40);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    reads[i].key = "k";
    reads[i].tag = i;
    reads[i].buffer = &rooms[i];
  }
  const auto from = make(2);
  for (int round = 0; round < 3; ++round) {
    waiting_sink sink;
    from->read(reads, sink, {});
    for (const auto& [tag, done] : sink.wait(40)) EXPECT_TRUE(done.ok());
  }
  std::uint64_t connections = 0;
  for (const request& each : server_.log()) connections = std::max(connections, each.connection);
  EXPECT_LE(connections, 2u);
  EXPECT_EQ(server_.log().size(), 120u);
}

TEST_F(HttpStore, MoreShortRequestsAreInFlightThanLongOnes) {
  constexpr std::size_t kReads = 12;
  server_.set("/base/k", std::string(std::size_t{256} << 10, 'k'));
  server_.on_request([](const request&, reply& out) { out.delay = std::chrono::milliseconds(20); });
  const auto connections_of = [&](std::uint64_t length) {
    std::vector<byte_read> reads(kReads);
    std::vector<growing_buffer> rooms(kReads);
    for (std::size_t i = 0; i < reads.size(); ++i) {
      reads[i].key = "k";
      reads[i].range = {i, length, false};
      reads[i].max_bytes = length;
      reads[i].tag = i;
      reads[i].buffer = &rooms[i];
    }
    const std::size_t before = server_.log().size();
    const auto from = make(3, kReads);
    waiting_sink sink;
    from->read(reads, sink, {});
    for (const auto& [tag, done] : sink.wait(kReads)) EXPECT_TRUE(done.ok());
    std::set<std::uint64_t> connections;
    for (std::size_t i = before; i < server_.log().size(); ++i) connections.insert(server_.log()[i].connection);
    return connections.size();
  };
  EXPECT_EQ(connections_of((std::uint64_t{64} << 10) + 1), 3U);
  EXPECT_EQ(connections_of(std::uint64_t{64} << 10), kReads);
}

TEST_F(HttpStore, RetriesAfterTemporaryFailures) {
  const struct {
    const char* what;
    std::function<void(reply&)> how;
  } troubles[] = {
      {"503", [](reply& out) { out.status = 503, out.set("Retry-After", "0"); }},
      {"429", [](reply& out) { out.status = 429; }},
      {"500", [](reply& out) { out.status = 500; }},
      {"408", [](reply& out) { out.status = 408; }},
      {"no answer", [](reply& out) { out.no_answer = true; }},
      {"cut in the middle", [](reply& out) { out.cut_after = 1; }},
      {"cut before the body", [](reply& out) { out.cut_after = 0; }},
  };
  for (const auto& trouble : troubles) {
    for (const byte_range& range : {byte_range{}, byte_range{4, 4, false}, byte_range{0, 4, true}}) {
      http_server fresh;
      fresh.set("/base/k", kText);
      fresh.on_request([&](const request& asked, reply& out) {
        if (asked.number <= 2) trouble.how(out);
      });
      const http_store from(*http_transport::make(4), *http_url::parse(fresh.url() + "/base"), options_);
      const auto got = read_now(from, "k", range);
      ASSERT_TRUE(got.ok()) << trouble.what << ": " << got.error().to_string();
      EXPECT_EQ(got->text, range.whole() ? kText : range.from_end ? "cdef" : "4567") << trouble.what;
      EXPECT_EQ(fresh.log().size(), 3u) << trouble.what;
    }
  }
}

TEST_F(HttpStore, WaitsAsLongAsTheServerRequests) {
  change_first(1, [](reply& out) { out.status = 503, out.set("Retry-After", "1"); });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(read().ok());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(990));
}

TEST_F(HttpStore, DoesNotWaitForHours) {
  change([](reply& out) { out.status = 503, out.set("Retry-After", "3600"); });
  error_of({4, 4, false}, errc::io_error);
  EXPECT_EQ(server_.log().size(), 1u);
}

TEST_F(HttpStore, ReportsTheReasonAfterTheLastAttempt) {
  options_.retries = 2;
  change([](reply& out) {
    out.status = 500;
    out.body = "<Error><Code>InternalError</Code><Message>We encountered an internal error</Message></Error>";
  });
  const std::string text = error_of({4, 4, false}, errc::io_error);
  EXPECT_NE(text.find("the server answered 500: InternalError: We encountered an internal error"), std::string::npos)
      << text;
  EXPECT_NE(text.find("after 3 attempts"), std::string::npos) << text;
  EXPECT_EQ(server_.log().size(), 3u);
}

TEST_F(HttpStore, ContinuesAnInterruptedResponse) {
  std::string text;
  for (int i = 0; i < 300'000; ++i) text.push_back(static_cast<char>('a' + i % 1000 * (i % 1000) % 26));
  server_.set("/base/long", text);
  options_.retries = 1;
  // Each response has 70 kB at most: the read takes more attempts than allowed, but each of them makes progress.
  change([](reply& out) {
    if (out.body.size() > 70'000) out.cut_after = 70'000;
  });
  const auto from = make();
  for (const byte_range& range : {byte_range{}, byte_range{1000, 290'000, false}, byte_range{0, 290'000, true}}) {
    server_.clear_log();
    const auto got = read_now(*from, "long", range);
    ASSERT_TRUE(got.ok()) << got.error().to_string();
    EXPECT_TRUE(got->text == (range.whole()    ? text
                              : range.from_end ? text.substr(10'000)
                                               : text.substr(1000, 290'000)));
    EXPECT_EQ(server_.log().size(), 5u);
  }
}

TEST_F(HttpStore, BytesWithoutTheMarkOfTheirEndAreRequestedAgain) {
  change_first(1, [](reply& out) {
    out.chunked = true;
    out.cut_after = 7;  // a length, and all four bytes
  });
  const auto got = read();
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_EQ(got->text, "4567");
  EXPECT_EQ(server_.log().size(), 2u);
}

// Without an entity tag each attempt begins with the first byte again.
TEST_F(HttpStore, AnAnswerThatBreaksOffEachTimeIsAnError) {
  server_.set("/base/long", std::string(300'000, 'x'));
  options_.retries = 2;
  change([](reply& out) {
    out.remove("ETag");
    out.cut_after = 100'000;
  });
  EXPECT_EQ(code_of(read_now(*make(), "long")), errc::io_error);
  EXPECT_EQ(server_.log().size(), 3u);
}

TEST_F(HttpStore, AnObjectThatChangesWhileItIsReadIsNeverMixed) {
  const std::string before(200'000, 'a'), after(200'000, 'b');
  server_.set("/base/long", before);
  server_.on_request([&](const request& asked, reply& out) {
    if (asked.number != 1) return;
    out.cut_after = 100'000;
    server_.set("/base/long", after);
  });
  const auto got = read_now(*make(), "long");
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_TRUE(got->text == after);

  const auto now = read_now(*make(), "long", {0, 1, false});
  ASSERT_TRUE(now.ok());
  server_.set("/base/long", before);
  EXPECT_EQ(code_of(read_now(*make(), "long", {}, &now->seen)), errc::version_changed);
}

TEST_F(HttpStore, ASecondSizeOfOneVersionIsRefused) {
  server_.on_request([](const request& asked, reply& out) {
    out.set("ETag", "\"always\"");
    if (asked.number == 1) {
      out.body = std::string(100'000, 'x');
      out.cut_after = 80'000;
    } else {
      out.status = 206;
      out.body = std::string(120'000, 'y');
      out.set("Content-Range", "bytes 80000-199999/200000");
    }
  });
  const std::string text = error_of({}, errc::io_error);
  EXPECT_NE(text.find("the server contradicts itself"), std::string::npos) << text;
}

TEST_F(HttpStore, DeniedAndAbsentAreDifferentAndNotRetried) {
  for (const auto& [status, code] : {std::pair(403, errc::permission_denied), std::pair(401, errc::permission_denied),
                                     std::pair(404, errc::not_found), std::pair(410, errc::not_found),
                                     std::pair(400, errc::io_error), std::pair(304, errc::io_error)}) {
    server_.clear_log();
    change([status = status](reply& out) { out.status = status; });
    error_of({4, 4, false}, code);
    EXPECT_EQ(server_.log().size(), 1u) << status;
  }
}

TEST_F(HttpStore, AServerThatIgnoresRangesIsReadUpToTheRangeOrRefused) {
  std::string text(6 << 20, '.');
  text.replace(5 << 20, 4, "here");
  text.replace(100, 4, "near");
  server_.set("/base/k", text);
  EXPECT_FALSE(read({100, 4, false})->sent_all);
  server_.on_request([&](const request&, reply& out) {
    out.status = 200;
    out.body = text;
    out.remove("Content-Range");
  });
  auto got = read({100, 4, false});
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_EQ(got->text, "near");
  EXPECT_EQ(got->object_size, text.size());
  EXPECT_TRUE(got->sent_all);
  const std::string why = error_of({5 << 20, 4, false}, errc::unsupported);
  EXPECT_NE(why.find("the server ignores byte ranges"), std::string::npos) << why;
  error_of({0, 4, true}, errc::unsupported);
  error_of({7 << 20, 4, false}, errc::corrupt_data);
  change([&](reply& out) {
    out.status = 200;
    out.body = "0123456789";
    out.remove("Content-Range");
    out.chunked = true;
  });
  got = read({4, 4, false});
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_EQ(got->text, "4567");
  error_of({8, 4, false}, errc::corrupt_data);
  error_of({0, 4, true}, errc::unsupported);
}

TEST_F(HttpStore, ResponsesThatContradictTheRequestAreRefused) {
  const struct {
    const char* what;
    std::function<void(reply&)> how;
  } lies[] = {
      {"other bytes", [](reply& out) { out.set("Content-Range", "bytes 5-8/16"); }},
      {"fewer bytes", [](reply& out) { out.body = "456", out.set("Content-Range", "bytes 4-6/16"); }},
      {"more bytes", [](reply& out) { out.body = "45678", out.set("Content-Range", "bytes 4-8/16"); }},
      {"a length that is not the range's", [](reply& out) { out.body = "456"; }},
      {"a longer body", [](reply& out) { out.body = "45678"; }},
      {"no range", [](reply& out) { out.remove("Content-Range"); }},
      {"nonsense", [](reply& out) { out.set("Content-Range", "bytes 4-x/16"); }},
      {"a range backwards", [](reply& out) { out.set("Content-Range", "bytes 7-4/16"); }},
      {"a range beyond its own object", [](reply& out) { out.set("Content-Range", "bytes 4-7/6"); }},
      {"a range of 2^64 bytes", [](reply& out) { out.set("Content-Range", "bytes 0-18446744073709551615/*"); }},
      {"other units", [](reply& out) { out.set("Content-Range", "pages 4-7/16"); }},
      {"several ranges",
       [](reply& out) {
         out.remove("Content-Range");
         out.set("Content-Type", "multipart/byteranges; boundary=x");
       }},
      {"no content", [](reply& out) { out.status = 204, out.body.clear(); }},
      {"416 without need", [](reply& out) { out.status = 416, out.set("Content-Range", "bytes */16"); }},
      {"compressed", [](reply& out) { out.set("Content-Encoding", "gzip"); }},
      {"endless header",
       [](reply& out) {
         for (int i = 0; i < 400; ++i) out.fields.emplace_back("X-" + std::to_string(i), std::string(1000, 'x'));
       }},
  };
  for (const auto& lie : lies) {
    change(lie.how);
    options_.retries = 0;
    const auto got = read();
    ASSERT_FALSE(got.ok()) << lie.what << " was read as " << got->text;
    EXPECT_NE(got.error().code(), errc::not_found) << lie.what;
  }
  change([](reply& out) { out.set("Content-Range", "bytes 4-7/*"); });
  EXPECT_TRUE(read().ok()) << "an omitted size is not a contradiction";
  change([](reply& out) { out.length_field = ""; });
  EXPECT_TRUE(read().ok()) << "the range determines the length of the response";
  error_of({}, errc::unsupported);  // and it changes nothing else
  change([](reply& out) { out.length_field = "", out.cut_after = 2; });
  EXPECT_EQ(code_of(read()), errc::io_error);
  change([](reply& out) { out.chunked = true; });
  EXPECT_TRUE(read().ok());
  EXPECT_EQ(read({})->text, kText);
}

TEST_F(HttpStore, ABodyWithoutALengthIsReadIntoTheReadersMemory) {
  std::string text(600'000, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i * i % 23);
  server_.set("/base/k", text);
  change([](reply& out) { out.chunked = true; });
  const auto got = read({});
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_TRUE(got->text == text);
  EXPECT_EQ(got->object_size, text.size());
  growing_buffer room(300'000);
  byte_read wanted;
  wanted.key = "k";
  wanted.buffer = &room;
  EXPECT_EQ(code_of(read_now(*make(), wanted)), errc::resource_exhausted);
  EXPECT_LE(room.capacity(), 300'000U);
  server_.set("/base/k", text.substr(0, 290'000));
  const auto fits = read_now(*make(), wanted);
  ASSERT_TRUE(fits.ok()) << fits.error().to_string();
  EXPECT_TRUE(fits->text == text.substr(0, 290'000));
  server_.set("/base/k", "");
  EXPECT_EQ(read({})->text, "");
}

TEST_F(HttpStore, ABodyWithoutALengthDoesNotExceedItsDestination) {
  server_.set("/base/k", std::string(1000, 'k'));
  change([](reply& out) { out.chunked = true; });
  std::vector<std::byte> memory(2000, std::byte{'-'});
  byte_read wanted;
  wanted.key = "k";
  wanted.destination = std::span(memory).first(1000);
  const auto fits = read_now(*make(), wanted);
  ASSERT_TRUE(fits.ok()) << fits.error().to_string();
  EXPECT_EQ(fits->text, std::string(1000, 'k'));
  memory.assign(memory.size(), std::byte{'-'});
  wanted.destination = std::span(memory).first(100);
  EXPECT_EQ(code_of(read_now(*make(), wanted)), errc::corrupt_data);
  EXPECT_EQ(std::count(memory.begin() + 100, memory.end(), std::byte{'-'}), 1900);
  wanted.destination = std::span(memory).first(1001);
  EXPECT_EQ(code_of(read_now(*make(), wanted)), errc::corrupt_data);
}

TEST_F(HttpStore, AClaimedLengthBeyondMemoryIsAnError) {
  for (const char* length : {"18446744073709551614", "9223372036854775806"}) {
    change([length](reply& out) { out.length_field = length; });
    const auto got = read_and_wait(*make(), "k", {}, byte_range::kAll - 1);
    ASSERT_FALSE(got.ok()) << length;
    EXPECT_NE(got.error().code(), errc::not_found) << length;
  }
}

TEST_F(HttpStore, SlowResponsesTimeOut) {
  options_.timeout_s = 1;
  options_.retries = 0;
  change([](reply& out) { out.delay = std::chrono::seconds(4); });
  EXPECT_EQ(code_of(read()), errc::deadline_exceeded);
  server_.set("/base/k", std::string(4000, 'x'));
  change([](reply& out) { out.drip = std::chrono::milliseconds(200); });
  EXPECT_EQ(code_of(read({})), errc::deadline_exceeded);
}

TEST_F(HttpStore, AStopEndsRequestsInFlight) {
  change([](reply& out) { out.delay = std::chrono::seconds(3); });
  const auto from = make(2);
  std::vector<byte_read> reads(5);  // two under way, three waiting
  bytes memory(5 * 4);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    reads[i].key = "k";
    reads[i].range = {0, 4, false};
    reads[i].tag = i;
    reads[i].destination = std::span(memory).subspan(4 * i, 4);
  }
  std::stop_source stop;
  waiting_sink sink;
  const auto begin = std::chrono::steady_clock::now();
  from->read(reads, sink, stop.get_token());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  stop.request_stop();
  for (const auto& [tag, done] : sink.wait(5))
    EXPECT_EQ(done.ok() ? errc::internal : done.error().code(), errc::cancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST_F(HttpStore, AStopEndsTheWaitBetweenAttempts) {
  change([](reply& out) { out.status = 503, out.set("Retry-After", "20"); });
  const auto from = make();
  byte_read wanted;
  wanted.key = "k";
  growing_buffer room;
  wanted.buffer = &room;
  std::stop_source stop;
  waiting_sink sink;
  from->read({&wanted, 1}, sink, stop.get_token());
  while (server_.log().empty()) std::this_thread::yield();
  stop.request_stop();
  for (const auto& [tag, done] : sink.wait(1))
    EXPECT_EQ(done.ok() ? errc::internal : done.error().code(), errc::cancelled);
}

TEST_F(HttpStore, RedirectsDoNotReceiveSecrets) {
  http_server other;
  other.set("/base/k", kText);
  options_.token = "secret";
  options_.headers = {{"X-Api-Key", "hidden"}};
  server_.on_request([&](const request& asked, reply& out) {
    if (asked.target == "/base/k") out.status = 302, out.set("Location", "/there/k?x=1");
    if (asked.target == "/there/k?x=1") out.status = 307, out.set("Location", other.url() + "/base/k");
  });
  const auto got = read();
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_EQ(got->text, "4567");
  ASSERT_EQ(server_.log().size(), 2u);
  for (const request& each : server_.log()) {
    EXPECT_EQ(each.field("authorization"), "Bearer secret");
    EXPECT_EQ(each.field("x-api-key"), "hidden");
    EXPECT_EQ(each.field("range"), "bytes=4-7");
  }
  ASSERT_EQ(other.log().size(), 1u);
  EXPECT_EQ(other.log()[0].field("authorization"), "");
  EXPECT_EQ(other.log()[0].field("x-api-key"), "");

  server_.on_request([](const request&, reply& out) { out.status = 302, out.set("Location", "/base/k"); });
  EXPECT_EQ(code_of(read()), errc::io_error) << "a cycle of redirects";
  server_.on_request([](const request&, reply& out) { out.status = 302, out.set("Location", "file:///etc/passwd"); });
  EXPECT_FALSE(read().ok());
}

TEST_F(HttpStore, ReadsOfAKnownVersionReuseTheRedirect) {
  http_server other;
  other.set("/there", kText);
  options_.token = "secret";
  int status = 302;
  server_.on_request([&](const request&, reply& out) {
    out.status = status;
    if (status == 302) out.set("Location", other.url() + "/there");
  });
  const auto from = make();
  const auto first = read_now(*from, "k", {4, 4, false});
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  ASSERT_TRUE(first->seen.known());
  EXPECT_EQ(read_now(*from, "k", {0, 4, false}, &first->seen)->text, "0123");
  EXPECT_EQ(server_.log().size(), 1u);
  ASSERT_EQ(other.log().size(), 2u);
  EXPECT_EQ(other.log()[1].field("authorization"), "");
  EXPECT_EQ(read_now(*from, "k", {0, 4, false})->text, "0123");
  EXPECT_EQ(server_.log().size(), 2u) << "any version is accepted: the redirect may have changed";

  other.on_request([](const request&, reply& out) { out.status = 403; });
  status = 404;
  EXPECT_EQ(code_of(read_now(*from, "k", {0, 4, false}, &first->seen)), errc::not_found);
  EXPECT_EQ(server_.log().size(), 3u) << "the URL itself is requested";
  EXPECT_EQ(code_of(read_now(*from, "k", {0, 4, false}, &first->seen)), errc::not_found);
  EXPECT_EQ(other.log().size(), 4u) << "and an outdated redirect is dropped";
}

TEST_F(HttpStore, CredentialsOfTheUrlAreSentAndNotShown) {
  const std::string url = "http://me:pa%3Ass@" + server_.url().substr(7) + "/base?sig=abc";
  const http_store from(*http_transport::make(1), *http_url::parse(url), options_);
  EXPECT_TRUE(read_now(from, "k").ok());
  EXPECT_EQ(server_.log()[0].field("authorization"), "Basic bWU6cGE6c3M=");
  EXPECT_EQ(server_.log()[0].target, "/base/k?sig=abc");
  EXPECT_EQ(from.uri(), server_.url() + "/base");
}

TEST_F(HttpStore, OnlyOldDatesDistinguishVersions) {
  const auto dated = [&](const char* modified) {
    change([=](reply& out) {
      out.set("ETag", "W/\"weak\"");
      out.set("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
      out.set("Last-Modified", modified);
    });
    const auto got = read();
    EXPECT_TRUE(got.ok());
    return got.ok() ? got->seen : version();
  };
  const version old = dated("Sun, 06 Nov 1994 08:49:30 GMT");
  EXPECT_TRUE(old.known());
  EXPECT_TRUE(old == dated("Sun, 06 Nov 1994 08:49:30 GMT"));
  EXPECT_FALSE(old == dated("Sun, 06 Nov 1994 08:49:29 GMT"));
  EXPECT_EQ(code_of(read({4, 4, false}, &old)), errc::version_changed);
  EXPECT_FALSE(dated("Sun, 06 Nov 1994 08:49:37 GMT").known())
      << "the object may be written again within the same second";
  EXPECT_FALSE(dated("yesterday").known());
}

TEST_F(HttpStore, ChecksByGetIfHeadIsRefused) {
  const auto seen = read();
  ASSERT_TRUE(seen.ok());
  server_.on_request([](const request& asked, reply& out) {
    if (asked.method == "HEAD") out.status = 403;
  });
  options_.retries = 0;  // it is not another attempt
  EXPECT_TRUE(read({0, 0, false}, &seen->seen).ok());
  server_.set("/base/k", "other");
  EXPECT_EQ(code_of(read({0, 0, false}, &seen->seen)), errc::version_changed);
  server_.set("/base/k", "");
  EXPECT_TRUE(read({0, 0, false}).ok());
  server_.remove("/base/k");
  EXPECT_EQ(code_of(read({0, 0, false}, &seen->seen)), errc::not_found);
}

TEST_F(HttpStore, ClosedConnectionsDoNotSignalTheProcess) {
  class on_its_thread final : public completion_sink {
   public:
    void complete(std::uint64_t, result<read_done>) override {
      sigset_t blocked;
      sigemptyset(&blocked);
      pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
      blocks_.set_value(sigismember(&blocked, SIGPIPE) == 1);
    }
    bool wait() { return blocks_.get_future().get(); }

   private:
    std::promise<bool> blocks_;
  } sink;
  const auto from = make();
  byte_read wanted;
  wanted.key = "k";
  growing_buffer room;
  wanted.buffer = &room;
  from->read({&wanted, 1}, sink, {});
  EXPECT_TRUE(sink.wait());
}

TEST_F(HttpStore, AnAbsentServerIsAnErrorSoon) {
  std::string url;
  {
    const http_server gone;
    url = gone.url();
  }
  const http_store from(*http_transport::make(1), *http_url::parse(url), options_);
  EXPECT_EQ(code_of(read_now(from, "k")), errc::io_error);
}

#ifdef __GLIBC__
TEST_F(HttpStore, AReadWithoutAThreadFailsAndLaterOnesRun) {
  const auto from = make();
  const auto refused = without_threads([&] { return read_now(*from, "k"); });
  EXPECT_EQ(code_of(refused), errc::resource_exhausted);
  EXPECT_TRUE(read_now(*from, "k").ok());
}
#endif

}  // namespace
}  // namespace penstock::test
