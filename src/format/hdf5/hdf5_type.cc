#include "format/hdf5/hdf5_type.h"

#include <fmt/format.h>
#include <penstock/shape.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

constexpr unsigned kMostLevels = 32;
/// Each member takes at least 8 bytes of a compound message; real files have some hundred members.
constexpr std::size_t kMostTypes = std::size_t{1} << 16;
constexpr std::array<std::string_view, 12> kClassNames = {
    "integer",     "floating-point number", "time",  "text",          "bit field", "opaque", "compound", "reference",
    "enumeration", "variable-length type",  "array", "complex number"};

struct type_head {
  unsigned version = 0, what = 0;
  std::array<unsigned, 3> flags{};
  std::uint32_t bytes = 0;
  unsigned count() const noexcept { return flags[0] | flags[1] << 8; }
};

class type_parser {
 public:
  explicit type_parser(hdf5_cursor& cursor) noexcept : cursor_(cursor) {}

  result<hdf5_type> parse(unsigned level) {
    if (level > kMostLevels) return hdf5_damaged(fmt::format("a datatype nested deeper than {} levels", kMostLevels));
    if (++types_ > kMostTypes) return hdf5_damaged(fmt::format("a datatype of more than {} parts", kMostTypes));
    type_head head;
    const auto first = static_cast<unsigned>(cursor_.number(1));
    head.version = first >> 4;
    head.what = first & 0x0F;
    for (unsigned& each : head.flags) each = static_cast<unsigned>(cursor_.number(1));
    head.bytes = static_cast<std::uint32_t>(cursor_.number(4));
    if (!cursor_.ok()) return hdf5_damaged("a datatype is truncated");
    if (head.version < 1 || head.version > 5)
      return hdf5_unknown(fmt::format("a datatype of version {}", head.version));
    if (head.what >= kClassNames.size()) return hdf5_unknown(fmt::format("a datatype of class {}", head.what));
    hdf5_type out;
    out.what = static_cast<hdf5_type::kind>(head.what);
    out.bytes = head.bytes;
    PENSTOCK_TRY(parse_properties(head, level, out));
    if (!cursor_.ok()) return hdf5_damaged(fmt::format("a datatype ({}) is truncated", kClassNames[head.what]));
    return out;
  }

 private:
  result<> parse_properties(const type_head& head, unsigned level, hdf5_type& out) {
    using kind = hdf5_type::kind;
    const unsigned flags = head.flags[0];
    switch (out.what) {
      case kind::integer:
      case kind::bits:
        out.big_endian = (flags & 1) != 0;
        out.is_signed = out.what == kind::integer && (flags & 8) != 0;
        return parse_bits(out);
      case kind::floating:
        return parse_float(head, out);
      case kind::time:
        out.big_endian = (flags & 1) != 0;
        out.precision = static_cast<std::uint32_t>(cursor_.number(2));
        return {};
      case kind::text:
        if ((flags & 0x0F) > 2) return hdf5_unknown(fmt::format("text with padding {}", flags & 0x0F));
        out.padding = static_cast<hdf5_type::pad>(flags & 0x0F);
        out.utf8 = flags >> 4 == 1;
        return {};
      case kind::opaque: {
        out.tag = name_of(cursor_.bytes(flags));
        return {};
      }
      case kind::compound:
        return parse_compound(head, level, out);
      case kind::reference:
        if ((flags & 0x0F) > 4) return hdf5_unknown(fmt::format("a reference of kind {}", flags & 0x0F));
        out.refers_to = static_cast<hdf5_type::target>(flags & 0x0F);
        return {};
      case kind::enumeration:
        return parse_enumeration(head, level, out);
      case kind::variable:
        if ((flags & 0x0F) > 1) return hdf5_damaged("a type of variable length is damaged");
        out.is_text = (flags & 0x0F) == 1;
        out.utf8 = (head.flags[1] & 0x0F) == 1;
        return parse_base(level, out);
      case kind::array:
        return parse_array(head, level, out);
      case kind::complex:
        PENSTOCK_TRY(parse_base(level, out));
        if (std::uint64_t{2} * out.base[0].bytes != out.bytes)
          return hdf5_damaged(
              fmt::format("a complex number of {} bytes with parts of {}", out.bytes, out.base[0].bytes));
        return {};
    }
    return {};
  }

