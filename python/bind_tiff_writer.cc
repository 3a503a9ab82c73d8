#include <penstock/tiff_writer.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/vector.h>

#include "bind.h"

namespace penstock::inline v0::python {
namespace {

struct tiff_writer_handle {
  tiff_writer writer;
};

std::vector<std::byte> bytes_of(nb::handle from) {
  const auto given = nb::cast<nb::bytes>(from);
  std::vector<std::byte> out(given.size());
  if (!out.empty()) std::memcpy(out.data(), given.c_str(), out.size());
  return out;
}

std::string text_of(nb::handle from) {
  const std::vector<std::byte> bytes = bytes_of(from);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// From (tag, type, count, bytes) of each.
std::vector<tiff_tag> tags_of(nb::handle from) {
  std::vector<tiff_tag> out;
  for (const nb::handle each : from) {
    const nb::tuple tag = tuple_of(each, 4, "a tag");
    out.push_back({nb::cast<std::uint16_t>(tag[0]), nb::cast<std::uint16_t>(tag[1]), nb::cast<std::uint64_t>(tag[2]),
                   bytes_of(tag[3])});
  }
  return out;
}

tiff_create_options options_of(const context_handle& with, const nb::bytes& path, const nb::dict& given) {
  tiff_create_options out;
  out.context = with.context;
  out.path = text_of(path);
  out.overwrite = nb::cast<bool>(given["overwrite"]);
  out.durable = nb::cast<bool>(given["durable"]);
  out.temporary_folder = text_of(given["temporary_folder"]);
  out.bands = nb::cast<std::uint64_t>(given["bands"]);
  out.height = nb::cast<std::uint64_t>(given["height"]);
  out.width = nb::cast<std::uint64_t>(given["width"]);
  out.type = dtype_of(given["dtype"]);
  if (!given["bits"].is_none()) out.bits = nb::cast<std::uint32_t>(given["bits"]);
  out.mask = nb::cast<bool>(given["mask"]);
  out.tile_height = nb::cast<std::uint32_t>(given["tile_height"]);
  out.tile_width = nb::cast<std::uint32_t>(given["tile_width"]);
  out.compression = text_of(given["compression"]);
  if (!given["level"].is_none()) out.level = nb::cast<int>(given["level"]);
  if (!given["predictor"].is_none()) out.predictor = nb::cast<std::uint32_t>(given["predictor"]);
  out.planar = nb::cast<bool>(given["planar"]);
  out.photometric = nb::cast<std::uint16_t>(given["photometric"]);
  out.extra_samples = nb::cast<std::vector<std::uint16_t>>(given["extra_samples"]);
  out.auto_overviews = given["overviews"].is_none();
  if (!out.auto_overviews) out.overviews = nb::cast<std::vector<std::uint64_t>>(given["overviews"]);
  if (!given["average"].is_none())
    out.resampling = nb::cast<bool>(given["average"]) ? overview_resampling::average : overview_resampling::nearest;
  out.nodata = bytes_of(given["nodata"]);
  if (!given["big_tiff"].is_none()) out.big_tiff = nb::cast<bool>(given["big_tiff"]);
  out.tags = tags_of(given["tags"]);
  out.shared_tags = tags_of(given["shared_tags"]);
  return out;
}

tiff_writer_handle create(const store_handle& to, const context_handle& with, nb::bytes path, const nb::dict& given) {
  tiff_create_options options = options_of(with, path, given);
  const std::shared_ptr<store> where = to.store;
  return {call_engine([&] { return tiff_writer::create(where, std::move(options)); })};
}

// Memory of an ndarray, read-only or not, for as long as the object lives.
class exported_values {
 public:
  exported_values(nb::handle from, const dtype& type, int dimensions) {
    if (PyObject_GetBuffer(from.ptr(), &buffer_, PyBUF_STRIDED_RO) < 0) throw_python_error();
    if (buffer_.ndim != dimensions || buffer_.itemsize != static_cast<Py_ssize_t>(type.item_bytes())) {
      PyBuffer_Release(&buffer_);
      raise(error(errc::invalid_argument, "values should have the image's dimensions and type"));
    }
    view_.data = static_cast<std::byte*>(buffer_.buf);
    view_.type = type;
    for (int d = 0; d < dimensions; ++d) {
      view_.extents.push_back(static_cast<std::uint64_t>(buffer_.shape[d]));
      view_.strides.push_back(buffer_.strides[d]);
    }
  }
  exported_values(const exported_values&) = delete;
  ~exported_values() { PyBuffer_Release(&buffer_); }
  const tensor_view& view() const noexcept { return view_; }

 private:
  Py_buffer buffer_{};
  tensor_view view_;
};

void write(tiff_writer_handle& self, std::uint64_t first_band, std::uint64_t first_row, nb::handle values,
           nb::handle mask) {
  const exported_values from(values, self.writer.options().type, 3);
  std::optional<exported_values> valid;
  if (!mask.is_none()) valid.emplace(mask, dtype(dtype_kind::unsigned_integer, 8), 2);
  call_engine([&] { return self.writer.write(first_band, first_row, from.view(), valid ? &valid->view() : nullptr); });
}

}  // namespace

void bind_tiff_writer(nb::module_& m) {
  nb::class_<tiff_writer_handle>(m, "TiffWriter", "A TIFF under way; penstock.TiffWriter holds one.")
      .def("write", write, nb::arg("first_band"), nb::arg("first_row"), nb::arg("values"), nb::arg("mask").none(),
           "Write values of shape (bands, rows, columns), and a mask of (rows, columns).")
      .def(
          "close", [](tiff_writer_handle& self) { call_engine([&] { return self.writer.close(); }); },
          "Put the file in its place.")
      .def(
          "discard", [](tiff_writer_handle& self) { self.writer.discard(); }, "Give up what was written.")
      .def_prop_ro(
          "closed", [](const tiff_writer_handle& self) { return self.writer.closed(); }, "Closed or discarded.")
      .def_prop_ro(
          "overviews",
          [](const tiff_writer_handle& self) { return nb::tuple(nb::cast(self.writer.options().overviews)); },
          "Factors.")
      .def_prop_ro(
          "predictor", [](const tiff_writer_handle& self) { return self.writer.options().predictor.value_or(1); },
          "1, 2 or 3.");
  m.def("create_tiff", create, nb::arg("store"), nb::arg("context"), nb::arg("path"), nb::arg("options"),
        "Begin a new TIFF.");
}

}  // namespace penstock::inline v0::python
