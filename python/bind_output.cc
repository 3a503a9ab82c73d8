#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/counted.h"
#include "base/output_pool.h"
#include "bind.h"
#include "engine/context_state.h"

namespace penstock::inline v0::python {
namespace {

// From this size on memory comes from the context's pool: fresh pages cost as much as decoding into them.
constexpr std::uint64_t kPooledBytes = std::uint64_t{1} << 20;

// Memory of a result; the ndarray that shows it has it as its base. It may outlive its context.
struct output_memory {
  output_block block;
  std::uint64_t bytes;
};

int get_result_buffer(PyObject* self, Py_buffer* view, int flags) {
  if (!nb::inst_ready(self)) {  // `_OutputMemory.__new__` alone
    view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, "this memory was never allocated");
    return -1;
  }
  auto* const memory = nb::inst_ptr<output_memory>(self);
  return PyBuffer_FillInfo(view, self, memory->block.data(), static_cast<Py_ssize_t>(memory->bytes), 0, flags);
}

const PyType_Slot kResultMemorySlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_result_buffer)}, {0, nullptr}};

// Names looked up once; they live as long as the interpreter.
struct numpy_names {
  PyObject* empty;
  PyObject* ndarray;
};
const numpy_names& numpy() {
  static const numpy_names names = [] {
    const nb::module_ module = nb::module_::import_("numpy");
    return numpy_names{nb::object(module.attr("empty")).release().ptr(),
                       nb::object(module.attr("ndarray")).release().ptr()};
  }();
  return names;
}

PyObject* shape_tuple(const extents& shape) noexcept {
  PyObject* const tuple = PyTuple_New(static_cast<Py_ssize_t>(shape.size()));
  if (tuple == nullptr) return nullptr;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    PyObject* const size = PyLong_FromUnsignedLongLong(shape[d]);
    if (size == nullptr) {
      Py_DECREF(tuple);
      return nullptr;
    }
    PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(d), size);
  }
  return tuple;
}

