#include "format/hdf5/hdf5_element.h"

#include <fmt/format.h>
#include <penstock/dtype.h>
#include <penstock/shape.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "array/utf8.h"
#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

using kind = hdf5_type::kind;

/// The most texts in all members of a compound: each adds an entry to a codec's configuration.
constexpr std::uint64_t kMostMemberTexts = 1000;
constexpr std::size_t kMostTexts = std::size_t{1} << 16;
constexpr std::uint64_t kMostItemBytes = std::uint64_t{1} << 28;  // of lists, as `dtype` has them

error refuse(std::string_view what) {
  return {errc::unsupported, fmt::format("HDF5 elements of {} are not readable", what)};
}

/// UTF-8 in which `\x00` replaces each invalid byte, so that different names of fields stay different.
std::string escaped(std::string_view bytes) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t length = 1;
    const auto valid = [&] { return is_utf8(std::as_bytes(std::span(bytes.substr(at, length)))); };
    while (length < 4 && at + length < bytes.size() && !valid()) ++length;
    if (valid()) {
      out += bytes.substr(at, length);
      at += length;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(bytes[at])));
      ++at;
    }
  }
  return out;
}

hdf5_element plain(std::string dtype, std::uint32_t bytes) {
  hdf5_element out;
  out.dtype = json(std::move(dtype));
  out.item_bytes = out.stored_bytes = bytes;
  return out;
}

char order_of(const hdf5_type& type) noexcept { return type.big_endian ? '>' : '<'; }

/// The element type that the codec `hdf5.number` produces from a form.
hdf5_element converted(const hdf5_number_form& form, std::uint32_t to) {
  json::object_t codec;
  codec.emplace_back("id", "hdf5.number");
  codec.emplace_back("kind", form.floating ? "float" : "integer");
  codec.emplace_back("elementsize", std::uint64_t{form.bytes});
  codec.emplace_back("to", std::uint64_t{to});
  codec.emplace_back("endian", form.vax ? "vax" : form.big_endian ? "big" : "little");
  const auto add = [&](const char* name, std::uint32_t value) { codec.emplace_back(name, std::uint64_t{value}); };
  if (form.floating) {
    add("sign", form.sign);
    add("exponent", form.exponent);
    add("exponent_bits", form.exponent_bits);
    add("mantissa", form.mantissa);
    add("mantissa_bits", form.mantissa_bits);
    add("bias", form.bias);
    codec.emplace_back("implied", form.implied);
  } else {
    add("precision", form.precision);
    add("offset", form.offset);
    codec.emplace_back("signed", form.is_signed);
  }
  hdf5_element out = plain(fmt::format("<{}{}", form.floating ? 'f' : form.is_signed ? 'i' : 'u', to), to);
  out.stored_bytes = form.bytes;
  out.bits = json(std::move(codec));
  return out;
}

result<hdf5_element> integer_of(const hdf5_type& type) {
  constexpr std::uint32_t kMostBytes = 16;
  const std::uint32_t size = type.bytes;
  const hdf5_number_form form = hdf5_form_of(type);
  if (size != 1 && size != 2 && size != 4 && size != 8) {
    if (size == 0 || size > kMostBytes || form.precision == 0 || form.precision > 64)
      return refuse(fmt::format("integers of {} bits in {} bytes", form.precision, size));
    return converted(form, form.precision <= 32 ? 4 : 8);
  }
  const char order = size == 1 ? '|' : order_of(type);
  hdf5_element out = plain(fmt::format("{}{}{}", order, type.is_signed ? 'i' : 'u', size), size);
  if (form.precision == 8 * size && form.offset == 0) return out;
  json::object_t bits;
  bits.emplace_back("id", "hdf5.bits");
  bits.emplace_back("elementsize", std::uint64_t{size});
  bits.emplace_back("precision", std::uint64_t{type.precision});
  bits.emplace_back("offset", std::uint64_t{type.bit_offset});
  bits.emplace_back("signed", type.is_signed);
  bits.emplace_back("endian", order == '>' ? "big" : "little");
  out.bits = json(std::move(bits));
  return out;
}