  result<> parse_bits(hdf5_type& out) {
    out.bit_offset = static_cast<std::uint32_t>(cursor_.number(2));
    out.precision = static_cast<std::uint32_t>(cursor_.number(2));
    if (std::uint64_t{out.bit_offset} + out.precision > std::uint64_t{8} * out.bytes)
      return hdf5_damaged(
          fmt::format("a number of {} bits from bit {} in {} bytes", out.precision, out.bit_offset, out.bytes));
    return {};
  }

  result<> parse_float(const type_head& head, hdf5_type& out) {
    const unsigned flags = head.flags[0], order = (flags >> 5 & 2) | (flags & 1);
    out.big_endian = order == 1;
    out.vax = order == 3;
    if (order == 2) return hdf5_damaged("a floating-point number of an unknown byte order");
    if (out.vax && out.bytes % 2 != 0)
      return hdf5_damaged(fmt::format("a floating-point number of VAX of {} bytes", out.bytes));
    PENSTOCK_TRY(parse_bits(out));
    hdf5_type::float_fields& fields = out.fields;
    fields.normalization = static_cast<std::uint8_t>(flags >> 4 & 3);
    fields.sign = head.flags[1];
    for (std::uint32_t* each : {&fields.exponent, &fields.exponent_bits, &fields.mantissa, &fields.mantissa_bits})
      *each = static_cast<std::uint32_t>(cursor_.number(1));
    fields.bias = static_cast<std::uint32_t>(cursor_.number(4));
    const std::uint64_t bits = std::uint64_t{8} * out.bytes;
    const bool inside = fields.sign < bits && fields.exponent + std::uint64_t{fields.exponent_bits} <= bits &&
                        fields.mantissa + std::uint64_t{fields.mantissa_bits} <= bits;
    if (cursor_.ok() && !inside)
      return hdf5_damaged(fmt::format("a floating-point number of {} bits with parts outside of them", bits));
    return {};
  }

  static std::string name_of(std::span<const std::byte> bytes) {
    const auto end = std::find(bytes.begin(), bytes.end(), std::byte{0});
    return {reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(end - bytes.begin())};
  }

  // Names end with a zero; before version 3 they are padded to a multiple of 8 bytes.
  std::string take_name(unsigned version) {
    std::string out;
    for (;;) {
      const auto one = cursor_.bytes(1);
      if (one.empty() || one[0] == std::byte{0}) break;
      out.push_back(static_cast<char>(one[0]));
    }
    if (version < 3) cursor_.skip((8 - (out.size() + 1) % 8) % 8);
    return out;
  }

  result<> parse_base(unsigned level, hdf5_type& out) {
    PENSTOCK_ASSIGN(hdf5_type base, parse(level + 1));
    out.base.push_back(std::move(base));
    return {};
  }

  result<> parse_compound(const type_head& head, unsigned level, hdf5_type& out) {
    const std::size_t width = static_cast<std::size_t>(std::bit_width(head.bytes) + 7) / 8;
    for (unsigned i = 0; i < head.count(); ++i) {
      hdf5_member member;
      member.name = take_name(head.version);
      member.offset =
          static_cast<std::uint32_t>(cursor_.number(head.version < 3 ? 4 : std::max<std::size_t>(width, 1)));
      std::vector<std::uint64_t> extents;
      if (head.version == 1) {
        const std::uint64_t rank = cursor_.number(1);
        if (rank > 4) return hdf5_damaged(fmt::format("member '{}' has {} dimensions", member.name, rank));
        cursor_.skip(3 + 4 + 4);
        for (std::uint64_t d = 0; d < 4; ++d) {
          const std::uint64_t extent = cursor_.number(4);
          if (d < rank) extents.push_back(extent);
        }
      }
      if (!cursor_.ok()) return hdf5_damaged("a compound datatype is truncated");
      PENSTOCK_ASSIGN(member.type, parse(level + 1));
      if (!extents.empty()) PENSTOCK_TRY(wrap(std::move(extents), member.type));
      if (std::uint64_t{member.offset} + member.type.bytes > out.bytes)
        return hdf5_damaged(fmt::format("member '{}' ends beyond its compound of {} bytes", member.name, out.bytes));
      out.members.push_back(std::move(member));
    }
    return {};
  }

