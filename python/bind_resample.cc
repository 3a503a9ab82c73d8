#include <nanobind/ndarray.h>

#include "array/weighted_means.h"
#include "bind.h"

namespace penstock::inline v0::python {
namespace {

using integers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using weights = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using pixels = nb::ndarray<nb::ro, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using flags = nb::ndarray<const std::uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using numbers = nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

dtype type_of(const nb::dlpack::dtype& from) {
  if (from == nb::dtype<float>() || from == nb::dtype<double>()) return dtype(dtype_kind::floating, from.bits);
  const auto code = static_cast<nb::dlpack::dtype_code>(from.code);
  if (code == nb::dlpack::dtype_code::UInt) return dtype(dtype_kind::unsigned_integer, from.bits);
  if (code == nb::dlpack::dtype_code::Int) return dtype(dtype_kind::signed_integer, from.bits);
  throw nb::value_error("values of a type that has no means: numbers of another shape");
}

axis_taps taps_of(const integers& first, const weights& given, std::int64_t low) {
  if (given.shape(0) != first.shape(0)) throw nb::value_error("as many rows of weights as first pixels");
  return {{first.data(), first.shape(0)}, {given.data(), given.shape(0) * given.shape(1)}, given.shape(1), low};
}

void means_of(const pixels& values, const nb::object& valid, const integers& rows, const weights& row_weights,
              std::int64_t low_row, const integers& columns, const weights& column_weights, std::int64_t low_column,
              bool by_axis, const numbers& means, const numbers& weight) {
  pixel_planes from;
  from.values = static_cast<const std::byte*>(values.data());
  from.type = type_of(values.dtype());
  from.planes = values.shape(0);
  from.rows = values.shape(1);
  from.columns = values.shape(2);
  flags given;
  if (!valid.is_none()) {
    given = nb::cast<flags>(valid);
    from.valid = given.data();
    from.valid_planes = given.shape(0);
    if (given.shape(1) != from.rows || given.shape(2) != from.columns ||
        (from.valid_planes != 1 && from.valid_planes != from.planes))
      throw nb::value_error("a flag for each pixel");
  }
  const axis_taps down = taps_of(rows, row_weights, low_row), across = taps_of(columns, column_weights, low_column);
  const std::size_t weighed = valid.is_none() ? 1 : from.planes;
  if (!has_weighted_means(from.type) || means.shape(0) != from.planes || weight.shape(0) != weighed ||
      means.shape(1) != down.count() || means.shape(2) != across.count() || weight.shape(1) != down.count() ||
      weight.shape(2) != across.count()) {
    throw nb::value_error("results of another shape, or values of a type that has no means");
  }
  const nb::gil_scoped_release unlocked;
  weighted_means(from, down, across, by_axis, means.data(), weight.data());
}

bool store_means(const numbers& means, const numbers& weight,
                 const nb::ndarray<nb::ndim<3>, nb::c_contig, nb::device::cpu>& to, const nb::object& nodata) {
  const dtype type = type_of(to.dtype());
  for (const std::size_t axis : {1, 2}) {
    if (weight.shape(axis) != means.shape(axis) || to.shape(axis) != means.shape(axis))
      throw nb::value_error("means, weights and results of the same shape");
  }
  const bool is_shared = weight.shape(0) == 1;
  if (!has_weighted_means(type) || to.shape(0) != means.shape(0) || (!is_shared && weight.shape(0) != means.shape(0)))
    throw nb::value_error("means, weights and results of the same shape, or a type that has no means");
  const std::byte* instead = nullptr;
  nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu> given;
  if (!nodata.is_none()) {
    given = nb::cast<decltype(given)>(nodata);
    if (given.dtype() != to.dtype() || given.shape(0) != 2) throw nb::value_error("nodata, and what stands for it");
    instead = static_cast<const std::byte*>(given.data());
  }
  const nb::gil_scoped_release unlocked;
  const std::size_t count = means.shape(1) * means.shape(2);
  bool has_nothing = false;
  for (std::size_t plane = 0; plane < means.shape(0); ++plane) {
    has_nothing |=
        store_means(type, static_cast<std::byte*>(to.data()) + plane * count * type.item_bytes(),
                    means.data() + plane * count, weight.data() + (is_shared ? 0 : plane * count), count, instead);
  }
  return has_nothing;
}

}  // namespace

void bind_resample(nb::module_& m) {
  m.def("weighted_means", means_of, nb::arg("values"), nb::arg("valid").none(), nb::arg("rows"), nb::arg("row_weights"),
        nb::arg("low_row"), nb::arg("columns"), nb::arg("column_weights"), nb::arg("low_column"), nb::arg("by_axis"),
        nb::arg("means"), nb::arg("weight"),
        "Weighted means of (planes, y, x) on another grid into `means`, and what counted into `weight`: see "
        "penstock/geo/resample.py.");
  m.def("store_means", store_means, nb::arg("means"), nb::arg("weight"), nb::arg("made"), nb::arg("nodata").none(),
        "Means in the type of `made`; whether there is one of nothing: see penstock/geo/resample.py.");
}

}  // namespace penstock::inline v0::python
