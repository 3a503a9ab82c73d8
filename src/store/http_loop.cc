#include "store/http_loop.h"

#include "store/curl_library.h"

#ifdef PENSTOCK_CURL_HEADERS

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "store/http_transfer.h"

namespace penstock::inline v0 {
namespace {

using transfer_ptr = std::unique_ptr<http_transfer>;

// Shared by the loop's owner and its thread, so that the owner may be destroyed on that thread.
class machine {
 public:
  machine(const curl_library& curl, unsigned connections, unsigned short_ones)
      : curl_(curl),
        connections_(std::max(1U, connections)),
        short_ones_(std::max<std::size_t>(connections_, short_ones)) {
    multi_ = curl_.multi_init();
    if (multi_ == nullptr) return;
    curl_.multi_setopt(multi_, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_MULTIPLEX));
    curl_.multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(short_ones_));
  }
  ~machine() {
    for (CURL* each : idle_) curl_.easy_cleanup(each);
    if (multi_ != nullptr) curl_.multi_cleanup(multi_);
  }
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  void start(const std::shared_ptr<machine>& self, std::unique_ptr<http_exchange> what,
             std::shared_ptr<const http_settings> settings, std::stop_token stop) {
    if (stop.stop_requested()) return what->finish(error(errc::cancelled, "the read was stopped"));
    auto made = std::make_unique<http_transfer>(curl_, std::move(what), std::move(settings), std::move(stop));
    if (multi_ == nullptr) return made->finish(error(errc::resource_exhausted, "libcurl has no memory or sockets"));
    made->on_stop([this] { wake(); });
    bool begins = false, has_thread = true;
    {
      const std::lock_guard lock(mutex_);
      begins = !stopping_;
      if (begins) has_thread = start_thread(self);
      if (begins && has_thread) incoming_.push_back(std::move(made));
    }
    // An exchange that ends may begin another one, even while the last of them are being cancelled.
    if (!begins) return give_up(*made);
    if (!has_thread) return made->finish(error(errc::resource_exhausted, "the system has no thread for HTTP requests"));
    wake();
  }

