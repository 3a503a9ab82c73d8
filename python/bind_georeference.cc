#include <penstock/georeference.h>

#include <array>
#include <cmath>
#include <string>
#include <variant>

#include "bind.h"
#include "bind_tiff.h"
#include "format/tiff/geo_keys.h"
#include "format/tiff/tiff_names.h"
#include "format/tiff/tiff_nodata.h"

namespace penstock::inline v0::python {
namespace {

nb::str as_str(std::string_view text) { return to_str(text, "replace"); }
nb::object text_or_none(std::string_view text) { return text.empty() ? nb::none() : nb::object(as_str(text)); }

nb::tuple floats(std::initializer_list<double> numbers) {
  nb::list out;
  for (const double each : numbers) out.append(each);
  return nb::tuple(out);
}

nb::list floats(const std::array<double, 20>& numbers) {
  nb::list out;
  for (const double each : numbers) out.append(each);
  return out;
}

nb::object number_of(const std::optional<nodata_value>& value) {
  if (!value) return nb::none();
  return std::visit([](auto number) { return nb::cast(number); }, *value);
}

nb::dict dict_of(const metadata_items& items) {
  nb::dict out;
  for (const auto& [name, text] : items) out[as_str(name)] = as_str(text);
  return out;
}

nb::object transform_of(const georeference& self) {
  const auto found = call_engine([&] { return self.transform(); });
  return found ? nb::object(floats({found->a, found->b, found->c, found->d, found->e, found->f})) : nb::none();
}

nb::object bounds_of(const georeference& self) {
  const auto found = call_engine([&] { return self.bounds(); });
  return found ? nb::object(floats({found->left, found->bottom, found->right, found->top})) : nb::none();
}

nb::list gcps_of(const georeference& self) {
  nb::list out;
  for (const ground_control_point& each : call_engine([&] { return self.gcps(); }))
    out.append(floats({each.column, each.row, each.x, each.y, each.z}));
  return out;
}

nb::object rpcs_of(const georeference& self) {
  const auto found = call_engine([&] { return self.rpcs(); });
  if (!found) return nb::none();
  nb::dict out;
  if (found->err_bias) out["ERR_BIAS"] = *found->err_bias;
  if (found->err_rand) out["ERR_RAND"] = *found->err_rand;
  out["LINE_OFF"] = found->line_off;
  out["SAMP_OFF"] = found->samp_off;
  out["LAT_OFF"] = found->lat_off;
  out["LONG_OFF"] = found->long_off;
  out["HEIGHT_OFF"] = found->height_off;
  out["LINE_SCALE"] = found->line_scale;
  out["SAMP_SCALE"] = found->samp_scale;
  out["LAT_SCALE"] = found->lat_scale;
  out["LONG_SCALE"] = found->long_scale;
  out["HEIGHT_SCALE"] = found->height_scale;
  out["LINE_NUM_COEFF"] = floats(found->line_num_coeff);
  out["LINE_DEN_COEFF"] = floats(found->line_den_coeff);
  out["SAMP_NUM_COEFF"] = floats(found->samp_num_coeff);
  out["SAMP_DEN_COEFF"] = floats(found->samp_den_coeff);
  return out;
}

nb::object value_of(const geo_key::value_type& value) {
  if (const auto* const text = std::get_if<std::string>(&value)) return as_str(*text);
  if (const auto* const code = std::get_if<std::uint64_t>(&value)) return nb::cast(*code);
  if (const auto* const number = std::get_if<double>(&value)) return nb::cast(*number);
  nb::list out;
  for (const double each : std::get<std::vector<double>>(value)) out.append(each);
  return nb::tuple(out);
}

nb::dict geo_keys_of(const georeference& self) {
  nb::dict out;
  for (const geo_key& each : call_engine([&] { return self.geo_keys(); })) {
    const std::string_view name = geo_key_name(each.id);
    out[name.empty() ? nb::object(nb::int_(each.id)) : nb::object(to_str(name))] = value_of(each.value);
  }
  return out;
}

nb::object area_or_point_of(const georeference& self) {
  const pixel_extent found = call_engine([&] { return self.area_or_point(); });
  if (found == pixel_extent::unspecified) return nb::none();
  return nb::str(found == pixel_extent::area ? "Area" : "Point");
}

nb::list bands_of(const georeference& self) {
  nb::list out;
  for (const band_meaning& each : self.bands()) {
    nb::dict band;
    band["number"] = each.number;
    band["nodata"] = number_of(each.nodata);
    band["held_nodata"] = number_of(each.held_nodata);
    band["scale"] = each.scale;
    band["offset"] = each.offset;
    band["unit"] = text_or_none(each.unit);
    band["description"] = text_or_none(each.description);
    band["metadata"] = dict_of(each.metadata);
    out.append(band);
  }
  return out;
}

nb::object first_nodata_of(const georeference& self) {
  const std::vector<band_meaning> bands = self.bands();
  return bands.empty() ? nb::none() : number_of(bands.front().nodata);
}

nb::list colors_of(const georeference& self) {
  nb::list out;
  for (const std::string& each : call_engine([&] { return self.colors(); })) out.append(as_str(each));
  return out;
}

nb::object alpha_band_of(const georeference& self) {
  const auto found = call_engine([&] { return self.alpha_band(); });
  return found ? nb::cast(*found) : nb::none();
}

nb::list numbers_of(const std::vector<std::optional<nodata_value>>& values) {
  nb::list out;
  for (const auto& each : values) out.append(number_of(each));
  return out;
}

nb::dict validity_of_array(const array_handle& image, const georeference& of) {
  const pixel_validity found = call_engine([&, a = image.array()] { return validity_of(a, of); });
  nb::dict out;
  out["mask"] = found.mask ? nb::cast(array_handle(*found.mask)) : nb::none();
  out["mask_is_of_all_bands"] = found.mask_is_of_all_bands();
  out["is_partial"] = found.is_partial();
  out["is_alpha"] = found.is_alpha;
  out["alpha_band"] = found.alpha_band ? nb::cast(*found.alpha_band) : nb::none();
  nb::list masked;
  for (const bool each : found.masked) masked.append(each);
  out["masked"] = masked;
  out["nodata"] = numbers_of(found.nodata);
  out["nodata_of_pixels"] = numbers_of(found.nodata_of_pixels);
  return out;
}

// A number in the pixels' type: int or float, None if they cannot hold it; types other than real numbers are returned
// unchanged.
nb::object held_nodata_of(nb::handle value, nb::handle type) {
  if (value.is_none()) return nb::none();
  const dtype of = dtype_of(type);
  const bool is_number = of.kind() == dtype_kind::signed_integer || of.kind() == dtype_kind::unsigned_integer ||
                         of.kind() == dtype_kind::floating || of.kind() == dtype_kind::complex;
  if (!is_number) return nb::borrow(value);
  return number_of(held_nodata(nodata_of_object(value), of));
}

}  // namespace

nodata_value nodata_of_object(nb::handle value) {
  if (PyLong_Check(value.ptr()) != 0) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    if (overflow == 0) return static_cast<std::int64_t>(number);
    if (overflow > 0) {
      const unsigned long long large = PyLong_AsUnsignedLongLong(value.ptr());
      if (PyErr_Occurred() == nullptr) return static_cast<std::uint64_t>(large);
      PyErr_Clear();
    }
  }
  return nb::cast<double>(nb::float_(value));
}

