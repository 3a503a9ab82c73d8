#include <penstock/save.h>
#include <penstock/tiff_writer.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "bind_create.h"
#include "bind_read.h"
#include "bind_tiff.h"
#include "list_argument.h"

namespace penstock::inline v0::python {
namespace {

struct tiff_writer_handle {
  std::unique_ptr<tiff_writer> writer;
};

std::vector<std::byte> content_of(nb::handle from) {
  const auto given = nb::cast<nb::bytes>(from);
  std::vector<std::byte> out(given.size());
  if (!out.empty()) std::memcpy(out.data(), given.c_str(), out.size());
  return out;
}

std::optional<double> number_or_nothing(nb::handle from) {
  return from.is_none() ? std::nullopt : std::optional(nb::cast<double>(from));
}

std::optional<std::string> text_or_nothing(nb::handle from) {
  return from.is_none() ? std::nullopt : std::optional(utf8_of(from));
}

std::optional<std::uint32_t> code_or_nothing(nb::handle from) {
  return from.is_none() ? std::nullopt : std::optional(nb::cast<std::uint32_t>(from));
}

// From (epsg, is_geographic, vertical, name, esri_wkt).
coordinate_system system_of(nb::handle from) {
  const nb::tuple given = tuple_of(from, 5, "a coordinate system");
  coordinate_system out;
  out.epsg = code_or_nothing(given[0]);
  if (nb::cast<bool>(given[1])) out.of = coordinate_system::kind::geographic;
  out.vertical = code_or_nothing(given[2]);
  out.name = utf8_of(given[3]);
  out.esri_wkt = utf8_of(given[4]);
  return out;
}

tiff_meaning meaning_of(const nb::dict& given) {
  tiff_meaning out;
  if (!given["transform"].is_none()) out.transform = transform_of_object(given["transform"]);
  out.extent = static_cast<pixel_extent>(nb::cast<std::uint8_t>(given["extent"]));
  if (!given["system"].is_none()) {
    const coordinate_system system = system_of(given["system"]);
    out.geo_keys = call_engine([&] { return geo_keys_of(system); });
  }
  for (const nb::handle each : given["metadata"]) {
    const nb::tuple item = tuple_of(each, 2, "an item of metadata");
    out.metadata.emplace_back(utf8_of(item[0]), utf8_of(item[1]));
  }
  for (const nb::handle each : given["band_meanings"]) {
    const nb::tuple band = tuple_of(each, 4, "the meaning of a band");
    out.bands.push_back(
        {text_or_nothing(band[0]), text_or_nothing(band[1]), number_or_nothing(band[2]), number_or_nothing(band[3])});
  }
  return out;
}

// From native integers of 16 bits, three for each value.
std::vector<std::array<std::uint16_t, 3>> colormap_of(nb::handle from) {
  const std::vector<std::byte> bytes = content_of(from);
  std::vector<std::array<std::uint16_t, 3>> out(bytes.size() / sizeof(std::array<std::uint16_t, 3>));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof out[0]);
  return out;
}

// As `system_of` takes it.
nb::tuple epsg_system_of(std::uint32_t code) {
  const coordinate_system found = call_engine([&] { return epsg_system(code); });
  return nb::make_tuple(code, found.of == coordinate_system::kind::geographic, nb::none(), "", "");
}

}  // namespace

tiff_create_options tiff_create_options_of(const nb::dict& given) {
  tiff_create_options out;
  if (!given["bits"].is_none()) out.bits = nb::cast<std::uint32_t>(given["bits"]);
  out.mask = nb::cast<bool>(given["mask"]);
  out.tile_height = nb::cast<std::uint32_t>(given["tile_height"]);
  out.tile_width = nb::cast<std::uint32_t>(given["tile_width"]);
  out.compression = text_from(given["compression"]);
  if (!given["level"].is_none()) out.level = nb::cast<int>(given["level"]);
  if (!given["predictor"].is_none()) out.predictor = nb::cast<std::uint32_t>(given["predictor"]);
  out.planar = nb::cast<bool>(given["planar"]);
  out.photometric = nb::cast<std::uint16_t>(given["photometric"]);
  out.extra_samples = list_of<std::uint16_t>(given["extra_samples"]);
  out.auto_overviews = given["overviews"].is_none();
  if (!out.auto_overviews) out.overviews = list_of<std::uint64_t>(given["overviews"]);
  if (!given["average"].is_none())
    out.resampling = nb::cast<bool>(given["average"]) ? overview_resampling::average : overview_resampling::nearest;
  if (!given["nodata"].is_none()) out.nodata = nodata_of_object(given["nodata"]);
  out.colormap = colormap_of(given["colormap"]);
  out.meaning = meaning_of(given);
  if (!given["big_tiff"].is_none()) out.big_tiff = nb::cast<bool>(given["big_tiff"]);
  return out;
}

