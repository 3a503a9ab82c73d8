#include "bind_object_store.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/counted.h"

namespace penstock::inline v0::python {
namespace {

error too_long(std::uint64_t size, std::uint64_t limit) {
  return {errc::corrupt_data,
          "the object is longer than it may be: " + counted(size, "byte") + ", at most " + std::to_string(limit)};
}

// Bytes that are exactly the result of `wanted` are stored directly.
result<read_done> place_bytes(std::span<const std::byte> bytes, const byte_read& wanted, lending how, PyObject* owner) {
  read_done done;
  if (!wanted.destination.empty()) {
    if (bytes.size() != wanted.destination.size()) {
      return error(errc::corrupt_data, "the object has " + counted(bytes.size(), "byte") + ", " +
                                           std::to_string(wanted.destination.size()) + " are needed");
    }
    std::memcpy(wanted.destination.data(), bytes.data(), bytes.size());
    done.bytes = wanted.destination;
  } else if (how == lending::lend || bytes.empty()) {
    done.bytes = bytes;
    if (!bytes.empty()) {
      Py_INCREF(owner);
      done.keep_alive = lease(owner, drop_reference);
    }
  } else if (wanted.buffer == nullptr) {
    return error(errc::internal, "a read has no memory for its bytes");
  } else {
    PENSTOCK_ASSIGN(const std::span<std::byte> room, wanted.buffer->reserve(bytes.size()));
    std::memcpy(room.data(), bytes.data(), bytes.size());
    done.bytes = room.first(bytes.size());
  }
  return done;
}

// A buffer object's memory, exported for as long as this lives.
class exported {
 public:
  explicit exported(PyObject* object) noexcept : ok_(PyObject_GetBuffer(object, &view_, PyBUF_SIMPLE) == 0) {}
  ~exported() {
    if (ok_) PyBuffer_Release(&view_);
  }
  exported(const exported&) = delete;
  bool ok() const noexcept { return ok_; }
  std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
  bool ok_;
};

std::uint64_t hash_text(std::string_view text, std::uint64_t seed) noexcept {
  std::uint64_t out = 0xCBF29CE484222325U ^ seed;
  for (const char each : text) out = (out ^ static_cast<unsigned char>(each)) * 0x100000001B3U;
  return out ^ (out >> 32);
}

// The version for a store's own text (an entity tag); it holds the text. None: not known.
result<version> version_of_token(PyObject* token) {
  if (token == Py_None) return version();
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(token, &size);
  if (text == nullptr) return take_python_error();
  auto kept = std::make_shared<const std::string>(text, static_cast<std::size_t>(size));
  version out;
  out.word[0] = hash_text(*kept, 0);
  out.word[1] = hash_text(*kept, 0x9E3779B97F4A7C15U) | 1U;
  out.word[2] = kept->size();
  out.pin = std::move(kept);
  return out;
}
nb::object token_of(const version* seen) {
  if (seen == nullptr || !seen->known() || !seen->pin) return nb::none();
  return to_str(*static_cast<const std::string*>(seen->pin.get()));
}

// The result of a Python store for `wanted`: only the bytes of the range, or None. The GIL is held.
result<read_done> answer_bytes(PyObject* given, const byte_read& wanted) {
  if (given == Py_None) return error(errc::not_found, "no such key");
  // The store may continue to use what it returned. A bytearray is copied, because it may be written to and resized;
  // the memory of others stays exported while it is lent, so that it cannot be closed or resized.
  const lending how = PyByteArray_Check(given) != 0 ? lending::copy : lending::lend;
  nb::object owner = nb::borrow(given);
  if (how == lending::lend && PyBytes_Check(given) == 0 && PyObject_CheckBuffer(given) != 0) {
    owner = nb::steal(PyMemoryView_FromObject(given));
    if (!owner.is_valid()) return take_python_error();
  }
  const exported view(owner.ptr());
  if (!view.ok()) return take_python_error();
  const auto bytes = view.bytes();
  const bool ends_early = wanted.may_end_early && !wanted.range.from_end && bytes.size() < wanted.range.length;
  if (!wanted.range.whole() && bytes.size() != wanted.range.length && !ends_early) {
    return error(errc::corrupt_data, "the store returned " + counted(bytes.size(), "byte") + ", " +
                                         std::to_string(wanted.range.length) + " were requested");
  }
  if (bytes.size() > wanted.max_bytes) return too_long(bytes.size(), wanted.max_bytes);
  auto done = place_bytes(bytes, wanted, how, owner.ptr());
  if (done.ok() && wanted.range.whole()) done->object_size = bytes.size();
  if (done.ok() && ends_early) done->object_size = wanted.range.offset + bytes.size();
  return done;
}

// As `answer_bytes`, for stores with versions that return (bytes, version), or False if it is not the expected one.
result<read_done> answer(PyObject* given, const byte_read& wanted) {
  if (given == Py_False) return error(errc::version_changed, "the object is no longer the one that was expected");
  if (PyTuple_CheckExact(given) == 0) return answer_bytes(given, wanted);
  if (PyTuple_Size(given) != 2) return error(errc::internal, "a store's adapter answered with an odd tuple");
  PENSTOCK_ASSIGN(version seen, version_of_token(PyTuple_GetItem(given, 1)));
  PENSTOCK_ASSIGN(read_done done, answer_bytes(PyTuple_GetItem(given, 0), wanted));
  done.seen = std::move(seen);
  return done;
}

// The result of a Python store for a put or an erase: the new version if it has one; False: the condition fails.
result<version> version_stored(PyObject* given) {
  if (given == Py_False) return error(errc::version_changed, "the object is no longer the expected one");
  return version_of_token(given);
}

result<read_done> ended() { return error(errc::cancelled, "the read was stopped"); }

nb::tuple request_tuple(const byte_read& wanted) {
  nb::object length = nb::none();
  if (!wanted.range.whole()) length = nb::int_(wanted.range.length);
  return nb::make_tuple(to_str(wanted.key), wanted.range.offset, length, wanted.range.from_end,
                        token_of(wanted.expected));
}

/// The requests of one call that Python completes later. Each completes once: abandoned ones are `cancelled`.
class pending_requests {
 public:
  virtual ~pending_requests() = default;
  pending_requests(const pending_requests&) = delete;

