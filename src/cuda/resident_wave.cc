#include "cuda/resident_wave.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/nvtx.h"
#include "cuda/decode/host_run.h"
#include "cuda/decode/nvcomp.h"

namespace penstock::inline v0::cuda {
namespace {

using device::aligned;

constexpr std::byte kUnwritten{0xa5};

std::byte* pointer(std::uint64_t at) { return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(at)); }

bool is_zstd(device::kernel_id kernel) {
  return kernel == device::kernel_id::zstd_literals || kernel == device::kernel_id::zstd_sequences ||
         kernel == device::kernel_id::zstd_execute || kernel == device::kernel_id::zstd_checksum;
}

}  // namespace

result<std::unique_ptr<resident_wave>> resident_wave::make(int ordinal, std::span<const device::device_step> steps,
                                                           std::span<const chunk> chunks,
                                                           const device::nvcomp* library) {
  if (ordinal == kHost && library != nullptr) return error(errc::unsupported, "nvCOMP does not decode on the host");
  PENSTOCK_ASSIGN(device::decode_wave planned, device::decode_wave::make(steps, true, {library}));
  std::unique_ptr<resident_wave> made(new resident_wave(std::move(planned)));
  made->library_ = library;
  PENSTOCK_TRY(made->start(ordinal, chunks));
  return made;
}

result<> resident_wave::start(int ordinal, std::span<const chunk> chunks) {
  std::uint64_t used = 0;
  const auto place = [&](std::uint64_t bytes) { return std::exchange(used, used + aligned(bytes)); };
  for (const chunk& each : chunks) sources_.push_back(place(each.encoded.size()));
  first_target_ = used;
  for (const chunk& each : chunks) {
    targets_.push_back(place(each.decoded_bytes));
    target_bytes_.push_back(each.decoded_bytes);
  }
  end_of_targets_ = used;
  statuses_ = place(chunks.size() * sizeof(std::uint32_t));
  // Addresses count from the block's start until its size is known, which the wave determines from its chunks.
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    PENSTOCK_TRY(planned_.add({chunks[i].encoded, sources_[i], targets_[i], chunks[i].decoded_bytes}));
  }
  std::uint64_t descriptors = place(planned_.descriptor_bytes());
  workspace_ = place(planned_.workspace_bytes());

  if (ordinal == kHost) {
    host_memory_.resize(used + 256);
    allocated_ = aligned(reinterpret_cast<std::uintptr_t>(host_memory_.data()));
  } else {
    PENSTOCK_ASSIGN(driver_, load_driver());
    if (ordinal < 0 || ordinal >= driver_->devices)
      return error(errc::invalid_argument, "there is no device cuda:" + std::to_string(ordinal));
    PENSTOCK_TRY(driver_->check(driver_->device_get(&device_, ordinal), "cuDeviceGet"));
    PENSTOCK_TRY(driver_->check(driver_->primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain"));
    const current_context current(*driver_, context_);
    kernels_ = std::make_unique<kernel_module>(*driver_);
    PENSTOCK_TRY(kernels_->load());
    PENSTOCK_TRY(driver_->check(driver_->stream_create(&stream_, kStreamNonBlocking), "cuStreamCreate"));
    PENSTOCK_TRY(driver_->check(driver_->mem_alloc(&allocated_, std::max<std::uint64_t>(used, 1)), "cuMemAlloc"));
  }
  for (std::uint64_t* const at : {&statuses_, &workspace_, &first_target_, &end_of_targets_, &descriptors})
    *at += allocated_;
  planned_.clear();
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    sources_[i] += allocated_;
    targets_[i] += allocated_;
    PENSTOCK_TRY(write(sources_[i], chunks[i].encoded));
    PENSTOCK_TRY(planned_.add({chunks[i].encoded, sources_[i], targets_[i], chunks[i].decoded_bytes}));
  }
  std::vector<std::byte> tables(planned_.descriptor_bytes());
  planned_.emit(tables, descriptors, workspace_, statuses_, launches_);
  PENSTOCK_TRY(write(descriptors, tables));
  return clear();
}

resident_wave::~resident_wave() {
  if (driver_ == nullptr) return;
  if (context_ != nullptr) {
    const current_context current(*driver_, context_);
    if (stream_ != nullptr) driver_->stream_synchronize(stream_);
    for (const event_ref each : events_) driver_->event_destroy(each);
    if (allocated_ != 0) driver_->mem_free(allocated_);
    if (stream_ != nullptr) driver_->stream_destroy(stream_);
    if (kernels_) kernels_->unload();
  }
  if (context_ != nullptr) driver_->primary_context_release(device_);
}

std::string_view resident_wave::kernel(std::size_t launch) const noexcept {
  const device::kernel_id which = launches_[launch].kernel;
  return which == device::kernel_id::nvcomp ? "nvcomp" : device::kernel_name(which);
}

result<> resident_wave::clear() {
  PENSTOCK_TRY(fill(first_target_, kUnwritten, end_of_targets_ - first_target_));
  PENSTOCK_TRY(fill(workspace_, kUnwritten, planned_.workspace_bytes()));
  PENSTOCK_TRY(fill(statuses_, std::byte{0}, planned_.chunks() * sizeof(std::uint32_t)));
  return synchronize();
}

result<> resident_wave::run(std::size_t launch) {
  PENSTOCK_TRY(queue(launch));
  return synchronize();
}