affine_transform transform_of_object(nb::handle from) {
  const nb::tuple given = tuple_of(from, 6, "a transform");
  affine_transform out;
  double* const to[] = {&out.a, &out.b, &out.c, &out.d, &out.e, &out.f};
  for (std::size_t i = 0; i < 6; ++i) *to[i] = nb::cast<double>(given[i]);
  return out;
}

void bind_georeference(nb::module_& m) {
  nb::class_<georeference>(m, "Georeference", "The file's metadata on the values and positions of an image's pixels.")
      .def("transform", transform_of)
      .def("bounds", bounds_of)
      .def("gcps", gcps_of)
      .def("rpcs", rpcs_of)
      .def("geo_keys", geo_keys_of)
      .def("has_sidecar_gcps",
           [](const georeference& self) { return call_engine([&] { return self.has_sidecar_gcps(); }); })
      .def_prop_ro("sidecar_crs", [](const georeference& self) { return text_or_none(self.sidecar_crs()); })
      .def_prop_ro("sidecar_gcps_crs", [](const georeference& self) { return text_or_none(self.sidecar_gcps_crs()); })
      .def("area_or_point", area_or_point_of)
      .def("metadata", [](const georeference& self) { return dict_of(self.metadata()); })
      .def("bands", bands_of)
      .def("first_nodata", first_nodata_of)
      .def("colors", colors_of)
      .def("alpha_band", alpha_band_of);
  m.def("validity_of", validity_of_array, nb::arg("image"), nb::arg("of"));
  m.def("held_nodata", held_nodata_of, nb::arg("value").none(), nb::arg("dtype"));
}

}  // namespace penstock::inline v0::python
