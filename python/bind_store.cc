#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bind.h"
#include "bind_object_store.h"
#include "engine/blocking_read.h"

namespace penstock::inline v0::python {
namespace {

std::span<const std::byte> as_span(const void* data, Py_ssize_t size) noexcept {
  return {static_cast<const std::byte*>(data), static_cast<std::size_t>(size)};
}

/// The values of a Python dict.
///
/// `bytes` cannot change, so their address identifies their contents while a version keeps them alive. The same holds
/// for a zarr `Buffer`, which stores replace and never write to. Other buffer objects may change at any time: their
/// bytes are copied while the GIL is held, and have no version.
///
/// Puts are stored as `bytes`, or as the result of `wrap` for them (a zarr `Buffer`); comparing versions and replacing
/// is atomic under the GIL. Without a GIL the dict's critical section takes its place; other threads may also drop a
/// value between its lookup and its use.
class dict_store final : public store {
 public:
  dict_store(nb::object values, nb::object wrap, bool writable) noexcept
      : values_(values.release().ptr()), wrap_(wrap.release().ptr()), writable_(writable) {}
  ~dict_store() override {
    drop_reference(values_);
    drop_reference(wrap_);
  }

  store_traits traits() const override {
    store_traits traits;
    traits.versions = true;
    traits.blocking = false;
    traits.inline_completion = true;
    traits.lends_bytes = true;
    traits.writable = writable_;
    traits.sizes = true;
    traits.guards = true;
    return traits;
  }

  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token) const override {
    if (!may_enter_python()) {
      for (const byte_read& one : reads) sink.complete(one.tag, error(errc::cancelled, "the interpreter is ending"));
      return;
    }
    // The sink may take locks that a thread with the GIL waits for. But it "only enqueues", so this is safe, and all
    // requests of one call cost one acquisition.
    const with_gil gil;
    const gil_is_held held;
    for (const byte_read& one : reads) sink.complete(one.tag, read_one(one));
  }

  result<> list(std::string_view prefix, listing what, key_sink& sink) const override {
    if (!may_enter_python()) return error(errc::cancelled, "the interpreter is ending");
    const with_gil gil;
    PyObject* const keys = PyDict_Keys(values_);
    if (keys == nullptr) return take_python_error();
    const nb::object owner = nb::steal(keys);
    std::unordered_set<std::string_view> folders;
    for (Py_ssize_t i = 0; i < PyList_Size(keys); ++i) {
      Py_ssize_t size = 0;
      PyObject* const key = PyList_GetItem(keys, i);
      const char* const text = PyUnicode_Check(key) != 0 ? PyUnicode_AsUTF8AndSize(key, &size) : nullptr;
      if (text == nullptr) {
        PyErr_Clear();
        continue;  // no storage key
      }
      std::string_view name(text, static_cast<std::size_t>(size));
      if (name.substr(0, prefix.size()) != prefix) continue;
      const std::size_t slash = what == listing::children ? name.find('/', prefix.size()) : std::string_view::npos;
      if (slash != std::string_view::npos) {
        name = name.substr(0, slash + 1);
        if (!folders.insert(name).second) continue;
      }
      if (!sink.key(name, 0)) break;
    }
    return {};
  }

  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override {
    if (!writable_) return store::put(key, parts, condition);
    if (!may_enter_python()) return error(errc::cancelled, "the interpreter is ending");
    if (condition.what == write_condition::kind::must_match && !condition.expected.known())
      return error(errc::invalid_argument, "a condition has no version to match");
    const with_gil gil;
    try {
      nb::object value = bytes_of(parts);
      if (wrap_ != Py_None) value = nb::handle(wrap_)(value);
      const nb::str name = to_str(key);
      const nb::ft_object_guard alone(values_);
      PENSTOCK_TRY(check_guard_of(condition));
      PENSTOCK_TRY(check(name, condition));
      if (PyObject_SetItem(values_, name.ptr(), value.ptr()) != 0) throw_python_error();
      return version_of(value.ptr(), nullptr);
    } catch (nb::python_error& failed) {
      failed.restore();
      return take_python_error();
    } catch (const std::exception& failed) {
      return error(errc::io_error, failed.what());
    }
  }

  result<> erase(std::string_view key, const write_condition& condition) override {
    if (!writable_) return store::erase(key, condition);
    if (!may_enter_python()) return error(errc::cancelled, "the interpreter is ending");
    const with_gil gil;
    try {
      const nb::str name = to_str(key);
      const nb::ft_object_guard alone(values_);
      PENSTOCK_TRY(check_guard_of(condition));
      if (PyDict_GetItemWithError(values_, name.ptr()) == nullptr) {
        if (PyErr_Occurred() != nullptr) return take_python_error();
        return {};
      }
      PENSTOCK_TRY(check(name, condition));
      if (PyObject_DelItem(values_, name.ptr()) != 0) return take_python_error();
      return {};
    } catch (nb::python_error& failed) {
      failed.restore();
      return take_python_error();
    } catch (const std::exception& failed) {
      return error(errc::io_error, failed.what());
    }
  }

  std::string uri() const override { return "memory:"; }

