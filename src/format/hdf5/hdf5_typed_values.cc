#include "format/hdf5/hdf5_typed_values.h"

#include <cstdint>
#include <utility>

#include "format/hdf5/hdf5_element.h"
#include "format/hdf5/hdf5_values.h"

namespace penstock::inline v0 {
namespace {

using kind = hdf5_type::kind;

bool is_bfloat16(const hdf5_element& element) noexcept {
  const std::string* const name = element.dtype.as_string();
  return name != nullptr && *name == "bfloat16";
}

// Whether JSON has all of a value: text and bytes of lists may not be UTF-8.
bool is_number(const hdf5_element& element) noexcept {
  const std::string* const name = element.dtype.as_string();
  return name != nullptr && name->size() > 2 && (*name)[1] != 'S' && (*name)[1] != 'V' && !is_bfloat16(element);
}

}  // namespace

std::optional<hdf5_typed_value> hdf5_typed(const hdf5_attribute& from) {
  if (!from.unreadable.empty() || from.space.null) return std::nullopt;
  std::vector<std::uint64_t> shape = from.space.shape.extents;
  const hdf5_type& type = from.type;
  hdf5_typed_value out;
  json::object_t form;
  const auto made = [&]() -> std::optional<hdf5_typed_value> {
    form.emplace_back("shape", json::array_t(shape.begin(), shape.end()));
    out.name = hdf5_text(from.name);
    out.form = json(std::move(form));
    return std::move(out);
  };
  if (type.what == kind::variable) {
    if (type.is_text) {
      if (shape.size() < 2) return std::nullopt;
      form.emplace_back("texts", true);
      return made();
    }
    const auto element = hdf5_element_of(type.base[0]);
    const bool is_plain = element.ok() && is_number(*element) && !element->is_elsewhere() && element->shape.empty();
    if (!is_plain) return std::nullopt;
    form.emplace_back("lists", element->dtype);
    return made();
  }
  const auto element = hdf5_element_of(type);
  if (!element.ok() || element->is_elsewhere() || is_bfloat16(*element)) return std::nullopt;
  if (type.what == kind::text && shape.size() < 2) return std::nullopt;
  shape.insert(shape.end(), element->shape.begin(), element->shape.end());
  if (!element->bits.is_null()) {
    form.emplace_back("numbers", element->dtype);
    return made();
  }
  form.emplace_back("dtype", element->dtype);
  out.items = from.bytes;
  return made();
}

}  // namespace penstock::inline v0