  bool stopped() const noexcept { return stop_.stop_requested(); }
  void done(std::size_t which, nb::handle given) {
    if (take(which)) answered(which, given.ptr());
  }
  void failed(std::size_t which, nb::handle exception) {
    if (!take(which)) return;
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    fail_outside(which, take_python_error_of_other_thread());
  }
  void refuse(std::size_t which, error why) {
    if (take(which)) fail_outside(which, std::move(why));
  }

 protected:
  pending_requests(std::size_t count, std::stop_token stop) : open_(count, true), stop_(std::move(stop)) {}
  void forget_open() {
    for (std::size_t i = 0; i < open_.size(); ++i) refuse(i, error(errc::cancelled, "the store's task was cancelled"));
  }
  /// The result of Python. The GIL is held; the completion itself runs without it: a sink takes a lock of the engine,
  /// whose holder may wait for the GIL.
  virtual void answered(std::size_t which, PyObject* given) = 0;
  /// Called without the GIL.
  virtual void fail(std::size_t which, error why) = 0;

 private:
  bool take(std::size_t which) {
    const nb::ft_lock_guard lock(mutex_);
    if (which >= open_.size() || !open_[which]) return false;
    open_[which] = false;
    return true;
  }
  void fail_outside(std::size_t which, error why) {
    const nb::gil_scoped_release released;
    fail(which, std::move(why));
  }
  // On an event loop's thread no caller waits for a stored KeyboardInterrupt.
  static error take_python_error_of_other_thread() {
    error failure = take_python_error();
    if (restore_exception()) PyErr_Clear();
    return failure;
  }

  nb::ft_mutex mutex_;  // protects `open_`; with a GIL, that does
  std::vector<bool> open_;
  std::stop_token stop_;
};

class pending_reads final : public pending_requests {
 public:
  pending_reads(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop)
      : pending_requests(reads.size(), std::move(stop)), reads_(reads.begin(), reads.end()), sink_(&sink) {}
  ~pending_reads() override { forget_open(); }

 private:
  void answered(std::size_t which, PyObject* given) override {
    auto outcome = answer(given, reads_[which]);
    const nb::gil_scoped_release released;
    sink_->complete(reads_[which].tag, std::move(outcome));
  }
  void fail(std::size_t which, error why) override { sink_->complete(reads_[which].tag, std::move(why)); }

  std::vector<byte_read> reads_;
  completion_sink* sink_;
};

class pending_writes final : public pending_requests {
 public:
  pending_writes(std::span<const byte_write> writes, write_sink& sink, std::stop_token stop)
      : pending_requests(writes.size(), std::move(stop)), sink_(&sink) {
    for (const byte_write& each : writes) tags_.push_back(each.tag);
  }
  ~pending_writes() override { forget_open(); }

 private:
  void answered(std::size_t which, PyObject* given) override {
    auto outcome = version_stored(given);
    const nb::gil_scoped_release released;
    sink_->complete(tags_[which], std::move(outcome));
  }
  void fail(std::size_t which, error why) override { sink_->complete(tags_[which], std::move(why)); }