  void stop() {
    std::thread mine;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      mine = std::move(thread_);
    }
    if (!mine.joinable()) return;
    wake();
    // A completion may have released the last owner of a store.
    if (mine.get_id() == std::this_thread::get_id()) {
      mine.detach();
    } else {
      mine.join();
    }
  }

 private:
  void wake() const noexcept { curl_.multi_wakeup(multi_); }

  // Called with the lock held. False: the system has no thread.
  bool start_thread(const std::shared_ptr<machine>& self) {
    if (thread_.joinable()) return true;
    try {
      thread_ = std::thread([self] { self->run(); });
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  void run() {
    // CURLOPT_NOSIGNAL leaves the signal of closed connections, which would end the process, to this thread.
    sigset_t of_pipes;
    sigemptyset(&of_pipes);
    sigaddset(&of_pipes, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &of_pipes, nullptr);
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        for (transfer_ptr& each : incoming_) queued_.push_back(std::move(each));
        incoming_.clear();
        if (stopping_) break;
      }
      drop_stopped();
      requeue_due();
      launch();
      int running = 0;
      curl_.multi_perform(multi_, &running);
      collect();
      if (may_launch()) continue;
      curl_.multi_poll(multi_, nullptr, 0, wait_ms(), nullptr);
    }
    for (const auto& [handle, each] : active_) {
      curl_.multi_remove_handle(multi_, handle);
      curl_.easy_cleanup(handle);
      give_up(*each);
    }
    active_.clear();
    for (const auto& each : queued_) give_up(*each);
    for (const auto& each : delayed_) give_up(*each);
    queued_.clear();
    delayed_.clear();
  }

  static void give_up(http_transfer& what) { what.finish(error(errc::cancelled, "the read was stopped")); }

  // A request's memory is its reader's until it completes, so a running one is removed from libcurl first.
  void drop_stopped() {
    for (std::size_t i = 0; i < active_.size();) {
      if (!active_[i].second->stop_requested()) {
        ++i;
        continue;
      }
      const transfer_ptr stopped = take_active(i);
      give_up(*stopped);
    }
    const auto drop_from = [](auto& from) {
      for (auto at = from.begin(); at != from.end();) {
        if (!(*at)->stop_requested()) {
          ++at;
          continue;
        }
        give_up(**at);
        at = from.erase(at);
      }
    };
    drop_from(queued_);
    drop_from(delayed_);
  }

  void requeue_due() {
    const auto now = http_transfer::clock::now();
    for (auto at = delayed_.begin(); at != delayed_.end();) {
      if ((*at)->due() > now) {
        ++at;
        continue;
      }
      queued_.push_front(std::move(*at));
      at = delayed_.erase(at);
    }
  }

  bool may_launch() const noexcept {
    return !queued_.empty() && active_.size() < (queued_.front()->is_short() ? short_ones_ : connections_);
  }

  // Sends exchanges while there are free connections.
  void launch() {
    while (may_launch()) {
      transfer_ptr next = std::move(queued_.front());
      queued_.pop_front();
      CURL* const handle = take_handle();
      if (handle == nullptr) {
        next->finish(error(errc::resource_exhausted, "libcurl has no memory"));
        continue;
      }
      auto begun = next->begin(handle);
      if (begun.ok() && curl_.multi_add_handle(multi_, handle) != CURLM_OK)
        begun = error(errc::internal, "libcurl refuses a request");
      if (!begun.ok()) {
        give_handle(handle);
        next->finish(std::move(begun).error());
        continue;
      }
      active_.emplace_back(handle, std::move(next));
    }
  }

  void collect() {
    int left = 0;
    while (const CURLMsg* message = curl_.multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      CURL* const handle = message->easy_handle;
      const CURLcode code = message->data.result;
      const auto at =
          std::find_if(active_.begin(), active_.end(), [&](const auto& each) { return each.first == handle; });
      if (at == active_.end()) continue;
      http_transfer& ended = *at->second;
      const auto how = ended.ended(handle, code);
      transfer_ptr mine = take_active(static_cast<std::size_t>(at - active_.begin()));
      if (how == http_transfer::verdict::again) delayed_.push_back(std::move(mine));
    }
  }

  transfer_ptr take_active(std::size_t which) {
    auto [handle, out] = std::move(active_[which]);
    active_[which] = std::move(active_.back());
    active_.pop_back();
    curl_.multi_remove_handle(multi_, handle);
    give_handle(handle);
    return std::move(out);
  }

  int wait_ms() const {
    constexpr std::chrono::milliseconds kLongest(60'000);
    auto out = kLongest;
    const auto now = http_transfer::clock::now();
    for (const auto& each : delayed_) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(each->due() - now);
      out = std::clamp(left + std::chrono::milliseconds(1), std::chrono::milliseconds(0), out);
    }
    return static_cast<int>(out.count());
  }

  CURL* take_handle() {
    if (idle_.empty()) return curl_.easy_init();
    CURL* const out = idle_.back();
    idle_.pop_back();
    return out;
  }
  void give_handle(CURL* handle) {
    curl_.easy_reset(handle);
    idle_.push_back(handle);
  }

  const curl_library& curl_;
  const std::size_t connections_, short_ones_;
  CURLM* multi_ = nullptr;

  std::mutex mutex_;  // protects the next three members
  std::vector<transfer_ptr> incoming_;
  std::thread thread_;
  bool stopping_ = false;

  // Used by the thread only.
  std::deque<transfer_ptr> queued_;
  std::vector<std::pair<CURL*, transfer_ptr>> active_;
  std::vector<transfer_ptr> delayed_;
  std::vector<CURL*> idle_;
};

class curl_loop final : public http_loop {
 public:
  explicit curl_loop(std::shared_ptr<machine> of) : machine_(std::move(of)) {}
  ~curl_loop() override { machine_->stop(); }
  void start(std::unique_ptr<http_exchange> what, std::shared_ptr<const http_settings> settings,
             std::stop_token stop) override {
    machine_->start(machine_, std::move(what), std::move(settings), std::move(stop));
  }

 private:
  std::shared_ptr<machine> machine_;
};

}  // namespace

result<> http_loop::available() {
  PENSTOCK_ASSIGN(const curl_library* const found, curl_library::get());
  static_cast<void>(found);
  return {};
}

std::shared_ptr<http_loop> http_loop::make(unsigned connections, unsigned short_ones) {
  return std::make_shared<curl_loop>(std::make_shared<machine>(**curl_library::get(), connections, short_ones));
}

}  // namespace penstock::inline v0

#else

namespace penstock::inline v0 {

result<> http_loop::available() {
  return error(errc::unsupported, "this build has no HTTP: libcurl's headers were not found (PENSTOCK_CURL)");
}

std::shared_ptr<http_loop> http_loop::make(unsigned, unsigned) { return nullptr; }

}  // namespace penstock::inline v0

#endif
