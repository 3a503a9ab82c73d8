#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/penstock.h>

#include "base/waiting.h"

/// Shared by the files of the Python module. Only the limited C API is used: one build serves Python 3.12 and later.
namespace penstock::inline v0::python {

namespace nb = nanobind;

/// The longest time in which a waiting call may not react to Ctrl-C.
inline constexpr std::chrono::nanoseconds kPoll = std::chrono::milliseconds(40);

void bind_errors(nb::module_& m);
void bind_context(nb::module_& m);
void bind_stores(nb::module_& m);
void bind_output(nb::module_& m);
void bind_dlpack(nb::module_& m);
void bind_device(nb::module_& m);
void bind_dtype(nb::module_& m);
void bind_array(nb::module_& m);
void bind_tiff(nb::module_& m);
void bind_georeference(nb::module_& m);
void bind_group(nb::module_& m);
void bind_open(nb::module_& m);
void bind_places(nb::module_& m);
void bind_described(nb::module_& m);
void bind_pipeline(nb::module_& m);
void bind_create(nb::module_& m);
void bind_tiff_writer(nb::module_& m);
void bind_copy(nb::module_& m);
void bind_shards(nb::module_& m);
void bind_shard_writer(nb::module_& m);
void bind_stream(nb::module_& m);
void bind_window(nb::module_& m);
void bind_loader(nb::module_& m);
void bind_levels(nb::module_& m);
void bind_appender(nb::module_& m);
void bind_unpack(nb::module_& m);
void bind_cli(nb::module_& m);
void bind_codec_testing(nb::module_& m);
void bind_resident_wave(nb::module_& m);

nb::str to_str(std::string_view text, const char* on_error);

/// Locks the mutex. Requires the GIL, and releases it while another thread holds the mutex, because that thread may
/// need the GIL. Signals raise.
std::unique_lock<std::recursive_timed_mutex> lock_without_gil(std::recursive_timed_mutex& mutex);

/// A node that its Python object replaces when it is resized, appended to, or given attributes. With a GIL, `()` is a
/// reference, and code that releases the GIL copies it before; without one it is a copy, made under a lock.
template <class Node>
class current {
 public:
  current(Node of) : node_(std::move(of)) {}  // NOLINT(google-explicit-constructor): a handle is made of its node
  current(const current& other) : node_(other()) {}
  /// Locks the node for the duration of a change. Changes of one object run one after the other, so each begins with
  /// the result of the previous one.
  [[nodiscard]] std::unique_lock<std::recursive_timed_mutex> lock_changes() { return lock_without_gil(changes_); }
#ifdef NB_FREE_THREADED
  Node operator()() const {
    const nb::ft_lock_guard lock(mutex_);
    return node_;
  }
  void operator=(Node next) {
    const nb::ft_lock_guard lock(mutex_);
    std::swap(node_, next);
  }

 private:
  mutable nb::ft_mutex mutex_;
#else
  const Node& operator()() const noexcept { return node_; }
  void operator=(Node next) { node_ = std::move(next); }

 private:
#endif
  Node node_;
  std::recursive_timed_mutex changes_;  // a change may call Python code, which changes the object
};

/// The JSON text of a node's attributes, converted once for each state of the node. Callers that keep the parsed
/// document compare identities to detect a change. Requires the GIL.
template <class Node>
class text_of_attributes {
 public:
  text_of_attributes() = default;
  text_of_attributes(const text_of_attributes&) noexcept {}  // a copy finds its own
  nb::object get(const Node& of) const {
    const nb::ft_lock_guard lock(mutex_);
    if (!of_ || &of_->state() != &of.state()) {
      text_ = to_str(of.attributes_json(), "surrogateescape");
      of_ = of;
    }
    return text_;
  }

 private:
  mutable nb::ft_mutex mutex_;  // of a Python without a GIL; otherwise it does nothing
  mutable std::optional<Node> of_;
  mutable nb::object text_;
};

/// Makes a Python class of `T` whose methods run one at a time for each object in a Python without a GIL, up to where
/// they would release it.
template <class T>
class locked_class {
 public:
  template <class... Extra>
  locked_class(nb::handle scope, const char* name, const Extra&... extra) : type_(scope, name, extra...) {}
  template <class... Arguments, class... Extra>
  locked_class& def(nb::init<Arguments...> make, const Extra&... extra) {
    type_.def(std::move(make), extra...);
    return *this;
  }
  template <class Function, class... Extra>
  locked_class& def(const char* name, Function&& function, const Extra&... extra) {
    type_.def(name, std::forward<Function>(function), nb::lock_self(), extra...);
    return *this;
  }
  template <class Function, class... Extra>
  locked_class& def_static(const char* name, Function&& function, const Extra&... extra) {
    type_.def_static(name, std::forward<Function>(function), extra...);
    return *this;
  }
  template <class Getter, class... Extra>
  locked_class& def_prop_ro(const char* name, Getter&& get, const Extra&... extra) {
    type_.def_prop_ro(name, std::forward<Getter>(get), nb::lock_self(), extra...);
    return *this;
  }

