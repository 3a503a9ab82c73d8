#include "api/copy/copy_pieces.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "engine/batch_job.h"
#include "engine/context_state.h"

namespace penstock::inline v0 {
namespace {

constexpr std::chrono::milliseconds kPollInterval{20};

}  // namespace

result<> copy_pieces::run(std::size_t count, unsigned workers, bool waits, const piece_fn& piece) {
  const auto work = [&](std::size_t i, unsigned) -> result<> {
    std::uint64_t bytes = 0;
    PENSTOCK_TRY(piece(i, bytes));
    done_bytes_ += bytes;
    return report();
  };
  const auto all = std::make_shared<batch_job>(count, work, waits);
  const std::size_t useful = std::clamp<std::size_t>(count, 1, std::max(1U, workers));
  std::function<void()> poll;  // the calling thread may wait for the pieces of others, and only it sees signals
  if (options_.progress) {
    poll = [&] {
      if (!goes_on()) all->cancel();
    };
  }
  with_.executor().run(all, static_cast<unsigned>(useful), poll, kPollInterval);
  if (stopped_) return error(errc::cancelled, "the copy was stopped");
  PENSTOCK_TRY(all->outcome());
  return reported_bytes_ == done_bytes_ ? result<>() : report();
}

result<> copy_pieces::report() {
  if (!options_.progress) return {};
  const std::unique_lock lock(mutex_, std::try_to_lock);  // the next report or `run` includes a skipped one
  if (!lock.owns_lock()) return {};
  if (!stopped_) {
    reported_bytes_ = done_bytes_;
    stopped_ = !options_.progress({path_, reported_bytes_, total_bytes_});
  }
  if (!stopped_) return {};
  return error(errc::cancelled, "the copy was stopped");
}

}  // namespace penstock::inline v0
