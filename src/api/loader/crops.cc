#include <penstock/crops.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "api/device_tensor_state.h"
#include "api/loader/crop_sources.h"
#include "api/read_source.h"
#include "array/check_view.h"
#include "engine/array_state.h"
#include "engine/borrowed_job.h"
#include "engine/read_job.h"

namespace penstock::inline v0 {
namespace {

result<> check_out(const extents& shape, const tensor_view& out) {
  if (out.extents == shape) return check_view(out, "out");
  return error(errc::invalid_argument,
               fmt::format("out has shape {}, the crops {}", to_string(out.extents), to_string(shape)));
}

}  // namespace

result<ticket> read_crops_async(std::span<const array_crop> crops, const tensor_view& out,
                                const read_options& options) {
  PENSTOCK_ASSIGN(const extents shape, crops_shape(crops));
  if (out.space != memory_space::host) return error(errc::invalid_argument, "out is not host memory");
  PENSTOCK_TRY(check_out(shape, out));
  for (const array_crop& each : crops) {
    if (!(each.from.type() == out.type))
      return error(errc::invalid_argument,
                   fmt::format("out has dtype {}, an array {}", out.type.name(), each.from.type().name()))
          .note("array '" + each.from.uri() + "'");
  }
  context_state& state = crops[0].from.context()->state();
  auto job = state.take_background_job();
  crop_sources made = sources_of(crops, out.data, out.strides);
  if (is_empty(shape)) made.sources.clear();
  read_job::settings settings;
  settings.workers = state.workers_for(options.threads);
  settings.io_concurrency = state.io_concurrency();
  settings.limits.trim_cells = settings.limits.whole_objects = true;
  settings.keep_alive = std::move(made.keep_alive);
  settings.note = made.note;
  const unsigned most = settings.workers;
  job->begin(made.sources, std::move(settings));
  try {
    state.executor().start(job, job->total_cells() < 2 || job->total_bytes() <= kMinParallelReadBytes ? 1 : most);
  } catch (const std::system_error&) {
    return error(errc::resource_exhausted, "the system has no thread for a read").note(std::move(made.note));
  }
  return ticket(std::move(job));
}

result<device_tensor> read_crops_to_device(std::span<const array_crop> crops, const std::optional<tensor_view>& out,
                                           const device_read_options& options) {
  PENSTOCK_ASSIGN(const extents shape, crops_shape(crops));
  const auto type = options.type ? *options.type : crops[0].from.type();
  if (!options.type) {
    for (const array_crop& each : crops) {
      if (!(each.from.type() == type))
        return error(errc::invalid_argument, fmt::format("the arrays are of {} and {}: set the dtype of the crops",
                                                         type.name(), each.from.type().name()))
            .note("array '" + each.from.uri() + "'");
    }
  }
  if (out) PENSTOCK_TRY(check_out(shape, *out));
  int device = options.device;
  if (device < 0) {
    PENSTOCK_ASSIGN(device, current_device());
  }
  const auto& first = crops[0].from;
  PENSTOCK_ASSIGN(auto engine, device_tensor_state::engine_of(first.context()->state(), device));
  auto state = std::make_shared<device_tensor_state>(std::move(engine), first.shared_state());
  PENSTOCK_TRY(state->take_memory(shape, type, out));
  if (!is_empty(shape)) {
    crop_sources made = sources_of(crops, state->view_.data, state->view_.strides);
    PENSTOCK_TRY(state->begin(made.sources, std::move(made.keep_alive), std::move(made.note), options));
  }
  device_tensor tensor(std::move(state));
  if (options.check) PENSTOCK_TRY(tensor.outcome());
  return tensor;
}

}  // namespace penstock::inline v0