// The 80-bit numbers of x87 as C stores a long double on x86-64.
bool is_long_double(const hdf5_type& type) noexcept {
  const hdf5_type::float_fields& f = type.fields;
  return type.bytes == 16 && !type.big_endian && !type.vax && f.sign == 79 && f.exponent == 64 && f.mantissa == 0;
}

struct known_float {
  std::uint32_t bytes;
  hdf5_type::float_fields fields;
  std::string_view name;
};

result<hdf5_element> float_of(const hdf5_type& type) {
  static constexpr std::array<known_float, 4> kKnown = {{{2, {15, 10, 5, 0, 10, 15, 2}, "f2"},
                                                         {4, {31, 23, 8, 0, 23, 127, 2}, "f4"},
                                                         {8, {63, 52, 11, 0, 52, 1023, 2}, "f8"},
                                                         {2, {15, 7, 8, 0, 7, 127, 2}, "bfloat16"}}};
  const auto found = std::find_if(kKnown.begin(), kKnown.end(), [&](const known_float& each) {
    return each.bytes == type.bytes && each.fields == type.fields;
  });
  const hdf5_number_form form = hdf5_form_of(type);
  if (form.is_extended() && type.bytes <= 16 && type.bit_offset == 0 && dtype::from_numpy("<f16").ok())
    return is_long_double(type) ? plain("<f16", 16) : converted(form, 16);
  const bool is_known = found != kKnown.end() && type.precision == 8 * type.bytes && type.bit_offset == 0;
  const hdf5_type::float_fields& of = type.fields;
  const bool is_double = type.bytes <= 16 && type.bit_offset == 0 && of.exponent_bits >= 1 && of.exponent_bits <= 11 &&
                         of.mantissa_bits <= 52;
  if (is_double && (!is_known || type.vax || (type.big_endian && found->name == "bfloat16"))) {
    // Exponents of VAX are lower by two: float32 does not have the smallest ones.
    const bool is_single = of.mantissa_bits <= 23 && of.exponent_bits <= 8 && !type.vax;
    return converted(form, is_single ? 4 : 8);
  }
  if (!is_known || type.vax) {
    const bool is_quad = type.bytes == 16 && of == hdf5_type::float_fields{127, 112, 15, 0, 112, 16383, 2};
    if (is_quad) return refuse("IEEE binary128 (floats of 128 bits)");
    return refuse(fmt::format("{}floats of {} bits with fields ({}, {}, {}, {}, {})", type.vax ? "VAX " : "",
                              type.precision, of.sign, of.exponent, of.exponent_bits, of.mantissa, of.mantissa_bits));
  }
  if (found->name != "bfloat16") return plain(order_of(type) + std::string(found->name), type.bytes);
  return plain("bfloat16", type.bytes);
}

bool names_false_and_true(const hdf5_type& type) noexcept {
  if (type.bytes != 1 || type.values.size() != 2) return false;
  const auto has = [&](std::string_view name, std::byte number) {
    return std::any_of(type.values.begin(), type.values.end(), [&](const auto& value) {
      return value.first == name && value.second.size() == 1 && value.second[0] == number;
    });
  };
  return has("FALSE", std::byte{0}) && has("TRUE", std::byte{1});
}

/// The complex type of two consecutive floats; empty: NumPy has none, or the floats are converted when they are read.
std::string complex_of(const hdf5_element& half, std::uint64_t bytes) {
  const std::string* const name = half.dtype.as_string();
  if (!half.bits.is_null() || name == nullptr || name->size() != 3 ||
      (name->substr(1) != "f4" && name->substr(1) != "f8"))
    return {};
  return bytes == 2 * half.item_bytes ? fmt::format("{}c{}", name->front(), bytes) : std::string();
}

