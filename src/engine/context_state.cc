#include "engine/context_state.h"

#include <penstock/extend/codec.h>
#include <algorithm>
#include <utility>

#include "base/process_limits.h"
#include "engine/pool_executor.h"
#include "engine/read_job.h"
#include "engine/read_job_parts.h"
#include "engine/write_job.h"

namespace penstock::inline v0 {
namespace {

constexpr unsigned kDefaultIoConcurrency = 64;
// Short requests, such as those for metadata, usually wait: more of them cost a server and a network little.
constexpr unsigned kDefaultShortRequests = 256;
/// Idle jobs, and workers, for the next read; more concurrent reads than this create and free their own.
constexpr std::size_t kMaxIdleJobs = 16;
/// Arrays that are recognised when they are opened again.
constexpr std::size_t kMaxIdentities = 4096;

/// An eighth of the memory that this process may use, at least 1 GiB (a quarter of less than 4 GiB), at most 8 GiB.
std::uint64_t default_memory_limit(std::uint64_t memory) noexcept {
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 30, kMost = std::uint64_t{8} << 30;
  if (memory == 0) return kLeast;  // unknown
  return std::clamp(memory / 8, std::min(kLeast, memory / 4), kMost);
}

/// `options` with numbers in place of the defaults that follow the limits of this process.
context_options with_limits_of_process(context_options options) {
  const process_limits limits = find_process_limits();
  if (options.threads == 0) options.threads = limits.processors();
  if (options.memory_limit_bytes == 0) options.memory_limit_bytes = default_memory_limit(limits.memory());
  if (options.chunk_cache_bytes == ~std::uint64_t{0}) options.chunk_cache_bytes = options.memory_limit_bytes / 8;
  if (options.output_pool_bytes == ~std::uint64_t{0}) options.output_pool_bytes = limits.memory() / 4;
  if (options.write_queue_bytes == 0) options.write_queue_bytes = options.memory_limit_bytes / 4;
  return options;
}

// Including those of closed arrays: this frees memory for reads.
std::uint64_t index_limit(const context_options& options) noexcept {
  return std::min(index_cache::kDefaultBytes, options.memory_limit_bytes / 4);
}

/// Several providers as one.
class provider_list final : public codec_provider {
 public:
  explicit provider_list(std::vector<std::shared_ptr<const codec_provider>> all) noexcept : all_(std::move(all)) {}
  result<compiled_codec> make(const codec_config& config, const stage_type& input) const override {
    for (std::size_t i = 0; i + 1 < all_.size(); ++i) {
      auto made = all_[i]->make(config, input);
      if (made.ok() || made.error().code() != errc::unsupported) return made;
    }
    return all_.back()->make(config, input);
  }