 private:
  static result<read_done> read_one_of(PyObject* value, const byte_read& wanted);
  static version version_of(PyObject* value, const version* expected);
  result<read_done> read_one(const byte_read& wanted) const;
  // The GIL, or the dict's critical section, is held from here to the change.
  result<> check(const nb::str& name, const write_condition& condition) const;
  result<> check_guard_of(const write_condition& condition) const;

  PyObject* values_;
  PyObject* wrap_;
  bool writable_;
};

result<> dict_store::check(const nb::str& name, const write_condition& condition) const {
  if (condition.what == write_condition::kind::none) return {};
  PyObject* const present = PyDict_GetItemWithError(values_, name.ptr());
  if (present == nullptr && PyErr_Occurred() != nullptr) return take_python_error();
  if (condition.what == write_condition::kind::must_be_absent) {
    if (present == nullptr) return {};
    return error(errc::version_changed, "the key exists, it was to be created");
  }
  if (present != nullptr && condition.expected.word[0] == reinterpret_cast<std::uintptr_t>(present)) return {};
  return error(errc::version_changed, "the value of this key was replaced");
}

result<> dict_store::check_guard_of(const write_condition& condition) const {
  if (condition.guard == nullptr) return {};
  const write_guard& guard = *condition.guard;
  struct : read_buffer {
    result<std::span<std::byte>> reserve(std::uint64_t bytes) override {
      memory.resize(static_cast<std::size_t>(bytes));
      return std::span(memory);
    }
    std::vector<std::byte> memory;
  } room;
  byte_read wanted;
  wanted.key = guard.key;
  wanted.range = {0, guard.prefix.size(), false};
  wanted.may_end_early = true;
  wanted.buffer = &room;
  const auto found = read_one(wanted);
  if (!found.ok()) return error(errc::conflict, "another writer took over '" + guard.key + "'");
  const std::string_view text(reinterpret_cast<const char*>(found->bytes.data()), found->bytes.size());
  if (text == guard.prefix) return {};
  return error(errc::conflict, "another writer took over '" + guard.key + "'");
}

result<read_done> dict_store::read_one(const byte_read& wanted) const {
  PyObject* const key = PyUnicode_DecodeUTF8(wanted.key.data(), static_cast<Py_ssize_t>(wanted.key.size()), nullptr);
  if (key == nullptr) return take_python_error();
  PyObject* value = nullptr;
  {
    const nb::ft_object_guard alone(values_);
    value = PyDict_GetItemWithError(values_, key);
    Py_XINCREF(value);
  }
  Py_DECREF(key);
  if (value == nullptr) {
    if (PyErr_Occurred() != nullptr) return take_python_error();
    return error(errc::not_found, "no such key");
  }
  auto done = read_one_of(value, wanted);
  Py_DECREF(value);
  return done;
}

version dict_store::version_of(PyObject* value, const version* expected) {
  version seen;
  seen.word[0] = reinterpret_cast<std::uintptr_t>(value);
  seen.word[1] = 1;
  if (expected != nullptr && *expected == seen) return *expected;  // shares the pin, allocates nothing
  Py_INCREF(value);
  seen.pin = std::shared_ptr<const void>(value, [](const void* object) { drop_reference(const_cast<void*>(object)); });
  return seen;
}

result<read_done> dict_store::read_one_of(PyObject* value, const byte_read& wanted) {
  const auto check = [&](const version& seen) -> result<> {
    if (wanted.expected == nullptr || !wanted.expected->known() || *wanted.expected == seen) return {};
    return error(errc::version_changed, "the value of this key was replaced");
  };
  if (PyBytes_CheckExact(value) != 0) {
    version seen = version_of(value, wanted.expected);
    if (auto same = check(seen); !same.ok()) return std::move(same).error();
    auto done = deliver(as_span(PyBytes_AsString(value), PyBytes_Size(value)), wanted, lending::lend, value);
    if (done.ok()) done->seen = std::move(seen);
    return done;
  }

  // A zarr Buffer shows its memory as a NumPy array.
  if (PyObject_CheckBuffer(value) == 0) {
    PyObject* const shown = PyObject_CallMethod(value, "as_numpy_array", nullptr);
    if (shown == nullptr) {
      PyErr_Clear();
      return error(errc::io_error, std::string("the value of this key is not bytes, it is a ") + type_name_of(value));
    }
    const nb::object owner = nb::steal(shown);
    version seen = version_of(value, wanted.expected);
    if (auto same = check(seen); !same.ok()) return std::move(same).error();
    auto done = deliver_buffer(shown, wanted, lending::lend);
    if (done.ok()) done->seen = std::move(seen);
    return done;
  }
  if (auto same = check(version()); !same.ok()) return std::move(same).error();
  return deliver_buffer(value, wanted, lending::copy);
}

// --- operations on a store itself, for tests and tools ---

nb::object bytes_read(const blocking_read& from) {
  return nb::bytes(reinterpret_cast<const char*>(from.bytes.data()), from.bytes.size());
}

// Null if the object does not exist.
std::optional<blocking_read> read_object(store& from, const std::string& key) {
  return call_engine([&]() -> result<std::optional<blocking_read>> {
    auto found = read_and_wait(from, key, {}, byte_range::kAll - 1);
    if (found.ok()) return std::optional(std::move(found).value());
    if (found.error().code() == errc::not_found) return std::optional<blocking_read>();
    return std::move(found).error();
  });
}

nb::object get_one(const store_handle& self, nb::str key) {
  const auto found = read_object(*self.store, utf8_of(key));
  return found ? bytes_read(*found) : nb::none();
}

result<version> put_bytes(store& to, const std::string& key, const nb::bytes& value, const write_condition& condition) {
  const part whole(static_cast<const std::byte*>(value.data()), value.size());
  return to.put(key, {&whole, 1}, condition);
}

bool put_one(const store_handle& self, nb::str key, nb::bytes value, bool absent) {
  write_condition condition;
  if (absent) condition.what = write_condition::kind::must_be_absent;
  return call_engine([&, name = utf8_of(key)]() -> result<bool> {
    const auto done = put_bytes(*self.store, name, value, condition);
    if (!done.ok() && done.error().code() == errc::version_changed) return false;
    if (!done.ok()) return done.error().clone();
    return true;
  });
}

// If a store has no versions, concurrent changes of other writers are lost.
int swap_one(const store_handle& self, nb::str key, nb::callable change) {
  const std::string name = utf8_of(key);
  for (int attempt = 1;; ++attempt) {
    const auto found = read_object(*self.store, name);
    const nb::bytes value = nb::cast<nb::bytes>(change(found ? bytes_read(*found) : nb::none()));
    write_condition condition;
    if (!found) {
      condition.what = write_condition::kind::must_be_absent;
    } else if (found->seen.known()) {
      condition.what = write_condition::kind::must_match;
      condition.expected = found->seen;
    }
    const bool done = call_engine([&]() -> result<bool> {
      const auto put = put_bytes(*self.store, name, value, condition);
      if (!put.ok() && put.error().code() == errc::version_changed) return false;
      if (!put.ok()) return put.error().clone();
      return true;
    });
    if (done) return attempt;
  }
}

std::vector<std::string> list_keys(const store_handle& self, nb::str prefix, bool children) {
  struct : key_sink {
    bool key(std::string_view key, std::uint64_t) override {
      keys.emplace_back(key);
      return true;
    }
    std::vector<std::string> keys;
  } sink;
  call_engine([&, name = utf8_of(prefix)] {
    return self.store->list(name, children ? listing::children : listing::objects, sink);
  });
  std::sort(sink.keys.begin(), sink.keys.end());
  return std::move(sink.keys);
}

}  // namespace

