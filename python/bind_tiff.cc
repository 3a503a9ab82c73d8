#include <nanobind/stl/vector.h>

#include "bind_tiff.h"

namespace penstock::inline v0::python {
namespace {

// (tag, type, count, bytes or None) of each.
nb::list tags_of(const std::vector<tiff_tag>& tags) {
  nb::list out;
  for (const tiff_tag& each : tags) {
    const nb::object value =
        each.value.empty() ? nb::none() : nb::object(nb::bytes(each.value.data(), each.value.size()));
    out.append(nb::make_tuple(each.tag, each.type, each.count, value));
  }
  return out;
}

}  // namespace

nb::object tiff_of(const array_handle& self) {
  const tiff_details* const from = tiff_details_of(self.array);
  if (from == nullptr) return nb::none();
  nb::list overviews;
  for (const auto& [height, width] : from->overviews) overviews.append(nb::make_tuple(height, width));
  nb::dict out;
  out["big_endian"] = from->big_endian;
  out["big_tiff"] = from->big_tiff;
  out["tags"] = tags_of(from->tags);
  out["page_tags"] = tags_of(from->page_tags);
  out["page_shape"] = nb::make_tuple(from->page_height, from->page_width);
  out["overviews"] = nb::tuple(overviews);
  out["has_mask"] = from->has_mask;
  out["directory_offset"] = from->directory_offset;
  out["side_file"] = to_str(from->side_file);
  out["structure"] = to_str(from->structure);
  return out;
}

array_handle tiff_image_of(const array_handle& self, nb::handle options) {
  const array from = self.array;
  const tiff_options image = tiff_options_of(options);
  return array_handle(call_engine([&] { return open_tiff(from, image); }));
}

tiff_options tiff_options_of(nb::handle from) {
  tiff_options out;
  const auto given = nb::borrow<nb::dict>(from);
  out.page = nb::cast<std::uint64_t>(given["page"]);
  out.level = nb::cast<std::uint64_t>(given["level"]);
  out.mask = nb::cast<bool>(given["mask"]);
  out.native_order = nb::cast<bool>(given["native_order"]);
  out.bands = nb::cast<std::vector<std::uint64_t>>(given["bands"]);
  if (!given["ifd"].is_none()) out.ifd = nb::cast<std::uint64_t>(given["ifd"]);
  return out;
}

}  // namespace penstock::inline v0::python
