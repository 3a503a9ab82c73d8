#pragma once

#include <utility>

#include "bind.h"

namespace penstock::inline v0::python {

/// Memory of an ndarray, read-only or not, for as long as this lives.
class exported_value {
 public:
  exported_value() noexcept = default;
  exported_value(const exported_value&) = delete;
  ~exported_value() {
    if (exported_) PyBuffer_Release(&buffer_);
  }

  /// Returns false if the object's memory is not a block of such items; no Python exception is set.
  bool open(PyObject* object, const dtype& type) noexcept {
    if (PyObject_GetBuffer(object, &buffer_, PyBUF_STRIDED_RO) < 0) {
      PyErr_Clear();
      return false;
    }
    exported_ = true;
    const auto rank = static_cast<std::size_t>(buffer_.ndim);
    if (rank > kMaxRank || buffer_.itemsize != static_cast<Py_ssize_t>(type.item_bytes())) return false;
    view_.data = static_cast<std::byte*>(buffer_.buf);
    view_.type = type;
    for (std::size_t d = 0; d < rank; ++d) {
      view_.extents.push_back(static_cast<std::uint64_t>(buffer_.shape[d]));
      view_.strides.push_back(buffer_.strides[d]);
    }
    return true;
  }
  /// Takes over the other's open export, after closing this one's.
  void take(exported_value& other) noexcept {
    if (exported_) PyBuffer_Release(&buffer_);
    buffer_ = other.buffer_;
    exported_ = std::exchange(other.exported_, false);
    view_ = other.view_;
  }
  const tensor_view& view() const noexcept { return view_; }

 private:
  Py_buffer buffer_{};
  bool exported_ = false;
  tensor_view view_;
};

/// Whether `value` is an ndarray of the array's dtype, and not of a subclass of ndarray. The GIL is held.
bool is_native(const array_handle& to, PyObject* value) noexcept;

}  // namespace penstock::inline v0::python