result<std::vector<float>> resident_wave::decode() {
  std::vector<float> out(launches_.size(), 0.0F);
  if (driver_ == nullptr) {
    PENSTOCK_TRY(clear());
    for (std::size_t i = 0; i < launches_.size(); ++i) PENSTOCK_TRY(queue(i));
    return out;
  }
  const current_context current(*driver_, context_);
  while (events_.size() <= launches_.size()) {
    event_ref made = nullptr;
    PENSTOCK_TRY(driver_->check(driver_->event_create(&made, 0), "cuEventCreate"));
    events_.push_back(made);
  }
  // The host queues the launches while the device fills the outputs, so the time between the events does not include
  // the host's work.
  PENSTOCK_TRY(fill(statuses_, std::byte{0}, planned_.chunks() * sizeof(std::uint32_t)));
  PENSTOCK_TRY(fill(first_target_, kUnwritten, end_of_targets_ - first_target_));
  const nvtx_scope range(nvtx_name::decode);  // time of the launches alone
  for (std::size_t i = 0; i <= launches_.size(); ++i) {
    PENSTOCK_TRY(driver_->check(driver_->event_record(events_[i], stream_), "cuEventRecord"));
    if (i < launches_.size()) PENSTOCK_TRY(queue(i));
  }
  PENSTOCK_TRY(synchronize());
  for (std::size_t i = 0; i < launches_.size(); ++i)
    PENSTOCK_TRY(driver_->check(driver_->event_elapsed_ms(&out[i], events_[i], events_[i + 1]), "cuEventElapsedTime"));
  return out;
}

// The workspace begins with the data between the steps of a chain; each region ends where the next one begins.
result<std::vector<resident_wave::region>> resident_wave::workspace() const {
  std::vector<std::pair<std::uint64_t, std::string_view>> starts{{workspace_, "intermediates"}};
  for (const device::kernel_launch& each : launches_) {
    if (!is_zstd(each.kernel)) continue;
    device::zstd_wave wave{};
    std::memcpy(&wave, each.argument.data(), sizeof wave);
    starts.insert(starts.end(), {{wave.results, "block_results"},
                                 {wave.frame_starts, "frame_starts"},
                                 {wave.literals, "literals"},
                                 {wave.sequences, "sequences"}});
    break;
  }
  std::stable_sort(starts.begin(), starts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<region> out;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::uint64_t end = i + 1 < starts.size() ? starts[i + 1].first : workspace_ + planned_.workspace_bytes();
    PENSTOCK_ASSIGN(std::vector<std::byte> bytes, read(starts[i].first, end - starts[i].first));
    if (!bytes.empty()) out.push_back({starts[i].second, std::move(bytes)});
  }
  return out;
}

result<std::vector<std::byte>> resident_wave::output(std::size_t number) const {
  return read(targets_[number], target_bytes_[number]);
}

result<std::vector<std::uint32_t>> resident_wave::statuses() const {
  std::vector<std::uint32_t> out(planned_.chunks());
  PENSTOCK_ASSIGN(const auto bytes, read(statuses_, out.size() * sizeof(std::uint32_t)));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

result<> resident_wave::queue(std::size_t launch) {
  device::kernel_launch& what = launches_[launch];
  if (driver_ == nullptr) {
    device::run_on_host(what.kernel, what.grid, what.threads, what.argument.data());
    return {};
  }
  const current_context current(*driver_, context_);
  if (what.kernel == device::kernel_id::nvcomp) {
    device::nvcomp_call call;
    std::memcpy(&call, what.argument.data(), sizeof call);
    PENSTOCK_TRY(fill(call.outcomes, std::byte{0xff}, call.count * sizeof(std::int32_t)));
    return library_->decode(call, stream_);
  }
  void* argument[] = {what.argument.data()};
  return driver_->check(driver_->launch_kernel(kernels_->decoder(what.kernel), what.grid, 1, 1, what.threads, 1, 1, 0,
                                               stream_, argument, nullptr),
                        "cuLaunchKernel");
}

result<> resident_wave::fill(std::uint64_t at, std::byte value, std::uint64_t bytes) {
  if (bytes == 0) return {};
  if (driver_ == nullptr) {
    std::memset(pointer(at), static_cast<int>(value), bytes);
    return {};
  }
  const current_context current(*driver_, context_);
  return driver_->check(driver_->set_bytes(at, static_cast<unsigned char>(value), bytes, stream_), "cuMemsetD8Async");
}

result<> resident_wave::write(std::uint64_t at, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  if (driver_ == nullptr) {
    std::memcpy(pointer(at), bytes.data(), bytes.size());
    return {};
  }
  const current_context current(*driver_, context_);
  PENSTOCK_TRY(driver_->check(driver_->copy_to_device(at, bytes.data(), bytes.size(), stream_), "cuMemcpyHtoDAsync"));
  return synchronize();  // the driver may read ordinary memory later
}

result<std::vector<std::byte>> resident_wave::read(std::uint64_t at, std::uint64_t bytes) const {
  std::vector<std::byte> out(bytes);
  if (bytes == 0) return out;
  if (driver_ == nullptr) {
    std::memcpy(out.data(), pointer(at), bytes);
    return out;
  }
  const current_context current(*driver_, context_);
  PENSTOCK_TRY(driver_->check(driver_->copy_to_host(out.data(), at, bytes, stream_), "cuMemcpyDtoHAsync"));
  PENSTOCK_TRY(synchronize());
  return out;
}

result<> resident_wave::synchronize() const {
  if (driver_ == nullptr) return {};
  const current_context current(*driver_, context_);
  return driver_->check(driver_->stream_synchronize(stream_), "cuStreamSynchronize");
}

}  // namespace penstock::inline v0::cuda
