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

void profiler::record_kernel(const char* name, std::uint64_t ns) {
  const std::lock_guard lock(mutex_);
  auto found = std::find_if(report_.kernels.begin(), report_.kernels.end(),
                            [&](const profile_kernel& each) { return each.name == name; });
  if (found == report_.kernels.end()) found = report_.kernels.insert(found, {name, 0, 0});
  found->busy_ns += ns;
  ++found->launches;
}

void profiler::record_request(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  ++report_.store_requests;
  report_.store_bytes += bytes;
}

namespace {

// How long at least one of the events was under way.
std::uint64_t covered_ns(const std::vector<profile_event>& events, bool (*counts)(const profile_event&)) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;
  for (const profile_event& each : events)
    if (counts(each)) spans.emplace_back(each.begin_ns, each.end_ns);
  std::sort(spans.begin(), spans.end());
  std::uint64_t sum = 0, until = 0;
  for (const auto& [begin, end] : spans) {
    if (end > until) sum += end - std::max(begin, until);
    until = std::max(until, end);
  }
  return sum;
}

bool is_of_device(const profile_event& each) noexcept { return each.worker >= kDeviceWorker; }
bool is_of_storage(const profile_event& each) noexcept {
  return !is_of_device(each) && (each.what == stage::fetch || each.what == stage::index);
}

}  // namespace

profile_report profiler::finish() {
  const std::lock_guard lock(mutex_);
  profile_report out = std::move(report_);
  report_ = profile_report();
  out.wall_ns = last_ns_ > first_ns_ ? last_ns_ - first_ns_ : 0;
  out.workers = workers_;
  const std::uint64_t busy = covered_ns(out.events, is_of_device);
  out.device.computing_ns = covered_ns(
      out.events, [](const profile_event& each) { return is_of_device(each) && each.what != stage::transfer; });
  out.device.copying_ns = covered_ns(
      out.events, [](const profile_event& each) { return is_of_device(each) && each.what == stage::transfer; });
  out.device.waiting_ns = out.wall_ns - std::min(out.wall_ns, busy);
  out.device.storage_ns =
      covered_ns(out.events, [](const profile_event& each) { return is_of_device(each) || is_of_storage(each); }) -
      busy;
  for (std::size_t i = 0; i < kStages; ++i) {
    sums_[i].what = static_cast<stage>(i);
    out.stages.push_back(sums_[i]);
  }
  return out;
}

}  // namespace penstock::inline v0
