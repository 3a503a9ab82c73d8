#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace penstock::test {

/// One record of an event: a wait is for the record that was the last one at that time.
struct fake_mark {
  bool reached = false;
  std::chrono::steady_clock::time_point when;
};

struct fake_event {
  int device = 0;
  std::shared_ptr<fake_mark> last;  // null: never recorded
};

/// One operation of a stream. It may begin when those before it in its stream have ended, `after` has ended in other
/// streams, and `wait_for` has been reached `wait_count` times.
struct fake_operation {
  std::function<void()> run;  // empty: only an order
  std::shared_ptr<fake_mark> wait_for, record;
  const char* kernel = nullptr;  // its name
  std::vector<std::pair<std::shared_ptr<const struct fake_stream>, std::uint64_t>> after;
};

struct fake_stream {
  int device = 0;
  bool blocking = true;  // ordered with the legacy stream
  bool legacy = false;
  std::atomic<bool> captures{false};
  bool running = false;
  std::uint64_t queued = 0, ended = 0;  // operations
  std::deque<fake_operation> queue;
};

/// All streams, and the threads that run them: their own, or the waiting thread.
class fake_streams {
 public:
  fake_streams();
  ~fake_streams();

  void configure(std::uint64_t seed, bool lazy, unsigned max_delay_us);
  /// Keeps kernels of this name from starting, until `configure`. Empty: all kernels; null: none.
  void hold_kernels(const char* name);
  /// Makes about one in `one_in` calls of `maybe_block` wait, at random. 0, the value after `configure`: none.
  void block_at_random(unsigned one_in);
  /// Waits, at random, until the stream has finished its work, as a call does with a full queue.
  void maybe_block(const fake_stream& stream);
  /// From now on, operations end without being run, and held kernels are released.
  void discard(bool all);
  void add(std::shared_ptr<fake_stream> stream);
  /// Destroys the stream when its queue is empty.
  void remove(const std::shared_ptr<fake_stream>& stream);

  void enqueue(fake_stream& stream, fake_operation what);
  void record(fake_stream& stream, std::shared_ptr<fake_event> event);
  void wait(fake_stream& stream, std::shared_ptr<fake_event> event);
  /// Records the work of all streams of a device so far.
  void record_all(int device, std::shared_ptr<fake_event> event);

  void synchronize(const fake_stream& stream);
  void synchronize(const fake_event& event);
  void synchronize_all();
  bool done(const fake_event& event);
  bool done(const fake_stream& stream);
  std::shared_ptr<fake_mark> last_of(const fake_event& event);
  int pump(int most);
  bool pending();

 private:
  using guard = std::unique_lock<std::mutex>;
  void add_implicit_order(fake_stream& stream, fake_operation& what);
  bool ready(const fake_stream& stream) const;
  bool run_one(guard& lock);
  void run_until(guard& lock, const std::function<bool()>& reached);
  void run_until_empty(guard& lock);
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<fake_stream>> streams_;
  std::set<const fake_stream*> removed_;
  std::mt19937_64 random_{1};
  std::optional<std::string> held_kernels_;
  bool lazy_ = false, discards_ = false, stop_ = false;
  unsigned max_delay_us_ = 0, blocks_one_in_ = 0;
  std::thread thread_;
};

}  // namespace penstock::test
