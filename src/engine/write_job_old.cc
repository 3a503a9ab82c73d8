// How much a write_job reads of an object before it changes it: nothing, its version, or all of it.

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "base/checked.h"
#include "base/thrown.h"
#include "codec/codec_chain.h"
#include "engine/context_state.h"
#include "engine/index_io.h"
#include "engine/write_fence.h"
#include "engine/write_job.h"
#include "engine/write_job_parts.h"

namespace penstock::inline v0 {
namespace {

constexpr unsigned kTriesWithoutPause = 2;
constexpr std::chrono::microseconds kFirstPause{100}, kLongestPause{20'000};

// The pause before an object is tried again. Pauses grow, and differ, so that writers do not collide again.
void pause_before(unsigned tries, std::uint64_t salt) {
  if (tries <= kTriesWithoutPause) return;
  const auto most =
      std::min(kLongestPause, kFirstPause * (std::int64_t{1} << std::min(tries - kTriesWithoutPause, 16U)));
  salt = (salt + tries) * 0x9E3779B97F4A7C15U;
  const auto part = static_cast<std::int64_t>(salt >> 33 & 1023);
  std::this_thread::sleep_for(most * part / 1024);
}

}  // namespace

// Begins to read the old object. If its elements are all replaced, its version may be sufficient.
void write_job::load(guard& lock, open_object& of, unsigned worker) {
  begin_work(lock, of);
  pause_before(of.tries, reinterpret_cast<std::uintptr_t>(&of) + worker + of.object);
  of.worker = worker;
  of.old = read_done();
  of.existed = of.blind = false;
  if (!of.replaced) return ask(lock, of, true);
  if (versions_) return ask(lock, of, false);
  const auto enough = needs_no_bytes(of);
  if (enough.ok() && !*enough) return ask(lock, of, true);
  loaded(lock, of, enough.ok() ? result<>() : result<>(enough.error().clone()));
}

// Requests the old object's bytes, or its version, from the store. Called without the lock, and returns with it but
// without the object: the completion may have arrived, and another worker may have it.
void write_job::ask(guard& lock, open_object& of, bool for_bytes) {
  of.asked_for_bytes = for_bytes;
  of.flight_ns = now();
  byte_read read;
  read.key = of.key;
  read.buffer = &of.reader;
  if (for_bytes) {
    read.max_bytes = most_old_bytes(of);
  } else {
    read.range.length = 0;
  }
  lock.lock();
  // Bytes to be read are counted now: many objects may be requested before the first arrives.
  if (for_bytes) hold_old_bytes(of, std::min(read.max_bytes, state_->accounts().memory_limit() / 2));
  const std::uint64_t flight = begin_flight(of);
  lock.unlock();
  try {
    of.from->store->read({&read, 1}, of.reader, stop_flights_.get_token());
  } catch (const std::exception& thrown) {
    if (is_in_flight(of, flight)) arrived(of, thrown_error("the store", thrown));
  }
  lock.lock();
}

// The completion of the store, on any thread.
void write_job::arrived(open_object& of, result<read_done> done) {
  const guard lock(mutex_);
  hold_old_bytes(of, done.ok() ? done->bytes.size() : 0);
  of.answer.emplace(std::move(done));
  of.flight = 0;
  of.what = open_object::phase::answered;
  --flights_;
  wake_idle();
}

// Called with the lock held.
void write_job::hold_old_bytes(open_object& of, std::uint64_t bytes) noexcept {
  held_old_bytes_ -= of.old_bytes_held;
  held_old_bytes_ += of.old_bytes_held = bytes;
}

void write_job::take_answer(guard& lock, open_object& of, unsigned worker) {
  begin_work(lock, of);
  of.worker = worker;
  if (profiler_) profiler_->record_request(of.old_bytes_held);
  if (of.asked_for_bytes) {
    record(stage::fetch, worker, of.object, of.flight_ns, of.old_bytes_held, 0);
    return loaded(lock, of, take_bytes(of));
  }
  const auto enough = take_version(of);
  if (enough.ok() && !*enough) return ask(lock, of, true);
  loaded(lock, of, enough.ok() ? result<>() : result<>(enough.error().clone()));
}

// For an object whose elements are all replaced: its version, and whether that is sufficient.
result<bool> write_job::take_version(open_object& of) {
  result<read_done> done = std::move(*of.answer);
  of.answer.reset();
  if (!done.ok() && done.error().code() != errc::not_found)
    return std::move(done).error().note(read_note(of.key, {0, 0, false}));
  if (!done.ok()) {
    of.blind = true;
    PENSTOCK_TRY(locate(of, nullptr));
    begin_again(of);
    return true;
  }
  if (!done->seen.known()) return false;
  of.old.seen = std::move(done->seen);
  PENSTOCK_ASSIGN(const bool enough, needs_no_bytes(of));
  if (!enough) of.old = read_done();
  return enough;
}

// Whether an object whose elements are all replaced, and whose version is known, needs no more of the old one.
result<bool> write_job::needs_no_bytes(open_object& of) {
  // In this order: elements that are written beyond the edge after the version was read make the put fail; earlier ones
  // are visible as a running append, or as a longer array.
  if (careful_) PENSTOCK_TRY(with_.fence->check());
  if (with_.edges != nullptr && !with_.edges->quiet()) return false;
  of.existed = of.blind = true;
  PENSTOCK_TRY(locate(of, nullptr));
  begin_again(of);
  return true;
}

// Finds the cells to be changed in the old object.
result<> write_job::take_bytes(open_object& of) {
  result<read_done> done = std::move(*of.answer);
  of.answer.reset();
  if (done.ok()) {
    of.old = std::move(*done);
    of.existed = true;
  } else if (done.error().code() != errc::not_found) {
    return std::move(done).error().note(read_note(of.key, {}));
  }
  if (careful_) PENSTOCK_TRY(with_.fence->check());
  result<> located = locate(of, of.existed ? &of.old.bytes : nullptr);
  if (!located.ok()) return std::move(located).error().note(read_note(of.key, {}));
  begin_again(of);
  return {};
}

// All needed data of the old object is read, or that failed. Returns with the lock held.
void write_job::loaded(guard& lock, open_object& of, result<> outcome) {
  lock.lock();
  --active_;
  if (!outcome.ok()) {
    fail(of.key, std::move(outcome).error());
  } else {
    of.what = of.unfinished == 0 ? open_object::phase::commit : open_object::phase::encode;
  }
}

// The largest expected size of an old object: its cells and its index, and as much again for gaps.
std::uint64_t write_job::most_old_bytes(const open_object& of) const {
  const chunk_layout& layout = *layout_;
  const std::uint64_t cell_bytes = layout.chains()[of.cells[0].chain].max_encoded_bytes();
  if (of.is_cell) return cell_bytes;
  constexpr std::uint64_t kIndexBytes = 64, kMarginBytes = std::uint64_t{1} << 20;
  dim_vector<std::uint64_t> object, cell;
  layout.write_grid().coordinates(of.object, object);
  layout.grid().coordinates(of.cells[0].cell, cell);
  std::uint64_t bytes = 0;
  bool fits = checked_add(cell_bytes, kIndexBytes, bytes);
  for (std::size_t d = 0; d < object.size() && fits; ++d) {
    // Includes cells beyond the array's edge: the array may have been larger.
    const std::uint64_t length = layout.write_grid().axis(d).codec_length(object[d]);
    const std::uint64_t step = layout.grid().axis(d).codec_length(cell[d]);
    fits = checked_mul(bytes, length / step + (length % step != 0), bytes);
  }
  fits = fits && checked_mul(bytes, 2, bytes) && checked_add(bytes, kMarginBytes, bytes);
  return fits ? bytes : byte_range::kAll;
}

write_job::open_object::old_bytes::old_bytes(open_object& of)
    : of_(of), small_(&of.job.state_->accounts(), memory_use::encoded) {}

void write_job::open_object::old_bytes::complete(std::uint64_t, result<read_done> done) {
  of_.job.arrived(of_, std::move(done));
}

result<std::span<std::byte>> write_job::open_object::old_bytes::reserve(std::uint64_t bytes) {
  if (bytes <= kOwnMemoryBytes) return small_.reserve(bytes);
  if (large_.bytes() < bytes) {
    large_ = output_block();
    PENSTOCK_ASSIGN(large_, of_.job.state_->outputs().take(bytes));
  }
  return std::span(large_.data(), static_cast<std::size_t>(bytes));
}

void write_job::open_object::old_bytes::forget() { large_ = output_block(); }

}  // namespace penstock::inline v0
