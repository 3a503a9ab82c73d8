#include "format/hdf5/hdf5_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "array/utf8.h"
#include "base/checked.h"
#include "format/hdf5/hdf5_element.h"

namespace penstock::inline v0 {
namespace {

using kind = hdf5_type::kind;

std::string_view chars(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool holds(const hdf5_type& type, std::uint32_t first, std::uint32_t count) noexcept {
  return count <= 64 && std::uint64_t{first} + count <= std::uint64_t{8} * type.bytes;
}

result<json> integer_json(const hdf5_type& type, std::span<const std::byte> item) {
  if (type.precision == 0 || type.precision > 64)
    return hdf5_unknown(fmt::format("integers of {} bits", type.precision));
  const std::uint64_t value = hdf5_form_of(type).integer(item);
  return type.is_signed ? json(static_cast<std::int64_t>(value)) : json(value);
}

result<json> float_json(const hdf5_type& type, std::span<const std::byte> item) {
  const hdf5_type::float_fields& f = type.fields;
  if (!holds(type, f.mantissa, f.mantissa_bits) || !holds(type, f.exponent, f.exponent_bits) ||
      !holds(type, f.sign, 1) || f.exponent_bits > 31 || f.exponent_bits == 0) {
    return hdf5_unknown(fmt::format("floating-point numbers with an exponent of {} bits and a mantissa of {}",
                                    f.exponent_bits, f.mantissa_bits));
  }
  return json(hdf5_form_of(type).real(item));
}

// The numbers of NumPy's times, which h5py stores as opaque bytes with a tag.
std::optional<std::int64_t> time_of(const hdf5_type& type, std::span<const std::byte> item) {
  const auto element = hdf5_element_of(type);
  const std::string* const dtype = element.ok() ? element->dtype.as_string() : nullptr;
  const bool is_time = dtype != nullptr && dtype->size() > 3 && dtype->substr(2, 1) == "8" &&
                       ((*dtype)[1] == 'M' || (*dtype)[1] == 'm') && item.size() == 8;
  if (!is_time) return std::nullopt;
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < 8; ++i) out = out << 8 | static_cast<std::uint64_t>(item[(*dtype)[0] == '>' ? i : 7 - i]);
  return static_cast<std::int64_t>(out);
}

std::string_view text_within(const hdf5_type& type, std::span<const std::byte> item) {
  std::string_view text = chars(item);
  switch (type.padding) {
    case hdf5_type::pad::terminated:
      return text.substr(0, text.find('\0'));
    case hdf5_type::pad::zeros:
      break;
    case hdf5_type::pad::spaces:
      text = text.substr(0, text.find_last_not_of(' ') + 1);
      break;
  }
  return text.substr(0, text.find_last_not_of('\0') + 1);
}

bool is_boolean(const hdf5_type& type) noexcept {
  if (type.values.size() != 2) return false;
  const auto is = [](const auto& value, std::string_view name, std::byte first) {
    return value.first == name && !value.second.empty() && value.second.size() == 1 && value.second[0] == first;
  };
  return (is(type.values[0], "FALSE", std::byte{0}) && is(type.values[1], "TRUE", std::byte{1})) ||
         (is(type.values[1], "FALSE", std::byte{0}) && is(type.values[0], "TRUE", std::byte{1}));
}

class value_reader {
 public:
  value_reader(hdf5_file& file, hdf5_global_heap& heap, const hdf5_path_finder* find = nullptr) noexcept
      : file_(file), heap_(heap), find_(find) {}

  result<json> element(const hdf5_type& type, std::span<const std::byte> item) {
    switch (type.what) {
      case kind::integer:
        return integer_json(type, item);
      case kind::bits: {
        if (type.bytes > 8) return hdf5_unknown(fmt::format("bit fields of {} bytes", type.bytes));
        return json(hdf5_form_of(type).integer(item));
      }
      case kind::floating:
        return float_json(type, item);
      case kind::time:
        return hdf5_unknown("times (H5T_TIME)");
      case kind::text:
        return json(hdf5_text(text_within(type, item)));
      case kind::opaque:
        if (const auto time = time_of(type, item)) return json(*time);
        return json(hdf5_text(chars(item)));
      case kind::compound:
        return compound(type, item);
      case kind::reference:
        return reference(type, item);
      case kind::enumeration: {
        PENSTOCK_ASSIGN(json number, element(type.base[0], item));
        if (std::uint64_t value = 0; is_boolean(type) && number.get(value)) return json(value != 0);
        return number;
      }
      case kind::variable:
        return variable(type, item);
      case kind::array:
        return list(type.base[0], type.extents, item);
      case kind::complex: {
        const std::uint64_t two[] = {2};
        return list(type.base[0], two, item);
      }
    }
    return hdf5_unknown("an unknown class of types");
  }

