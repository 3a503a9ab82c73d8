#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "bind.h"

namespace penstock::inline v0::python {

/// Calls `work` with the GIL released. `work` receives a function to call between cells, and its interval. The function
/// checks for Ctrl-C on the main thread and calls `progress` (None: none) with (bytes done, bytes in all) about ten
/// times a second and once at the end; `bytes` is the total if it is not known otherwise.
///
/// False: a Python exception is set.
bool watch_without_gil(nb::handle progress, std::uint64_t bytes,
                       const std::function<result<>(const progress_fn&, std::chrono::nanoseconds)>& work) noexcept;

/// Reads with the GIL released, checks for Ctrl-C meanwhile on the main thread, and calls `progress` (None: none) with
/// (bytes done, bytes in all) about ten times a second and once at the end.
///
/// False: a Python exception is set.
bool read_without_gil(array from, const resolved_basic& which, const tensor_view& out, unsigned threads,
                      nb::handle progress, std::shared_ptr<item_arena> arena = nullptr) noexcept;
bool read_without_gil(array from, const resolved_selection& which, const tensor_view& out, unsigned threads,
                      nb::handle progress, std::shared_ptr<item_arena> arena = nullptr) noexcept;

/// Waits that many seconds (< 0: for ever) by calls of `wait_for` without the GIL, and checks for Ctrl-C in between.
/// Returns true if `wait_for` did.
bool wait_and_look(double seconds, const std::function<bool(std::chrono::nanoseconds)>& wait_for);
/// A function that calls `then` from any thread, while the interpreter lives.
std::function<void()> call_from_any_thread(nb::object then);

/// A background read of a Python program.
class ticket_handle {
 public:
  ticket_handle(ticket started, nb::object result, exported_buffer out) noexcept
      : result_(std::move(result)), out_(std::move(out)), ticket_(std::move(started)) {}
  ticket_handle(ticket_handle&&) noexcept = default;
  ~ticket_handle();

  bool done() const noexcept { return ticket_.done(); }
  void cancel();
  /// True when the read has ended within that many seconds (< 0: waits for ever); checks for Ctrl-C.
  bool wait_for(double seconds);
  /// The array that was filled; raises if the read failed.
  nb::object result();
  nb::tuple progress() const;
  void on_done(nb::object then);

 private:
  nb::object result_;
  exported_buffer out_;  // stays exported until the workers are done with it
  ticket ticket_;
};

void bind_ticket(nb::module_& m);

}  // namespace penstock::inline v0::python
