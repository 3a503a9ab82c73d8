#include <penstock/context.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include <fmt/format.h>

#include "cuda/decode/nvcomp.h"
#include "engine/context_state.h"

namespace penstock::inline v0 {
namespace {

result<std::shared_ptr<disk_cache>> open_disk_cache(const context_options& options) {
  constexpr double kLongestTrust = 1e9;  // three decades
  const double trust = options.disk_cache_trust_s;
  if (!(trust >= 0))
    return error(errc::invalid_argument,
                 fmt::format("the trust of a disk cache must be 0 seconds or more, got {}", trust));
  disk_cache_options how;
  how.folder = options.disk_cache;
  if (options.disk_cache_limit_bytes != 0) how.limit_bytes = options.disk_cache_limit_bytes;
  how.trust = std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(trust, kLongestTrust) * 1e9));
  how.warn = options.on_warning;
  return disk_cache::open(std::move(how));
}

}  // namespace

result<std::shared_ptr<context>> context::make(const context_options& options) {
  constexpr unsigned kMaxThreads = 1024;
  if (options.threads > kMaxThreads) return error(errc::invalid_argument, "a context takes at most 1024 threads");
  if (options.device_decoder == "nvcomp") {
    PENSTOCK_TRY(device::nvcomp::load(options.nvcomp_library));
  } else if (!options.device_decoder.empty() && options.device_decoder != "penstock") {
    return error(errc::invalid_argument,
                 fmt::format("unknown decoder '{}': use 'penstock' or 'nvcomp'", options.device_decoder));
  }
  auto state = std::make_shared<context_state>(options);
  if (!options.disk_cache.empty()) {
    PENSTOCK_ASSIGN(auto cache, open_disk_cache(options));
    state->set_disk_cache(std::move(cache));
  }
  return std::make_shared<context>(std::move(state));
}

context::context(std::shared_ptr<context_state> state) noexcept : state_(std::move(state)) {}
context::~context() = default;

unsigned context::threads() const noexcept { return state_->threads(); }

std::string context::device_decoder() const {
  if (state_->options().device_decoder != "nvcomp") return "penstock";
  const auto loaded = device::nvcomp::load();
  return loaded.ok() ? "nvcomp " + (*loaded)->version() : "nvcomp";
}

context_usage context::usage() const {
  const ledger& accounts = state_->accounts();
  context_usage out;
  out.scratch_bytes = accounts.held(memory_use::scratch);
  out.encoded_bytes = accounts.held(memory_use::encoded);
  out.index_bytes = accounts.held(memory_use::index);
  out.output_pool_bytes = accounts.held(memory_use::output_pool);
  out.peak_scratch_bytes = accounts.peak(memory_use::scratch);
  out.peak_encoded_bytes = accounts.peak(memory_use::encoded);
  out.peak_index_bytes = accounts.peak(memory_use::index);
  const device_usage devices = state_->devices_usage();
  out.page_locked_bytes = devices.page_locked_bytes;
  out.device_wave_bytes = devices.wave_bytes;
  out.device_result_bytes = devices.result_bytes;
  out.index_hits = state_->indexes().hits();
  out.index_misses = state_->indexes().misses();
  out.chunk_cache_bytes = accounts.held(memory_use::cells);
  out.chunk_hits = state_->cells().hits();
  if (state_->disk_cache() != nullptr) {
    const disk_cache_usage disk = state_->disk_cache()->usage();
    out.disk_cache_bytes = disk.bytes;
    out.disk_cache_hits = disk.hits;
    out.disk_cache_misses = disk.misses;
    out.disk_cache_damaged = disk.damaged;
  }
  return out;
}

result<> context::synchronize() {
  // Waits for both, even if the first one fails.
  auto written = state_->writes().flush();
  auto read = state_->device_outcome();
  if (written.ok()) return read;
  if (!read.ok()) return std::move(written).error().note("a read also failed:  " + read.error().to_string());
  return written;
}

void context::clear_caches() { state_->clear_caches(); }

result<> context::start_profile(std::uint64_t max_events) {
  if (!state_->start_recording(max_events)) return error(errc::conflict, "a profile of this context is being recorded");
  return {};
}

profile_report context::stop_profile() {
  const std::shared_ptr<profiler> recording = state_->stop_recording();
  return recording ? recording->finish() : profile_report();
}

}  // namespace penstock::inline v0
