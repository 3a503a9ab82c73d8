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
  record_shares(event);
  if (report_.events.size() < max_events_) {
    report_.events.push_back(event);
  } else {
    ++report_.dropped_events;
  }
}

void profiler::record_kernel(const char* name, std::uint64_t ns, std::uint64_t launches) {
  const std::lock_guard lock(mutex_);
  auto found = std::find_if(report_.kernels.begin(), report_.kernels.end(),
                            [&](const profile_kernel& each) { return each.name == name; });
  if (found == report_.kernels.end()) found = report_.kernels.insert(found, {name, 0, 0});
  found->busy_ns += ns;
  found->launches += launches;
}

void profiler::record_request(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  ++report_.store_requests;
  report_.store_bytes += bytes;
}

namespace {

bool is_of_device(const profile_event& each) noexcept { return each.worker >= kDeviceWorker; }
bool is_of_storage(const profile_event& each) noexcept {
  return !is_of_device(each) && (each.what == stage::fetch || each.what == stage::index);
}

}  // namespace

void profiler::device_times::add(const profile_event& event) {
  (event.what == stage::transfer ? copying : computing).add(event.begin_ns, event.end_ns);
  busy.add(event.begin_ns, event.end_ns);
  busy_or_storage.add(event.begin_ns, event.end_ns);
}

void profiler::device_times::write(profile_device& out, std::uint64_t wall_ns) const {
  out.computing_ns = computing.sum_ns();
  out.copying_ns = copying.sum_ns();
  out.waiting_ns = wall_ns - std::min(wall_ns, busy.sum_ns());
  out.storage_ns = busy_or_storage.sum_ns() - busy.sum_ns();
}

void profiler::record_shares(const profile_event& event) {
  if (is_of_storage(event)) {
    storage_.add(event.begin_ns, event.end_ns);
    all_devices_.busy_or_storage.add(event.begin_ns, event.end_ns);
    for (auto& [ordinal, times] : devices_) times.busy_or_storage.add(event.begin_ns, event.end_ns);
  }
  if (!is_of_device(event)) return;
  all_devices_.add(event);
  const auto [found, is_new] = devices_.try_emplace(event.device);
  if (is_new) found->second.busy_or_storage = storage_;
  found->second.add(event);
}

profile_report profiler::finish() {
  const std::lock_guard lock(mutex_);
  profile_report out = std::move(report_);
  report_ = profile_report();
  out.wall_ns = last_ns_ > first_ns_ ? last_ns_ - first_ns_ : 0;
  out.workers = workers_;
  all_devices_.write(out.device, out.wall_ns);
  for (const auto& [ordinal, times] : devices_) {
    profile_device& one = out.devices.emplace_back();
    one.ordinal = ordinal;
    times.write(one, out.wall_ns);
  }
  for (std::size_t i = 0; i < kStages; ++i) {
    sums_[i].what = static_cast<stage>(i);
    out.stages.push_back(sums_[i]);
  }
  return out;
}

}  // namespace penstock::inline v0
