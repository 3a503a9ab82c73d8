#include "api/append/append_claim.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/thrown.h"
#include "base/waiting.h"
#include "engine/blocking_read.h"

namespace penstock::inline v0 {
namespace {

using clock = std::chrono::steady_clock;
using milliseconds = std::chrono::milliseconds;

constexpr milliseconds kDefaultLease{10'000}, kShortestLease{50}, kLongestLease{600'000}, kLongestWait{600'000};
/// A renewal is due four times in a lease. A waiting writer adds a quarter for the time that a renewal takes.
constexpr int kRenewalsInALease = 4;
constexpr std::string_view kMagic = "penstock-append 2";

result<milliseconds> lease_of_environment() {
  const char* const text = std::getenv("PENSTOCK_APPEND_LEASE");  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr || *text == '\0') return kDefaultLease;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  const double least = std::chrono::duration<double>(kShortestLease).count();
  const double most = std::chrono::duration<double>(kLongestLease).count();
  if (end == text || *end != '\0' || !(seconds >= least && seconds <= most)) {
    return error(errc::invalid_argument,
                 fmt::format("PENSTOCK_APPEND_LEASE must be {} to {} seconds, got '{}'", least, most, text));
  }
  return milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

// One word of a file in /proc; "-" if it cannot be read.
std::string word_of(const char* path) {
  std::ifstream file(path);
  std::string out;
  if (!(file >> out) || out.size() > 64) return "-";
  return out;
}

std::string target_of(const char* link) {
  std::array<char, 64> text{};
  const ::ssize_t size = ::readlink(link, text.data(), text.size());
  return size <= 0 ? "-" : std::string(text.data(), static_cast<std::size_t>(size));
}

// Names this boot of this kernel and this PID namespace, in which process numbers are unique. Empty: not known.
std::string process_space() {
  const std::string boot = word_of("/proc/sys/kernel/random/boot_id"), space = target_of("/proc/self/ns/pid");
  return boot == "-" || space == "-" ? std::string() : boot + "/" + space;
}

std::string new_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace

/// The content of a claim's object. Fields are separated by blanks.
struct append_claim_text {
  std::string token;
  milliseconds lease = kDefaultLease;
  std::uint32_t axes = 0;
  std::string space;
  ::pid_t process = 0;

  std::string prefix() const { return fmt::format("{} {} ", kMagic, token); }
  std::string with(std::uint64_t renewal) const {
    return fmt::format("{}{} {:x} {} {} {}\n", prefix(), lease.count(), axes, space.empty() ? "-" : space, process,
                       renewal);
  }
};

namespace {

template <class Number>
bool parse(std::string_view text, Number& out, int base = 10) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return failed == std::errc() && end == text.data() + text.size();
}

// Unknown content has the default lease, no process and all axes: another version of this library wrote it, or a power
// cut damaged it.
append_claim_text parse_claim(std::string_view text) {
  append_claim_text out;
  out.axes = ~std::uint32_t{0};
  if (text.substr(0, kMagic.size()) != kMagic) return out;
  text.remove_prefix(kMagic.size());
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t begin = text.find_first_not_of(" \n");
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const std::size_t size = std::min(text.find_first_of(" \n"), text.size());
    words.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  std::int64_t lease = 0;
  std::uint32_t axes = 0;
  ::pid_t process = 0;
  if (words.size() != 6 || !parse(words[1], lease) || !parse(words[2], axes, 16) || !parse(words[4], process))
    return out;
  out.token = words[0];
  out.lease = std::clamp(milliseconds(lease), kShortestLease, kLongestLease);
  out.axes = axes;
  out.space = words[3];
  out.process = process;
  return out;
}

// True if the claim's process ran on this boot of this kernel in this PID namespace, and has ended.
bool owner_has_ended(const append_claim_text& claim) {
  if (claim.process <= 0 || claim.space.empty() || claim.space == "-" || claim.space != process_space()) return false;
  return ::kill(claim.process, 0) != 0 && errno == ESRCH;
}

}  // namespace

struct append_claim::shared {
  store* at = nullptr;
  std::string key;
  append_claim_text text;
  write_guard guard;

  std::mutex mutex;  // protects the members below; held while the claim is renewed
  std::condition_variable stop;
  version mine;  // unknown: the store has no versions, or the claim no longer belongs to this owner
  bool had = false, lost = false, stopping = false, abandoned = false;
  std::uint64_t renewal = 0;
  std::thread renewing;

  result<version> put(write_condition condition) {
    condition.passing = true;
    const std::string all = text.with(renewal++);
    const part bytes(reinterpret_cast<const std::byte*>(all.data()), all.size());
    return caught("the store", [&] { return at->put(key, {&bytes, 1}, condition); });
  }