/// An opaque type becomes bytes, or the NumPy time in h5py's tag (`NUMPY:<M8[s]`): HDF5's own types have no unit.
hdf5_element opaque_of(const hdf5_type& type) {
  constexpr std::string_view kNumpy = "NUMPY:";
  if (type.tag.starts_with(kNumpy)) {
    const auto tagged = dtype::from_numpy(std::string_view(type.tag).substr(kNumpy.size()));
    const bool time =
        tagged.ok() && (tagged->type.kind() == dtype_kind::datetime || tagged->type.kind() == dtype_kind::timedelta);
    if (time && tagged->type.item_bytes() == type.bytes && tagged->type.unit() != time_unit::generic)
      return plain(tagged->type.numpy_typestr(tagged->big_endian), type.bytes);
  }
  return plain(fmt::format("|V{}", type.bytes), type.bytes);
}

json::array_t numbers(std::span<const std::uint64_t> from) { return {from.begin(), from.end()}; }

/// Collects the fields of a compound by their offsets.
class compound_reader {
 public:
  explicit compound_reader(const hdf5_type& type) : type_(type) {
    for (const hdf5_member& each : type.members) members_.push_back(&each);
    std::stable_sort(members_.begin(), members_.end(),
                     [](const hdf5_member* a, const hdf5_member* b) { return a->offset < b->offset; });
  }

  result<hdf5_element> read() {
    if (members_.size() == 2 && members_[0]->name == "r" && members_[1]->name == "i") {
      PENSTOCK_ASSIGN(const hdf5_element first, hdf5_element_of(members_[0]->type));
      PENSTOCK_ASSIGN(const hdf5_element second, hdf5_element_of(members_[1]->type));
      std::string name = complex_of(first, type_.bytes);
      if (!name.empty() && first == second && first.shape.empty() && members_[1]->offset == type_.bytes / 2)
        return plain(std::move(name), type_.bytes);
    }
    for (const hdf5_member* each : members_) {
      PENSTOCK_TRY(add(*each));
    }
    gap(type_.bytes);
    out_.dtype = json(std::move(fields_));
    out_.item_bytes = out_.stored_bytes = type_.bytes;
    return std::move(out_);
  }

 private:
  void gap(std::uint64_t end) {
    if (end > at_) fields_.emplace_back(json::array_t{json(""), json(fmt::format("|V{}", end - at_))});
    at_ = end;
  }

  result<> add(const hdf5_member& member) {
    const std::string name = escaped(member.name);
    auto made = hdf5_element_of(member.type);
    if (!made.ok())
      return error(made.error().code(), fmt::format("{} (member '{}' of a compound)", made.error().message(), name));
    if (!made->bits.is_null() || made->is_elsewhere())
      return refuse(
          fmt::format("a compound whose member '{}' is a reference, of variable length or has unused bits", name));
    if (member.offset < at_) return hdf5_damaged(fmt::format("member '{}' of a compound overlaps another", name));
    PENSTOCK_TRY(add_texts(member.offset, *made, name));
    gap(member.offset);
    json::array_t field{json(name), std::move(made->dtype)};
    if (!made->shape.empty()) field.emplace_back(numbers(made->shape));
    fields_.emplace_back(std::move(field));
    at_ = std::uint64_t{member.offset} + member.type.bytes;
    return {};
  }

  result<> add_texts(std::uint64_t offset, const hdf5_element& of, const std::string& name) {
    if (of.texts.empty()) return {};
    std::uint64_t count = 1;
    for (const std::uint64_t each : of.shape) count = saturating_mul(count, each);
    const std::uint64_t all = saturating_mul(count, of.texts.size());
    if (all > kMostMemberTexts) return refuse(fmt::format("a compound whose member '{}' has {} texts", name, all));
    const std::uint64_t item = of.item_bytes;
    if (of.texts.size() == 1 && of.texts[0] == hdf5_element::text{0, 1, item, of.texts[0].spaces}) {
      out_.texts.push_back({offset, count, item, of.texts[0].spaces});
    } else {
      for (std::uint64_t i = 0; i < count; ++i)
        for (const hdf5_element::text& each : of.texts)
          out_.texts.push_back({offset + i * item + each.offset, each.count, each.bytes, each.spaces});
    }
    if (out_.texts.size() > kMostTexts) return refuse(fmt::format("a compound of more than {} texts", kMostTexts));
    return {};
  }

