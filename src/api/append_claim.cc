#include "api/append_claim.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <thread>
#include <utility>

#include "engine/blocking_read.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kMaxClaimBytes = 1024;

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "?";
  return name;
}

// `host pid number`: the number makes each claim another one.
std::string claim_text() {
  static std::atomic<std::uint64_t> next{0};
  return fmt::format("{} {} {}\n", host_name(), ::getpid(), next.fetch_add(1));
}

// True where the claim says that a process of this machine has it, and that process is no more.
bool owner_is_dead(std::string_view text) {
  const std::string host = host_name() + " ";
  if (text.substr(0, host.size()) != host) return false;
  text.remove_prefix(host.size());
  ::pid_t process = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), process);
  return parsed.ec == std::errc() && process > 0 && ::kill(process, 0) != 0 && errno == ESRCH;
}

result<version> put_claim(store& at, const std::string& key, const write_condition& condition) {
  const std::string text = claim_text();
  const part bytes(reinterpret_cast<const std::byte*>(text.data()), text.size());
  return at.put(key, {&bytes, 1}, condition);
}

}  // namespace

result<append_claim> append_claim::take(store& at, std::string key, std::chrono::milliseconds longest,
                                        std::chrono::milliseconds patience) {
  append_claim out(at, std::move(key));
  if (!at.traits().versions) return out;
  using clock = std::chrono::steady_clock;
  const auto end = clock::now() + longest;
  version seen;  // the claim of another, and since when it is that one
  auto since = clock::now();
  auto pause = std::chrono::milliseconds(1);
  for (;;) {
    write_condition condition;
    condition.what = write_condition::kind::must_be_absent;
    auto put = put_claim(at, out.key_, condition);
    if (put.ok()) {
      out.mine_ = std::move(*put);
      out.renewed_ = clock::now();
      return out;
    }
    if (put.error().code() == errc::unsupported) return out;
    if (put.error().code() != errc::version_changed)
      return std::move(put).error().note(fmt::format("writing '{}'", out.key_));
    auto other = read_and_wait(at, out.key_, {}, kMaxClaimBytes);
    if (!other.ok() && other.error().code() != errc::not_found)
      return std::move(other).error().note(fmt::format("reading '{}'", out.key_));
    if (!other.ok()) continue;  // given back meanwhile
    if (!(other->seen == seen)) {
      seen = other->seen;
      since = clock::now();
    }
    const std::string_view text(reinterpret_cast<const char*>(other->bytes.data()), other->bytes.size());
    if (owner_is_dead(text) || clock::now() - since > patience) {
      condition.what = write_condition::kind::must_match;
      condition.expected = seen;
      (void)at.erase(out.key_, condition);  // somebody may have been faster
      continue;
    }
    if (clock::now() > end)
      return error(errc::conflict, "another writer is appending to this array")
          .note(fmt::format("waiting for '{}'", out.key_));
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(50));
  }
}

append_claim::append_claim(append_claim&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      key_(std::move(other.key_)),
      mine_(std::exchange(other.mine_, {})),
      renewed_(other.renewed_) {}

append_claim::~append_claim() {
  if (store_ == nullptr || !mine_.known()) return;
  write_condition condition;
  condition.what = write_condition::kind::must_match;
  condition.expected = mine_;
  (void)store_->erase(key_, condition);  // one that is left behind is taken over
}

result<> append_claim::renew() {
  const auto now = std::chrono::steady_clock::now();
  if (!mine_.known() || now - renewed_ < kRenewal) return {};
  write_condition condition;
  condition.what = write_condition::kind::must_match;
  condition.expected = mine_;
  auto put = put_claim(*store_, key_, condition);
  if (!put.ok()) {
    mine_ = {};
    return error(errc::conflict, "another writer took over: this one was silent for too long")
        .note(fmt::format("writing '{}'", key_));
  }
  mine_ = std::move(*put);
  renewed_ = now;
  return {};
}

}  // namespace penstock::inline v0
