#include "store/disk_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include <penstock/extend/store.h>
#include "base/fast_sum.h"
#include "base/sha256.h"
#include "store/disk_index.h"
#include "store/disk_segments.h"
#include "store/guarded_read.h"
#include "store/http_message.h"
#include "store/validated_store.h"

namespace penstock::inline v0 {
namespace {

using steady = std::chrono::steady_clock;

/// How often a read checks whether another process has fetched its range.
constexpr auto kPoll = std::chrono::milliseconds(3);
/// How long a read waits for another process to fetch its range before it fetches the range itself.
constexpr auto kPatience = std::chrono::seconds(10);

std::int64_t wall_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::uint64_t claim_of(const cached_object& object, const byte_range& range) noexcept {
  const std::uint64_t words[] = {object.word[0], object.word[1], range.offset, range.length, range.from_end ? 1U : 0U};
  return fast_sum(std::as_bytes(std::span(words)), 0);
}

}  // namespace

// One pending read: looked up, waiting for a claim, or running in the store.
struct disk_cache::cached_read final : completion_sink {
  std::shared_ptr<process_state> cache;
  std::shared_ptr<const store> from;
  byte_read wanted;
  completion_sink* sink = nullptr;
  std::stop_token stop;
  cached_object object;
  bool is_bypass = false;  ///< a check of the version, without bytes to be cached
  std::optional<std::uint64_t> claim;
  std::int64_t begun_ns = 0;
  steady::time_point patience_ends;

  void complete(std::uint64_t tag, result<read_done> done) override;  // the request to the store; deletes this object
  void finish(result<read_done> done) {
    done_with_claim();
    sink->complete(wanted.tag, std::move(done));
  }
  void done_with_claim();
};

// Reads of one object that wait for the store to confirm its version.
struct disk_cache::version_check final : completion_sink {
  std::shared_ptr<process_state> cache;
  std::vector<std::unique_ptr<cached_read>> reads;
  version seen;
  std::int64_t begun_ns = 0;
  void complete(std::uint64_t tag, result<read_done> done) override;  // deletes this object
};

struct disk_cache::process_state : std::enable_shared_from_this<process_state> {
  using reads = std::vector<std::unique_ptr<cached_read>>;

  explicit process_state(const disk_cache_options& given) : options(given), index(given.trust) {}

  void open();
  void scan();
  cache_verdict look(const cached_read& of, cached_bytes& out) {
    return index.look(of.object, of.wanted, wall_ns(), out);
  }
  /// Whether the read was completed: from the cache, or with an error of the reader's own memory.
  bool serve(std::unique_ptr<cached_read>& which, const cached_bytes& from);
  void begin(reads all);
  void proceed(reads all);
  void fetch(std::unique_ptr<cached_read> which);
  void checked(reads all, const version& seen, std::int64_t begun_ns);
  void wrote(const cached_object& object);
  bool take_claim(cached_read& of);
  void append(disk_record& record, std::span<const std::byte> bytes);
  void record_of(disk_record& out, const version& seen) const;
  void warn_if_off();
  bool is_writable() const { return segments != nullptr && !segments->is_off(); }

  bool has_worker();
  void post(std::function<void()> what);
  void wait(std::unique_ptr<cached_read> which);
  void run();
  void poll();

  const disk_cache_options options;
  std::unique_ptr<disk_segments> segments;
  std::string why_off;
  std::atomic<bool> has_warned{false};
  std::atomic<std::uint64_t> hits{0}, misses{0}, damaged{0};

  std::mutex scanning;
  disk_index index;
  std::mutex claiming;  // shared by `claims`
  std::unordered_set<std::uint64_t> claims;

