#pragma once

#include <penstock/store.h>

#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::test {

/// The faults of a fault_store. Chances are in thousandths of the requests.
///
/// Whether a request fails depends on the seed, its key and the number of requests for that key: the same in every
/// schedule.
struct fault_script {
  std::uint64_t seed = 0;
  unsigned fail = 0;  ///< fails with one of `codes`
  std::vector<errc> codes = {errc::io_error, errc::permission_denied, errc::deadline_exceeded};
  unsigned cut = 0;     ///< fails with `io_error` after it wrote part of the destination
  unsigned change = 0;  ///< the object gets another version just before the request
  unsigned vanish = 0;  ///< the object is absent from this request on (until `restore`)
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();  ///< faults in all

  unsigned fail_write = 0;  ///< a put or an erase fails with one of `codes`; half of them after they were carried out

  bool deferred = false;                         ///< completions wait for `deliver_one`
  bool deferred_writes = false;                  ///< also completions of `write`
  bool lends = true;                             ///< false: lent bytes are copied to the reader's buffer
  std::uint64_t request_bytes = 0;               ///< as in a store whose requests take time
  bool versions = true;                          ///< false: as in a store that has none
  std::function<void(const byte_read&)> before;  ///< called before each request is carried out, without a lock
};

/// A store between the engine and another store. Without faults it counts requests; with a script it denies, truncates,
/// delays, removes and changes objects. Deferred requests are carried out when they are delivered, so the object may
/// change in between.
///
/// Thread-safe. Requests that are never delivered complete as `cancelled` when the store is destroyed.
class fault_store final : public store {
 public:
  struct counts {
    std::uint64_t requests = 0;
    std::uint64_t checks = 0;  ///< reads of length 0; also counted as requests
    std::uint64_t bytes = 0;   ///< delivered
    std::uint64_t faults = 0;
  };

  explicit fault_store(std::shared_ptr<store> inner, fault_script script = {})
      : inner_(std::move(inner)), script_(std::move(script)) {}
  ~fault_store() override {
    for (const pending_request& each : pending_) {
      const error never(errc::cancelled, "never delivered");
      if (each.sink != nullptr) each.sink->complete(each.read.tag, never.clone());
      if (each.write_sink != nullptr) each.write_sink->complete(each.write.tag, never.clone());
    }
  }
  fault_store(const fault_store&) = delete;
  fault_store& operator=(const fault_store&) = delete;