  const hdf5_type& type_;
  std::vector<const hdf5_member*> members_;
  hdf5_element out_;
  json::array_t fields_;
  std::uint64_t at_ = 0;  // number of the item's bytes that the fields so far cover
};

hdf5_element text_of(const hdf5_type& type) {
  hdf5_element out = plain(fmt::format("|S{}", type.bytes), type.bytes);
  const bool spaces = type.padding == hdf5_type::pad::spaces;
  // A text of one byte with a terminator has no bytes after its end.
  if (type.padding != hdf5_type::pad::zeros && (type.bytes != 1 || spaces))
    out.texts.push_back({0, 1, type.bytes, spaces});
  return out;
}

result<hdf5_element> array_of(const hdf5_type& type) {
  PENSTOCK_ASSIGN(hdf5_element out, hdf5_element_of(type.base[0]));
  out.shape.insert(out.shape.begin(), type.extents.begin(), type.extents.end());
  return out;
}

hdf5_element reference_of(const hdf5_type& type) {
  using outside = hdf5_element::outside;
  hdf5_element out = plain("|O", type.bytes);
  out.elsewhere = type.refers_to == hdf5_type::target::object   ? outside::object
                  : type.refers_to == hdf5_type::target::region ? outside::region
                                                                : outside::any;
  return out;
}

// The codec of elements that are stored elsewhere, which the codec vlen-array names for items of lists.
json codec_of(const hdf5_element& element, bool utf8) {
  using outside = hdf5_element::outside;
  if (element.elsewhere == outside::list)
    return json(json::object_t{{"id", "vlen-array"}, {"dtype", element.items->type}});
  return json(json::object_t{{"id", element.elsewhere != outside::text || utf8 ? "vlen-utf8" : "vlen-bytes"}});
}

result<std::shared_ptr<const hdf5_list_item>> list_item_of(const hdf5_type& type) {
  PENSTOCK_ASSIGN(hdf5_element element, hdf5_element_of(type));
  if (!element.shape.empty() && element.is_elsewhere()) return refuse("lists of arrays of text, lists or references");
  if (element.shape.size() >= kMaxRank)
    return refuse(fmt::format("lists of arrays of {} dimensions", element.shape.size()));
  if (element.item_bytes == 0 || type.bytes == 0) return refuse("lists of items without bytes");
  const std::uint64_t item_bytes = std::uint64_t{type.bytes} / element.stored_bytes * element.item_bytes;
  if (item_bytes > kMostItemBytes) return refuse(fmt::format("lists of items of {} bytes", item_bytes));
  hdf5_list_item out;
  out.stored_bytes = type.bytes;
  out.elsewhere = element.elsewhere;
  out.items = element.items;
  if (element.is_elsewhere()) {
    out.type = codec_of(element, type.utf8);
    return std::make_shared<const hdf5_list_item>(std::move(out));
  }
  out.item_bytes = static_cast<std::uint32_t>(item_bytes);
  json::array_t codecs = element.codecs();
  if (!codecs.empty()) out.codec = std::move(codecs.front());
  out.type = std::move(element.dtype);
  if (!element.shape.empty()) out.type = json(json::array_t{std::move(out.type), json(numbers(element.shape))});
  return std::make_shared<const hdf5_list_item>(std::move(out));
}

}  // namespace

json::array_t hdf5_element::codecs() const {
  if (!bits.is_null()) return {bits};
  if (texts.empty()) return {};
  json::array_t fields;
  for (const text& each : texts) {
    const std::uint64_t entry[] = {each.offset, each.count, each.bytes, each.spaces ? std::uint64_t{1} : 0};
    fields.emplace_back(numbers(entry));
  }
  json::object_t out;
  out.emplace_back("id", "hdf5.string");
  out.emplace_back("elementsize", std::uint64_t{item_bytes});
  out.emplace_back("fields", std::move(fields));
  return {json(std::move(out))};
}