  std::mutex working;  // protects the members below
  std::condition_variable has_work;
  std::deque<std::function<void()>> work;
  reads waiting;
  std::thread worker;
  bool is_ending = false, has_ended = false;
};

void disk_cache::process_state::open() {
  disk_segments_options how;
  how.folder = options.folder;
  how.limit_bytes = options.limit_bytes;
  auto made = disk_segments::open(std::move(how));
  if (!made.ok()) {
    why_off = made.error().to_string();
    return;
  }
  segments = std::move(*made);
  if (segments->is_off()) why_off = "the folder cannot be written to";
  scan();
}

// Reads the new records of this process and others.
void disk_cache::process_state::scan() {
  const std::lock_guard lock(scanning);
  const bool some_gone = segments->scan([this](disk_record&& record) { index.apply(record); });
  if (some_gone) index.drop_gone(wall_ns());
}

bool disk_cache::process_state::serve(std::unique_ptr<cached_read>& which, const cached_bytes& from) {
  read_done done;
  done.seen = from.seen;
  done.seen_is_last = from.seen_is_last;
  done.object_size = from.object_size;
  if (from.length != 0) {
    auto room = find_room(which->wanted, from.length);
    if (!room.ok()) {
      which->finish(std::move(room).error());
      which.reset();
      return true;
    }
    std::uint64_t at = 0;
    for (const extent_part& piece : from.parts) {
      const auto to = room->subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(piece.length));
      if (!segments->read(*piece.from, piece.begin, to)) {
        if (!piece.from->where->is_gone) ++damaged;
        index.drop(which->object, *piece.from);
        return false;
      }
      at += piece.length;
    }
    done.bytes = room->first(static_cast<std::size_t>(from.length));
  }
  ++hits;
  which->finish(std::move(done));
  which.reset();
  return true;
}

bool disk_cache::process_state::take_claim(cached_read& of) {
  const std::uint64_t what = claim_of(of.object, of.wanted.range);
  {
    const std::lock_guard lock(claiming);
    if (!claims.insert(what).second) return false;
  }
  if (!segments->try_claim(what)) {
    const std::lock_guard lock(claiming);
    claims.erase(what);
    return false;
  }
  of.claim = what;
  return true;
}

void disk_cache::cached_read::done_with_claim() {
  if (!claim) return;
  cache->segments->release(*claim);
  const std::lock_guard lock(cache->claiming);
  cache->claims.erase(*claim);
  claim.reset();
}

void disk_cache::process_state::fetch(std::unique_ptr<cached_read> which) {
  which->begun_ns = wall_ns();
  cached_read* const sink = which.release();  // deletes itself when it is complete
  if (!sink->is_bypass) ++misses;
  const std::shared_ptr<const store> from = sink->from;
  const byte_read wanted = sink->wanted;
  std::stop_token stop = sink->stop;
  guarded_read(*from, {&wanted, 1}, *sink, std::move(stop));
}

// Reads whose call has just begun.
void disk_cache::process_state::begin(reads all) {
  reads later;
  bool has_claims = false;
  cached_bytes bytes;
  for (auto& each : all) {
    const cache_verdict is = look(*each, bytes);
    if (is == cache_verdict::serve && serve(each, bytes)) continue;
    if (is == cache_verdict::absent) {
      each->finish(error(errc::not_found, "no such object"));
      continue;
    }
    if (each->is_bypass || (!is_writable() && is == cache_verdict::miss)) {
      fetch(std::move(each));
      continue;
    }
    if (is != cache_verdict::check) {
      each->patience_ends = steady::now() + kPatience;
      if (!take_claim(*each)) {
        wait(std::move(each));
        continue;
      }
      has_claims = true;
    }
    later.push_back(std::move(each));
  }
  // Other processes may have fetched missing ranges, up to the moment of the claim.
  if (has_claims) scan();
  proceed(std::move(later));
}

// Reads that hold the claim to their range, or whose version is to be checked.
void disk_cache::process_state::proceed(reads all) {
  std::vector<std::unique_ptr<version_check>> checks;
  cached_bytes bytes;
  for (auto& each : all) {
    const cache_verdict is = look(*each, bytes);
    if (is == cache_verdict::serve && serve(each, bytes)) continue;
    if (is == cache_verdict::absent) {
      each->finish(error(errc::not_found, "no such object"));
    } else if (is == cache_verdict::check) {
      each->done_with_claim();
      const auto same = std::find_if(checks.begin(), checks.end(), [&](const auto& one) {
        const cached_read& first = *one->reads[0];
        // Reads of different callers have checks of their own: each is stopped by its caller only.
        return one->seen == bytes.seen && first.object == each->object && first.from == each->from &&
               first.stop == each->stop;
      });
      if (same != checks.end()) {
        (*same)->reads.push_back(std::move(each));
        continue;
      }
      auto made = std::make_unique<version_check>();
      made->cache = shared_from_this();
      made->seen = bytes.seen;
      made->reads.push_back(std::move(each));
      checks.push_back(std::move(made));
    } else {
      fetch(std::move(each));
    }
  }
  for (auto& one : checks) {
    version_check* const sink = one.release();  // deletes itself when it is complete
    sink->begun_ns = wall_ns();
    byte_read check;
    check.key = sink->reads[0]->wanted.key;
    check.range = {0, 0, false};
    check.expected = &sink->seen;
    const std::shared_ptr<const store> from = sink->reads[0]->from;
    std::stop_token stop = sink->reads[0]->stop;
    guarded_read(*from, {&check, 1}, *sink, std::move(stop));
  }
}