  // Called with the lock held.
  result<> renew() {
    const auto gone = [&] {
      return error(errc::conflict, "another writer took over: this one did not renew its claim in time")
          .note(fmt::format("writing '{}'", key));
    };
    if (lost) return gone();
    if (!mine.known()) return {};
    write_condition condition;
    condition.what = write_condition::kind::must_match;
    condition.expected = mine;
    auto put_now = put(condition);
    if (put_now.ok()) {
      mine = std::move(*put_now);
      return {};
    }
    if (put_now.error().code() != errc::version_changed)
      return std::move(put_now).error().note(fmt::format("writing '{}'", key));
    mine = {};
    lost = true;
    return gone();
  }
};

append_claim::append_claim() : shared_(std::make_unique<shared>()) {}

result<std::unique_ptr<append_claim>> append_claim::take(store& at, std::string key, std::uint32_t axes,
                                                         const std::function<bool()>& may_go_on) {
  std::unique_ptr<append_claim> out(new append_claim);
  shared& me = *out->shared_;
  me.at = &at;
  me.key = std::move(key);
  if (!at.traits().versions) return out;
  PENSTOCK_ASSIGN(me.text.lease, lease_of_environment());
  me.text.token = new_token();
  me.text.axes = axes;
  me.text.space = process_space();
  me.text.process = ::getpid();
  me.guard = {me.key, me.text.prefix()};

  const auto end = clock::now() + kLongestWait;
  version seen;  // version of another writer's object, and the time at which it was first seen
  auto since = clock::now();
  auto pause = milliseconds(1);
  for (;;) {
    write_condition condition;
    condition.what = write_condition::kind::must_be_absent;
    me.text.axes = axes;
    auto put = me.put(condition);
    if (!put.ok() && put.error().code() == errc::unsupported) return out;
    if (!put.ok() && put.error().code() != errc::version_changed)
      return std::move(put).error().note(fmt::format("writing '{}'", me.key));
    if (!put.ok()) {
      auto other = read_and_wait(at, me.key, {}, kMaxClaimBytes);
      if (!other.ok() && other.error().code() != errc::not_found)
        return std::move(other).error().note(fmt::format("reading '{}'", me.key));
      if (!other.ok()) {
        pause = milliseconds(1);  // it was released in the meantime
      } else {
        if (!(other->seen == seen)) {
          seen = other->seen;
          since = clock::now();
        }
        const append_claim_text theirs =
            parse_claim({reinterpret_cast<const char*>(other->bytes.data()), other->bytes.size()});
        const auto silent = clock::now() - since;
        if (owner_has_ended(theirs) || silent > theirs.lease + theirs.lease / kRenewalsInALease) {
          condition.what = write_condition::kind::must_match;
          condition.expected = seen;
          me.text.axes = axes | theirs.axes;
          put = me.put(condition);
          if (put.ok()) {
            out->dirty_ = theirs.axes;
          } else if (put.error().code() != errc::version_changed) {
            return std::move(put).error().note(fmt::format("writing '{}'", me.key));
          }
        }
      }
    }
    if (put.ok()) {
      me.mine = std::move(*put);
      me.had = me.mine.known();
      if (me.had) out->start_renewing();
      return out;
    }
    if (clock::now() > end)
      return error(errc::conflict, "another writer is appending to this array")
          .note(fmt::format("waiting for '{}'", me.key));
    interruptible_waits* const asks = interruptible_waits::current();
    if ((may_go_on && !may_go_on()) || (asks != nullptr && !asks->ask()))
      return error(errc::cancelled, "the wait for another writer was cancelled").note(fmt::format("'{}'", me.key));
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, milliseconds(50));
  }
}

append_claim::~append_claim() { release(); }

const write_guard* append_claim::guard() const noexcept { return shared_->had ? &shared_->guard : nullptr; }

result<> append_claim::check() {
  const std::lock_guard lock(shared_->mutex);
  return shared_->renew();
}

bool append_claim::lost() const noexcept {
  const std::lock_guard lock(shared_->mutex);
  return shared_->lost;
}

void append_claim::start_renewing() {
  shared& me = *shared_;
  const auto renew = [&me] {
    std::unique_lock lock(me.mutex);
    while (!me.stopping && !me.lost) {
      if (me.stop.wait_for(lock, me.text.lease / kRenewalsInALease, [&me] { return me.stopping; })) return;
      // A failure other than a loss is temporary: the next renewal may succeed.
      static_cast<void>(me.renew());
    }
  };
  try {
    me.renewing = std::thread(renew);
  } catch (const std::system_error&) {
    // Without a thread the claim lasts for one lease. Later writes are refused as if the owner was late.
    me.renewing = std::thread();
  }
}

void append_claim::stop_renewing() noexcept {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
  }
  shared_->stop.notify_all();
  if (shared_->renewing.joinable()) shared_->renewing.join();
}

void append_claim::release() noexcept {
  stop_renewing();
  shared& me = *shared_;
  if (me.abandoned || !me.mine.known()) return;
  // Not every store erases conditionally: the erased object should not be the claim of another writer.
  if (!me.at->traits().guards && !me.renew().ok()) return;
  write_condition condition;
  condition.what = write_condition::kind::must_match;
  condition.expected = me.mine;
  condition.passing = true;
  (void)caught("the store", [&] { return me.at->erase(me.key, condition); });  // a remaining claim is taken over
  me.mine = {};
}

void append_claim::abandon() noexcept {
  stop_renewing();
  shared_->abandoned = true;
}

}  // namespace penstock::inline v0
