// The requests of a read_job: those to be made, those in flight, and those completed.

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/nvtx.h"
#include "base/thrown.h"
#include "engine/context_state.h"
#include "engine/index_io.h"
#include "engine/read_job.h"
#include "engine/read_job_parts.h"

namespace penstock::inline v0 {
namespace {

/// The most that an encoder may add to incompressible values, in addition to a small fraction of them.
constexpr std::uint64_t kLittleMore = 1024;

}  // namespace

// The sink's buffer for the next request. Returns false if no memory is free for its bytes yet. Called with the lock
// held.
bool read_job::take_buffer() {
  const fetch_op& op = current_->plan.fetches[current_->next_fetch];
  if (!with_.sink || op.what == request::none) return true;
  std::uint64_t likely = op.decode_count == 0 ? 0 : op.range.length;
  if (op.decode_count != 0 && op.range.whole()) {
    const codec_chain& chain =
        sources_[current_->plan.source].layout->chains()[current_->plan.decodes[op.first_decode].chain];
    likely = std::min(chain.max_encoded_bytes(), chain.decoded_bytes() + chain.decoded_bytes() / 64 + kLittleMore);
  }
  sink_buffer_ = with_.sink->take_buffer(likely);
  return sink_buffer_ != nullptr;
}

void read_job::issue_fetch(guard& lock, unsigned worker) {
  piece& of = *current_;
  const source& from = sources_[of.plan.source];
  const auto next = [&] {
    const std::size_t which = of.next_fetch++;
    if (of.next_fetch == of.plan.fetches.size()) current_ = nullptr;
    return which;
  };
  const item_store* const items = with_.sink || with_.failures != nullptr ? nullptr : item_store_of(from);
  ++active_;
  if (of.plan.fetches[of.next_fetch].what == request::none || from.store->traits().inline_completion) {
    const std::size_t which = next();
    const fetch_op& op = of.plan.fetches[which];
    find_kept(of, op);
    read_buffer* const sunk = std::exchange(sink_buffer_, nullptr);
    lock.unlock();
    if (op.what == request::none) {
      finish_fetch(lock, of, which, worker, read_done());
      return;
    }
    worker_state& mine = *workers_[worker];
    mine.sunk = sunk;
    byte_read read;
    if (auto bad = request_of(of, op, mine.where, read)) {
      finish_fetch(lock, of, which, worker, std::move(*bad));
      return;
    }
    read.buffer = sunk != nullptr ? sunk : &mine;
    mine.arrived.reset();
    {
      timed_stage timing = time(stage::fetch, worker, which);
      const nvtx_scope range(nvtx_name::disk);
      if (items != nullptr) {
        const item_read wanted{read, items_of(from, of.plan, op, mine.where, mine.items)};
        items->read_items({&wanted, 1}, mine, stop_source_.get_token());
      } else {
        mine.read_from(*from.store, read, stop_source_.get_token());
      }
      if (timing.is_recorded() && mine.arrived && mine.arrived->ok()) timing.moved((*mine.arrived)->bytes.size(), 0);
    }
    finish_fetch(lock, of, which, worker, mine.take());
    return;
  }
  std::array<byte_read, kRequestsAtOnce> batch;
  std::array<item_read, kRequestsAtOnce> wanted;
  std::array<std::uint64_t, kRequestsAtOnce> launches{};
  std::size_t count = 0;
  std::optional<std::pair<std::size_t, error>> refused;
  while (count < kRequestsAtOnce && current_ == &of && of.plan.fetches[of.next_fetch].what != request::none &&
         !refused && may_send() && (sink_buffer_ != nullptr || take_buffer())) {
    const std::size_t which = next();
    byte_read& read = batch[count];
    find_kept(of, of.plan.fetches[which]);
    if (auto bad = request_of(of, of.plan.fetches[which], workers_[worker]->where, read)) {
      refused.emplace(which, std::move(*bad));
      workers_[worker]->sunk = std::exchange(sink_buffer_, nullptr);
      break;
    }
    launches[count++] = launch(read, &of, which, likely_bytes(of, of.plan.fetches[which], read));
    if (items != nullptr)
      wanted[count - 1] = {
          read, items_of(from, of.plan, of.plan.fetches[which], workers_[worker]->where, flights_[read.tag]->items)};
  }
  lock.unlock();
  try {
    if (count != 0 && items != nullptr)
      items->read_items(std::span(wanted).first(count), *this, stop_source_.get_token());
    else if (count != 0)
      from.store->read(std::span(batch).first(count), *this, stop_source_.get_token());
  } catch (const std::exception& thrown) {
    refuse(std::span(batch).first(count), launches, thrown_error("the store", thrown));
  }
  if (refused) {
    finish_fetch(lock, of, refused->first, worker, std::move(refused->second));
  } else {
    lock.lock();
    --active_;
  }
}

// Fills in the request of a fetch; an error if the index states a longer range than a cell can have.
std::optional<error> read_job::request_of(const piece& of, const fetch_op& op, placement& where, byte_read& out) const {
  const source& from = sources_[of.plan.source];
  const plan_object& object = of.plan.objects[op.object];
  out = byte_read();
  out.key = object.key;
  out.range = op.range;
  out.expected = &object.expected;
  out.same_handle = object.pinned;
  if (is_kept(of, op)) {
    out.range = {0, 0, false};
    out.expected = &of.kept[op.first_decode]->seen;
    return std::nullopt;
  }
  if (op.decode_count == 0) return std::nullopt;
  const decode_op& first = of.plan.decodes[op.first_decode];
  const codec_chain& chain = from.layout->chains()[first.chain];
  if (op.what == request::object) {
    out.max_bytes = op.max_bytes;
  } else if (op.range.whole()) {
    out.max_bytes = chain.max_encoded_bytes();
  } else if (op.decode_count == 1 && op.range.length > chain.max_encoded_bytes()) {
    return error(errc::corrupt_data, fmt::format("chunk takes {} bytes, its shape allows at most {}", op.range.length,
                                                 chain.max_encoded_bytes()));
  }
  if (op.in_place && place_cell(from, first.cell, where))
    out.destination = {where.target.data,
                       static_cast<std::size_t>(op.range.whole() ? chain.decoded_bytes() : op.range.length)};
  return std::nullopt;
}

// The counted size of a request in flight. The bound of a whole object is twice the output of any reasonable encoder,
// and most compress; counting the bound would leave a slow store with few requests in flight.
std::uint64_t read_job::likely_bytes(const piece& of, const fetch_op& op, const byte_read& read) const noexcept {
  if (!read.range.whole()) return read.range.length;
  const codec_chain& chain = sources_[of.plan.source].layout->chains()[of.plan.decodes[op.first_decode].chain];
  if (op.what == request::object) return op.decode_count * chain.decoded_bytes() / 2;
  // Elements of variable length have no bound: as if the bytes of each were as many as those of its variable_item.
  return chain.max_encoded_bytes() == kUnbounded ? chain.decoded_bytes() : read.max_bytes / 4;
}

// Counts a request that completes later and assigns a buffer and a tag. Returns its number. Called with the lock held.
std::uint64_t read_job::launch(byte_read& read, piece* of, std::size_t which, std::uint64_t bytes) {
  if (free_flights_.empty()) {
    free_flights_.push_back(flights_.size());
    flights_.push_back(std::make_unique<flight>(&state_->accounts()));
  }
  const std::uint64_t tag = free_flights_.back();
  free_flights_.pop_back();
  flight& out = *flights_[tag];
  out.of = of;
  out.which = which;
  out.counted_bytes = bytes;
  out.begin_ns = profiler_ ? profiler_->now() : 0;
  read.buffer = &out;
  if (of != nullptr) out.sunk = std::exchange(sink_buffer_, nullptr);
  if (out.sunk != nullptr) read.buffer = out.sunk;
  out.range = nvtx_start(nvtx_name::disk);
  read.tag = tag;
  ++in_flight_;
  flight_bytes_ += bytes;
  return out.launch = ++launches_;
}

// Completes those of the requests that the store did not complete before it threw an exception. A tag may be that of a
// later request already.
void read_job::refuse(std::span<const byte_read> sent, std::span<const std::uint64_t> launches, const error& why) {
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const guard lock(mutex_);
    if (flights_[sent[i].tag]->launch == launches[i]) arrive(sent[i].tag, why.clone());
  }
}

