#pragma once

// Shared by the tests of stores: a sink that waits, a buffer that grows, a temporary folder.

#include <gtest/gtest.h>
#include <penstock/store.h>
#include <stdlib.h>  // NOLINT: mkdtemp is POSIX's, not C++'s

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace penstock::test {

using bytes = std::vector<std::byte>;

inline bytes to_bytes(std::string_view text) {
  bytes out(text.size());
  if (!text.empty()) std::memcpy(out.data(), text.data(), text.size());
  return out;
}
inline std::string to_text(std::span<const std::byte> data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

class growing_buffer final : public read_buffer {
 public:
  explicit growing_buffer(std::uint64_t limit = 1 << 24) : limit_(limit) {}
  result<std::span<std::byte>> reserve(std::uint64_t size) override {
    if (size > limit_) return error(errc::resource_exhausted, "a limit of the test");
    if (memory_.size() < size) memory_.resize(size);
    return std::span<std::byte>(memory_);
  }
  std::uint64_t capacity() const noexcept { return memory_.size(); }

 private:
  std::uint64_t limit_;
  bytes memory_;
};

/// Keeps every completion by its tag, and fails if one occurs twice.
class waiting_sink final : public completion_sink {
 public:
  void complete(std::uint64_t tag, result<read_done> done) override {
    const std::lock_guard lock(mutex_);
    const bool first = done_.emplace(tag, std::move(done)).second;
    EXPECT_TRUE(first) << "request " << tag << " completed twice";
    arrived_.notify_all();
  }
  /// Waits for `count` completions, at most ten seconds.
  std::map<std::uint64_t, result<read_done>> wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    const bool all = arrived_.wait_for(lock, std::chrono::seconds(10), [&] { return done_.size() >= count; });
    EXPECT_TRUE(all) << done_.size() << " of " << count << " requests completed";
    EXPECT_EQ(done_.size(), count);
    return std::exchange(done_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::uint64_t, result<read_done>> done_;
};

/// One read, waited for, its bytes copied.
struct read_outcome {
  std::string text;
  version seen;
  std::uint64_t object_size = byte_range::kAll;
  bool in_destination = false;
  bool sent_all = false;
};

inline result<read_outcome> read_now(const store& from, byte_read read) {
  waiting_sink sink;
  growing_buffer room;
  if (read.buffer == nullptr) read.buffer = &room;
  from.read({&read, 1}, sink, {});
  auto all = sink.wait(1);
  if (all.size() != 1) return error(errc::internal, "no completion");
  result<read_done>& done = all.begin()->second;
  if (!done.ok()) return std::move(done).error();
  return read_outcome{to_text(done->bytes), done->seen, done->object_size,
                      !read.destination.empty() && done->bytes.data() == read.destination.data(), done->sent_all};
}

inline result<read_outcome> read_now(const store& from, std::string_view key, byte_range range = {},
                                     const version* expected = nullptr) {
  byte_read read;
  read.key = key;
  read.range = range;
  read.expected = expected;
  return read_now(from, read);
}

inline errc code_of(const result<read_outcome>& outcome) {
  EXPECT_FALSE(outcome.ok()) << "read " << outcome->text.size() << " bytes";
  return outcome.ok() ? errc::internal : outcome.error().code();
}

/// A temporary folder for one test, removed at the end.
class temporary_folder {
 public:
  temporary_folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "penstock-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace penstock::test