  static result<> wrap(std::vector<std::uint64_t> extents, hdf5_type& type) {
    hdf5_type array;
    array.what = hdf5_type::kind::array;
    array.extents = std::move(extents);
    array.base.push_back(std::move(type));
    PENSTOCK_ASSIGN(const std::uint64_t bytes, bytes_of(array));
    if (bytes > ~std::uint32_t{0}) return hdf5_damaged("an array of more than 2^32 bytes");
    array.bytes = static_cast<std::uint32_t>(bytes);
    type = std::move(array);
    return {};
  }

  static result<std::uint64_t> bytes_of(const hdf5_type& array) {
    std::uint64_t bytes = array.base[0].bytes;
    for (const std::uint64_t each : array.extents)
      if (!checked_mul(bytes, each, bytes)) return hdf5_damaged("an array of 2^64 bytes or more");
    return bytes;
  }

  result<> parse_enumeration(const type_head& head, unsigned level, hdf5_type& out) {
    PENSTOCK_TRY(parse_base(level, out));
    if (out.base[0].what != hdf5_type::kind::integer || out.base[0].bytes != out.bytes)
      return hdf5_damaged(fmt::format("an enumeration of {} bytes of a type of {}", out.bytes, out.base[0].bytes));
    for (unsigned i = 0; i < head.count() && cursor_.ok(); ++i) out.values.push_back({take_name(head.version), {}});
    for (auto& [name, value] : out.values) {
      const auto bytes = cursor_.bytes(out.bytes);
      value.assign(bytes.begin(), bytes.end());
    }
    return {};
  }

  result<> parse_array(const type_head& head, unsigned level, hdf5_type& out) {
    const std::uint64_t rank = cursor_.number(1);
    if (rank == 0 || rank > kMaxRank) return hdf5_damaged(fmt::format("an array of {} dimensions", rank));
    if (head.version < 3) cursor_.skip(3);
    for (std::uint64_t d = 0; d < rank; ++d) out.extents.push_back(cursor_.number(4));
    if (head.version < 3) cursor_.skip(4 * rank);  // permutations, which have no meaning
    PENSTOCK_TRY(parse_base(level, out));
    PENSTOCK_ASSIGN(const std::uint64_t bytes, bytes_of(out));
    if (bytes != out.bytes)
      return hdf5_damaged(fmt::format("an array of {} bytes whose elements take {}", out.bytes, bytes));
    return {};
  }

  hdf5_cursor& cursor_;
  std::size_t types_ = 0;
};

}  // namespace

bool hdf5_type::has_variable_parts() const noexcept {
  if (what == kind::variable) return true;
  const auto variable = [](const auto& each) { return each.has_variable_parts(); };
  return std::any_of(base.begin(), base.end(), variable) ||
         std::any_of(members.begin(), members.end(), [&](const hdf5_member& each) { return variable(each.type); });
}

result<hdf5_type> parse_hdf5_type(hdf5_cursor& cursor) { return type_parser(cursor).parse(0); }

std::string describe(const hdf5_type& type) {
  return fmt::format("{} of {} bytes", kClassNames[static_cast<std::size_t>(type.what)], type.bytes);
}

}  // namespace penstock::inline v0
