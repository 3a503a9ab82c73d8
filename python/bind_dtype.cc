#include <map>
#include <string>
#include <utility>
#include <vector>

#include <penstock/config.h>
#include "array/dtype_names.h"
#include "bind.h"

namespace penstock::inline v0::python {
namespace {

nb::object module(const char* name) { return nb::module_::import_(name); }

std::string attribute_text(nb::handle of, const char* name) { return utf8_of(nb::object(of.attr(name))); }

// ml_dtypes' scalar type of that name; none if this version does not have it.
nb::object extension_type(const std::string& name) {
  PyObject* const imported = PyImport_ImportModule("ml_dtypes");
  if (imported == nullptr) {
    PyErr_Clear();
    raise(
        error(errc::unsupported, "NumPy's data type for '" + name + "' comes with the package ml_dtypes: install it"));
  }
  return nb::getattr(nb::steal(imported), name.c_str(), nb::none());
}

nb::object structure_dtype(const dtype& type) {
  nb::list names, formats, offsets;
  for (const dtype_field& field : type.fields()) {
    names.append(to_str(field.name));
    nb::object format = numpy_dtype(field.type);
    if (!field.shape.empty()) format = module("numpy").attr("dtype")(nb::make_tuple(format, to_tuple(field.shape)));
    formats.append(format);
    offsets.append(field.offset);
  }
  nb::dict all;
  all["names"] = names;
  all["formats"] = formats;
  all["offsets"] = offsets;
  all["itemsize"] = type.item_bytes();
  return module("numpy").attr("dtype")(all);
}

// Two numbers if neither NumPy nor ml_dtypes has such a complex type.
nb::object complex_dtype(const dtype& type) {
  const char* const other = type.format() == float_format::bfloat16 ? "bcomplex32"
                            : type.bits() == 32                     ? "complex32"
                                                                    : nullptr;
  const nb::object numpy = module("numpy");
  if (other != nullptr) {
    const nb::object found = extension_type(other);
    if (!found.is_none()) return numpy.attr("dtype")(found);
  }
  const dtype half = type.format() == float_format::ieee
                         ? dtype(dtype_kind::floating, type.bits() / 2)
                         : dtype::from_name(type.name().substr(sizeof "complex_" - 1)).value();
  const nb::object part = numpy_dtype(half);
  nb::list fields;
  fields.append(nb::make_tuple("real", part));
  fields.append(nb::make_tuple("imag", part));
  return numpy.attr("dtype")(fields);
}

nb::object string_dtype() {
  const nb::object dtypes = nb::getattr(module("numpy"), "dtypes", nb::none());
  const nb::object made = nb::getattr(dtypes, "StringDType", nb::none());
  if (made.is_none()) return module("numpy").attr("dtype")("O");  // NumPy 1
  return made();
}

bool is_number(dtype_kind kind) noexcept { return kind <= dtype_kind::floating || kind == dtype_kind::complex; }

// numpy.dtype(name). Dtypes of numbers are few, and created once.
nb::object object_dtype(nb::object vlen) {
  nb::dict metadata;
  metadata["vlen"] = std::move(vlen);
  return module("numpy").attr("dtype")("O", nb::arg("metadata") = metadata);
}

// Lists are objects in NumPy; the type of their items is stored in h5py's form.
nb::object list_dtype(const dtype& list) {
  const dtype& item = *list.item();
  nb::object made = item.kind() == dtype_kind::variable_utf8    ? object_dtype(module("builtins").attr("str"))
                    : item.kind() == dtype_kind::variable_bytes ? object_dtype(module("builtins").attr("bytes"))
                                                                : list_item_dtype(list);
  return object_dtype(std::move(made));
}

nb::object named_dtype(dtype_kind kind, const std::string& name) {
  static nb::ft_mutex mutex;
  static auto& known = *new std::map<std::string, nb::object>();  // never destroyed: the interpreter ends earlier
  const nb::ft_lock_guard lock(mutex);
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  nb::object made = module("numpy").attr("dtype")(name.c_str());
  if (is_number(kind)) known.emplace(name, made);
  return made;
}

extents block_extents(nb::handle sizes) {
  extents made;
  for (const nb::handle size : sizes) {
    if (made.size() == kMaxRank) raise(error(errc::unsupported, "a field's block has more than 32 dimensions"));
    made.push_back(nb::cast<std::uint64_t>(size));
  }
  return made;
}

dtype structure_of(nb::handle numpy_type) {
  std::vector<dtype_field> fields;
  const nb::object all = numpy_type.attr("fields");
  for (const nb::handle name : nb::object(numpy_type.attr("names"))) {
    const nb::object entry = all[name];  // (dtype, offset) and maybe a title
    dtype_field field;
    field.name = utf8_of(name);
    nb::object item = entry[0];
    const nb::object block = item.attr("subdtype");
    if (!block.is_none()) {
      field.shape = block_extents(block[1]);
      item = block[0];
    }
    field.type = dtype_of(item);
    field.offset = nb::cast<std::uint32_t>(entry[1]);
    fields.push_back(std::move(field));
  }
  const auto item_bytes = nb::cast<std::uint32_t>(numpy_type.attr("itemsize"));
  return unwrap(dtype::structured(std::move(fields), item_bytes));
}

dtype parse(nb::handle text) { return unwrap(dtype::from_name(utf8_of(text))); }

}  // namespace

nb::object list_item_dtype(const dtype& list) {
  nb::object made = numpy_dtype(*list.item());
  if (list.item_shape().empty()) return made;
  nb::list shape;
  for (const std::uint64_t length : list.item_shape()) shape.append(length);
  return module("numpy").attr("dtype")(nb::make_tuple(made, nb::tuple(shape)));
}

nb::object numpy_dtype(const dtype& type) {
  switch (type.kind()) {
    case dtype_kind::structured:
      return structure_dtype(type);
    case dtype_kind::variable_utf8:
      return string_dtype();
    case dtype_kind::variable_bytes:
    case dtype_kind::object:
      return module("numpy").attr("dtype")("O");
    case dtype_kind::variable_list:
      return list_dtype(type);
    default:
      break;
  }
  const std::string name = type.numpy_typestr();
  if (!name.empty()) return named_dtype(type.kind(), name);
  if (type.kind() == dtype_kind::complex) return complex_dtype(type);
  const nb::object found = extension_type(type.name());
  if (found.is_none())
    raise(error(errc::unsupported, "neither NumPy nor ml_dtypes has a dtype for '" + type.name() + "'"));
  return module("numpy").attr("dtype")(found);
}

dtype dtype_of(nb::handle given) {
  const nb::object type = module("numpy").attr("dtype")(given);
  if (!nb::object(type.attr("names")).is_none()) return structure_of(type);
  const std::string kind = attribute_text(type, "kind");
  if (kind == "T") return dtype::variable_utf8();
  if (attribute_text(type.attr("type"), "__module__") == "ml_dtypes") {
    const std::string name = attribute_text(type, "name");
    if (name == "bcomplex32") return unwrap(dtype::from_name("complex_bfloat16"));
    if (name == "complex32") return unwrap(dtype::from_name("complex_float16"));
    return unwrap(dtype::from_name(name));
  }
  return unwrap(dtype::from_numpy(attribute_text(type, "str"))).type;
}

bool has_swapped_bytes(nb::handle given) {
  const nb::object type = module("numpy").attr("dtype")(given);
  return !nb::cast<bool>(type.attr("isnative"));
}

void bind_dtype(nb::module_& m) {
  m.def(
      "numpy_dtype", [](nb::str name) { return numpy_dtype(parse(name)); }, nb::arg("name"),
      "The NumPy dtype of a Zarr v3 data type that needs no configuration.");
  m.def(
      "data_type_name", [](nb::handle given) { return to_str(dtype_of(given).name()); }, nb::arg("dtype"),
      "The Zarr v3 name of a NumPy dtype's data type.");
  m.def(
      "numbers_without_numpy_type",
      [] {
        nb::list out;
        for (const std::string_view name : numbers_without_typestr()) out.append(to_str(name));
        return out;
      },
      "The names of the real numbers that NumPy has no letters for: Zarr names them.");
  m.def(
      "round_trip_dtype", [](nb::handle given) { return numpy_dtype(dtype_of(given)); }, nb::arg("dtype"),
      "The engine's dtype: in native byte order.");
}

}  // namespace penstock::inline v0::python