  std::vector<std::uint64_t> tags_;
  write_sink* sink_;
};

// Python's handle of them.
struct pending_handle {
  std::shared_ptr<pending_requests> requests;
};

/// The capabilities of an adapter.
struct abilities {
  bool asynchronous = false, writable = false, versions = false;
};

/// A store that Python implements, behind an adapter of penstock/target/adapters/.
class object_store final : public store {
 public:
  object_store(nb::object adapter, std::string uri, const abilities& can) noexcept
      : adapter_(adapter.release().ptr()), uri_(std::move(uri)), can_(can) {}
  ~object_store() override { drop_reference(adapter_); }

  store_traits traits() const override {
    store_traits traits;
    traits.max_gap_bytes = std::uint64_t{64} << 10;  // a call into Python costs more than these bytes
    if (can_.asynchronous) traits.request_bytes = std::uint64_t{64} << 10;  // it uses a network
    traits.max_length_bytes = std::uint64_t{8} << 20;
    traits.versions = can_.versions;
    traits.blocking = true;
    traits.inline_completion = traits.inline_writes = !can_.asynchronous;
    traits.lends_bytes = true;
    traits.writable = can_.writable;
    return traits;
  }

  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    if (!may_enter_python()) {
      for (const byte_read& one : reads) sink.complete(one.tag, ended());
      return;
    }
    if (can_.asynchronous) return submit(reads, sink, std::move(stop));
    for (const byte_read& one : reads) {
      sink.complete(one.tag, stop.stop_requested() || !may_enter_python() ? ended() : fetch(one));
    }
  }

  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override {
    if (!can_.writable) return store::put(key, parts, condition);
    if (!may_enter_python()) return std::move(ended()).error();
    const with_gil gil;
    try {
      PENSTOCK_TRY(check_condition(condition));
      const nb::object given = nb::handle(adapter_).attr("store")(*put_tuple(key, parts, condition));
      return version_stored(given.ptr());
    } catch (nb::python_error& failed) {
      failed.restore();
      return take_python_error();
    } catch (const std::exception& failed) {
      return error(errc::io_error, failed.what());
    }
  }

  result<> erase(std::string_view key, const write_condition&) override {
    // None of our stores erases conditionally: a concurrent put would be lost, as with all of them.
    if (!can_.writable) return store::erase(key, {});
    if (!may_enter_python()) return std::move(ended()).error();
    const with_gil gil;
    try {
      nb::handle(adapter_).attr("remove")(to_str(key));
      return {};
    } catch (nb::python_error& failed) {
      failed.restore();
      return take_python_error();
    } catch (const std::exception& failed) {
      return error(errc::io_error, failed.what());
    }
  }

  void write(std::span<const byte_write> writes, write_sink& sink, std::stop_token stop) override {
    if (!can_.asynchronous || !can_.writable) return store::write(writes, sink, std::move(stop));
    if (!may_enter_python() || stop.stop_requested()) {
      for (const byte_write& each : writes) sink.complete(each.tag, error(errc::cancelled, "the write was stopped"));
      return;
    }
    const with_gil gil;
    auto pending = std::make_shared<pending_writes>(writes, sink, std::move(stop));
    submit_to("submit_writes", pending, writes.size(), [&](std::size_t i) -> nb::object {
      const byte_write& each = writes[i];
      if (each.erases) return nb::make_tuple(to_str(each.key), nb::none(), false, nb::none());
      if (auto checked = check_condition(each.condition); !checked.ok()) {
        pending->refuse(i, std::move(checked).error());
        return nb::none();
      }
      return put_tuple(each.key, each.parts, each.condition);
    });
  }

  result<> list(std::string_view prefix, listing what, key_sink& sink) const override {
    if (!may_enter_python()) return std::move(ended()).error();
    const with_gil gil;
    try {
      const nb::object keys = nb::handle(adapter_).attr("list")(to_str(prefix), what == listing::children);
      for (const nb::handle key : keys) {
        Py_ssize_t size = 0;
        const char* const text = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
        if (text == nullptr) throw_python_error();
        if (!sink.key({text, static_cast<std::size_t>(size)}, 0)) break;
      }
      return {};
    } catch (nb::python_error& failed) {
      failed.restore();
      return take_python_error();
    } catch (const std::exception& failed) {
      return error(errc::io_error, failed.what());
    }
  }

  std::string uri() const override { return uri_; }