  store_traits traits() const override {
    store_traits out = inner_->traits();
    out.versions = out.versions && script_.versions;
    out.lends_bytes = out.lends_bytes && script_.lends;
    out.request_bytes = std::max(out.request_bytes, script_.request_bytes);
    if (script_.deferred) {
      out.inline_completion = false;
      out.blocking = false;  // `read` itself does not wait
    }
    out.inline_writes = out.inline_writes && !script_.deferred_writes;
    return out;
  }

  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    for (const byte_read& one : reads) {
      if (script_.deferred) {
        const std::lock_guard lock(mutex_);
        pending_.push_back({one, &sink, {}, nullptr, stop});
      } else {
        carry_out({one, &sink, {}, nullptr, stop});
      }
    }
  }

  void write(std::span<const byte_write> writes, write_sink& sink, std::stop_token stop) override {
    if (!script_.deferred_writes) return store::write(writes, sink, stop);
    const std::lock_guard lock(mutex_);
    for (const byte_write& one : writes) pending_.push_back({{}, nullptr, one, &sink, stop});
  }
  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override {
    write_condition inner = condition;
    const fault fails = judge_write(key);
    if (fails.what && !fails.afterwards) return fails.what->clone();
    {
      const std::lock_guard lock(mutex_);
      objects_[std::string(key)].vanished = false;
      if (inner.expected.known()) inner.expected.word[3] ^= mask(key);
    }
    auto seen = inner_->put(key, parts, inner);
    if (fails.what) return fails.what->clone();
    const std::lock_guard lock(mutex_);
    if (seen.ok()) seen->word[3] ^= mask(key);
    return seen;
  }
  result<> erase(std::string_view key, const write_condition& condition) override {
    write_condition inner = condition;
    const fault fails = judge_write(key);
    if (fails.what && !fails.afterwards) return fails.what->clone();
    {
      const std::lock_guard lock(mutex_);
      if (inner.expected.known()) inner.expected.word[3] ^= mask(key);
    }
    auto done = inner_->erase(key, inner);
    if (fails.what) return fails.what->clone();
    return done;
  }
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override {
    return inner_->list(prefix, what, sink);
  }
  result<> flush() override { return inner_->flush(); }
  std::string uri() const override { return "fault:" + inner_->uri(); }

  /// Whether a deferred request waits.
  bool pending() const {
    const std::lock_guard lock(mutex_);
    return !pending_.empty();
  }
  std::size_t pending_count() const {
    const std::lock_guard lock(mutex_);
    return pending_.size();
  }
  /// Carries out one deferred request, chosen by a random number, and completes it; does nothing if none waits.
  void deliver_one(std::uint64_t choice) const {
    std::optional<pending_request> chosen;
    {
      const std::lock_guard lock(mutex_);
      if (pending_.empty()) return;
      const auto at = pending_.begin() + static_cast<std::ptrdiff_t>(choice % pending_.size());
      chosen.emplace(std::move(*at));
      pending_.erase(at);
    }
    if (chosen->sink != nullptr) {
      carry_out(*chosen);
    } else if (chosen->stop.stop_requested()) {
      chosen->write_sink->complete(chosen->write.tag, error(errc::cancelled, "the write was stopped"));
    } else {
      // As a store that completes requests at once.
      const_cast<fault_store*>(this)->store::write({&chosen->write, 1}, *chosen->write_sink, {});
    }
  }

  /// The next `times` requests for `key` (empty: for any) fail with `code`.
  void fail_next(std::string key, errc code, unsigned times = 1) {
    const std::lock_guard lock(mutex_);
    for (unsigned i = 0; i < times; ++i) planned_.emplace_back(key, code);
  }
  /// The object reads as absent until it is restored or put.
  void vanish(const std::string& key) { set_vanished(key, true); }
  void restore(const std::string& key) { set_vanished(key, false); }
  /// Gives the object another version, as a rewrite with the same bytes would.
  void change(const std::string& key) {
    const std::lock_guard lock(mutex_);
    ++objects_[key].epoch;
  }

  counts total() const {
    const std::lock_guard lock(mutex_);
    return total_;
  }
  counts of(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto at = objects_.find(key);
    return at == objects_.end() ? counts{} : at->second.count;
  }
  void reset_counts() {
    const std::lock_guard lock(mutex_);
    total_ = {};
    for (auto& each : objects_) each.second.count = {};
  }

 private:
  struct pending_request {  // a read, or a write
    byte_read read;
    completion_sink* sink;
    byte_write write;
    penstock::write_sink* write_sink;
    std::stop_token stop;
  };
  struct fault {
    std::optional<error> what;
    bool afterwards = false;
  };
  struct object_state {
    counts count;
    std::uint64_t asked = 0, puts = 0;  // never reset: they drive the script
    std::uint64_t epoch = 0;
    bool vanished = false;
  };
  struct caught final : completion_sink {
    void complete(std::uint64_t, result<read_done> outcome) override { done.emplace(std::move(outcome)); }
    std::optional<result<read_done>> done;
  };

  static std::uint64_t mix(std::uint64_t x) noexcept {  // splitmix64
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
  }
  static std::uint64_t hash_of(std::string_view text) noexcept {  // the same on every machine, unlike std::hash
    std::uint64_t out = 0xCBF29CE484222325U;
    for (const char each : text) out = (out ^ static_cast<unsigned char>(each)) * 0x100000001B3U;
    return out;
  }
  // Versions of changed objects are the inner store's, with this mixed in. Needs the lock.
  std::uint64_t mask(std::string_view key) const {
    const auto at = objects_.find(key);
    return at == objects_.end() || at->second.epoch == 0 ? 0 : mix(at->second.epoch);
  }
  void set_vanished(const std::string& key, bool vanished) {
    const std::lock_guard lock(mutex_);
    objects_[key].vanished = vanished;
  }

  fault judge_write(std::string_view key) {
    const std::lock_guard lock(mutex_);
    fault out;
    if (script_.fail_write == 0 || total_.faults >= script_.most) return out;
    object_state& object = objects_[std::string(key)];
    const std::uint64_t dice = mix(~script_.seed ^ mix(hash_of(key) + object.puts++));
    if (dice % 1000 >= script_.fail_write) return out;
    ++total_.faults;
    ++object.count.faults;
    out.what.emplace(script_.codes[mix(dice) % script_.codes.size()], "a scripted fault");
    out.afterwards = mix(dice + 1) % 2 == 0;
    return out;
  }

  struct verdict {
    std::optional<error> failure;
    bool cut = false;
    std::uint64_t epoch_mask = 0;
    std::uint64_t dice = 0;
  };
  verdict judge(const byte_read& read) const {
    const std::lock_guard lock(mutex_);
    const std::string key(read.key);
    object_state& object = objects_[key];
    verdict out;
    out.dice = mix(script_.seed ^ mix(hash_of(key) + object.asked++));
    for (counts* each : {&total_, &object.count}) {
      ++each->requests;
      if (read.range.length == 0) ++each->checks;
    }
    std::uint64_t dice = out.dice;
    const auto struck = [&](unsigned chance) {
      dice = mix(dice);
      if (chance == 0 || total_.faults >= script_.most || dice % 1000 >= chance) return false;
      ++total_.faults;
      ++object.count.faults;
      return true;
    };
    if (struck(script_.change)) ++object.epoch;
    if (struck(script_.vanish)) object.vanished = true;
    if (struck(script_.fail) && !script_.codes.empty())
      out.failure.emplace(script_.codes[mix(dice) % script_.codes.size()], "a scripted fault");
    out.cut = struck(script_.cut);
    for (auto at = planned_.begin(); at != planned_.end(); ++at) {
      if (!at->first.empty() && at->first != key) continue;
      out.failure.emplace(at->second, "a planned fault");
      planned_.erase(at);
      break;
    }
    if (object.vanished) out.failure.emplace(errc::not_found, "no such object");
    out.epoch_mask = mask(key);
    return out;
  }

  void carry_out(const pending_request& request) const {
    const byte_read& read = request.read;
    if (request.stop.stop_requested()) {
      request.sink->complete(read.tag, error(errc::cancelled, "the read was stopped"));
      return;
    }
    if (script_.before) script_.before(read);
    verdict how = judge(read);
    if (how.failure) {
      request.sink->complete(read.tag, std::move(*how.failure));
      return;
    }
    byte_read inner = read;
    version expected;
    if (read.expected != nullptr && read.expected->known()) {
      expected = *read.expected;
      expected.word[3] ^= how.epoch_mask;
      inner.expected = script_.versions ? &expected : nullptr;
    }
    caught in;
    inner_->read({&inner, 1}, in, request.stop);
    if (!in.done) {
      request.sink->complete(read.tag, error(errc::internal, "a fault_store needs a store that completes inline"));
      return;
    }
    result<read_done> done = std::move(*in.done);
    if (done.ok()) {
      done->seen.word[3] ^= how.epoch_mask;
      if (!script_.versions) done->seen = version();
      if (how.cut) done = cut_short(read, *done, how.dice);
    }
    if (done.ok() && !script_.lends && inner_->traits().lends_bytes) done = copied(read, std::move(*done));
    if (done.ok()) {
      const std::lock_guard lock(mutex_);
      total_.bytes += done->bytes.size();
      objects_[std::string(read.key)].count.bytes += done->bytes.size();
    }
    request.sink->complete(read.tag, std::move(done));
  }

  // Content that a reader must not use after an error: its beginning is correct, the rest is not.
  static error cut_short(const byte_read& read, const read_done& done, std::uint64_t dice) {
    const std::size_t kept = done.bytes.empty() ? 0 : dice % done.bytes.size();
    if (!read.destination.empty() && kept < read.destination.size())
      std::memset(read.destination.data() + kept, 0xA5, read.destination.size() - kept);
    return {errc::io_error, "the object ended early while it was read: " + std::to_string(kept) + " bytes of " +
                                std::to_string(done.bytes.size())};
  }
  static result<read_done> copied(const byte_read& read, read_done done) {
    if (!read.destination.empty() || done.bytes.empty()) return done;
    if (read.buffer == nullptr) return error(errc::internal, "a read has no memory for its bytes");
    auto room = read.buffer->reserve(done.bytes.size());
    if (!room.ok()) return std::move(room).error();
    std::memcpy(room->data(), done.bytes.data(), done.bytes.size());
    done.bytes = room->first(done.bytes.size());
    done.keep_alive.reset();
    return done;
  }

  std::shared_ptr<store> inner_;
  const fault_script script_;
  mutable std::mutex mutex_;
  mutable std::deque<pending_request> pending_;
  mutable std::deque<std::pair<std::string, errc>> planned_;
  mutable std::map<std::string, object_state, std::less<>> objects_;
  mutable counts total_;
};

}  // namespace penstock::test