 private:
  std::vector<std::shared_ptr<const codec_provider>> all_;
};

std::shared_ptr<const codec_provider> as_one(const std::vector<std::shared_ptr<const codec_provider>>& all) {
  if (all.empty()) return nullptr;
  return all.size() == 1 ? all.front() : std::make_shared<provider_list>(all);
}

}  // namespace

context_state::shared::shared(const context_options& options)
    : accounts(options.memory_limit_bytes, options.output_pool_bytes),
      indexes(accounts, index_limit(options)),
      cells(accounts, options.chunk_cache_bytes),
      outputs(accounts),
      // A read's caller is one of its workers; reads without a waiting caller use only the pool.
      workers(options.executor ? options.executor : std::make_shared<pool_executor>(options.threads)),
      writes(options.write_queue_bytes) {}

context_state::shared::~shared() = default;

context_state::context_state(const context_options& options)
    : options_(with_limits_of_process(options)),
      codecs_(as_one(options.codecs)),
      io_concurrency_(options.io_concurrency == 0 ? kDefaultIoConcurrency : options.io_concurrency),
      shared_([this] { return std::make_unique<shared>(options_); }) {
  shared_.get();  // its threads start here, not in the first reads
}

context_state::~context_state() = default;

namespace {

template <class Job>
std::shared_ptr<Job> take_idle(std::mutex& mutex, std::vector<std::shared_ptr<Job>>& idle) {
  const std::lock_guard lock(mutex);
  if (idle.empty()) return nullptr;
  std::shared_ptr<Job> job = std::move(idle.back());
  idle.pop_back();
  return job;
}

template <class Job>
void give_idle(std::mutex& mutex, std::vector<std::shared_ptr<Job>>& idle, std::shared_ptr<Job> job) {
  job->reset();
  const std::lock_guard lock(mutex);
  if (idle.size() < kMaxIdleJobs) idle.push_back(std::move(job));
}

}  // namespace

std::uint64_t context_state::uid_of(const std::string& identity) {
  shared& mine = shared_.get();
  const std::lock_guard lock(mine.mutex);
  // Cached data of identities that are dropped here is never found again, and is evicted in time.
  if (mine.uids.size() >= kMaxIdentities) mine.uids.clear();
  const auto [found, is_new] = mine.uids.try_emplace(identity, 0);
  if (is_new) found->second = next_uid();
  return found->second;
}

std::shared_ptr<read_job> context_state::take_job() {
  shared& mine = shared_.get();
  std::shared_ptr<read_job> job = take_idle(mine.mutex, mine.idle_jobs);
  return job ? job : std::make_shared<read_job>(*this);
}

void context_state::give_job(std::shared_ptr<read_job> job) {
  shared& mine = shared_.get();
  give_idle(mine.mutex, mine.idle_jobs, std::move(job));
}

std::shared_ptr<read_job> context_state::take_background_job() {
  const std::shared_ptr<idle_reads>& idle = shared_.get().background_reads;
  std::shared_ptr<read_job> job = idle->take();
  return job ? job : std::make_shared<read_job>(*this, idle);
}

std::unique_ptr<read_worker> context_state::take_worker() {
  shared& mine = shared_.get();
  {
    const std::lock_guard lock(mine.mutex);
    if (!mine.idle_workers.empty()) {
      std::unique_ptr<read_worker> out = std::move(mine.idle_workers.back());
      mine.idle_workers.pop_back();
      return out;
    }
  }
  return std::make_unique<read_worker>(&mine.accounts);
}

void context_state::give_worker(std::unique_ptr<read_worker> worker) {
  worker->reset();
  shared& mine = shared_.get();
  const std::lock_guard lock(mine.mutex);
  if (mine.idle_workers.size() < std::max<std::size_t>(kMaxIdleJobs, threads()))
    mine.idle_workers.push_back(std::move(worker));
}

std::shared_ptr<write_job> context_state::take_write_job() {
  shared& mine = shared_.get();
  std::shared_ptr<write_job> job = take_idle(mine.mutex, mine.idle_writes);
  return job ? job : std::make_shared<write_job>(*this);
}

void context_state::give_job(std::shared_ptr<write_job> job) {
  shared& mine = shared_.get();
  give_idle(mine.mutex, mine.idle_writes, std::move(job));
}

result<std::shared_ptr<http_transport>> context_state::http() {
  shared& mine = shared_.get();
  const std::lock_guard lock(mine.mutex);
  if (mine.http == nullptr) {
    PENSTOCK_ASSIGN(mine.http,
                    http_transport::make(io_concurrency_, options_.io_concurrency == 0 ? kDefaultShortRequests : 0));
  }
  return mine.http;
}

result<std::shared_ptr<device_service>> context_state::device(
    int ordinal, const std::function<result<std::shared_ptr<device_service>>()>& make) {
  shared& mine = shared_.get();
  const std::lock_guard lock(mine.device_mutex);
  for (const auto& [number, service] : mine.devices)
    if (number == ordinal) return service;
  PENSTOCK_ASSIGN(std::shared_ptr<device_service> made, make());
  mine.devices.emplace_back(ordinal, made);
  return made;
}

device_usage context_state::devices_usage() {
  shared& mine = shared_.get();
  const std::lock_guard lock(mine.device_mutex);
  device_usage sum;
  for (const auto& [number, service] : mine.devices) {
    const device_usage each = service->usage();
    sum.page_locked_bytes += each.page_locked_bytes;
    sum.wave_bytes += each.wave_bytes;
    sum.result_bytes += each.result_bytes;
  }
  return sum;
}

// A copy to wait on, because the lock is not held while waiting.
std::vector<std::shared_ptr<device_service>> context_state::shared::all_devices() {
  std::vector<std::shared_ptr<device_service>> out;
  const std::lock_guard lock(device_mutex);
  for (const auto& [number, service] : devices) out.push_back(service);
  return out;
}

result<> context_state::device_outcome() {
  for (const auto& each : shared_.get().all_devices()) PENSTOCK_TRY(each->outcome());
  return {};
}

std::shared_ptr<profiler> context_state::recording() {
  shared& mine = shared_.get();
  if (!mine.is_recording.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(mine.mutex);
  return mine.recording;
}

bool context_state::start_recording(std::uint64_t max_events) {
  shared& mine = shared_.get();
  const std::lock_guard lock(mine.mutex);
  if (mine.recording) return false;
  mine.recording = std::make_shared<profiler>(max_events);
  mine.is_recording.store(true, std::memory_order_relaxed);
  return true;
}

std::shared_ptr<profiler> context_state::stop_recording() {
  shared& mine = shared_.get();
  if (mine.is_recording.load(std::memory_order_relaxed))
    for (const auto& each : mine.all_devices()) each->settle();
  const std::lock_guard lock(mine.mutex);
  mine.is_recording.store(false, std::memory_order_relaxed);
  return std::move(mine.recording);
}

void context_state::clear_caches() {
  shared& mine = shared_.get();
  mine.indexes.clear();
  mine.cells.clear();
  mine.outputs.clear();
  std::vector<std::pair<int, std::shared_ptr<device_service>>> broken;  // their end may take some time
  {
    const std::lock_guard lock(mine.device_mutex);
    const auto rest = std::stable_partition(mine.devices.begin(), mine.devices.end(),
                                            [](const auto& each) { return each.second->clear(); });
    std::move(rest, mine.devices.end(), std::back_inserter(broken));
    mine.devices.erase(rest, mine.devices.end());
  }
  mine.background_reads->clear();
  const std::lock_guard lock(mine.mutex);
  mine.uids.clear();
  mine.idle_jobs.clear();
  mine.idle_workers.clear();
  mine.idle_writes.clear();
}

}  // namespace penstock::inline v0