namespace {

tiff_writer_handle begin(const store_handle& to, const context_handle& with, nb::bytes path, const nb::dict& given) {
  const create_options options = create_options_of(with, path, given);
  const std::shared_ptr<store> where = to.store;
  std::unique_ptr<array_writer> begun = call_engine([&] { return begin_array(where, options); });
  auto* const of_tiff = dynamic_cast<tiff_writer*>(begun.get());
  if (of_tiff == nullptr) raise(error(errc::unsupported, "Python has no writer for arrays of this format"));
  begun.release();  // NOLINT(bugprone-unused-return-value)
  return {std::unique_ptr<tiff_writer>(of_tiff)};
}

// Memory of an ndarray, read-only or not, for as long as the object lives.
class exported_rows {
 public:
  exported_rows(nb::handle from, const dtype& type, std::initializer_list<int> dimensions) {
    if (PyObject_GetBuffer(from.ptr(), &buffer_, PyBUF_STRIDED_RO) < 0) throw_python_error();
    if (std::find(dimensions.begin(), dimensions.end(), buffer_.ndim) == dimensions.end() ||
        buffer_.itemsize != static_cast<Py_ssize_t>(type.item_bytes())) {
      PyBuffer_Release(&buffer_);
      raise(error(errc::invalid_argument, "values should have the image's dimensions and type"));
    }
    view_.data = static_cast<std::byte*>(buffer_.buf);
    view_.type = type;
    for (int d = 0; d < buffer_.ndim; ++d) {
      view_.extents.push_back(static_cast<std::uint64_t>(buffer_.shape[d]));
      view_.strides.push_back(buffer_.strides[d]);
    }
  }
  exported_rows(const exported_rows&) = delete;
  ~exported_rows() { PyBuffer_Release(&buffer_); }
  const tensor_view& view() const noexcept { return view_; }

 private:
  Py_buffer buffer_{};
  tensor_view view_;
};

void write_band_rows(tiff_writer_handle& self, std::uint64_t first_band, std::uint64_t first_row, nb::handle values,
                     nb::handle mask) {
  const exported_rows from(values, self.writer->options().type, {3});
  std::optional<exported_rows> valid;
  if (!mask.is_none()) valid.emplace(mask, dtype(dtype_kind::unsigned_integer, 8), std::initializer_list<int>{2});
  call_engine([&] { return self.writer->write(first_band, first_row, from.view(), valid ? &valid->view() : nullptr); });
}

// All values: an open array, or an ndarray of the image's type.
void write_everything(tiff_writer_handle& self, nb::handle values, nb::handle progress) {
  const auto write = [&](const auto& from, save_options how) {
    const auto work = [&](const progress_fn& now, std::chrono::nanoseconds) {
      const interruptible_waits asks(may_go_on);
      how.progress = now;
      return write_all(from, *self.writer, how);
    };
    if (!watch_without_gil(progress, 0, work)) throw_python_error();
  };
  save_options how;
  if (nb::isinstance<array_handle>(values)) {
    const array from = nb::cast<const array_handle&>(values).array();
    how.type = self.writer->options().type;
    return write(from, how);
  }
  const exported_rows from(values, self.writer->options().type, {2, 3});
  write(from.view(), how);
}

}  // namespace

void bind_tiff_writer(nb::module_& m) {
  locked_class<tiff_writer_handle>(m, "TiffWriter", "A TIFF under way; penstock.TiffWriter holds one.")
      .def("write", write_band_rows, nb::arg("first_band"), nb::arg("first_row"), nb::arg("values"),
           nb::arg("mask").none(), "Write values of shape (bands, rows, columns), and a mask of (rows, columns).")
      .def("write_all", write_everything, nb::arg("values"), nb::arg("progress").none() = nb::none(),
           "Write all values: of an open array, whose elements are converted, or of an ndarray of the image's dtype.")
      .def(
          "close", [](tiff_writer_handle& self) { call_engine([&] { return self.writer->close(); }); },
          "Put the file in its place.")
      .def(
          "discard", [](tiff_writer_handle& self) { self.writer->discard(); }, "Discard the written file.")
      .def_prop_ro(
          "closed", [](const tiff_writer_handle& self) { return self.writer->closed(); }, "Closed or discarded.")
      .def_prop_ro(
          "overviews",
          [](const tiff_writer_handle& self) { return nb::tuple(nb::cast(self.writer->options().overviews)); },
          "Factors.")
      .def_prop_ro(
          "predictor", [](const tiff_writer_handle& self) { return self.writer->options().predictor.value_or(1); },
          "1, 2 or 3.");
  m.def("begin_array", begin, nb::arg("store"), nb::arg("context"), nb::arg("path"), nb::arg("options"),
        "Begin a new array of a format of one file.");
  m.def("epsg_system", epsg_system_of, nb::arg("code"),
        "The system of a code that is known without a database: see `begin_array`.");
}

}  // namespace penstock::inline v0::python