 private:
  result<read_done> fetch(const byte_read& wanted) const {
    const with_gil gil;
    try {
      const nb::object given = nb::handle(adapter_).attr("fetch")(*request_tuple(wanted));
      return answer(given.ptr(), wanted);
    } catch (nb::python_error& failed) {
      failed.restore();
      return take_python_error();
    } catch (const std::exception& failed) {
      return error(errc::io_error, failed.what());
    }
  }

  void submit(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const {
    const with_gil gil;
    auto pending = std::make_shared<pending_reads>(reads, sink, std::move(stop));
    submit_to("submit", pending, reads.size(), [&](std::size_t i) -> nb::object { return request_tuple(reads[i]); });
  }

  // Passes requests to the adapter's event loop. Requests that cannot be passed fail.
  template <class RequestOf>
  void submit_to(const char* method, const std::shared_ptr<pending_requests>& pending, std::size_t count,
                 RequestOf&& request_of) const {
    try {
      nb::list requests;
      for (std::size_t i = 0; i < count; ++i) requests.append(request_of(i));
      nb::handle(adapter_).attr(method)(requests, pending_handle{pending});
    } catch (nb::python_error& failed) {
      failed.restore();
      const error why = take_python_error();
      for (std::size_t i = 0; i < count; ++i) pending->refuse(i, why.clone());
    } catch (const std::exception& failed) {
      for (std::size_t i = 0; i < count; ++i) pending->refuse(i, error(errc::io_error, failed.what()));
    }
  }

  static result<> check_condition(const write_condition& condition) {
    if (condition.what == write_condition::kind::must_match && (!condition.expected.known() || !condition.expected.pin))
      return error(errc::invalid_argument, "a condition has no version to match");
    return {};
  }
  static nb::tuple put_tuple(std::string_view key, std::span<const part> parts, const write_condition& condition) {
    return nb::make_tuple(to_str(key), bytes_of(parts), condition.what == write_condition::kind::must_be_absent,
                          token_of(&condition.expected));
  }

  PyObject* adapter_;
  std::string uri_;
  abilities can_;
};

}  // namespace

nb::object bytes_of(std::span<const part> parts) {
  std::size_t size = 0;
  for (const part& each : parts) size += each.size();
  nb::object out = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
  if (!out.is_valid()) throw_python_error();
  char* to = PyBytes_AsString(out.ptr());
  for (const part& each : parts) {
    if (!each.empty()) std::memcpy(to, each.data(), each.size());
    to += each.size();
  }
  return out;
}

result<read_done> deliver(std::span<const std::byte> object, const byte_read& wanted, lending how, PyObject* owner) {
  const std::uint64_t size = object.size();
  const byte_range& range = wanted.range;
  if (range.whole()) {
    if (size > wanted.max_bytes) return too_long(size, wanted.max_bytes);
  } else {
    const bool begins = range.from_end || range.offset <= size;
    const std::uint64_t most = range.from_end || !begins ? size : size - range.offset;
    if (!begins || (range.length > most && (range.from_end || !wanted.may_end_early))) {
      return error(errc::corrupt_data,
                   "the range exceeds the object: " + to_string(range) + " of " + counted(size, "byte"));
    }
    object = range.from_end ? object.last(range.length) : object.subspan(range.offset, std::min(range.length, most));
  }
  auto done = place_bytes(object, wanted, how, owner);
  if (done.ok()) done->object_size = size;
  return done;
}

result<read_done> deliver_buffer(PyObject* object, const byte_read& wanted, lending how) {
  const exported view(object);
  if (!view.ok()) return take_python_error();
  return deliver(view.bytes(), wanted, how, object);
}

void bind_object_store(nb::module_& m) {
  locked_class<pending_handle>(m, "_PendingRequests", "Requests that a store's event loop answers, each once.")
      .def_prop_ro("stopped", [](const pending_handle& self) { return self.requests->stopped(); })
      .def(
          "done",
          [](const pending_handle& self, std::size_t which, nb::handle given) { self.requests->done(which, given); },
          nb::arg("which"), nb::arg("given").none())
      .def(
          "failed",
          [](const pending_handle& self, std::size_t which, nb::handle exception) {
            self.requests->failed(which, exception);
          },
          nb::arg("which"), nb::arg("exception"));
  m.def(
      "object_store",
      [](nb::object adapter, const char* uri, bool asynchronous) {
        const abilities can{asynchronous, nb::cast<bool>(adapter.attr("writable")),
                            nb::cast<bool>(adapter.attr("versions"))};
        return store_handle{std::make_shared<object_store>(adapter, uri, can)};
      },
      nb::arg("adapter"), nb::arg("uri"), nb::arg("asynchronous"), "A store that Python implements.");
}

}  // namespace penstock::inline v0::python
