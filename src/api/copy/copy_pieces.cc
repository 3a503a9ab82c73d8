#include "api/copy/copy_pieces.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/batch_job.h"
#include "engine/context_state.h"

namespace penstock::inline v0 {

result<> copy_pieces::run(std::size_t count, unsigned workers, bool waits, const piece_fn& piece) {
  const auto work = [&](std::size_t i, unsigned) -> result<> {
    std::uint64_t bytes = 0;
    PENSTOCK_TRY(piece(i, bytes));
    done_bytes_ += bytes;
    return report();
  };
  const auto all = std::make_shared<batch_job>(count, work, waits);
  const std::size_t useful = std::clamp<std::size_t>(count, 1, std::max(1U, workers));
  with_.executor().run(all, static_cast<unsigned>(useful), {}, {});
  PENSTOCK_TRY(all->outcome());
  return reported_bytes_ == done_bytes_ ? result<>() : report();
}

result<> copy_pieces::report() {
  if (!options_.progress) return {};
  const std::unique_lock lock(mutex_, std::try_to_lock);  // the next report or `run` includes a skipped one
  if (!lock.owns_lock()) return {};
  reported_bytes_ = done_bytes_;
  if (options_.progress({path_, reported_bytes_, total_bytes_})) return {};
  return error(errc::cancelled, "the copy was stopped");
}

}  // namespace penstock::inline v0