result<> check_hdf5_reference(hdf5_element::outside what, const hdf5_type& type, std::size_t offset_bytes) {
  using outside = hdf5_element::outside;
  const std::uint64_t address = offset_bytes;
  const std::uint64_t wanted = what == outside::object   ? address
                               : what == outside::region ? address + 4
                               : what == outside::any    ? std::max(address + 10, std::uint64_t{type.bytes})
                                                         : address + 8;
  if (type.bytes != wanted)
    return hdf5_damaged(fmt::format("references of {} bytes, which have {}", type.bytes, wanted));
  if (what != outside::list) return {};
  const hdf5_type& item = type.base[0];
  PENSTOCK_ASSIGN(const hdf5_element element, hdf5_element_of(item));
  return element.is_elsewhere() ? check_hdf5_reference(element.elsewhere, item, offset_bytes) : result<>();
}

hdf5_number_form hdf5_form_of(const hdf5_type& type) noexcept {
  hdf5_number_form out;
  out.bytes = type.bytes;
  out.big_endian = type.big_endian;
  out.vax = type.vax;
  out.floating = type.what == kind::floating;
  // All bits of a bit field are read, as in h5py.
  out.offset = type.what == kind::bits ? 0 : type.bit_offset;
  out.precision = type.what == kind::bits ? 8 * type.bytes : type.precision;
  out.is_signed = type.is_signed;
  const hdf5_type::float_fields& of = type.fields;
  out.sign = of.sign;
  out.exponent = of.exponent;
  out.exponent_bits = of.exponent_bits;
  out.mantissa = of.mantissa;
  out.mantissa_bits = of.mantissa_bits;
  out.bias = of.bias;
  out.implied = of.normalization == 2;
  return out;
}

// The depth of the recursion is that of the type, which its parser limits.
result<hdf5_element> hdf5_element_of(const hdf5_type& type) {
  switch (type.what) {
    case kind::integer:
    case kind::bits:
      return integer_of(type);
    case kind::floating:
      return float_of(type);
    case kind::time:
      return refuse("H5T_TIME");
    case kind::text:
      return text_of(type);
    case kind::opaque:
      return opaque_of(type);
    case kind::compound:
      return compound_reader(type).read();
    case kind::reference:
      return reference_of(type);
    case kind::enumeration: {
      PENSTOCK_ASSIGN(hdf5_element base, hdf5_element_of(type.base[0]));
      return names_false_and_true(type) && base.bits.is_null() ? plain("|b1", 1) : base;
    }
    case kind::variable: {
      hdf5_element out = plain("|O", type.bytes);
      out.elsewhere = type.is_text ? hdf5_element::outside::text : hdf5_element::outside::list;
      if (!type.is_text) {
        PENSTOCK_ASSIGN(out.items, list_item_of(type.base[0]));
      }
      return out;
    }
    case kind::array:
      return array_of(type);
    case kind::complex: {
      PENSTOCK_ASSIGN(const hdf5_element half, hdf5_element_of(type.base[0]));
      std::string name = complex_of(half, type.bytes);
      if (!name.empty()) return plain(std::move(name), type.bytes);
      const bool is_pair = half.dtype == json("<f2") || half.dtype == json(">f2") || half.dtype == json("<f16");
      if (!is_pair || !half.bits.is_null())
        return refuse("complex numbers whose parts are not float16, float32, float64 or little-endian long doubles");
      // As the compound that older files have.
      hdf5_element out;
      out.dtype = json(json::array_t{json(json::array_t{"r", half.dtype}), json(json::array_t{"i", half.dtype})});
      out.item_bytes = out.stored_bytes = type.bytes;
      return out;
    }
  }
  return refuse("an unknown class");
}

}  // namespace penstock::inline v0
