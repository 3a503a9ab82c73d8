#include "driver/hdf5_heap_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <penstock/extend/store.h>
#include "engine/batch_job.h"
#include "engine/context_state.h"

namespace penstock::inline v0 {
namespace {

// The cell of a key; nullopt: it does not exist or has no value.
std::optional<std::uint64_t> cell_of(std::string_view key, const hdf5_variable_cells& in) {
  const chunk_grid& grid = in.grid();
  dim_vector<std::uint64_t> at;
  for (std::size_t d = 0; d < grid.rank(); ++d) {
    const std::size_t end = std::min(key.find('.'), key.size());
    std::uint64_t number = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + end, number);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + end || number >= grid.axis(d).cells())
      return std::nullopt;
    at.push_back(number);
    key.remove_prefix(std::min(end + 1, key.size()));
  }
  const std::uint64_t cell = grid.id(at);
  return in.has(cell) ? std::optional(cell) : std::nullopt;
}

void complete(const byte_read& wanted, result<hdf5_variable_cells::cell_bytes> cell, completion_sink& sink) {
  if (!cell.ok()) return sink.complete(wanted.tag, std::move(cell).error());
  const auto bytes = std::make_shared<const hdf5_variable_cells::cell_bytes>(std::move(*cell));
  sink.complete(wanted.tag, answer_from(wanted, *bytes, {}, bytes));
}

}  // namespace

/// A read of a cell that has a value.
struct hdf5_heap_store::waiting_read {
  std::uint64_t cell = 0;
  byte_read wanted;
  std::span<const std::uint64_t> items;
  completion_sink* sink = nullptr;
  std::stop_token stop;
};

/// Reads that wait for a thread. The first free thread runs all of them.
class hdf5_heap_store::batches {
 public:
  explicit batches(std::shared_ptr<const hdf5_variable_cells> of) noexcept : of_(std::move(of)) {}

  void add(std::vector<waiting_read> reads) {
    const std::lock_guard lock(mutex_);
    for (waiting_read& each : reads) waiting_.push_back(std::move(each));
  }

  void take_all() {
    const std::lock_guard one_at_a_time(reading_);
    std::vector<waiting_read> all;
    {
      const std::lock_guard lock(mutex_);
      all.swap(waiting_);
    }
    answer(all);
  }

  void answer(std::span<waiting_read> reads) const {
    const std::size_t together = hdf5_cells_together(of_->grid());
    while (!reads.empty()) {
      std::vector<hdf5_cell_request> cells;
      for (std::size_t i = 0; i < std::min(reads.size(), together) && !reads[i].stop.stop_requested(); ++i)
        cells.push_back({reads[i].cell, reads[i].items});
      if (cells.empty()) {
        reads.front().sink->complete(reads.front().wanted.tag, error(errc::cancelled, "the read was cancelled"));
        reads = reads.subspan(1);
        continue;
      }
      std::vector<result<hdf5_variable_cells::cell_bytes>> made = of_->read(cells);
      for (std::size_t i = 0; i < made.size(); ++i) complete(reads[i].wanted, std::move(made[i]), *reads[i].sink);
      reads = reads.subspan(made.size());
    }
  }

 private:
  std::shared_ptr<const hdf5_variable_cells> of_;
  std::mutex reading_, mutex_;  // mutex_: for waiting_
  std::vector<waiting_read> waiting_;
};

hdf5_heap_store::hdf5_heap_store(std::shared_ptr<const hdf5_variable_cells> of, std::shared_ptr<context> with)
    : of_(std::move(of)), batches_(std::make_shared<batches>(of_)), with_(std::move(with)) {}

store_traits hdf5_heap_store::traits() const {
  const store_traits file = of_->traits();
  store_traits out;
  out.blocking = file.blocking;
  out.inline_completion = file.inline_completion;
  out.lends_bytes = true;
  out.sizes = true;
  return out;
}

void hdf5_heap_store::read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const {
  std::vector<item_read> all;
  for (const byte_read& each : reads) all.push_back({each});
  read_items(all, sink, std::move(stop));
}

void hdf5_heap_store::read_items(std::span<const item_read> reads, completion_sink& sink, std::stop_token stop) const {
  std::vector<waiting_read> accepted;
  for (const auto& [read, items] : reads) {
    if (const auto cell = cell_of(read.key, *of_))
      accepted.push_back({*cell, read, items, &sink, stop});
    else
      sink.complete(read.tag, error(errc::not_found, fmt::format("no chunk '{}'", read.key)));
  }
  if (accepted.empty()) return;
  if (traits().inline_completion) return batches_->answer(accepted);
  batches_->add(std::move(accepted));
  constexpr bool kWaits = true;
  const auto take = [of = batches_](std::size_t, unsigned) {
    of->take_all();
    return result<>();
  };
  with_->state().executor().start(std::make_shared<batch_job>(1, take, kWaits), 1);
}

std::string hdf5_heap_store::uri() const { return of_->uri(); }

}  // namespace penstock::inline v0
