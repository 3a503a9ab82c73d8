#include <penstock/stream.h>

#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bind.h"
#include "bind_items.h"
#include "list_argument.h"

namespace penstock::inline v0::python {
namespace {

/// A stream, and the dtype of its tiles.
class stream_handle {
 public:
  stream_handle(const array_handle& from, nb::handle tile, std::size_t depth, std::size_t axis, nb::handle edges)
      : dtype_(from.dtype) {
    stream_options options;
    for (const std::uint64_t length : list_of<std::uint64_t>(tile)) options.tile.push_back(length);
    options.depth = depth;
    options.axis = axis;
    options.edges = list_of<std::uint64_t>(edges);
    made_.emplace(unwrap(array_stream::make(from.array, std::move(options))));
  }
  stream_handle(const stream_handle&) = delete;
  stream_handle& operator=(const stream_handle&) = delete;
  ~stream_handle() {
    // Its reads may need the GIL: a store may be a Python object.
    const without_gil released;
    made_.reset();
  }

  /// (index, slices, values), or None at the end.
  nb::object next() {
    std::optional<stream_tile> tile = call_engine([&] { return made_->next(); });
    if (!tile) return nb::none();
    nb::list slices;
    for (std::size_t d = 0; d < tile->where.size.size(); ++d) {
      const std::uint64_t low = tile->where.origin[d];
      const nb::object begin = nb::int_(low), end = nb::int_(low + tile->where.size[d]);
      slices.append(nb::steal(PySlice_New(begin.ptr(), end.ptr(), nullptr)));
    }
    const nb::tuple index = to_tuple(tile->index);
    return nb::make_tuple(index, nb::tuple(slices), values_of(*tile));
  }
  void cancel() {
    const without_gil released;
    made_->cancel();
  }

 private:
  nb::object values_of(stream_tile& tile) const {
    const tensor_view& view = tile.values.view;
    if (!view.type.variable_length()) return ndarray_of(std::move(tile.values), dtype_);
    const auto* const first = reinterpret_cast<const variable_item*>(view.data);
    const std::span items(first, static_cast<std::size_t>(unwrap(element_count(view.extents))));
    PyObject* const made = ndarray_of_items(items, view.type, view.extents, dtype_.ptr());
    if (made == nullptr) throw_python_error();
    return nb::steal(made);
  }

  std::optional<array_stream> made_;
  nb::object dtype_;
};

}  // namespace

void bind_stream(nb::module_& m) {
  nb::class_<stream_handle>(m, "_Stream", nb::is_weak_referenceable(),
                            "Tiles of an array, read ahead: see penstock.stream.")
      .def(nb::init<const array_handle&, nb::handle, std::size_t, std::size_t, nb::handle>(), nb::arg("array"),
           nb::arg("tile"), nb::arg("depth"), nb::arg("axis"), nb::arg("edges"))
      .def("next", &stream_handle::next)
      .def("cancel", &stream_handle::cancel);
}

}  // namespace penstock::inline v0::python
