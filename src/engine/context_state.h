#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <penstock/context.h>
#include "base/executor.h"
#include "base/fork_local.h"
#include "base/ledger.h"
#include "base/output_pool.h"
#include "engine/cell_cache.h"
#include "engine/device_service.h"
#include "engine/idle_reads.h"
#include "engine/index_cache.h"
#include "engine/profiler.h"
#include "engine/write_queue.h"
#include "store/disk_cache.h"
#include "store/http_transport.h"

namespace penstock::inline v0 {

class read_job;
struct read_worker;
class write_job;

/// The state of a context. Everything that has locks or threads is in `shared`, which a forked child creates anew.
class context_state {
 public:
  explicit context_state(const context_options& options);
  ~context_state();

  unsigned threads() const noexcept { return options_.threads; }
  /// Workers of a read or write that requests this number; 0: one for each thread. At most the maximum threads of a
  /// context.
  unsigned workers_for(unsigned asked) const noexcept { return asked == 0 ? threads() : std::min(asked, 1024U); }
  unsigned io_concurrency() const noexcept { return io_concurrency_; }
  /// Codecs beyond the registry: all providers as one; null: none.
  const codec_provider* codecs() const noexcept { return codecs_.get(); }

  ledger& accounts() { return shared_.get().accounts; }
  index_cache& indexes() { return shared_.get().indexes; }
  cell_cache& cells() { return shared_.get().cells; }
  output_pool& outputs() { return shared_.get().outputs; }
  write_queue& writes() { return shared_.get().writes; }
  penstock::executor& executor() { return *shared_.get().workers; }

  /// An idle job, with its buffers still warm; created if there is none.
  std::shared_ptr<read_job> take_job();
  void give_job(std::shared_ptr<read_job> job);
  /// The same for a read in the background: its ticket returns the job.
  std::shared_ptr<read_job> take_background_job();
  /// The same for a worker of such a read, whose job is not idle while a ticket refers to it.
  std::unique_ptr<read_worker> take_worker();
  void give_worker(std::unique_ptr<read_worker> worker);
  std::shared_ptr<write_job> take_write_job();
  void give_job(std::shared_ptr<write_job> job);

  /// Connections to HTTP servers, shared by the stores that are opened with this context; created at first use.
  /// \error unsupported  libcurl is not available in this build or on this machine.
  result<std::shared_ptr<http_transport>> http();
  /// Null: reads of remote objects are not cached on disk.
  const std::shared_ptr<penstock::disk_cache>& disk_cache() const noexcept { return disk_cache_; }
  /// Called before the first store is opened.
  void set_disk_cache(std::shared_ptr<penstock::disk_cache> cache) noexcept { disk_cache_ = std::move(cache); }
  /// The engine of one device, created at first use; `clear_caches` releases its idle memory, and the context destroys
  /// it.
  result<std::shared_ptr<device_service>> device(int ordinal,
                                                 const std::function<result<std::shared_ptr<device_service>>()>& make);
  device_usage devices_usage();
  /// Waits for reads that were exported and whose outcome was not queried.
  /// \error  Their failure.
  result<> device_outcome();
  /// As given, but with numbers in place of the defaults that follow the limits of this process.
  const context_options& options() const noexcept { return options_; }

  /// Null unless a profile is being recorded.
  std::shared_ptr<profiler> recording();
  bool start_recording(std::uint64_t max_events);
  std::shared_ptr<profiler> stop_recording();

  /// An identity for one open array in the caches.
  std::uint64_t next_uid() noexcept { return uids_.fetch_add(1, std::memory_order_relaxed) + 1; }
  /// The identity that all arrays with the description `identity` share, whether they are open together or in turn.
  std::uint64_t uid_of(const std::string& identity);

  void clear_caches();

 private:
  struct shared {
    explicit shared(const context_options& options);
    ~shared();
    ledger accounts;
    index_cache indexes;
    cell_cache cells;
    output_pool outputs;
    std::shared_ptr<penstock::executor> workers;
    write_queue writes;
    const std::shared_ptr<idle_reads> background_reads = std::make_shared<idle_reads>();
    std::mutex mutex;  // protects the members below
    std::vector<std::shared_ptr<read_job>> idle_jobs;
    std::vector<std::unique_ptr<read_worker>> idle_workers;
    std::vector<std::shared_ptr<write_job>> idle_writes;
    std::unordered_map<std::string, std::uint64_t> uids;
    std::shared_ptr<profiler> recording;
    std::shared_ptr<http_transport> http;
    std::atomic<bool> is_recording{false};
    std::mutex device_mutex;  // protects the engines
    std::vector<std::pair<int, std::shared_ptr<device_service>>> devices;

    std::vector<std::shared_ptr<device_service>> all_devices();
  };

  context_options options_;
  std::shared_ptr<const codec_provider> codecs_;
  unsigned io_concurrency_;
  std::atomic<std::uint64_t> uids_{0};
  std::shared_ptr<penstock::disk_cache> disk_cache_;
  fork_local<shared> shared_;
};

}  // namespace penstock::inline v0
