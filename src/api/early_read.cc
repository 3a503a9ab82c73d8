#include "api/early_read.h"

#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "api/read_source.h"
#include "array/strided_copy.h"
#include "engine/array_state.h"
#include "engine/context_state.h"
#include "engine/pool_executor.h"
#include "engine/read_job.h"

namespace penstock::inline v0 {

bool early_read::is_possible(const array& from) noexcept {
  const array_state& state = from.state();
  return !state.closed && !state.parts && !state.type.variable_length() && !state.store->traits().inline_completion;
}

result<early_read> early_read::begin(const array& from, const resolved_basic& which) {
  const array_state& state = from.state();
  context_state& with = state.context->state();
  const source wanted = source_of(state, which, c_order_strides(which.shape, state.type.item_bytes()), nullptr);
  auto job = with.take_background_job();
  read_job::settings settings;
  settings.io_concurrency = with.io_concurrency();
  settings.limits.trim_cells = settings.limits.whole_objects = true;
  settings.waits_for_target = true;
  settings.keep_alive = from.shared_state();
  settings.note = fmt::format("array '{}'", state.uri);
  job->begin({&wanted, 1}, std::move(settings));
  try {
    with.executor().start(job, 1);
  } catch (const std::system_error&) {
    return error(errc::resource_exhausted, "the system has no thread for a read");
  }
  return early_read(std::move(job));
}

early_read::early_read(std::shared_ptr<read_job> job) noexcept : job_(job.get()), read_(std::move(job)) {}

void early_read::give_target(std::byte* to) { job_->give_target(to); }
std::uint64_t early_read::encoded_bytes() const noexcept { return job_->encoded_bytes(); }

}  // namespace penstock::inline v0