void bind_stores(nb::module_& m) {
  nb::class_<store_handle>(m, "Store", "A store of the engine.")
      .def_prop_ro("uri", [](const store_handle& self) { return to_str(self.store->uri()); })
      .def_prop_ro("writable", [](const store_handle& self) { return self.store->traits().writable; })
      .def("put", &put_one, nb::arg("key"), nb::arg("value"), nb::arg("absent") = false,
           "Replace or create an object; False if it should be absent and is not.")
      .def("swap", &swap_one, nb::arg("key"), nb::arg("change"),
           "Replace an object by the result of `change(bytes or None)`, again if another writer was faster; returns "
           "how "
           "often this was tried.")
      .def(
          "erase",
          [](const store_handle& self, nb::str key) {
            call_engine([&self, name = utf8_of(key)] { return self.store->erase(name, {}); });
          },
          nb::arg("key"), "Remove an object; an absent one is not an error.")
      .def("get", &get_one, nb::arg("key"), "All bytes of an object, or None.")
      .def("list", &list_keys, nb::arg("prefix"), nb::arg("children") = false, "Keys below a prefix, sorted.")
      .def("flush", [](const store_handle& self) { call_engine([&] { return self.store->flush(); }); });
  m.def(
      "dict_store",
      [](nb::dict values, nb::object wrap, bool writable) {
        return store_handle{std::make_shared<dict_store>(nb::object(values), wrap, writable)};
      },
      nb::arg("values"), nb::arg("wrap").none() = nb::none(), nb::arg("writable") = true,
      "A store of a dict's values; the dict is not copied. `wrap` converts bytes to the values of the dict.");
  m.def(
      "file_store",
      [](nb::bytes root, const std::string& sync) {
        return store_handle{open_file_store(std::string(root.c_str(), root.size()), sync_of(sync))};
      },
      nb::arg("root"), nb::arg("sync") = "objects", "A folder of this machine.");
  m.def(
      "read_only_store", [](const store_handle& from) { return store_handle{make_read_only(from.store)}; },
      nb::arg("from_"), "Reads from a store and refuses every write.");
  m.def(
      "zip_store",
      [](nb::bytes path, const context_handle& with) {
        return store_handle{open_zip_store(std::string(path.c_str(), path.size()), with.context)};
      },
      nb::arg("path"), nb::arg("context"),
      "A zip archive of this machine; decoded bytes of compressed members count in the context's memory.");
  bind_object_store(m);
}

}  // namespace penstock::inline v0::python
