#include <fmt/format.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

#include "bind_tiff.h"
#include "format/tiff/geo_keys.h"
#include "format/tiff/tiff_names.h"
#include "format/tiff/tiff_nodata.h"
#include "format/tiff/tiff_tags.h"
#include "format/tiff/tiff_values.h"
#include "list_argument.h"

namespace penstock::inline v0::python {
namespace {

// The contents of an array's header; it owns the array.
struct details_handle {
  penstock::array array;
  const tiff_details* from;

  // Tags of the image, or of its page.
  tiff_values values(bool of_page) const {
    return of_page ? tiff_values::of_page(*from) : tiff_values::of_image(*from);
  }
  const std::vector<tiff_tag>& tags(bool of_page) const {
    return of_page && !from->page_tags.empty() ? from->page_tags : from->tags;
  }
};

template <class T>
T number_at(const tiff_tag& from, std::uint64_t i, bool big_endian) noexcept {
  using bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t,
                                                     std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
  const bits stored = tiff_number<bits>(from.value.data() + i * sizeof(T), big_endian);
  T out;
  std::memcpy(&out, &stored, sizeof out);
  return out;
}

// The i-th number of a tag. Null: a Python exception is set.
PyObject* item_of(const tiff_tag& from, std::uint64_t i, bool big) {
  const auto ratio = [](double top, double bottom) {
    return PyFloat_FromDouble(bottom == 0 ? std::numeric_limits<double>::quiet_NaN() : top / bottom);
  };
  switch (from.type) {
    case 3:
      return PyLong_FromLong(number_at<std::uint16_t>(from, i, big));
    case 4:
    case 13:
      return PyLong_FromUnsignedLongLong(number_at<std::uint32_t>(from, i, big));
    case 5:
      return ratio(number_at<std::uint32_t>(from, 2 * i, big), number_at<std::uint32_t>(from, 2 * i + 1, big));
    case 6:
      return PyLong_FromLong(number_at<std::int8_t>(from, i, big));
    case 8:
      return PyLong_FromLong(number_at<std::int16_t>(from, i, big));
    case 9:
      return PyLong_FromLong(number_at<std::int32_t>(from, i, big));
    case 10:
      return ratio(number_at<std::int32_t>(from, 2 * i, big), number_at<std::int32_t>(from, 2 * i + 1, big));
    case 11:
      return PyFloat_FromDouble(number_at<float>(from, i, big));
    case 12:
      return PyFloat_FromDouble(number_at<double>(from, i, big));
    case 16:
    case 18:
      return PyLong_FromUnsignedLongLong(number_at<std::uint64_t>(from, i, big));
    case 17:
      return PyLong_FromLongLong(number_at<std::int64_t>(from, i, big));
    default:
      return PyLong_FromLong(number_at<std::uint8_t>(from, i, big));
  }
}

PyObject* checked(PyObject* made) {
  if (made == nullptr) throw_python_error();
  return made;
}

// `count` numbers of a tag from number `first` on: one number, or a tuple of them.
nb::object numbers_of(const tiff_tag& from, std::uint64_t first, std::uint64_t count, bool big) {
  if (count == 1) return nb::steal(checked(item_of(from, first, big)));
  const nb::object out = nb::steal(checked(PyTuple_New(static_cast<Py_ssize_t>(count))));
  for (std::uint64_t i = 0; i < count; ++i)
    PyTuple_SetItem(out.ptr(), static_cast<Py_ssize_t>(i), checked(item_of(from, first + i, big)));
  return out;
}

// Text, bytes (type 7), one number, or a tuple of numbers.
nb::object value_of(const tiff_tag& from, bool big) {
  if (from.type == 2) return to_str(text_of(from), "replace");
  if (from.type == 7) return nb::bytes(from.value.data(), from.value.size());
  return numbers_of(from, 0, from.count, big);
}

// (type, value), or None if the tag does not exist or its value was not read.
// A tag that a program names: by its name, or by its number.
std::optional<std::uint16_t> number_of(nb::handle tag) {
  if (nb::isinstance<nb::str>(tag)) return tiff_tag_of(nb::cast<std::string>(tag));
  return nb::cast<std::uint16_t>(tag);
}

nb::object tag_of(const details_handle& self, nb::handle tag, bool of_page) {
  const std::optional<std::uint16_t> number = number_of(tag);
  const tiff_tag* const found = number ? self.values(of_page).find(*number) : nullptr;
  if (found == nullptr) return nb::none();
  return nb::make_tuple(found->type, value_of(*found, self.from->big_endian));
}

nb::list tags_of(const details_handle& self, bool of_page) {
  nb::list out;
  for (const tiff_tag& each : self.tags(of_page)) {
    if (each.value.empty()) continue;
    const std::string_view name = tiff_tag_name(each.tag);
    out.append(name.empty() ? nb::object(nb::int_(each.tag)) : nb::object(to_str(name)));
  }
  return out;
}

// (((height, width), ...), has_mask, the bands that the mask is for; none: all)
nb::tuple companions_of(const details_handle& self) {
  const tiff_companions found = call_engine([&] { return result<tiff_companions>(tiff_companions_of(self.array)); });
  nb::list overviews;
  for (const auto& [height, width] : found.overviews) overviews.append(nb::make_tuple(height, width));
  return nb::make_tuple(nb::tuple(overviews), found.has_mask, found.masked_bands);
}

// Adds the options of the image that the array shows.
template <class T>
T noted(const details_handle& self, result<T> of) {
  return call_engine([&]() -> result<T> {
    if (of.ok()) return std::move(of);
    return std::move(of).error().note(fmt::format("array '{}'", self.array.uri()));
  });
}

std::int64_t integer_of(const details_handle& self, std::uint16_t number, std::int64_t absent) {
  return noted(self, self.values(false).integer(number, absent));
}

std::int64_t named_integer_of(const details_handle& self, nb::handle tag, std::int64_t absent) {
  const std::optional<std::uint16_t> number = number_of(tag);
  return number ? integer_of(self, *number, absent) : absent;
}

nb::str word_of(const details_handle& self, std::uint16_t number, std::int64_t absent,
                std::string (*word)(std::int64_t)) {
  return to_str(word(integer_of(self, number, absent)));
}

nb::object palette_of(const details_handle& self) {
  const auto found = noted(self, tiff_colormap(self.values(false)));
  return found.empty() ? nb::none() : nb::cast(found);
}

// The options of the image in the form of `tiff_options_of`; None if they are those of the first image.
nb::object options_to_keep(const details_handle& self) {
  const tiff_options from = penstock::tiff_options_of(self.array);
  if (from.is_default()) return nb::none();
  nb::dict out;
  out["page"] = from.page;
  out["sub_ifds"] = from.sub_ifds;
  out["level"] = from.level;
  out["mask"] = from.mask;
  out["native_order"] = from.native_order;
  out["bands"] = from.bands;
  out["ifd"] = from.ifd ? nb::cast(*from.ifd) : nb::none();
  return out;
}

}  // namespace

void bind_tiff(nb::module_& m) {
  nb::class_<details_handle>(m, "TiffDetails", "The properties of an image in the header of a TIFF.")
      .def_prop_ro("big_endian", [](const details_handle& self) { return self.from->big_endian; })
      .def_prop_ro("big_tiff", [](const details_handle& self) { return self.from->big_tiff; })
      .def_prop_ro(
          "page_shape",
          [](const details_handle& self) { return nb::make_tuple(self.from->page_height, self.from->page_width); })
      .def_prop_ro("directory_offset", [](const details_handle& self) { return self.from->directory_offset; })
      .def_prop_ro("side_file", [](const details_handle& self) { return to_str(self.from->side_file); })
      .def_prop_ro("structure", [](const details_handle& self) { return to_str(self.from->structure); })
      .def("tag", tag_of, nb::arg("tag"), nb::arg("of_page"))
      .def("tags", tags_of, nb::arg("of_page"))
      .def("integer", named_integer_of, nb::arg("tag"), nb::arg("absent"))
      .def_prop_ro("compression",
                   [](const details_handle& self) { return word_of(self, 259, 1, tiff_compression_word); })
      .def_prop_ro("photometric",
                   [](const details_handle& self) { return word_of(self, 262, 0, tiff_photometric_word); })
      .def("colormap", palette_of)
      .def("options", options_to_keep)
      .def_prop_ro("geo_keys",
                   [](const details_handle& self) {
                     const std::string keys = text_of_geo_keys(*self.from);
                     return nb::bytes(keys.data(), keys.size());
                   })
      .def("georeference",
           [](const details_handle& self) {
             return call_engine([&] { return result<georeference>(georeference_of(self.array)); });
           })
      .def("companions", companions_of, "Overviews and whether there is a mask, also in sidecar files.");
}

nb::object tiff_of(const array_handle& self) {
  const array a = self.array();
  const tiff_details* const from = tiff_details_of(a);
  return from == nullptr ? nb::none() : nb::cast(details_handle{a, from});
}

array_handle tiff_image_of(const array_handle& self, nb::handle options) {
  const array from = self.array();
  const tiff_options image = tiff_options_of(options);
  return array_handle(call_engine([&] { return open_tiff(from, image); }));
}

tiff_options tiff_options_of(nb::handle from) {
  tiff_options out;
  const auto given = nb::cast<nb::dict>(from);
  out.page = nb::cast<std::uint64_t>(given["page"]);
  out.sub_ifds = list_of<std::uint64_t>(given["sub_ifds"]);
  out.level = nb::cast<std::uint64_t>(given["level"]);
  out.mask = nb::cast<bool>(given["mask"]);
  out.native_order = nb::cast<bool>(given["native_order"]);
  out.bands = list_of<std::uint64_t>(given["bands"]);
  if (!given["ifd"].is_none()) out.ifd = nb::cast<std::uint64_t>(given["ifd"]);
  return out;
}

}  // namespace penstock::inline v0::python
