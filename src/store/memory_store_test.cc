// Guarantees of the memory store only; the others are in the stores' contract.

#include "store/memory_store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "store/store_fixture.h"

namespace penstock::test {
namespace {

void set(store& to, std::string_view key, std::string_view text) {
  const bytes data = to_bytes(text);
  const part whole(data);
  ASSERT_TRUE(to.put(key, {&whole, 1}, {}).ok());
}

TEST(MemoryStore, LendsItsOwnBytes) {
  memory_store from;
  set(from, "k", "0123456789");
  waiting_sink sink;
  byte_read reads[2];  // without a buffer, which is not needed
  reads[0].key = reads[1].key = "k";
  reads[1].range = {3, 4, false};
  reads[1].tag = 1;
  from.read(reads, sink, {});
  const auto done = sink.wait(2);
  EXPECT_EQ(done.at(1)->bytes.data(), done.at(0)->bytes.data() + 3);
  EXPECT_TRUE(from.traits().lends_bytes);
  EXPECT_FALSE(from.traits().blocking);
}

TEST(MemoryStore, NeverRepeatsAVersion) {
  memory_store from;
  std::vector<version> seen;
  for (int i = 0; i < 50; ++i) {
    const std::string key = i % 2 == 0 ? "a" : "b";
    set(from, key, "same");
    seen.push_back(read_now(from, key)->seen);
    ASSERT_TRUE(i % 3 != 0 || from.erase(key, {}).ok());
  }
  for (std::size_t i = 0; i < seen.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) EXPECT_FALSE(seen[i] == seen[k]) << i << " and " << k;
}

TEST(MemoryStore, LeasesOutliveTheStore) {
  waiting_sink sink;
  {
    memory_store from;
    set(from, "k", "0123456789");
    byte_read read;
    read.key = "k";
    from.read({&read, 1}, sink, {});
  }
  EXPECT_EQ(to_text(sink.wait(1).at(0)->bytes), "0123456789");
}

TEST(MemoryStore, TheSinkOfAListingMayUseTheStore) {
  memory_store from;
  for (int i = 0; i < 10; ++i) set(from, "k" + std::to_string(i), "x");
  struct : key_sink {
    bool key(std::string_view key, std::uint64_t) override { return store->erase(key, {}).ok(); }
    memory_store* store = nullptr;
  } sink;
  sink.store = &from;
  ASSERT_TRUE(from.list("", listing::objects, sink).ok());
  EXPECT_FALSE(read_now(from, "k3").ok());
}

TEST(MemoryStore, AForkedChildHasItsOwnCopyWhileReadersHoldTheLock) {
  memory_store from;
  set(from, "k", "before");
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) static_cast<void>(read_now(from, "k").ok());
  });
  int failed = 0;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);  // a lock of a reader that no longer exists would hang this
      const bytes data = to_bytes("child");
      const part whole(data);
      const bool good = from.put("k", {&whole, 1}, {}).ok() && read_now(from, "k")->text == "child";
      ::_exit(good ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    failed += status != 0;
  }
  stop = true;
  reader.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(read_now(from, "k")->text, "before");
}

TEST(MemoryStore, AForkIntoAWriteIsAnErrorInTheChildAndNotACrash) {
  memory_store from;
  set(from, "k", "x");
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    const bytes data = to_bytes("y");
    const part whole(data);
    for (int i = 0; !stop; ++i) {
      static_cast<void>(from.put("n" + std::to_string(i % 5000), {&whole, 1}, {}).ok());
      if (i % 3 == 0) static_cast<void>(from.erase("n" + std::to_string((i * 7) % 5000), {}).ok());
    }
  });
  int failed = 0;
  for (int i = 0; i < 40; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);
      const auto read = read_now(from, "k");
      ::_exit(read.ok() ? (read->text == "x" ? 0 : 1) : (read.error().code() == errc::io_error ? 0 : 2));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    failed += status != 0;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace penstock::test
