#include "bind_read.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace penstock::inline v0::python {
namespace {

using clock = std::chrono::steady_clock;

// How long Ctrl-C may wait. Taking the GIL from a busy Python thread costs milliseconds, so not more often.
constexpr std::chrono::nanoseconds kBetweenReports = std::chrono::milliseconds(100);

// Checks for signals and reports progress, on the reading thread.
class watcher {
 public:
  explicit watcher(nb::handle progress) noexcept : progress_(progress), signals_(is_main_thread()) {}

  bool operator()(const read_progress& now) noexcept {
    total_ = now.total_bytes;
    if (!signals_ && interpreter_is_ending()) return false;
    if (!signals_ && progress_.is_none()) return true;
    const auto time = clock::now();
    if (polled_ == clock::time_point()) polled_ = time;  // the first check: a read that ends before it needs no clock
    const bool report = !progress_.is_none() && time - reported_ >= kBetweenReports;
    if (!report && time - polled_ < kPoll / 2) return true;
    polled_ = time;
    const with_gil gil;
    if (signals_ && PyErr_CheckSignals() < 0) {
      stash_exception();
      return false;
    }
    return !report || call(now.done_bytes, now.total_bytes);
  }

  // After a successful read, so that users see that it has ended.
  bool finish(std::uint64_t bytes) noexcept {
    if (progress_.is_none()) return true;
    const std::uint64_t total = total_ != 0 ? total_ : bytes;
    return call(total, total);
  }

 private:
  bool call(std::uint64_t done, std::uint64_t total) noexcept {
    reported_ = clock::now();
    try {
      return !progress_(done, total).is(nb::handle(Py_False));
    } catch (nb::python_error& failed) {
      failed.restore();
      stash_exception();
      return false;
    } catch (const std::exception& failed) {
      set_error(failed);
      stash_exception();
      return false;
    }
  }

  nb::handle progress_;
  bool signals_;
  std::uint64_t total_ = 0;
  clock::time_point polled_;
  clock::time_point reported_;
};

template <class Work>
bool watched(nb::handle progress, std::uint64_t bytes, const Work& work) noexcept {
  try {
    watcher watch(progress);
    result<> outcome;
    {
      const without_gil released;
      outcome = work([&watch](const read_progress& now) { return watch(now); }, kPoll);
    }
    if (outcome.ok()) watch.finish(bytes);
    drop_left_references();
    if (restore_exception()) return false;
    if (outcome.ok()) return true;
    set_error(outcome.error());
  } catch (const std::exception& failed) {
    set_error(failed);
  }
  return false;
}

}  // namespace

bool watch_without_gil(nb::handle progress, std::uint64_t bytes,
                       const std::function<result<>(const progress_fn&, std::chrono::nanoseconds)>& work) noexcept {
  return watched(progress, bytes, work);
}

namespace {

template <class Resolved>
bool read_watched(const array& from, const Resolved& which, const tensor_view& out, unsigned threads,
                  nb::handle progress, const std::shared_ptr<item_arena>& arena) noexcept {
  std::uint64_t bytes = from.type().item_bytes();
  for (const std::uint64_t size : out.extents) bytes *= size;
  return watched(progress, bytes, [&](const progress_fn& call, std::chrono::nanoseconds interval) {
    read_options options;
    options.threads = threads;
    options.arena = arena;
    if (!(out.type == from.type())) options.type = out.type;
    options.poll_interval = interval;
    options.progress = call;
    return from.read(which, out, options);
  });
}

}  // namespace

// By value: another thread may resize the Array meanwhile.
bool read_without_gil(array from, const resolved_basic& which, const tensor_view& out, unsigned threads,
                      nb::handle progress, std::shared_ptr<item_arena> arena) noexcept {
  return read_watched(from, which, out, threads, progress, arena);
}

bool read_without_gil(array from, const resolved_selection& which, const tensor_view& out, unsigned threads,
                      nb::handle progress, std::shared_ptr<item_arena> arena) noexcept {
  return read_watched(from, which, out, threads, progress, arena);
}

ticket_handle::~ticket_handle() {
  if (is_engine_thread()) {  // the read might wait for this thread
    cancel();
    leave_to_python(std::make_shared<ticket_handle>(std::move(*this)));
    return;
  }
  // The rest of the read may need the GIL: a store may be a Python object.
  const without_gil released;
  ticket_ = ticket();
}

void ticket_handle::cancel() {
  const without_gil released;
  ticket_.cancel();
}

bool wait_and_look(double seconds, const std::function<bool(std::chrono::nanoseconds)>& wait_for) {
  constexpr double kForEver = 1e9;
  const bool for_ever = seconds < 0 || seconds > kForEver;
  const auto end = clock::now() + std::chrono::duration_cast<clock::duration>(
                                      std::chrono::duration<double>(for_ever ? kForEver : seconds));
  while (true) {
    const auto left = std::max<std::chrono::nanoseconds>(end - clock::now(), std::chrono::nanoseconds(0));
    bool ended = false;
    {
      const without_gil released;
      ended = wait_for(std::min(left, kPoll));
    }
    if (PyErr_CheckSignals() < 0) throw_python_error();
    if (ended || left.count() == 0) return ended;
  }
}

std::function<void()> call_from_any_thread(nb::object then) {
  // The engine may drop its copy on a thread without the GIL.
  const std::shared_ptr<PyObject> kept(then.release().ptr(), [](PyObject* object) { drop_reference(object); });
  return [kept] {
    if (!may_enter_python()) return;
    const with_gil gil;
    PyObject* const returned = PyObject_CallObject(kept.get(), nullptr);
    if (returned == nullptr) PyErr_WriteUnraisable(kept.get());
    Py_XDECREF(returned);
  };
}

bool ticket_handle::wait_for(double seconds) {
  return wait_and_look(seconds, [&](std::chrono::nanoseconds most) { return ticket_.wait_for(most); });
}

nb::object ticket_handle::result() {
  penstock::result<> outcome;
  {
    const without_gil released;
    outcome = ticket_.wait();
  }
  drop_left_references();
  unwrap(std::move(outcome));
  return result_;
}

nb::tuple ticket_handle::progress() const {
  const read_progress now = ticket_.progress();
  return nb::make_tuple(now.done_bytes, now.total_bytes);
}

void ticket_handle::on_done(nb::object then) {
  std::function<void()> call = call_from_any_thread(std::move(then));
  const without_gil released;
  ticket_.on_done(std::move(call));
}

void bind_ticket(nb::module_& m) {
  locked_class<ticket_handle>(m, "_Ticket", "A read under way. Dropping it cancels the read and waits for its workers.")
      .def_prop_ro("done", &ticket_handle::done)
      .def_prop_ro("progress", &ticket_handle::progress, "(bytes done, bytes in all), decoded.")
      .def("cancel", &ticket_handle::cancel)
      .def("wait_for", &ticket_handle::wait_for, nb::arg("seconds"))
      .def("result", &ticket_handle::result)
      .def("on_done", &ticket_handle::on_done, nb::arg("then"));
}

}  // namespace penstock::inline v0::python