void read_job::complete(std::uint64_t tag, result<read_done> done) {
  const guard lock(mutex_);
  arrive(tag, std::move(done));
}

// Called with the lock held.
void read_job::arrive(std::uint64_t tag, result<read_done> done) {
  flights_[tag]->launch = 0;
  flights_[tag]->arrived.emplace(std::move(done));
  nvtx_end(std::exchange(flights_[tag]->range, 0));
  arrived_.push_back(tag);
  somebody_idles_ = false;
  wake();
}

void read_job::take_arrived(guard& lock, unsigned worker) {
  const std::uint64_t tag = arrived_.back();
  arrived_.pop_back();
  flight& from = *flights_[tag];
  result<read_done> done = std::move(*from.arrived);
  from.arrived.reset();
  ++active_;
  lock.unlock();
  if (profiler_ && done.ok())
    timed(from.of ? stage::fetch : stage::index, worker, from.begin_ns, from.which, done->bytes.size(), 0);
  if (from.of == nullptr) {
    finish_index(lock, from.which, worker, std::move(done));
  } else {
    workers_[worker]->sunk = from.sunk;
    from.sunk = nullptr;
    finish_fetch(lock, *from.of, from.which, worker, std::move(done));
  }
  --in_flight_;
  flight_bytes_ -= from.counted_bytes;
  free_flights_.push_back(tag);
}

}  // namespace penstock::inline v0