 private:
  nb::class_<T> type_;
};

/// The content of a Python `Array`.
struct array_handle {
  current<penstock::array> array;
  nb::object dtype;  ///< numpy.dtype, created once
  text_of_attributes<penstock::array> attributes = {};

  explicit array_handle(penstock::array from);
};

/// The content of a Python `Group`.
struct group_handle {
  current<penstock::group> group;
  text_of_attributes<penstock::group> attributes = {};
};

// Owners of their own: nanobind's shared_ptr would tie the C++ object's life to a Python object and to the GIL.
struct context_handle {
  std::shared_ptr<penstock::context> context;
};
struct store_handle {
  std::shared_ptr<penstock::store> store;
};

// --- errors (bind_error.cc) ---

/// Sets the Python exception for `failure`. The GIL is held.
void set_error(const error& failure) noexcept;
/// Sets the Python exception that nanobind would make of `failure`. The GIL is held.
void set_error(const std::exception& failure) noexcept;
/// Throws it through nanobind.
[[noreturn]] void raise(const error& failure);
/// Throws the Python exception that is set, or SystemError if none is set: `nb::python_error` would abort then.
[[noreturn]] void throw_python_error();

/// The value, or the Python exception for the error.
template <class T>
T unwrap(result<T>&& from) {
  if (!from.ok()) raise(from.error());
  return std::move(from).value();
}
inline void unwrap(result<>&& from) {
  if (!from.ok()) raise(from.error());
}

/// Throws UnsupportedError if values have more dimensions than arrays may have.
inline void check_rank(std::size_t rank) {
  if (rank > kMaxRank)
    raise(error(errc::unsupported, "arrays have at most 32 dimensions, not " + std::to_string(rank)));
}

/// Stores the current Python exception for this thread, when a C++ caller is between it and Python.
void stash_exception() noexcept;
/// Sets the stored exception again; false if there is none.
bool restore_exception() noexcept;
/// Turns the current Python exception into an error and clears it; KeyboardInterrupt and similar ones are stored too,
/// for the caller of this thread.
error take_python_error() noexcept;

// --- references held by C++ (bind_reference.cc) ---

/// Marks that this thread holds the GIL while the object lives, so that references may be dropped at once.
class gil_is_held {
 public:
  gil_is_held() noexcept;
  ~gil_is_held();
  gil_is_held(const gil_is_held&) = delete;

 private:
  bool before_;
};

/// Releases the GIL while the engine works. If the interpreter has begun to end in the meantime, a thread other than
/// the main one blocks here forever: acquiring the GIL would end it in the middle of C++ (before 3.14).
class without_gil {
 public:
  without_gil() noexcept;
  ~without_gil();
  without_gil(const without_gil&) = delete;

 private:
  PyThreadState* state_;
};

/// Takes the GIL on a thread that may be the engine's. Python then has a state for the thread only while this object
/// lives. The thread's thread-locals are destroyed before that state: their destructors may take the GIL again, and
/// CPython before 3.12.5 crashes if they do so in between (gh-119585).
class with_gil {
 public:
  with_gil() noexcept;
  ~with_gil();
  with_gil(const with_gil&) = delete;

