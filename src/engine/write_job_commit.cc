// How a write_job puts an object whose cells are encoded.

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/thrown.h"
#include "engine/context_state.h"
#include "engine/write_fence.h"
#include "engine/write_job.h"
#include "engine/write_job_parts.h"

namespace penstock::inline v0 {
namespace {

/// An object that other writers changed this many times between its read and its put is given up.
constexpr unsigned kMaxTries = 200;

}  // namespace

void write_job::commit(guard& lock, open_object& of, unsigned worker) {
  begin_work(lock, of);
  of.worker = worker;
  of.flight_ns = now();
  auto ready = assemble(of, worker);
  if (ready.ok() && *ready && !inline_writes_) {
    lock.lock();
    const std::uint64_t flight = begin_flight(of);
    lock.unlock();
    try {
      with_.to->write({&**ready, 1}, of.writer, stop_flights_.get_token());
    } catch (const std::exception& thrown) {
      if (is_in_flight(of, flight)) put_ended(of, thrown_error("the store", thrown));
    }
    lock.lock();
    return;
  }
  result<> done;
  std::unique_ptr<staged_object> begun;
  if (!ready.ok()) {
    done = std::move(ready).error();
  } else if (*ready) {
    auto outcome = put(of, **ready);
    if (outcome.ok()) {
      begun = std::move(*outcome);
    } else {
      done = std::move(outcome).error();
    }
  }
  const std::uint64_t bytes = done.ok() ? of.assembled.bytes : 0;
  record(stage::commit, worker, of.object, of.flight_ns, bytes, bytes);
  lock.lock();
  --active_;
  if (begun) {
    staged_.push_back({std::move(begun), of.from, std::move(of.touched), of.object, of.key, bytes, of.tries});
    staged_bytes_ += bytes;
    close(of);
    return;
  }
  ended(of, std::move(done));
}

// The new state of the object in storage; nullopt if it does not change.
result<std::optional<byte_write>> write_job::assemble(open_object& of, unsigned worker) {
  std::vector<new_cell>& cells = workers_[worker]->new_cells;
  cells.clear();
  of.assembled.clear();
  for (const touched_cell& each : of.cells) {
    if (each.unchanged) continue;
    cells.push_back({each.cell, each.bytes, each.absent});
  }
  if (cells.empty()) return std::optional<byte_write>();
  const part* const old = of.existed && !of.blind ? &of.old.bytes : nullptr;
  PENSTOCK_TRY(
      caught("the layout", [&] { return layout_->assembler()->assemble(of.object, old, cells, of.assembled); }));

  byte_write out;
  out.key = of.key;
  out.parts = of.assembled.parts;
  out.erases = of.assembled.empty();
  if (out.erases && !of.existed && !of.covered) return std::optional<byte_write>();
  out.condition.durable = with_.durable;
  if (with_.fence != nullptr && !careful_) out.condition.guard = with_.fence->guard();
  if (!of.covered && versions_) {
    if (!of.existed) {
      out.condition.what = write_condition::kind::must_be_absent;
    } else if (of.old.seen.known()) {
      out.condition.what = write_condition::kind::must_match;
      out.condition.expected = of.old.seen;
    }
  }
  return std::optional<byte_write>(std::move(out));
}

// Stages or puts the object, or erases it, and waits for that. Null: no work remains.
result<std::unique_ptr<staged_object>> write_job::put(open_object& of, const byte_write& what) {
  result<> done;
  if (what.erases) {
    done = caught("the store", [&] { return with_.to->erase(what.key, what.condition); });
  } else {
    // A single object gains nothing by waiting, and one that other writers keep changing loses.
    if (total_objects_ > 1 && of.tries == 0) {
      const auto staging = [&] { return with_.to->stage(what.key, what.parts, what.condition); };
      PENSTOCK_ASSIGN(std::unique_ptr<staged_object> begun, caught("the store", staging));
      if (begun) return begun;
    }
    auto seen = caught("the store", [&] { return with_.to->put(what.key, what.parts, what.condition); });
    if (!seen.ok()) done = std::move(seen).error();
  }
  // Also after a failure: the state of the store is not known then.
  if (of.from->uid != 0) state_->indexes().drop(of.from->uid, of.object);
  if (!done.ok()) return std::move(done).error();
  return std::unique_ptr<staged_object>();
}

void write_job::open_object::written::complete(std::uint64_t, result<version> done) {
  of_.job.put_ended(of_, std::move(done));
}

// The end of an object's put or erase; on any thread.
void write_job::put_ended(open_object& of, result<version> done) {
  // Also after a failure: the state of the store is not known then.
  if (of.from->uid != 0) state_->indexes().drop(of.from->uid, of.object);
  const std::uint64_t bytes = done.ok() ? of.assembled.bytes : 0;
  record(stage::commit, of.worker, of.object, of.flight_ns, bytes, bytes);
  const guard lock(mutex_);
  of.flight = 0;
  --flights_;
  ++flights_ended_;
  for (const auto& each : objects_) each->waits_for_memory = false;
  const bool stopped = cancelled_ && !done.ok() && done.error().code() == errc::cancelled;
  if (stopped) {
    close(of);
  } else {
    ended(of, done.ok() ? result<>() : result<>(std::move(done).error()));
  }
  wake_idle();
}

// Called with the lock held: an object is done, or begins again, or fails.
void write_job::ended(open_object& of, result<> outcome) {
  if (outcome.ok()) {
    ++written_;
    close(of);
    return;
  }
  if (outcome.error().code() != errc::version_changed) {
    fail(of.key, std::move(outcome).error());
  } else if (++of.tries > kMaxTries) {
    fail(of.key,
         error(errc::conflict, fmt::format("'{}' kept changing while it was written, {} times", of.key, of.tries)));
  }
  of.what = open_object::phase::load;
}

// Publishes all staged objects.
void write_job::publish(guard& lock, unsigned worker) {
  std::vector<staged> batch = std::exchange(staged_, {});
  staged_bytes_ = 0;
  ++active_;
  ++publishing_;
  lock.unlock();
  const std::uint64_t begin_ns = now();
  std::vector<std::unique_ptr<staged_object>> objects;
  objects.reserve(batch.size());
  for (staged& each : batch) objects.push_back(std::move(each.object));
  std::vector<result<version>> outcomes;
  try {
    outcomes = with_.to->publish(objects);
  } catch (const std::exception& thrown) {
    for (std::size_t i = 0; i < batch.size(); ++i) outcomes.emplace_back(thrown_error("the store", thrown));
  }
  objects.clear();
  std::uint64_t bytes = 0;
  for (const staged& each : batch) {
    bytes += each.bytes;
    if (each.from->uid != 0) state_->indexes().drop(each.from->uid, each.id);
  }
  record(stage::commit, worker, batch.front().id, begin_ns, bytes, bytes);
  lock.lock();
  --active_;
  --publishing_;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (outcomes[i].ok()) {
      ++written_;
    } else if (outcomes[i].error().code() == errc::version_changed) {
      ++batch[i].tries;
      again_.push_back(std::move(batch[i]));
    } else {
      fail(batch[i].key, std::move(outcomes[i]).error());
    }
  }
}

}  // namespace penstock::inline v0