void disk_cache::version_check::complete(std::uint64_t, result<read_done> done) {
  const std::unique_ptr<version_check> self(this);
  const std::shared_ptr<process_state> state = cache;
  if (done.ok()) {
    auto confirmed = std::make_shared<process_state::reads>(std::move(reads));
    state->post([state, confirmed, seen = seen, begun_ns = begun_ns] {
      state->checked(std::move(*confirmed), seen, begun_ns);
    });
    return;
  }
  const errc code = done.error().code();
  if (code == errc::version_changed || code == errc::not_found) state->index.forget(reads[0]->object, seen);
  for (auto& each : reads) {
    const version* const expected = each->wanted.expected;
    if (code == errc::version_changed && (expected == nullptr || !expected->known())) {
      state->fetch(std::move(each));
    } else {
      each->finish(done.error().clone());
    }
  }
}

// The store has confirmed the version of these reads. Called on the worker thread.
void disk_cache::process_state::checked(reads all, const version& seen, std::int64_t begun_ns) {
  const bool records = index.confirm(all[0]->object, seen, begun_ns);
  if (records && is_writable()) {
    disk_record record;
    record.kind = disk_record_kind::confirmed;
    record.object = all[0]->object;
    record.time_ns = begun_ns;
    record_of(record, seen);
    append(record, {});
  }
  cached_bytes bytes;
  for (auto& each : all) {
    for (;;) {
      const cache_verdict is = look(*each, bytes);
      const bool has_bytes = (is == cache_verdict::serve || is == cache_verdict::check) && bytes.seen == seen;
      if (has_bytes && serve(each, bytes)) break;
      if (has_bytes) continue;  // it was damaged, and was dropped; other segments may have the same bytes
      fetch(std::move(each));
      break;
    }
  }
}

void disk_cache::process_state::record_of(disk_record& out, const version& seen) const {
  std::copy(std::begin(seen.word), std::end(seen.word), out.seen.word.begin());
  out.seen.text = text_of(seen);
}

void disk_cache::process_state::append(disk_record& record, std::span<const std::byte> bytes) {
  if (segments->append(record, bytes)) index.apply(record);
  warn_if_off();
}

void disk_cache::process_state::warn_if_off() {
  if (is_writable() || has_warned.exchange(true)) return;
  if (options.warn)
    options.warn(fmt::format("the disk cache '{}' is not used for new data: {}", options.folder,
                             why_off.empty() ? "writing to it failed (is the disk full?)" : why_off));
}

// From the store, on one of its threads or inside its `read`.
void disk_cache::cached_read::complete(std::uint64_t, result<read_done> done) {
  std::unique_ptr<cached_read> self(this);
  const std::shared_ptr<process_state> state = cache;
  disk_record record;
  record.object = object;
  record.time_ns = begun_ns;
  const bool trusts = state->options.trust.count() > 0;
  if (!done.ok()) {
    const errc code = done.error().code();
    if (code == errc::version_changed && wanted.expected != nullptr) state->index.forget(object, *wanted.expected);
    if (code == errc::not_found && trusts && state->is_writable()) {
      record.kind = disk_record_kind::absent;
    } else {
      finish(std::move(done));
      return;
    }
  } else {
    state->record_of(record, done->seen);
    record.seen_is_last = done->seen_is_last;
    record.object_size = done->object_size;
    record.kind = is_bypass || done->bytes.empty() ? disk_record_kind::confirmed : disk_record_kind::range;
    // An empty object has no bytes to read; for others, a confirmation is only useful with a time of trust.
    const bool is_empty = !is_bypass && done->object_size == 0;
    const byte_range& range = wanted.range;
    bool keeps = state->is_writable() && !record.seen.text.empty() &&
                 (record.kind == disk_record_kind::range || trusts || is_empty) &&
                 done->bytes.size() <= state->segments->longest();
    if (record.kind == disk_record_kind::range && range.from_end && done->object_size == byte_range::kAll)
      keeps = false;
    if (!keeps) {
      finish(std::move(done));
      return;
    }
    record.extent.offset = range.whole() ? 0 : range.from_end ? done->object_size - done->bytes.size() : range.offset;
  }
  struct arrival {
    std::unique_ptr<cached_read> read;
    disk_record record;
    result<read_done> done;
  };
  auto what = std::make_shared<arrival>(arrival{std::move(self), std::move(record), std::move(done)});
  state->post([state, what] {
    state->append(what->record, what->done.ok() ? what->done->bytes : std::span<const std::byte>());
    what->read->finish(std::move(what->done));
  });
}