 private:
  bool is_known_;
  PyGILState_STATE state_;
};

/// True on the thread on which Python runs signal handlers: the process's first.
bool is_main_thread() noexcept;
/// True from the end of the program on: reads of other threads then stop.
bool interpreter_is_ending() noexcept;
/// Checks for signals, on the thread that handles them; with or without the GIL. Returns false if the work of this
/// thread must stop; the handler's exception is then stored for `restore_exception`.
bool may_go_on() noexcept;
/// False if this thread must not take the GIL any more.
bool may_enter_python() noexcept;
/// False on a thread of the engine, which has no caller in Python that would raise a stored exception.
bool is_called_by_python() noexcept;
/// Announces the end of the interpreter, and waits some time for threads that may be inside of our Python code. The GIL
/// is held.
void end_interpreter() noexcept;

/// Drops a reference from any thread, with or without the GIL, also under a lock of the engine: it never waits.
void drop_reference(void* object) noexcept;
/// Drops references left by threads without the GIL. The GIL is held.
void drop_left_references() noexcept;

/// True while a thread of the engine runs Python code. The garbage collector may run there.
bool is_engine_thread() noexcept;
/// Destroys an object soon, with the GIL, on a thread that is not the engine's.
void leave_to_python(std::shared_ptr<void> owned) noexcept;
/// Destroys an object whose destructor waits for threads of the engine: without the GIL, which they may need, and not
/// on one of these threads, which it might wait for. The GIL is held.
template <class T>
void destroy_without_gil(std::optional<T>& owned) {
  struct later {
    std::optional<T> owned;
    ~later() {
      const without_gil released;
      owned.reset();
    }
  };
  if (!owned) return;
  if (is_engine_thread()) {
    leave_to_python(std::shared_ptr<later>(new later{std::exchange(owned, std::nullopt)}));
    return;
  }
  const without_gil released;
  owned.reset();
}

/// Calls the engine with the GIL released and returns its value, or throws: a Python exception of a store of this
/// thread that Python must see (KeyboardInterrupt), or the error.
template <class Work>
auto call_engine(Work&& work) {
  auto outcome = [&] {
    const without_gil released;
    const interruptible_waits asks(may_go_on);
    return work();
  }();
  drop_left_references();
  if (restore_exception()) throw nb::python_error();
  return unwrap(std::move(outcome));
}

// --- results (bind_output.cc) ---

/// The dtype of results, in native byte order: that of ml_dtypes if NumPy has none, StringDType for text (NumPy 1:
/// object).
/// \error unsupported  Neither has it.
nb::object numpy_dtype(const dtype& type);
/// The same for the items of a list, which may be arrays. \pre They have a fixed size, or are lists.
nb::object list_item_dtype(const dtype& list);
/// The element type of a NumPy dtype, or of an argument of numpy.dtype(); byte order does not count. Object dtypes are
/// `object`.
dtype dtype_of(nb::handle numpy_type);
/// "none", "objects" or "durable". Raises InvalidArgumentError otherwise.
write_sync sync_of(std::string_view name);
/// "auto", "host" or "device". Raises InvalidArgumentError otherwise.
chunk_encoder encoder_of(std::string_view name);
/// Whether the dtype, or a field of it, has the byte order that this machine does not have.
bool has_swapped_bytes(nb::handle numpy_type);
/// A new C-order ndarray with uninitialised memory; large ones are in the context's output pool. Null: a Python
/// exception is set.
PyObject* new_ndarray(const std::shared_ptr<penstock::context>& from, PyObject* dtype, std::uint32_t item_bytes,
                      const extents& shape, std::byte*& data) noexcept;
/// The use of an exported buffer.
enum class buffer_use {
  read,   ///< values are read from it: read-only memory is accepted
  write,  ///< it must be writable
};

/// The memory of a buffer object, which must have `type` and stays exported while the object lives.
class exported_buffer {
 public:
  exported_buffer() noexcept = default;
  exported_buffer(nb::handle object, const dtype& type, buffer_use use = buffer_use::write);
  exported_buffer(exported_buffer&& other) noexcept;
  exported_buffer& operator=(exported_buffer&&) = delete;
  ~exported_buffer();
  const tensor_view& view() const noexcept { return tensor_; }
  bool read_only() const noexcept { return exported_ && buffer_.readonly != 0; }

 private:
  Py_buffer buffer_{};
  bool exported_ = false;
  tensor_view tensor_;
};

nb::tuple to_tuple(const extents& shape);
/// The values as an ndarray that keeps their memory as its base (bind_loader.cc).
nb::object ndarray_of(owned_tensor values, nb::handle dtype);

/// The bytes, unchanged.
inline std::string text_of(const nb::bytes& from) { return {from.c_str(), from.size()}; }
/// The bytes of an object that must be `bytes`.
inline std::string text_from(nb::handle from) { return text_of(nb::cast<nb::bytes>(from)); }
/// Text that should be UTF-8 but may be any bytes, as file names are.
nb::str to_str(std::string_view text, const char* on_error = "surrogateescape");
/// The name of an object's type with its module. Never fails; Python code may have replaced either.
std::string type_name_of(PyObject* object);
/// The UTF-8 of a str. Throws TypeError if `value` is not a str, UnicodeEncodeError if it has no UTF-8 (a lone
/// surrogate). `nb::str::c_str()` returns null then.
std::string utf8_of(nb::handle value);
/// The length of a dimension. Raises InvalidArgumentError, where `nb::cast` would be a RuntimeError.
std::uint64_t length_of(nb::handle value);
/// `value` as a tuple of exactly `count` items, TypeError or ValueError otherwise. nanobind checks neither.
nb::tuple tuple_of(nb::handle value, std::size_t count, const char* name);

}  // namespace penstock::inline v0::python
