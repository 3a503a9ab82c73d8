#include <penstock/window.h>

#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/ndarray.h>

#include "bind.h"
#include "bind_read.h"
#include "bind_tiff.h"

namespace penstock::inline v0::python {
namespace {

using writable_bytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// From an `Array` or an `UnpackedImage`.
window_image image_of_object(nb::handle from) {
  if (nb::isinstance<unpacked_image>(from)) return nb::cast<const unpacked_image&>(from);
  return nb::cast<const array_handle&>(from).array();
}

resampling resampling_of(const std::string& name) {
  if (name == "average") return resampling::average;
  return name == "bilinear" ? resampling::bilinear : resampling::nearest;
}

ground_bounds bounds_of_object(nb::handle from) {
  const nb::tuple given = tuple_of(from, 4, "bounds");
  return {nb::cast<double>(given[0]), nb::cast<double>(given[1]), nb::cast<double>(given[2]),
          nb::cast<double>(given[3])};
}

window_options options_of(const nb::dict& given) {
  window_options out;
  if (!given["bounds"].is_none()) out.bounds = bounds_of_object(given["bounds"]);
  if (!given["shape"].is_none()) {
    const nb::tuple size = tuple_of(given["shape"], 2, "shape");
    out.size = image_size{nb::cast<std::uint64_t>(size[0]), nb::cast<std::uint64_t>(size[1])};
  }
  out.how = resampling_of(nb::cast<std::string>(given["resampling"]));
  const auto fill = nb::cast<nb::bytes>(given["fill_value"]);
  const auto* const bytes = reinterpret_cast<const std::byte*>(fill.c_str());
  out.fill_value.assign(bytes, bytes + fill.size());
  out.boundless = nb::cast<bool>(given["boundless"]);
  out.threads = nb::cast<unsigned>(given["threads"]);
  if (!given["transform"].is_none()) out.transform = transform_of_object(given["transform"]);
  if (!given["nodata"].is_none()) out.nodata = nodata_of_object(given["nodata"]);
  if (!given["overviews"].is_none()) {
    out.overviews.emplace();
    for (const nb::handle each : given["overviews"]) out.overviews->push_back(image_of_object(each));
  }
  return out;
}

window_reader plan_window(nb::handle of, const nb::dict& given) {
  const window_image image = image_of_object(of);
  window_options options = options_of(given);
  return call_engine([&] { return window_reader::make(image, std::move(options)); });
}

nb::tuple shape_of(const window_reader& self) {
  nb::list out;
  for (const std::uint64_t each : self.shape()) out.append(each);
  return nb::tuple(out);
}

void read_window(const window_reader& self, const writable_bytes& to, nb::handle progress) {
  const tensor_view out = tensor_view::contiguous(to.data(), self.type(), self.shape());
  std::uint64_t bytes = out.type.item_bytes();
  for (const std::uint64_t each : out.extents) bytes *= each;
  if (bytes != to.size()) throw nb::value_error("as many bytes as the window has");
  const auto read = [&](const progress_fn& now, std::chrono::nanoseconds) {
    const interruptible_waits asks(may_go_on);
    return self.read(out, now);
  };
  if (!watch_without_gil(progress, bytes, read)) throw_python_error();
}

// The rows and the columns of the level from which the result is read.
nb::tuple nearest_of(const window_reader& self) {
  const auto list_of = [](std::span<const std::int64_t> numbers) {
    nb::list out;
    for (const std::int64_t each : numbers) out.append(each);
    return out;
  };
  return nb::make_tuple(list_of(self.nearest_rows()), list_of(self.nearest_columns()));
}

}  // namespace

void bind_window(nb::module_& m) {
  nb::class_<window_reader>(m, "WindowReader", "A rectangle of an image on a grid of any size.")
      .def_prop_ro("shape", shape_of, "Of the result.")
      .def_prop_ro("nearest", nearest_of, "The rows and the columns of the level from which the result is read.")
      .def_prop_ro(
          "level", [](const window_reader& self) { return array_handle{self.level()}; }, "What is read.")
      .def("read", read_window, nb::arg("to"), nb::arg("progress").none() = nb::none(),
           "Read into the bytes of a contiguous array.");
  m.def("plan_window", plan_window, nb::arg("image"), nb::arg("options"), "Choose the overview of a window.");
}

}  // namespace penstock::inline v0::python