  // `item` has extents[0] * extents[1] * ... elements in C order.
  result<json> list(const hdf5_type& type, std::span<const std::uint64_t> extents, std::span<const std::byte> item) {
    if (extents.empty()) return element(type, item);
    json::array_t out;
    if (extents[0] == 0) return json(std::move(out));
    // There could be any number of elements without bytes.
    if (item.empty()) {
      const bool none = std::find(extents.begin(), extents.end(), 0) != extents.end();
      if (!none || extents[0] > kMostEmpty) return hdf5_unknown("elements of 0 bytes");
      PENSTOCK_TRY(file_.spend(extents[0] * kListBytes));
    }
    const std::size_t one = item.size() / static_cast<std::size_t>(extents[0]);
    for (std::uint64_t i = 0; i < extents[0]; ++i) {
      auto made = list(type, extents.subspan(1), item.subspan(static_cast<std::size_t>(i) * one, one));
      if (!made.ok() && !file_.waiting()) return made;
      if (made.ok()) out.push_back(std::move(*made));
    }
    return json(std::move(out));
  }

 private:
  static constexpr std::uint64_t kMostEmpty = 1 << 16, kListBytes = 64;

  result<json> compound(const hdf5_type& type, std::span<const std::byte> item) {
    std::vector<const hdf5_member*> members;
    for (const hdf5_member& each : type.members) members.push_back(&each);
    std::sort(members.begin(), members.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
    json::array_t out;
    PENSTOCK_TRY(file_.spend(members.size()));  // members may overlap
    for (const hdf5_member* const each : members) {
      auto made = element(each->type, item.subspan(each->offset, each->type.bytes));
      if (!made.ok()) return std::move(made).error().note(fmt::format("member '{}' of a compound", each->name));
      out.push_back(std::move(*made));
    }
    return json(std::move(out));
  }

  result<json> reference(const hdf5_type& type, std::span<const std::byte> item) {
    const bool region = type.refers_to == hdf5_type::target::region;
    const bool any = !region && type.refers_to != hdf5_type::target::object;
    const bool null = std::all_of(item.begin(), item.end(), [](std::byte each) { return each == std::byte{0}; });
    if (find_ == nullptr)
      return json(fmt::format("<HDF5 {}reference{}>",
                              region ? "region "
                              : any  ? ""
                                     : "object ",
                              null ? " (null)" : ""));
    if (any) {
      PENSTOCK_ASSIGN(std::string text, hdf5_reference_text(file_, heap_, item, *find_));
      PENSTOCK_TRY(file_.spend(text.size()));
      return json(std::move(text));
    }
    hdf5_cursor cursor(item);
    const std::uint64_t address = cursor.number(file_.offset_bytes());  // of the object, or of the region's collection
    if (null || file_.undefined(address)) return json("");
    std::string text;
    if (region) {
      PENSTOCK_ASSIGN(const auto stored, heap_.object(address, cursor.number(4)));
      PENSTOCK_ASSIGN(text, hdf5_region_text(file_, stored, *find_));
    } else {
      text = (*find_)(address);
    }
    PENSTOCK_TRY(file_.spend(text.size()));  // many references may have one target
    return json(std::move(text));
  }

  // A length in elements, the address of a collection in the global heap, and the number of the object in it.
  result<json> variable(const hdf5_type& type, std::span<const std::byte> item) {
    if (item.size() != 4 + file_.offset_bytes() + 4)
      return hdf5_damaged(fmt::format("a value of variable length in {} bytes", item.size()));
    hdf5_cursor cursor(item);
    const std::uint64_t count = cursor.number(4), collection = cursor.number(file_.offset_bytes()),
                        index = cursor.number(4);
    const hdf5_type& base = type.base[0];
    std::span<const std::byte> bytes;
    if (count != 0) {
      PENSTOCK_ASSIGN(bytes, heap_.object(collection, index));
    }
    const std::uint64_t needed = saturating_mul(count, type.is_text ? 1 : base.bytes);
    if (bytes.size() < needed)
      return hdf5_damaged(fmt::format("a value of {} bytes in an object of {}", needed, bytes.size()));
    PENSTOCK_TRY(file_.spend(needed));  // several values may be one object
    bytes = bytes.first(static_cast<std::size_t>(needed));
    if (type.is_text) return json(hdf5_text(chars(bytes).substr(0, chars(bytes).find('\0'))));
    if (count != 0 && base.bytes == 0) return hdf5_unknown("elements of 0 bytes");
    const std::uint64_t extents[] = {count};
    return list(base, extents, bytes);
  }

  hdf5_file& file_;
  hdf5_global_heap& heap_;
  const hdf5_path_finder* find_;
};

bool is_sequence(const hdf5_type& type) noexcept { return type.what == kind::variable && !type.is_text; }

void collapse(json& value) {
  if (const json::array_t* const list = value.as_array(); list != nullptr && list->size() == 1)
    value = json(list->front());
}

}  // namespace

result<json> hdf5_element_json(hdf5_file& file, hdf5_global_heap& heap, const hdf5_type& type,
                               std::span<const std::byte> element) {
  if (element.size() != type.bytes)
    return hdf5_damaged(fmt::format("an element of {} bytes of a type of {}", element.size(), type.bytes));
  return value_reader(file, heap).element(type, element);
}

result<json> hdf5_attribute_json(hdf5_file& file, hdf5_global_heap& heap, const hdf5_attribute& from,
                                 const hdf5_path_finder* find) {
  if (!from.unreadable.empty()) return error(errc::unsupported, from.unreadable);
  const hdf5_type& type = from.type;
  if (from.space.null) {
    const bool object = type.what == kind::text || type.what == kind::variable || type.what == kind::reference;
    return object ? json("") : json();
  }
  std::vector<std::uint64_t> counts(from.space.shape.extents.begin(), from.space.shape.extents.end());
  const hdf5_type* inner = &type;
  for (; inner->what == kind::array; inner = &inner->base[0])
    counts.insert(counts.end(), inner->extents.begin(), inner->extents.end());
  PENSTOCK_ASSIGN(json value, value_reader(file, heap, find).list(*inner, counts, from.bytes));
  if (counts.size() == 1 && counts[0] == 1) {
    collapse(value);
  } else if (is_sequence(*inner)) {
    if (counts.empty()) collapse(value);
    if (counts.size() == 1) {
      json::array_t each = *value.as_array();
      for (json& one : each) collapse(one);
      value = json(std::move(each));
    }
  }
  return value;
}

json hdf5_type_json(const hdf5_type& type) {
  static constexpr std::string_view kTypeNames[] = {"integer",  "float",     "time", "string", "bitfield", "opaque",
                                                    "compound", "reference", "enum", "vlen",   "array",    "complex"};
  json::object_t out;
  out.emplace_back("class", std::string(kTypeNames[static_cast<std::size_t>(type.what)]));
  out.emplace_back("bytes", std::uint64_t{type.bytes});
  switch (type.what) {
    case kind::integer:
    case kind::bits:
    case kind::floating:
      out.emplace_back("order", type.vax ? "vax" : type.big_endian ? "big" : "little");
      out.emplace_back("precision", std::uint64_t{type.precision});
      out.emplace_back("offset", std::uint64_t{type.bit_offset});
      if (type.what == kind::integer) out.emplace_back("signed", type.is_signed);
      if (type.what == kind::floating) {
        const hdf5_type::float_fields& f = type.fields;
        json::array_t fields;
        for (const std::uint32_t each : {f.sign, f.exponent, f.exponent_bits, f.mantissa, f.mantissa_bits, f.bias})
          fields.emplace_back(std::uint64_t{each});
        out.emplace_back("fields", std::move(fields));
      }
      break;
    case kind::text:
      out.emplace_back("padding", std::uint64_t{static_cast<unsigned>(type.padding)});
      out.emplace_back("utf8", type.utf8);
      break;
    case kind::opaque:
      out.emplace_back("tag", hdf5_text(type.tag));
      break;
    case kind::compound: {
      json::array_t members;
      for (const hdf5_member& each : type.members)
        members.emplace_back(
            json::array_t{json(hdf5_text(each.name)), json(std::uint64_t{each.offset}), hdf5_type_json(each.type)});
      out.emplace_back("members", std::move(members));
      break;
    }
    case kind::reference:
      out.emplace_back("target", std::uint64_t{static_cast<unsigned>(type.refers_to)});
      break;
    case kind::enumeration: {
      json::array_t names;
      for (const auto& each : type.values) names.emplace_back(hdf5_text(each.first));
      out.emplace_back("names", std::move(names));
      break;
    }
    case kind::variable:
      out.emplace_back("text", type.is_text);
      out.emplace_back("utf8", type.utf8);
      break;
    case kind::array: {
      json::array_t lengths;
      for (const std::uint64_t each : type.extents) lengths.emplace_back(each);
      out.emplace_back("shape", std::move(lengths));
      break;
    }
    case kind::time:
    case kind::complex:
      break;
  }
  if (!type.base.empty()) out.emplace_back("base", hdf5_type_json(type.base[0]));
  return json(std::move(out));
}

std::string hdf5_text(std::string_view bytes) { return as_utf8(bytes); }

}  // namespace penstock::inline v0
