#include "api/loader/loader_window.h"

#include <algorithm>
#include <chrono>
#include <string>

#include <fmt/format.h>

#include "base/checked.h"
#include "engine/array_state.h"
#include "plan/rechunk_plan.h"

namespace penstock::inline v0 {
namespace {

constexpr std::chrono::milliseconds kBetweenQuestions{20};
/// Encoded bytes are counted as this part of the decoded ones, or more: chunks may be larger than those before.
constexpr std::uint64_t kLeastPart = 4;

std::uint64_t bytes_of(const dtype& type, const extents& shape) {
  std::uint64_t bytes = type.item_bytes();
  for (const std::uint64_t length : shape) bytes *= length;
  return bytes;
}

std::uint64_t bytes_of_largest_chunk(const array& of) {
  const chunk_grid& grid = of.state().layout->grid();
  std::uint64_t bytes = of.type().item_bytes();
  for (std::size_t d = 0; d < grid.rank(); ++d) bytes *= longest_cell(grid.axis(d));
  return bytes;
}

// None, if a chunk does not fit in `early`, or if early reads would take memory from chunks that stay for the next
// epoch.
std::uint64_t early_limit(const std::vector<array>& arrays, std::uint64_t limit, std::uint64_t early) {
  std::uint64_t bytes = 0;
  bool is_possible = false;
  for (const array& each : arrays) {
    bytes = saturating_add(bytes, bytes_of(each.type(), each.shape()));
    is_possible = is_possible || (early_read::is_possible(each) && bytes_of_largest_chunk(each) <= early);
  }
  return is_possible && bytes > limit ? early : 0;
}

}  // namespace

std::uint64_t longest_cell(const grid_axis& of) {
  if (of.is_uniform()) return of.cells() == 0 ? 0 : std::min(of.codec_length(0), of.extent());
  std::uint64_t longest = 0;
  for (std::uint64_t i = 0; i < of.cells(); ++i) longest = std::max(longest, of.valid_length(i));
  return longest;
}

loader_window::loader_window(const std::vector<array>& arrays, std::uint64_t limit_bytes, std::uint64_t early_bytes,
                             unsigned most_reads)
    : early_limit_(early_limit(arrays, limit_bytes, early_bytes)),
      limit_(limit_bytes - early_limit_),
      most_reads_(most_reads) {
  chunk_number first = 0;
  for (const array& each : arrays) {
    sources_.push_back(
        {&each, first, bytes_of_largest_chunk(each), early_limit_ != 0 && early_read::is_possible(each), {}});
    first += each.state().layout->grid().cells();
  }
}

void loader_window::begin(std::vector<chunk_number> uses, std::vector<std::uint64_t> samples) {
  uses_ = std::move(uses);
  samples_ = std::move(samples);
  next_.assign(uses_.size(), kNever);
  ahead_ = released_ = next_early_ = 0;
  sample_ = 0;
  was_read_.assign(uses_.size(), false);
  std::unordered_map<chunk_number, std::uint64_t> later;
  for (std::size_t i = uses_.size(); i-- > 0;) {
    const auto [at, is_last] = later.try_emplace(uses_[i], i);
    if (!is_last) next_[i] = std::exchange(at->second, i);
  }
  by_next_use_.clear();
  for (auto& [number, each] : chunks_) {
    const auto at = later.find(number);
    each.last_use = 0;
    each.next_use = at == later.end() ? kNever : at->second;
    by_next_use_.insert(order_of(number, each));
  }
  const std::lock_guard lock(mutex_);
  counts_.chunks_read = counts_.bytes_read = counts_.chunks_again = 0;
}

void loader_window::set_uses(chunk_number which, chunk& of, std::uint64_t last, std::uint64_t next) {
  auto entry = by_next_use_.extract(order_of(which, of));
  if (entry.empty()) entry = std::move(idle_order_);
  of.last_use = last;
  of.next_use = next;
  if (entry.empty()) {
    by_next_use_.insert(order_of(which, of));
  } else {
    entry.value() = order_of(which, of);
    by_next_use_.insert(std::move(entry));
  }
}

loader_window::chunk& loader_window::add_chunk(chunk_number which) {
  if (idle_chunk_.empty()) return chunks_[which];
  idle_chunk_.key() = which;
  idle_chunk_.mapped() = chunk();
  return chunks_.insert(std::move(idle_chunk_)).position->second;
}

std::size_t loader_window::source_of(chunk_number which) const noexcept {
  std::size_t at = sources_.size() - 1;
  while (sources_[at].first > which) --at;
  return at;
}

result<> loader_window::read_ahead() {
  const auto has_ended = [&](chunk_number which) {
    const auto at = chunks_.find(which);
    return at == chunks_.end() || at->second.is_here();
  };
  while (!under_way_.empty() && has_ended(under_way_.front())) under_way_.pop_front();
  while (ahead_ < uses_.size() && under_way_.size() < most_reads_) {
    while (samples_[sample_ + 1] <= ahead_) ++sample_;
    const chunk_number which = uses_[ahead_];
    const bool starts = !chunks_.contains(which);
    if (starts) {
      const std::size_t owner = source_of(which);
      output_block memory;
      PENSTOCK_ASSIGN(const bool is_room, make_room(owner, memory));
      if (!is_room) break;
      PENSTOCK_TRY(start(which, owner, std::move(memory), was_read_[ahead_]));
    }
    if (next_[ahead_] != kNever) was_read_[next_[ahead_]] = starts || was_read_[ahead_];
    set_uses(which, chunks_.at(which), ahead_ + 1, next_[ahead_]);
    ++ahead_;
  }
  return request_early();
}

// Requests the chunks after those that have memory.
result<> loader_window::request_early() {
  next_early_ = std::max(next_early_, ahead_);
  for (; early_limit_ != 0 && next_early_ < uses_.size(); ++next_early_) {
    const chunk_number which = uses_[next_early_];
    const std::size_t owner = source_of(which);
    if (!sources_[owner].is_early || chunks_.contains(which) || early_.contains(which)) continue;
    const std::uint64_t bytes = likely_bytes(sources_[owner].cell_bytes);
    if (early_bytes_ + bytes > early_limit_ || under_way_.size() + early_.size() >= most_reads_) break;
    PENSTOCK_ASSIGN(early_read read, early_read::begin(*sources_[owner].from, box_of_chunk(which, owner)));
    early_.emplace(which, early_chunk{std::move(read), bytes});
    early_bytes_ += bytes;
  }
  return {};
}

std::uint64_t loader_window::likely_bytes(std::uint64_t decoded) const noexcept {
  if (decoded_bytes_ == 0) return decoded;
  const double ratio = static_cast<double>(encoded_bytes_) / static_cast<double>(decoded_bytes_);
  return std::max(decoded / kLeastPart, static_cast<std::uint64_t>(static_cast<double>(decoded) * ratio));
}

// The chunk that is needed latest, except those of the current sample.
std::optional<loader_window::chunk_number> loader_window::least_needed() const {
  for (auto at = by_next_use_.rbegin(); at != by_next_use_.rend(); ++at) {
    const chunk_number which = std::get<2>(*at);
    const chunk& of = chunks_.at(which);
    const bool is_of_sample = of.last_use > samples_[sample_] || of.next_use < samples_[sample_ + 1];
    if (!is_of_sample) return which;
  }
  return std::nullopt;
}

// Memory for a chunk of the current sample; false: not before a chunk that must be dropped has been used.
result<bool> loader_window::make_room(std::size_t owner, output_block& out) {
  source& of = sources_[owner];
  while (true) {
    if (!of.free.empty()) {
      out = std::move(of.free.back());
      of.free.pop_back();
      return true;
    }
    if (bytes_ + of.cell_bytes <= limit_) {
      PENSTOCK_ASSIGN(out, of.from->context()->state().outputs().take(of.cell_bytes));
      add_bytes(static_cast<std::int64_t>(of.cell_bytes));
      return true;
    }
    // Idle memory of arrays with chunks of another size, then a chunk that can be dropped.
    const auto idle =
        std::find_if(sources_.begin(), sources_.end(), [](const source& each) { return !each.free.empty(); });
    if (idle != sources_.end()) {
      idle->free.pop_back();
      add_bytes(-static_cast<std::int64_t>(idle->cell_bytes));
      continue;
    }
    const auto spared = least_needed();
    if (!spared) return error(errc::internal, "the window has no room for the chunks of a sample");
    if (chunks_.at(*spared).last_use > released_) return false;
    drop(*spared);
  }
}

result<> loader_window::start(chunk_number which, std::size_t owner, output_block memory, bool again) {
  const array& from = *sources_[owner].from;
  const resolved_selection chunk_box = box_of_chunk(which, owner);
  chunk& made = add_chunk(which);
  made.memory = std::move(memory);
  made.owner = owner;
  set_uses(which, made, 0, ahead_);
  if (auto early = early_.extract(which)) {
    early_bytes_ -= early.mapped().bytes;
    made.early.emplace(std::move(early.mapped().read));
    made.early->give_target(made.memory.data());
  } else {
    read_options options;
    options.threads = 1;
    const auto to = tensor_view::contiguous(made.memory.data(), from.type(), chunk_box.shape);
    auto read = from.read_async(chunk_box, to, options);
    if (!read.ok()) {
      drop(which);
      return std::move(read).error();
    }
    made.read = std::move(*read);
  }
  made.reading = true;
  under_way_.push_back(which);
  const std::lock_guard lock(mutex_);
  ++counts_.chunks_read;
  counts_.chunks_again += again ? 1 : 0;
  counts_.bytes_read += bytes_of(from.type(), chunk_box.shape);
  return {};
}

resolved_selection loader_window::box_of_chunk(chunk_number which, std::size_t owner) const {
  const box place = box_of(sources_[owner].from->state().layout->grid(), which - sources_[owner].first);
  resolved_selection out;
  out.shape = place.size;
  for (std::size_t d = 0; d < place.size.size(); ++d) {
    out.from.push_back({static_cast<std::int64_t>(place.origin[d]), 1, place.size[d]});
    out.axis.push_back(static_cast<std::int8_t>(d));
  }
  return out;
}

void loader_window::drop(chunk_number which) {
  const auto at = chunks_.find(which);
  chunk& of = at->second;
  of.read = ticket();  // cancelled, and waited for: it writes to the memory
  of.early.reset();
  idle_order_ = by_next_use_.extract(order_of(which, of));
  sources_[of.owner].free.push_back(std::move(of.memory));
  idle_chunk_ = chunks_.extract(at);
}

bool loader_window::are_here(std::uint64_t first, std::uint64_t last) const {
  if (last > ahead_) return false;
  for (std::uint64_t use = first; use < last; ++use) {
    const auto at = chunks_.find(uses_[use]);
    if (at == chunks_.end() || !at->second.is_here()) return false;
  }
  return true;
}

result<> loader_window::wait(std::uint64_t first, std::uint64_t last, const std::function<bool()>& may_go_on) {
  for (std::uint64_t use = first; use < last; ++use) {
    while (use >= ahead_) {
      PENSTOCK_TRY(read_ahead());
      if (use < ahead_) break;
      // The maximum number of reads is running: wait for the oldest one. (All uses before this one are done.)
      if (under_way_.empty()) return error(errc::internal, "nothing is read for a sample");
      chunks_.at(under_way_.front()).under_way().wait_for(kBetweenQuestions);
      if (!may_go_on()) return error(errc::cancelled, "the loader was stopped");
    }
    chunk& of = chunks_.at(uses_[use]);
    if (!of.reading) continue;
    while (!of.under_way().wait_for(kBetweenQuestions))
      if (!may_go_on()) return error(errc::cancelled, "the loader was stopped");
    const auto outcome = of.under_way().wait();
    end_read(of, outcome.ok());
    if (!outcome.ok()) {
      error why = outcome.error().clone();
      drop(uses_[use]);
      return why;
    }
  }
  return {};
}

void loader_window::end_read(chunk& of, bool ended_well) {
  if (of.early && ended_well) {
    encoded_bytes_ += of.early->encoded_bytes();
    decoded_bytes_ += sources_[of.owner].cell_bytes;
  }
  of.reading = false;
  of.read = ticket();
  of.early.reset();
}

void loader_window::stop() {
  for (auto& [number, each] : early_) each.read.under_way().cancel();
  for (auto& [number, each] : chunks_)
    if (each.reading) each.under_way().cancel();
  early_.clear();
  early_bytes_ = 0;
  std::vector<chunk_number> unfinished;
  for (auto& [number, each] : chunks_)
    if (each.reading) unfinished.push_back(number);
  for (const chunk_number each : unfinished) drop(each);
  under_way_.clear();
}

void loader_window::add_bytes(std::int64_t bytes) {
  bytes_ += static_cast<std::uint64_t>(bytes);
  const std::lock_guard lock(mutex_);
  counts_.window_bytes = bytes_;
  counts_.peak_window_bytes = std::max(counts_.peak_window_bytes, bytes_);
}

loader_counts loader_window::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace penstock::inline v0
