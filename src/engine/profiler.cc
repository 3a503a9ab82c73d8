#include "engine/profiler.h"

#include <algorithm>
#include <utility>

namespace penstock::inline v0 {

std::string_view to_string(stage which) noexcept {
  switch (which) {
    case stage::plan:
      return "plan";
    case stage::index:
      return "index";
    case stage::fetch:
      return "fetch";
    case stage::decode:
      return "decode";
    case stage::scatter:
      return "scatter";
    case stage::fill:
      return "fill";
    case stage::transfer:
      return "transfer";
    case stage::encode:
      return "encode";
    case stage::commit:
      return "commit";
    case stage::compute:
      return "compute";
  }
  return "?";
}

void profiler::record(const profile_event& event) {
  const std::lock_guard lock(mutex_);
  profile_stage& sum = sums_[static_cast<std::size_t>(event.what)];
  sum.busy_ns += event.end_ns - event.begin_ns;
  ++sum.operations;
  sum.bytes_in += event.bytes_in;
  sum.bytes_out += event.bytes_out;
  first_ns_ = std::min(first_ns_, event.begin_ns);
  last_ns_ = std::max(last_ns_, event.end_ns);
  if (event.worker < kDeviceWorker) workers_ = std::max(workers_, event.worker + 1);
  if (report_.events.size() < max_events_) {
    report_.events.push_back(event);
  } else {
    ++report_.dropped_events;
  }
}

void profiler::record_request(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  ++report_.store_requests;
  report_.store_bytes += bytes;
}

profile_report profiler::finish() {
  const std::lock_guard lock(mutex_);
  profile_report out = std::move(report_);
  report_ = profile_report();
  out.wall_ns = last_ns_ > first_ns_ ? last_ns_ - first_ns_ : 0;
  out.workers = workers_;
  for (std::size_t i = 0; i < kStages; ++i) {
    sums_[i].what = static_cast<stage>(i);
    out.stages.push_back(sums_[i]);
  }
  return out;
}

}  // namespace penstock::inline v0
