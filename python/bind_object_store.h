#pragma once

#include "bind.h"

namespace penstock::inline v0::python {

/// Whether the engine may use a Python object's memory after the GIL is released.
enum class lending : std::uint8_t {
  lend,  ///< nothing writes to it
  copy,  ///< its owner may change or move it
};

/// Completes `wanted` from the bytes of a whole object. The GIL is held.
///
/// \param owner  Keeps `object` alive; a reference is taken if the bytes are lent.
/// \error corrupt_data  The range exceeds the object, or the object is longer than the reader allows.
result<read_done> deliver(std::span<const std::byte> object, const byte_read& wanted, lending how, PyObject* owner);

/// The same from the memory of a buffer object.
result<read_done> deliver_buffer(PyObject* object, const byte_read& wanted, lending how);

/// A `bytes` of all parts. The GIL is held; throws if no memory is available.
nb::object bytes_of(std::span<const part> parts);

void bind_object_store(nb::module_& m);

}  // namespace penstock::inline v0::python
