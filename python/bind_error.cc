#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bind.h"

namespace penstock::inline v0::python {
namespace {

// The classes are written in Python (penstock/core/errors.py); by code.
struct class_name {
  errc code;
  const char* name;
};
constexpr std::array kClasses = {
    class_name{errc::invalid_argument, "InvalidArgumentError"},
    class_name{errc::out_of_range, "OutOfRangeError"},
    class_name{errc::not_found, "NotFoundError"},
    class_name{errc::corrupt_data, "CorruptDataError"},
    class_name{errc::unsupported, "UnsupportedError"},
    class_name{errc::permission_denied, "PermissionDeniedError"},
    class_name{errc::io_error, "StorageError"},
    class_name{errc::version_changed, "ConflictError"},
    class_name{errc::conflict, "ConflictError"},
    class_name{errc::read_only, "ReadOnlyError"},
    class_name{errc::cancelled, "CancelledError"},
    class_name{errc::deadline_exceeded, "DeadlineExceededError"},
    class_name{errc::resource_exhausted, "ResourceExhaustedError"},
    class_name{errc::internal, "InternalError"},
};

const char* class_of(errc code) noexcept {
  for (const class_name& one : kClasses) {
    if (one.code == code) return one.name;
  }
  return "InternalError";
}

nb::object make_exception(const error& failure) {
  const nb::object type = nb::module_::import_("penstock.core.errors").attr(class_of(failure.code()));
  nb::list given;
  given.append(to_str(failure.message(), "backslashreplace"));
  for (const std::string& note : failure.notes()) given.append(to_str(note, "backslashreplace"));
  return type(*given, nb::arg("code") = to_str(to_string(failure.code())));
}

thread_local PyObject* stashed = nullptr;

// UTF-8 of any str; for one without UTF-8, and for other objects, nothing. No Python exception is set after it.
std::string utf8_or_nothing(PyObject* text) {
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_Check(text) != 0 ? PyUnicode_AsUTF8AndSize(text, &size) : nullptr;
  if (bytes != nullptr) return {bytes, static_cast<std::size_t>(size)};
  PyErr_Clear();
  return {};
}

std::string exception_text(nb::handle exception) {
  std::string text = type_name_of(exception.ptr());
  PyObject* shown = PyObject_Str(exception.ptr());
  if (shown == nullptr) {
    PyErr_Clear();
    return text;
  }
  const std::string said = utf8_or_nothing(shown);
  if (!said.empty()) text += ": " + said;
  Py_DECREF(shown);
  return text;
}

errc code_of(PyObject* exception) noexcept {
  const std::pair<PyObject*, errc> known[] = {
      {PyExc_FileNotFoundError, errc::not_found},       {PyExc_KeyError, errc::not_found},
      {PyExc_PermissionError, errc::permission_denied}, {PyExc_TimeoutError, errc::deadline_exceeded},
      {PyExc_MemoryError, errc::resource_exhausted},
  };
  for (const auto& [type, code] : known) {
    if (PyErr_GivenExceptionMatches(exception, type) != 0) return code;
  }
  return errc::io_error;
}

// The package's own Python code raises errors that the engine could have returned.
std::optional<error> own_error(nb::handle exception) noexcept {
  try {
    if (!nb::isinstance(exception, nb::module_::import_("penstock.core.errors").attr("Error"))) return {};
    const std::string code = utf8_of(exception.attr("code"));
    for (const class_name& one : kClasses) {
      if (to_string(one.code) != code) continue;
      error made(one.code, utf8_of(exception.attr("message")));
      for (const nb::handle note : nb::borrow<nb::object>(exception.attr("notes"))) made.note(utf8_of(note));
      return made;
    }
  } catch (const std::exception&) {
    PyErr_Clear();
  }
  return {};
}

// PyErr_GetRaisedException exists since 3.12.
PyObject* raised_exception() noexcept {
#if PY_VERSION_HEX >= 0x030C0000
  return PyErr_GetRaisedException();
#else
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (value != nullptr && trace != nullptr) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return value;
#endif
}

void set_raised_exception(PyObject* value) noexcept {
#if PY_VERSION_HEX >= 0x030C0000
  PyErr_SetRaisedException(value);
#else
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value)), value);
  Py_DECREF(value);
#endif
}

}  // namespace

std::string type_name_of(PyObject* object) {
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  std::string out;
  for (const char* const name : {"__module__", "__qualname__"}) {
    PyObject* const found = PyObject_GetAttrString(type, name);
    if (found == nullptr) {
      PyErr_Clear();
      continue;
    }
    const std::string text = utf8_or_nothing(found);
    Py_DECREF(found);
    if (text.empty() || text == "builtins") continue;
    if (!out.empty()) out += '.';
    out += text;
  }
  return out;
}

