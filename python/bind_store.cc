#include <cstring>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "bind.h"
#include "bind_object_store.h"

namespace penstock::inline v0::python {
namespace {

std::span<const std::byte> as_span(const void* data, Py_ssize_t size) noexcept {
  return {static_cast<const std::byte*>(data), static_cast<std::size_t>(size)};
}

/// The values of a Python dict.
///
/// `bytes` cannot change, so their address names their contents for as long as a version holds on to them; so does a
/// zarr `Buffer`, which stores replace and never write to. Other buffer objects may change under us: their bytes are
/// copied while the GIL is held, and have no version.
class dict_store final : public store {
 public:
  explicit dict_store(nb::object values) noexcept : values_(values.release().ptr()) {}
  ~dict_store() override { drop_reference(values_); }

  store_traits traits() const override {
    store_traits traits;
    traits.versions = true;
    traits.blocking = false;
    traits.inline_completion = true;
    traits.lends_bytes = true;
    return traits;
  }

  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token) const override {
    if (!may_enter_python()) {
      for (const byte_read& one : reads) sink.complete(one.tag, error(errc::cancelled, "the interpreter is ending"));
      return;
    }
    // The sink may take locks that a thread with the GIL waits for; but it "only enqueues", so this is safe and
    // all the requests of one call cost one acquisition.
    const nb::gil_scoped_acquire gil;
    const gil_is_held held;
    for (const byte_read& one : reads) sink.complete(one.tag, read_one(one));
  }

  result<> list(std::string_view prefix, listing what, key_sink& sink) const override {
    if (!may_enter_python()) return error(errc::cancelled, "the interpreter is ending");
    const nb::gil_scoped_acquire gil;
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

  std::string uri() const override { return "memory:"; }

 private:
  static result<read_done> read_one_of(PyObject* value, const byte_read& wanted);
  result<read_done> read_one(const byte_read& wanted) const;

  PyObject* values_;
};

result<read_done> dict_store::read_one(const byte_read& wanted) const {
  PyObject* const key = PyUnicode_DecodeUTF8(wanted.key.data(), static_cast<Py_ssize_t>(wanted.key.size()), nullptr);
  if (key == nullptr) return take_python_error();
  PyObject* const value = PyDict_GetItemWithError(values_, key);
  Py_DECREF(key);
  if (value == nullptr) {
    if (PyErr_Occurred() != nullptr) return take_python_error();
    return error(errc::not_found, "no such key");
  }
  Py_INCREF(value);
  auto done = read_one_of(value, wanted);
  Py_DECREF(value);
  return done;
}

version version_of(PyObject* value, const version* expected) {
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
      return error(errc::io_error, std::string("the value of this key is no bytes, it is a ") +
                                       nb::type_name(nb::handle(value).type()).c_str());
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

}  // namespace

void bind_stores(nb::module_& m) {
  nb::class_<store_handle>(m, "Store", "A store as the engine sees it.")
      .def_prop_ro("uri", [](const store_handle& self) { return to_str(self.store->uri()); });
  m.def(
      "dict_store", [](nb::dict values) { return store_handle{std::make_shared<dict_store>(nb::object(values))}; },
      nb::arg("values"), "The values of a dict; the dict is not copied.");
  m.def(
      "file_store",
      [](nb::bytes root) { return store_handle{open_file_store(std::string(root.c_str(), root.size()))}; },
      nb::arg("root"), "A folder of this machine.");
  m.def(
      "zip_store", [](nb::bytes path) { return store_handle{open_zip_store(std::string(path.c_str(), path.size()))}; },
      nb::arg("path"), "A zip archive of this machine.");
  bind_object_store(m);
}

}  // namespace penstock::inline v0::python
