#include <penstock/unpack.h>

#include <chrono>
#include <string>
#include <utility>

#include <nanobind/ndarray.h>

#include "array/unpack_items.h"
#include "bind.h"
#include "bind_read.h"
#include "bind_tiff.h"

namespace penstock::inline v0::python {
namespace {

using writable_bytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// From the result of `Array._resolve`: (start, step, count, axis) of each dimension, and the result's shape.
resolved_basic resolved_of(nb::handle ranges, nb::handle shape) {
  resolved_basic out;
  for (const nb::handle each : ranges) {
    const nb::tuple range = tuple_of(each, 4, "a range");
    axis_range made;
    made.start = nb::cast<decltype(made.start)>(range[0]);
    made.step = nb::cast<decltype(made.step)>(range[1]);
    made.count = nb::cast<decltype(made.count)>(range[2]);
    out.from.push_back(made);
    out.axis.push_back(static_cast<std::int8_t>(range[3].is_none() ? -1 : nb::cast<int>(range[3])));
  }
  for (const nb::handle each : shape) out.shape.push_back(nb::cast<std::uint64_t>(each));
  return out;
}

void read_unpacked(const unpacked_image& self, nb::handle ranges, nb::handle shape, const writable_bytes& to,
                   unsigned threads, nb::handle progress) {
  const resolved_basic which = resolved_of(ranges, shape);
  const tensor_view out = tensor_view::contiguous(to.data(), self.type(), which.shape);
  std::uint64_t bytes = out.type.item_bytes();
  for (const std::uint64_t each : out.extents) bytes *= each;
  if (bytes != to.size() || which.from.size() != self.packed().shape().size())
    throw nb::value_error("as many bytes as the selection has");
  const auto read = [&](const progress_fn& now, std::chrono::nanoseconds interval) {
    const interruptible_waits asks(may_go_on);
    read_options options;
    options.threads = threads;
    options.progress = now;
    options.poll_interval = interval;
    return self.read(which, out, options);
  };
  if (!watch_without_gil(progress, bytes, read)) throw_python_error();
}

unpacked_image make(const array_handle& image, bool masked) {
  return call_engine([&, a = image.array()] { return unpacked_image::make(a, masked); });
}

}  // namespace

void bind_unpack(nb::module_& m) {
  nb::class_<unpacked_image>(m, "UnpackedImage", "An image whose reads return the numbers that its pixels represent.")
      .def("read", read_unpacked, nb::arg("ranges"), nb::arg("shape"), nb::arg("to"), nb::arg("threads"),
           nb::arg("progress").none() = nb::none(),
           "Read the box that `Array._resolve` returned into the bytes of a contiguous array.");
  m.def(
      "unpacked_type",
      [](nb::handle stored, bool scales) { return numpy_dtype(unpacked_type(dtype_of(stored), scales)); },
      nb::arg("dtype"), nb::arg("scales"), "The type of unpacked values; `scales`: a band has a scale or an offset.");
  m.def("unpacked_image", make, nb::arg("image"), nb::arg("masked"), "Of a TIFF.");
}

}  // namespace penstock::inline v0::python