nb::str to_str(std::string_view text, const char* on_error) {
  PyObject* const decoded = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), on_error);
  if (decoded == nullptr) throw_python_error();
  return nb::steal<nb::str>(decoded);
}

void set_error(const std::exception& failure) noexcept {
  PyObject* type = PyExc_RuntimeError;
  if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) type = PyExc_MemoryError;
  if (const auto* const known = dynamic_cast<const nb::builtin_exception*>(&failure)) {
    if (known->type() == nb::exception_type::type_error) type = PyExc_TypeError;
    if (known->type() == nb::exception_type::value_error) type = PyExc_ValueError;
    if (known->type() == nb::exception_type::index_error) type = PyExc_IndexError;
    if (known->type() == nb::exception_type::buffer_error) type = PyExc_BufferError;
  }
  if (dynamic_cast<const std::bad_cast*>(&failure) != nullptr) type = PyExc_TypeError;
  PyErr_SetString(type, failure.what());
}

void throw_python_error() {
  if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_SystemError, "a Python call failed without an exception");
  throw nb::python_error();
}

std::string utf8_of(nb::handle value) {
  Py_ssize_t size = 0;
  if (PyUnicode_Check(value.ptr()) == 0) {
    PyErr_Format(PyExc_TypeError, "expected a str, got %R", reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())));
    throw_python_error();
  }
  const char* const text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (text == nullptr) throw_python_error();
  return {text, static_cast<std::size_t>(size)};
}

std::uint64_t length_of(nb::handle value) {
  std::uint64_t out = 0;
  if (nb::try_cast(value, out)) return out;
  const nb::str shown = nb::repr(value);
  raise(error(errc::invalid_argument, "a length must be a whole number from 0 to 2^64 - 1, got " + utf8_of(shown)));
}

nb::tuple tuple_of(nb::handle value, std::size_t count, const char* name) {
  if (PyTuple_Check(value.ptr()) == 0) {
    PyErr_Format(PyExc_TypeError, "%s must be a tuple, got %R", name,
                 reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())));
    throw_python_error();
  }
  const Py_ssize_t size = PyTuple_Size(value.ptr());
  if (static_cast<std::size_t>(size) != count) {
    PyErr_Format(PyExc_ValueError, "%s must have %zu items, got %zd", name, count, size);
    throw_python_error();
  }
  return nb::borrow<nb::tuple>(value);
}

void set_error(const error& failure) noexcept {
  try {
    const nb::object raised = make_exception(failure);
    PyErr_SetObject(raised.type().ptr(), raised.ptr());
  } catch (nb::python_error& inner) {
    inner.restore();
  } catch (const std::exception& inner) {
    set_error(inner);
  }
}

void raise(const error& failure) {
  set_error(failure);
  throw_python_error();
}

void stash_exception() noexcept {
  PyObject* raised = raised_exception();
  Py_XDECREF(std::exchange(stashed, raised));
}

bool restore_exception() noexcept {
  if (stashed == nullptr) return false;
  set_raised_exception(std::exchange(stashed, nullptr));
  return true;
}

error take_python_error() noexcept {
  PyObject* raised = raised_exception();
  if (raised == nullptr) return {errc::internal, "a Python call failed without an exception"};
  if (auto own = own_error(raised)) {
    Py_DECREF(raised);
    return std::move(*own);
  }
  error failure(code_of(raised), exception_text(raised));
  if (PyErr_GivenExceptionMatches(raised, PyExc_Exception) != 0) {
    Py_DECREF(raised);
    return failure;
  }
  if (!is_called_by_python()) {  // a later call on this thread would raise it
    Py_DECREF(raised);
    return {errc::cancelled, failure.message()};
  }
  // Ctrl-C and SystemExit are passed through C++ to the caller of the read on this thread.
  Py_XDECREF(std::exchange(stashed, raised));
  return {errc::cancelled, failure.message()};
}

void bind_errors(nb::module_& m) {
  nb::module_::import_("penstock.core.errors");
  m.def(
      "_raise",
      [](const char* code, const char* message) {
        for (const class_name& one : kClasses) {
          if (to_string(one.code) == code) raise(error(one.code, message));
        }
        raise(error(errc::internal, message));
      },
      nb::arg("code"), nb::arg("message"), "Raise the exception of an error code, as the engine raises it.");
}

}  // namespace penstock::inline v0::python