// An object was written, or may have been: the cached facts about it are invalid.
void disk_cache::process_state::wrote(const cached_object& object) {
  disk_record record;
  record.kind = disk_record_kind::dropped;
  record.object = object;
  record.time_ns = wall_ns();
  const bool is_known = index.knows(object);
  if (!is_known && options.trust.count() == 0) return;
  if (is_known && is_writable()) append(record, {});
  index.apply(record);
}

// Called with the lock of the work held: whether the thread runs. False: it has ended, or the system has none; callers
// then do the work themselves.
bool disk_cache::process_state::has_worker() {
  if (has_ended) return false;
  if (worker.joinable() || is_ending) return true;
  try {
    worker = std::thread([state = shared_from_this()] { state->run(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void disk_cache::process_state::post(std::function<void()> what) {
  {
    const std::lock_guard lock(working);
    if (has_worker()) {
      work.push_back(std::move(what));
      has_work.notify_one();
      return;
    }
  }
  what();
}

void disk_cache::process_state::wait(std::unique_ptr<cached_read> which) {
  {
    const std::lock_guard lock(working);
    if (has_worker()) {
      waiting.push_back(std::move(which));
      has_work.notify_one();
      return;
    }
  }
  fetch(std::move(which));
}

void disk_cache::process_state::run() {
  std::unique_lock lock(working);
  auto next_poll = steady::now() + kPoll;
  for (;;) {
    if (!waiting.empty() && steady::now() >= next_poll) {
      lock.unlock();
      poll();
      next_poll = steady::now() + kPoll;
      lock.lock();
    } else if (!work.empty()) {
      const std::function<void()> what = std::move(work.front());
      work.pop_front();
      lock.unlock();
      what();
      lock.lock();
    } else if (!waiting.empty()) {
      has_work.wait_until(lock, next_poll);
    } else if (is_ending) {
      has_ended = true;
      return;
    } else {
      has_work.wait(lock);
    }
  }
}

// Checks the reads that wait for other processes to fetch their ranges.
void disk_cache::process_state::poll() {
  reads all;
  bool ends = false;
  {
    const std::lock_guard lock(working);
    all.swap(waiting);
    ends = is_ending;
  }
  reads still, ready;
  bool has_claims = false;
  const auto now = steady::now();
  for (auto& each : all) {
    if (each->stop.stop_requested()) {
      each->finish(error(errc::cancelled, "the read was stopped"));
    } else if (take_claim(*each)) {
      has_claims = true;
      ready.push_back(std::move(each));
    } else if (ends || now >= each->patience_ends) {
      fetch(std::move(each));
    } else {
      still.push_back(std::move(each));
    }
  }
  if (has_claims) scan();
  {
    const std::lock_guard lock(working);
    for (auto& each : still) waiting.push_back(std::move(each));
  }
  proceed(std::move(ready));
}

disk_cache::state_owner::~state_owner() {
  if (state == nullptr) return;
  std::thread ending;
  {
    const std::lock_guard lock(state->working);
    state->is_ending = true;
    if (!state->worker.joinable()) state->has_ended = true;
    ending = std::move(state->worker);
    state->has_work.notify_one();
  }
  if (!ending.joinable()) return;
  if (ending.get_id() == std::this_thread::get_id()) {
    ending.detach();
  } else {
    ending.join();
  }
}

// --- the store ---

struct disk_cache::cached_write final : write_sink {
  std::shared_ptr<process_state> cache;
  write_sink* sink = nullptr;
  cached_object object;
  std::uint64_t tag = 0;
  void complete(std::uint64_t, result<version> done) override {
    const std::unique_ptr<cached_write> self(this);
    cache->wrote(object);
    sink->complete(tag, std::move(done));
  }
};

class disk_cache::cached_store final : public validated_store {
 public:
  cached_store(std::shared_ptr<disk_cache> cache, std::shared_ptr<store> from, std::string origin, std::string variant)
      : cache_(std::move(cache)), from_(std::move(from)), origin_(std::move(origin)), variant_(std::move(variant)) {}

  store_traits traits() const override { return from_->traits(); }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override;
  void write(std::span<const byte_write> writes, write_sink& sink, std::stop_token stop) override;
  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override {
    return changed(key, [&] { return from_->put(key, parts, condition); });
  }
  result<> erase(std::string_view key, const write_condition& condition) override {
    return changed(key, [&] { return from_->erase(key, condition); });
  }
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override {
    return from_->list(prefix, what, sink);
  }
  result<> flush() override { return from_->flush(); }
  result<> check_writable(std::string_view prefix) const override { return from_->check_writable(prefix); }
  std::string uri() const override { return from_->uri(); }

 private:
  // Null: the cache is not used.
  std::shared_ptr<process_state> state() const {
    const auto& state = cache_->states_.get().state;
    return state->segments == nullptr ? nullptr : state;
  }
  cached_object object_of(std::string_view key) const {
    const sha256::digest name = sha256().add(origin_).add("/").add(key).add("\n").add(variant_).finish();
    cached_object out;
    std::memcpy(out.word.data(), name.data(), sizeof(out.word));
    return out;
  }
  void wrote(std::string_view key) {
    if (const auto known = state()) known->wrote(object_of(key));
  }
  // The result of `call`, after which the object may be another one: also if a store of another project throws.
  template <class Call>
  std::invoke_result_t<Call&> changed(std::string_view key, Call call) {
    try {
      auto done = call();
      wrote(key);
      return done;
    } catch (...) {
      wrote(key);
      throw;
    }
  }

  const std::shared_ptr<disk_cache> cache_;
  const std::shared_ptr<store> from_;
  const std::string origin_, variant_;
};

void disk_cache::cached_store::read(std::span<const byte_read> reads, completion_sink& sink,
                                    std::stop_token stop) const {
  const std::shared_ptr<process_state> known = state();
  if (known == nullptr) return from_->read(reads, sink, std::move(stop));
  process_state::reads all;
  all.reserve(reads.size());
  for (const byte_read& each : reads) {
    auto made = std::make_unique<cached_read>();
    made->cache = known;
    made->from = from_;
    made->wanted = each;
    made->sink = &sink;
    made->stop = stop;
    made->object = object_of(each.key);
    made->is_bypass = each.range.length == 0;
    all.push_back(std::move(made));
  }
  known->begin(std::move(all));
}

void disk_cache::cached_store::write(std::span<const byte_write> writes, write_sink& sink, std::stop_token stop) {
  const std::shared_ptr<process_state> known = state();
  if (known == nullptr) return from_->write(writes, sink, std::move(stop));
  for (const byte_write& each : writes) {
    auto made = std::make_unique<cached_write>();
    made->cache = known;
    made->sink = &sink;
    made->object = object_of(each.key);
    made->tag = each.tag;
    try {
      from_->write({&each, 1}, *made.release(), stop);
    } catch (...) {
      wrote(each.key);
      throw;
    }
  }
}

disk_cache::disk_cache(disk_cache_options options)
    : options_(std::move(options)), states_([this] {
        auto out = std::make_unique<state_owner>();
        out->state = std::make_shared<process_state>(options_);
        out->state->open();
        return out;
      }) {}

disk_cache::~disk_cache() = default;

result<std::shared_ptr<disk_cache>> disk_cache::open(disk_cache_options options) {
  if (options.folder.empty()) return error(errc::invalid_argument, "the folder of a disk cache needs a name");
  if (options.limit_bytes < disk_segments_options::kLeastLimit)
    return error(errc::invalid_argument, fmt::format("the limit of a disk cache must be at least {} bytes, got {}",
                                                     disk_segments_options::kLeastLimit, options.limit_bytes));
  std::shared_ptr<disk_cache> out(new disk_cache(std::move(options)));
  out->states_.get().state->warn_if_off();
  return out;
}

std::shared_ptr<store> disk_cache::wrap(std::shared_ptr<store> from, std::string origin, std::string variant) {
  return std::make_shared<cached_store>(shared_from_this(), std::move(from), std::move(origin), std::move(variant));
}

disk_cache_usage disk_cache::usage() {
  process_state& now = *states_.get().state;
  disk_cache_usage out;
  out.hits = now.hits;
  out.misses = now.misses;
  out.damaged = now.damaged;
  out.is_writable = now.is_writable();
  if (now.segments != nullptr) out.bytes = now.segments->size_bytes();
  return out;
}

}  // namespace penstock::inline v0
