#include <dlfcn.h>
#include <pthread.h>
#include <time.h>  // NOLINT: the monotonic clock as the system has it
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/fork_local.h"
#include "base/system_calls.h"
#include "bind.h"

namespace penstock::inline v0::python {
namespace {

thread_local bool gil_held = false;
thread_local bool of_engine = false;
thread_local unsigned calls = 0;  // of the engine by this thread, without the GIL
std::atomic<bool> ending{false};
std::atomic<int> outside{0};  // threads within without_gil or with_gil: the interpreter waits for them at its end

// References whose last C++ owner had no GIL. Taking the GIL there could deadlock: the owner may hold a lock of the
// engine that a thread with the GIL waits for; and with a busy Python thread it would cost milliseconds.
struct left_behind {
  std::mutex mutex;
  std::vector<PyObject*> objects;
  std::vector<std::shared_ptr<void>> owned;  // whose destructors may wait

  bool empty() const noexcept { return objects.empty() && owned.empty(); }
};
left_behind& left() {
  static left_behind* const one = [] {
    auto* made = new left_behind;  // outlives every thread that may still drop something at exit
    // A fork while another thread pushes must not leave the child with a locked mutex.
    pthread_atfork([] { left().mutex.lock(); }, [] { left().mutex.unlock(); },
                   [] {
                     left().mutex.unlock();
                     outside.store(0);
                   });
    return made;
  }();
  return *one;
}

int drop_pending(void*) {
  drop_left_references();
  return 0;
}

}  // namespace

without_gil::without_gil() noexcept {
  ++calls;
  outside.fetch_add(1);
  state_ = PyEval_SaveThread();
}

without_gil::~without_gil() {
  --calls;
  outside.fetch_sub(1);
  if (ending.load() && !is_main_thread()) {
    while (true) pause();
  }
  PyEval_RestoreThread(state_);
}

namespace {

bool try_lock_for(std::recursive_timed_mutex& mutex, std::chrono::milliseconds time) {
#ifdef __GLIBC__
  // std's `try_lock_for` is not used: it needs this function, which glibc has from 2.30 on, and wheels are for 2.28.
  using lock_fn = int (*)(pthread_mutex_t*, clockid_t, const struct ::timespec*);
  static const auto lock_by = reinterpret_cast<lock_fn>(::dlsym(RTLD_DEFAULT, "pthread_mutex_clocklock"));
  struct ::timespec end{};
  if (lock_by != nullptr && ::clock_gettime(CLOCK_MONOTONIC, &end) == 0) {
    const std::int64_t ns = end.tv_nsec + std::chrono::nanoseconds(time).count();
    end.tv_sec += ns / 1'000'000'000;
    end.tv_nsec = ns % 1'000'000'000;
    return lock_by(mutex.native_handle(), CLOCK_MONOTONIC, &end) == 0;
  }
#endif
  return mutex.try_lock_until(std::chrono::system_clock::now() + time);
}

}  // namespace

std::unique_lock<std::recursive_timed_mutex> lock_without_gil(std::recursive_timed_mutex& mutex) {
  constexpr auto kLookAtSignals = std::chrono::milliseconds(50);
  std::unique_lock lock(mutex, std::try_to_lock);
  while (!lock) {
    {
      const without_gil released;
      if (try_lock_for(mutex, kLookAtSignals)) {
        lock = std::unique_lock(mutex, std::adopt_lock);
        continue;
      }
    }
    if (PyErr_CheckSignals() < 0) throw_python_error();
  }
  return lock;
}

bool is_main_thread() noexcept {
  // A system call costs as much as a large part of a small read. A fork makes the forking thread a main thread.
  struct answer {
    std::uint64_t forks;
    bool main;
  };
  thread_local std::optional<answer> known;
  const std::uint64_t forks = fork_clock::now();
  if (!known || known->forks != forks) known = {forks, is_first_thread()};
  return known->main;
}
bool interpreter_is_ending() noexcept { return ending.load(std::memory_order_relaxed); }

bool may_go_on() noexcept {
  if (!is_main_thread()) return !interpreter_is_ending();
  const with_gil gil;
  if (PyErr_CheckSignals() >= 0) return true;
  stash_exception();
  return false;
}
bool may_enter_python() noexcept { return gil_held || !interpreter_is_ending(); }
bool is_called_by_python() noexcept { return gil_held || calls != 0; }

void end_interpreter() noexcept {
  ending.store(true);
  PyThreadState* const state = PyEval_SaveThread();
  constexpr auto kTooLong = std::chrono::seconds(5);
  const auto begin = std::chrono::steady_clock::now();
  do {  // once at least: a thread that has just found the interpreter running is counted then
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (outside.load() > 0 && std::chrono::steady_clock::now() - begin < kTooLong);
  PyEval_RestoreThread(state);
}

// A thread that waits for the GIL when the interpreter ends would be ended there, and with it the program.
with_gil::with_gil() noexcept
    : is_known_((outside.fetch_add(1), PyGILState_GetThisThreadState() != nullptr)), state_(PyGILState_Ensure()) {
  if (!is_known_) of_engine = true;
}

with_gil::~with_gil() {
  if (!is_known_)
    if (PyObject* const locals = PyThreadState_GetDict()) PyDict_Clear(locals);
  PyGILState_Release(state_);
  outside.fetch_sub(1);
  if (!is_known_) of_engine = false;
}

bool is_engine_thread() noexcept { return of_engine; }

gil_is_held::gil_is_held() noexcept : before_(std::exchange(gil_held, true)) {}
gil_is_held::~gil_is_held() { gil_held = before_; }

void drop_reference(void* object) noexcept {
  auto* const reference = static_cast<PyObject*>(object);
  // Freeing bytes runs no Python code, so it cannot release the GIL under a lock of the engine.
  if (gil_held && PyBytes_CheckExact(reference)) {
    Py_DECREF(reference);
    return;
  }
  bool first = false;
  {
    const std::lock_guard lock(left().mutex);
    first = left().empty();
    left().objects.push_back(reference);
  }
  // The interpreter handles it soon, even without another read of ours. A full queue is harmless.
  if (first) Py_AddPendingCall(drop_pending, nullptr);
}

void leave_to_python(std::shared_ptr<void> owned) noexcept {
  {
    const std::lock_guard lock(left().mutex);
    left().owned.push_back(std::move(owned));
  }
  Py_AddPendingCall(drop_pending, nullptr);  // the main thread runs it
}

void drop_left_references() noexcept {
  std::vector<PyObject*> taken;
  std::vector<std::shared_ptr<void>> owned;
  {
    const std::lock_guard lock(left().mutex);
    if (left().empty()) return;
    taken.swap(left().objects);
    if (!of_engine) owned.swap(left().owned);
  }
  for (PyObject* one : taken) Py_DECREF(one);
}

}  // namespace penstock::inline v0::python
