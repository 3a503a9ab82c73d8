#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

#include "bind_tiff.h"
#include "format/tiff/tiff_tags.h"

namespace penstock::inline v0::python {
namespace {

// What an array's header says; it keeps the array.
struct details_handle {
  penstock::array array;
  const tiff_details* from;

  // Of the image, or of its page.
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

// What stands before the first NUL.
std::string_view text_of(const tiff_tag& from) {
  const auto* const data = reinterpret_cast<const char*>(from.value.data());
  return {data, ::strnlen(data, from.value.size())};
}

// Text, bytes (type 7), one number, or a tuple of numbers.
nb::object value_of(const tiff_tag& from, bool big) {
  if (from.type == 2) return to_str(text_of(from), "replace");
  if (from.type == 7) return nb::bytes(from.value.data(), from.value.size());
  return numbers_of(from, 0, from.count, big);
}

// Null where there is no such tag or its value was not read. Of several the first one, as in libtiff.
const tiff_tag* find_tag(const std::vector<tiff_tag>& tags, std::uint16_t number) {
  auto at = std::lower_bound(tags.begin(), tags.end(), number,
                             [](const tiff_tag& each, std::uint16_t wanted) { return each.tag < wanted; });
  for (; at != tags.end() && at->tag == number; ++at) {
    if (!at->value.empty()) return &*at;
  }
  return nullptr;
}

// (type, value), or None where there is no such tag or its value was not read.
nb::object tag_of(const details_handle& self, std::uint16_t number, bool of_page) {
  const tiff_tag* const found = find_tag(self.tags(of_page), number);
  if (found == nullptr) return nb::none();
  return nb::make_tuple(found->type, value_of(*found, self.from->big_endian));
}

bool is_text(std::uint16_t type) noexcept { return type == 2 || type == 7; }
bool is_real(std::uint16_t type) noexcept { return type == 5 || (type >= 10 && type <= 12); }

// The GeoTIFF keys of the page by number: int, float, tuple of floats or str; from the three tags that hold them. None
// where one of these is of a kind that it cannot be. Source: OGC GeoTIFF 1.1, 7.1.
nb::object geo_keys_of(const details_handle& self) {
  constexpr std::uint16_t kDirectory = 34735, kDoubles = 34736, kText = 34737;
  const std::vector<tiff_tag>& tags = self.tags(true);
  const tiff_tag *const directory = find_tag(tags, kDirectory), *const doubles = find_tag(tags, kDoubles),
                        *const text = find_tag(tags, kText);
  nb::dict keys;
  if (directory == nullptr) return keys;
  if (is_text(directory->type) || is_real(directory->type) || (doubles != nullptr && is_text(doubles->type)) ||
      (text != nullptr && text->type != 2))
    return nb::none();
  const bool big = self.from->big_endian;
  const auto number = [&](std::uint64_t i) {
    return tiff_integer(directory->value, directory->type, i, big).value_or(0);
  };
  const auto within = [](std::uint64_t at, std::uint64_t count, std::uint64_t all) {
    return count > 0 && at <= all && count <= all - at;
  };
  const std::string_view characters = text == nullptr ? std::string_view() : text_of(*text);
  const std::uint64_t last = directory->count / 4;
  const std::uint64_t listed = last == 0 ? 0 : std::min(number(3), last - 1);
  for (std::uint64_t entry = 1; entry <= listed; ++entry) {
    const std::uint64_t where = number(4 * entry + 1), count = number(4 * entry + 2), at = number(4 * entry + 3);
    nb::object value;
    if (where == 0) {
      value = nb::int_(at);
    } else if (where == kDoubles && doubles != nullptr && within(at, count, doubles->count)) {
      value = numbers_of(*doubles, at, count, big);
    } else if (where == kText) {
      std::string_view part = characters.substr(std::min<std::uint64_t>(at, characters.size()), count);
      part = part.substr(0, part.find_last_not_of('|') + 1);
      value = to_str(part, "replace");
    } else if (where == kDirectory && within(at, count, directory->count)) {
      value = nb::int_(number(at));
    } else {
      continue;
    }
    keys[nb::int_(number(4 * entry))] = value;
  }
  return keys;
}

nb::list tags_of(const details_handle& self, bool of_page) {
  nb::list out;
  for (const tiff_tag& each : self.tags(of_page)) {
    if (!each.value.empty()) out.append(each.tag);
  }
  return out;
}

// (((height, width), ...), has_mask, the bands that it is of; none: all)
nb::tuple companions_of(const details_handle& self) {
  const tiff_companions found = call_engine([&] { return result<tiff_companions>(tiff_companions_of(self.array)); });
  nb::list overviews;
  for (const auto& [height, width] : found.overviews) overviews.append(nb::make_tuple(height, width));
  return nb::make_tuple(nb::tuple(overviews), found.has_mask, found.masked_bands);
}

}  // namespace

void bind_tiff(nb::module_& m) {
  nb::class_<details_handle>(m, "TiffDetails", "What the header of a TIFF says of an image.")
      .def_prop_ro("big_endian", [](const details_handle& self) { return self.from->big_endian; })
      .def_prop_ro("big_tiff", [](const details_handle& self) { return self.from->big_tiff; })
      .def_prop_ro(
          "page_shape",
          [](const details_handle& self) { return nb::make_tuple(self.from->page_height, self.from->page_width); })
      .def_prop_ro("directory_offset", [](const details_handle& self) { return self.from->directory_offset; })
      .def_prop_ro("side_file", [](const details_handle& self) { return to_str(self.from->side_file); })
      .def_prop_ro("structure", [](const details_handle& self) { return to_str(self.from->structure); })
      .def("tag", tag_of, nb::arg("number"), nb::arg("of_page"))
      .def("tags", tags_of, nb::arg("of_page"))
      .def("geo_keys", geo_keys_of)
      .def("companions", companions_of, "Overviews and whether there is a mask, in files beside it too.");
}

nb::object tiff_of(const array_handle& self) {
  const tiff_details* const from = tiff_details_of(self.array);
  return from == nullptr ? nb::none() : nb::cast(details_handle{self.array, from});
}

array_handle tiff_image_of(const array_handle& self, nb::handle options) {
  const array from = self.array;
  const tiff_options image = tiff_options_of(options);
  return array_handle(call_engine([&] { return open_tiff(from, image); }));
}

tiff_options tiff_options_of(nb::handle from) {
  tiff_options out;
  const auto given = nb::cast<nb::dict>(from);
  out.page = nb::cast<std::uint64_t>(given["page"]);
  out.sub_ifds = nb::cast<std::vector<std::uint64_t>>(given["sub_ifds"]);
  out.level = nb::cast<std::uint64_t>(given["level"]);
  out.mask = nb::cast<bool>(given["mask"]);
  out.native_order = nb::cast<bool>(given["native_order"]);
  out.bands = nb::cast<std::vector<std::uint64_t>>(given["bands"]);
  if (!given["ifd"].is_none()) out.ifd = nb::cast<std::uint64_t>(given["ifd"]);
  return out;
}

}  // namespace penstock::inline v0::python