// NumPy does not export memory of times or of ml_dtypes' types: such an array is a view of another.
PyObject* ndarray_over_bytes(PyObject* dtype, PyObject* shape, std::uint64_t bytes, std::byte*& data) {
  if (nb::cast<bool>(nb::handle(dtype).attr("hasobject"))) {
    raise(error(errc::unsupported, "elements of variable length have no memory that the engine may write to"));
  }
  const nb::object memory = nb::handle(numpy().empty)(std::max<std::uint64_t>(bytes, 1), "u1");
  Py_buffer view;
  if (PyObject_GetBuffer(memory.ptr(), &view, PyBUF_WRITABLE) < 0) return nullptr;
  data = static_cast<std::byte*>(view.buf);
  PyBuffer_Release(&view);
  PyObject* const args[] = {nullptr, shape, dtype, memory.ptr()};
  return PyObject_Vectorcall(numpy().ndarray, args + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
}

PyObject* pooled_ndarray(const std::shared_ptr<penstock::context>& from, PyObject* dtype, PyObject* shape,
                         std::uint64_t bytes, std::byte*& data) {
  auto taken = from->state().outputs().take(bytes);
  if (!taken.ok()) {
    set_error(taken.error());
    return nullptr;
  }
  data = taken->data();
  const nb::object memory = nb::cast(output_memory{std::move(*taken), bytes});
  PyObject* const args[] = {nullptr, shape, dtype, memory.ptr()};
  return PyObject_Vectorcall(numpy().ndarray, args + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
}

nb::object new_output(const array_handle& of, nb::handle numpy_type, nb::tuple sizes) {
  extents shape;
  for (const nb::handle size : sizes) {
    if (shape.size() == kMaxRank) raise(error(errc::unsupported, "more than 32 dimensions"));
    shape.push_back(nb::cast<std::uint64_t>(size));
  }
  std::byte* data = nullptr;
  PyObject* const made =
      new_ndarray(of.array().context(), numpy_type.ptr(), dtype_of(numpy_type).item_bytes(), shape, data);
  if (made == nullptr) throw_python_error();
  return nb::steal(made);
}

}  // namespace

nb::tuple to_tuple(const extents& shape) {
  PyObject* const tuple = shape_tuple(shape);
  if (tuple == nullptr) throw_python_error();
  return nb::steal<nb::tuple>(tuple);
}

PyObject* new_ndarray(const std::shared_ptr<penstock::context>& from, PyObject* dtype, std::uint32_t item_bytes,
                      const extents& shape, std::byte*& data) noexcept {
  try {
    const nb::object sizes = nb::steal(shape_tuple(shape));
    if (!sizes.is_valid()) return nullptr;
    std::uint64_t bytes = item_bytes;
    bool fits = true;
    for (const std::uint64_t size : shape) fits = fits && checked_mul(bytes, size, bytes);
    fits = fits && bytes <= static_cast<std::uint64_t>(std::numeric_limits<Py_ssize_t>::max());
    if (!fits) {
      set_error(error(errc::resource_exhausted, "the result's size does not fit in 63 bits"));
      return nullptr;
    }
    if (bytes >= kPooledBytes) return pooled_ndarray(from, dtype, sizes.ptr(), bytes, data);

    PyObject* const args[] = {nullptr, sizes.ptr(), dtype};
    PyObject* const made = PyObject_Vectorcall(numpy().empty, args + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
    if (made == nullptr) return nullptr;
    Py_buffer view;
    if (PyObject_GetBuffer(made, &view, PyBUF_WRITABLE) < 0) {
      Py_DECREF(made);
      PyErr_Clear();
      return ndarray_over_bytes(dtype, sizes.ptr(), bytes, data);
    }
    data = static_cast<std::byte*>(view.buf);
    PyBuffer_Release(&view);  // the array is ours: its memory does not move
    return made;
  } catch (nb::python_error& failed) {
    failed.restore();
  } catch (const std::exception& failed) {
    set_error(failed);
  }
  return nullptr;
}

exported_buffer::exported_buffer(nb::handle object, const dtype& type, buffer_use use) {
  // NumPy's strings also take 16 bytes, but are not items of ours.
  if (type.variable_length()) {
    raise(error(errc::unsupported, "elements of variable length have no memory that the engine may look at"));
  }
  const int flags = use == buffer_use::read ? PyBUF_STRIDED_RO : PyBUF_STRIDED;
  if (PyObject_GetBuffer(object.ptr(), &buffer_, flags) < 0) {
    // Python code must not run while an exception is set: lookups fail then, and clear it.
    if (PyErr_Occurred() == nullptr) throw_python_error();
    nb::python_error first;
    // NumPy does not export memory of times or of ml_dtypes' types, but it exports the same bytes without a meaning.
    // The `view` of other libraries' arrays may be a copy.
    const int is_array = PyObject_IsInstance(object.ptr(), numpy().ndarray);
    if (is_array < 0) throw_python_error();
    if (is_array == 0) throw std::move(first);
    std::string opaque = std::to_string(type.item_bytes());
    opaque.insert(opaque.begin(), 'V');
    const nb::object bytes = nb::handle(numpy().ndarray).attr("view")(object, opaque.c_str());
    if (PyObject_GetBuffer(bytes.ptr(), &buffer_, flags) < 0) throw_python_error();
  }
  exported_ = true;
  const auto rank = static_cast<std::size_t>(buffer_.ndim);
  if (rank > kMaxRank || buffer_.itemsize != static_cast<Py_ssize_t>(type.item_bytes())) {
    const Py_ssize_t itemsize = buffer_.itemsize;
    PyBuffer_Release(&buffer_);
    exported_ = false;
    raise(error(errc::invalid_argument,
                "items of " + counted(itemsize, "byte") + ", the array's have " + std::to_string(type.item_bytes())));
  }
  tensor_.data = static_cast<std::byte*>(buffer_.buf);
  tensor_.type = type;
  for (std::size_t d = 0; d < rank; ++d) {
    tensor_.extents.push_back(static_cast<std::uint64_t>(buffer_.shape[d]));
    tensor_.strides.push_back(buffer_.strides[d]);
  }
}

exported_buffer::exported_buffer(exported_buffer&& other) noexcept
    : buffer_(other.buffer_), exported_(std::exchange(other.exported_, false)), tensor_(other.tensor_) {}

exported_buffer::~exported_buffer() {
  if (exported_) PyBuffer_Release(&buffer_);
}

void bind_output(nb::module_& m) {
  nb::class_<output_memory>(m, "_OutputMemory", nb::type_slots(kResultMemorySlots),
                            "Memory of a large result, from a context's pool; returned to it when dropped.");
  m.def("new_output", new_output, nb::arg("of"), nb::arg("dtype"), nb::arg("shape"),
        "A new ndarray with unspecified contents; a large one is in the memory that the array's context reuses.");
  m.def(
      "recycled_memory",
      [](const context_handle& with, std::uint64_t bytes) {
        return output_memory{unwrap(with.context->state().outputs().take(bytes)), bytes};
      },
      nb::arg("context"), nb::arg("bytes"), "Memory for a result, with unspecified contents.");
}

}  // namespace penstock::inline v0::python
