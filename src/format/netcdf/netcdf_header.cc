#include "format/netcdf/netcdf_header.h"

#include <fmt/format.h>
#include <penstock/shape.h>

#include <algorithm>
#include <bit>
#include <string_view>
#include <unordered_set>

#include "array/utf8.h"
#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kPadding = 4;
/// The most bytes of names of dimensions, of all variables together, for each byte of the header. A name has at most
/// 256 bytes in the netCDF library, and a variable has at least 4 for each dimension.
constexpr std::uint64_t kMostNameBytes = 64;

error damaged(std::string_view what) { return {errc::corrupt_data, fmt::format("NetCDF: {}", what)}; }

std::uint64_t big_endian(std::span<const std::byte> bytes) noexcept {
  std::uint64_t out = 0;
  for (const std::byte each : bytes) out = out << 8 | static_cast<std::uint64_t>(each);
  return out;
}

class header_parser {
 public:
  header_parser(std::span<const std::byte> first, std::uint64_t file_bytes) noexcept
      : first_(first), file_bytes_(file_bytes) {}

  /// Set if bytes were missing: how many the parser needs.
  std::uint64_t needed() const noexcept { return needed_; }

  result<netcdf_header> parse() {
    netcdf_header out;
    PENSTOCK_ASSIGN(const auto magic, take(4));
    if (!is_netcdf_classic(magic)) return damaged("the file does not begin with 'CDF' and a known version");
    out.version = static_cast<unsigned>(magic[3]);
    count_bytes_ = out.version == 5 ? 8 : 4;
    offset_bytes_ = out.version == 1 ? 4 : 8;
    PENSTOCK_ASSIGN(const std::uint64_t records, number(count_bytes_));
    out.streamed = records == ~std::uint64_t{0} >> (64 - 8 * count_bytes_);
    out.records = records;
    PENSTOCK_TRY(parse_dimensions(out));
    PENSTOCK_TRY(parse_attributes(out.attributes));
    PENSTOCK_TRY(parse_variables(out));
    PENSTOCK_TRY(place(out));
    return out;
  }

 private:
  enum : std::uint64_t { kDimensions = 10, kVariables = 11, kAttributes = 12 };

  result<std::span<const std::byte>> take(std::uint64_t count) {
    if (count > file_bytes_ - at_) return damaged(fmt::format("the header exceeds the file of {} bytes", file_bytes_));
    if (count > first_.size() - at_) {
      needed_ = at_ + count;
      return damaged("the header is not fetched yet");
    }
    const auto out = first_.subspan(static_cast<std::size_t>(at_), static_cast<std::size_t>(count));
    at_ += count;
    return out;
  }

  result<std::uint64_t> number(std::size_t bytes) {
    PENSTOCK_ASSIGN(const auto taken, take(bytes));
    return big_endian(taken);
  }

  result<std::span<const std::byte>> padded(std::uint64_t count) {
    PENSTOCK_ASSIGN(const auto out, take(count));
    PENSTOCK_TRY(take((kPadding - count % kPadding) % kPadding));
    return out;
  }

  result<std::string> name() {
    PENSTOCK_ASSIGN(const std::uint64_t length, number(count_bytes_));
    if (length == 0) return damaged(fmt::format("a name without characters before byte {}", at_));
    PENSTOCK_ASSIGN(const auto bytes, padded(length));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  // The length of a list, which begins with its tag or is absent.
  result<std::uint64_t> list(std::uint64_t tag, std::string_view what) {
    PENSTOCK_ASSIGN(const std::uint64_t found, number(4));
    PENSTOCK_ASSIGN(const std::uint64_t count, number(count_bytes_));
    if (found != tag && (found != 0 || count != 0)) return damaged(fmt::format("no list of {} at byte {}", what, at_));
    return count;
  }

  result<netcdf_type> type() {
    PENSTOCK_ASSIGN(const std::uint64_t found, number(4));
    if (found < 1 || found > 11) return damaged(fmt::format("an element type {}", found));
    return static_cast<netcdf_type>(found);
  }

  result<> parse_dimensions(netcdf_header& out) {
    PENSTOCK_ASSIGN(const std::uint64_t count, list(kDimensions, "dimensions"));
    for (std::uint64_t i = 0; i < count; ++i) {
      netcdf_dimension each;
      PENSTOCK_ASSIGN(each.name, name());
      PENSTOCK_ASSIGN(each.length, number(count_bytes_));
      each.is_record = each.length == 0;
      const auto is_record = [](const netcdf_dimension& other) { return other.is_record; };
      if (each.is_record && std::any_of(out.dimensions.begin(), out.dimensions.end(), is_record))
        return damaged("two record dimensions");
      out.dimensions.push_back(std::move(each));
    }
    return {};
  }

  result<> parse_attributes(std::vector<netcdf_attribute>& out) {
    PENSTOCK_ASSIGN(const std::uint64_t count, list(kAttributes, "attributes"));
    for (std::uint64_t i = 0; i < count; ++i) {
      netcdf_attribute each;
      PENSTOCK_ASSIGN(each.name, name());
      PENSTOCK_ASSIGN(each.type, type());
      PENSTOCK_ASSIGN(const std::uint64_t values, number(count_bytes_));
      PENSTOCK_ASSIGN(const auto bytes, padded(saturating_mul(values, bytes_of(each.type))));
      each.bytes.assign(bytes.begin(), bytes.end());
      out.push_back(std::move(each));
    }
    return {};
  }

  result<> parse_variables(netcdf_header& out) {
    PENSTOCK_ASSIGN(const std::uint64_t count, list(kVariables, "variables"));
    std::uint64_t named = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      netcdf_variable each;
      PENSTOCK_ASSIGN(each.name, name());
      PENSTOCK_ASSIGN(const std::uint64_t rank, number(count_bytes_));
      if (rank > kMaxRank)
        return error(errc::unsupported, fmt::format("NetCDF: variable '{}' has {} dimensions", each.name, rank));
      for (std::uint64_t d = 0; d < rank; ++d) {
        PENSTOCK_ASSIGN(const std::uint64_t dimension, number(count_bytes_));
        if (dimension >= out.dimensions.size())
          return damaged(
              fmt::format("variable '{}' has dimension {} of {}", each.name, dimension, out.dimensions.size()));
        named = saturating_add(named, out.dimensions[static_cast<std::size_t>(dimension)].name.size());
        if (named > kMostNameBytes * at_)
          return damaged(fmt::format("dimensions of variables have names of {} bytes in all", named));
        const bool is_record = out.dimensions[static_cast<std::size_t>(dimension)].is_record;
        if (is_record && d != 0)
          return damaged(fmt::format("the record dimension of variable '{}' is not its first", each.name));
        each.has_records = each.has_records || is_record;
        each.dimensions.push_back(static_cast<std::uint32_t>(dimension));
      }
      PENSTOCK_TRY(parse_attributes(each.attributes));
      PENSTOCK_ASSIGN(each.type, type());
      PENSTOCK_TRY(number(count_bytes_));  // its size, which is wrong for large variables
      PENSTOCK_ASSIGN(each.offset, number(offset_bytes_));
      each.bytes = bytes_of(each.type);
      for (const std::uint32_t dimension : each.dimensions) {
        const netcdf_dimension& along = out.dimensions[dimension];
        if (!along.is_record && !checked_mul(each.bytes, along.length, each.bytes))
          return damaged(fmt::format("variable '{}' has 2^64 bytes or more", each.name));
      }
      out.variables.push_back(std::move(each));
    }
    return {};
  }

  // A record has one part of each record variable, padded unless there is only one of them.
  result<> place(netcdf_header& out) const {
    std::uint64_t parts = 0, only = 0, begin = file_bytes_;
    for (const netcdf_variable& each : out.variables) {
      if (!each.has_records) continue;
      ++parts;
      only = each.bytes;
      begin = std::min(begin, each.offset);
      const std::uint64_t rounded = saturating_add(each.bytes, (kPadding - each.bytes % kPadding) % kPadding);
      out.record_bytes = saturating_add(out.record_bytes, rounded);
    }
    if (parts == 1) out.record_bytes = only;
    if (out.record_bytes == ~std::uint64_t{0}) return damaged("a record has 2^64 bytes or more");
    if (out.streamed) out.records = out.record_bytes == 0 ? 0 : (file_bytes_ - begin) / out.record_bytes;
    if (saturating_mul(out.records, out.record_bytes) == ~std::uint64_t{0})
      return damaged(fmt::format("{} records of {} bytes", out.records, out.record_bytes));
    for (netcdf_dimension& each : out.dimensions)
      if (each.is_record) each.length = out.records;
    return {};
  }

  std::span<const std::byte> first_;
  std::uint64_t file_bytes_, at_ = 0, needed_ = 0;
  std::size_t count_bytes_ = 4, offset_bytes_ = 4;
};

template <class Float, class Bits>
json float_of(std::uint64_t bits) {
  return json(static_cast<double>(std::bit_cast<Float>(static_cast<Bits>(bits))));
}

json number_json(netcdf_type type, std::span<const std::byte> bytes) {
  const std::uint64_t value = big_endian(bytes);
  switch (type) {
    case netcdf_type::int8:
      return json(static_cast<std::int64_t>(static_cast<std::int8_t>(value)));
    case netcdf_type::int16:
      return json(static_cast<std::int64_t>(static_cast<std::int16_t>(value)));
    case netcdf_type::int32:
      return json(static_cast<std::int64_t>(static_cast<std::int32_t>(value)));
    case netcdf_type::int64:
      return json(static_cast<std::int64_t>(value));
    case netcdf_type::float32:
      return float_of<float, std::uint32_t>(value);
    case netcdf_type::float64:
      return float_of<double, std::uint64_t>(value);
    default:
      return json(value);
  }
}

// Calls `add` with each attribute and its name. If several attributes have one name, only the first is used.
template <class Add>
json by_name(std::span<const netcdf_attribute> from, const Add& add) {
  json::object_t out;
  std::unordered_set<std::string> seen;
  for (const netcdf_attribute& each : from) {
    std::string name = as_utf8(each.name);
    if (seen.insert(name).second) out.emplace_back(std::move(name), add(each));
  }
  return json(std::move(out));
}

json attribute_json(const netcdf_attribute& of) {
  const std::span<const std::byte> bytes(of.bytes);
  if (of.type == netcdf_type::text) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return as_utf8(text.substr(0, text.find_last_not_of('\0') + 1));
  }
  const auto one = static_cast<std::size_t>(bytes_of(of.type));
  json::array_t values;
  for (std::size_t i = 0; i < bytes.size(); i += one) values.push_back(number_json(of.type, bytes.subspan(i, one)));
  return values.size() == 1 ? std::move(values[0]) : json(std::move(values));
}

}  // namespace

std::uint64_t bytes_of(netcdf_type type) noexcept {
  static constexpr std::uint8_t kBytes[] = {0, 1, 1, 2, 4, 4, 8, 1, 2, 4, 8, 8};
  return kBytes[static_cast<std::size_t>(type)];
}

bool is_netcdf_classic(std::span<const std::byte> first) noexcept {
  if (first.size() < 4 || first[0] != std::byte{'C'} || first[1] != std::byte{'D'} || first[2] != std::byte{'F'})
    return false;
  return first[3] == std::byte{1} || first[3] == std::byte{2} || first[3] == std::byte{5};
}

result<std::optional<netcdf_header>> parse_netcdf_header(std::span<const std::byte> first, std::uint64_t file_bytes,
                                                         std::uint64_t& needed) {
  header_parser parser(first, std::max<std::uint64_t>(file_bytes, first.size()));
  auto parsed = parser.parse();
  if (parsed.ok()) return std::optional<netcdf_header>(std::move(*parsed));
  needed = parser.needed();
  if (needed != 0) return std::optional<netcdf_header>();
  return std::move(parsed).error();
}

const char* stored_type_of(netcdf_type type) noexcept {
  static constexpr const char* kTypes[] = {"",    "|i1", "|S1", ">i2", ">i4", ">f4",
                                           ">f8", "|u1", ">u2", ">u4", ">i8", ">u8"};
  return kTypes[static_cast<std::size_t>(type)];
}

json netcdf_attributes_json(std::span<const netcdf_attribute> from) { return by_name(from, attribute_json); }

json netcdf_attribute_types_json(std::span<const netcdf_attribute> from) {
  return by_name(from, [](const netcdf_attribute& each) { return json(stored_type_of(each.type)); });
}

std::vector<std::byte> netcdf_fill_of(const netcdf_variable& variable) {
  const auto one = static_cast<std::size_t>(bytes_of(variable.type));
  for (const netcdf_attribute& each : variable.attributes) {
    if (each.name != "_FillValue" || each.type != variable.type || each.bytes.size() != one) continue;
    std::vector<std::byte> out = each.bytes;
    if constexpr (std::endian::native == std::endian::little) std::reverse(out.begin(), out.end());
    return out;
  }
  const auto as_bytes = [](const auto& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  switch (variable.type) {  // NC_FILL_BYTE, ...
    case netcdf_type::int8:
      return as_bytes(std::int8_t{-127});
    case netcdf_type::text:
      return as_bytes(char{0});
    case netcdf_type::int16:
      return as_bytes(std::int16_t{-32767});
    case netcdf_type::int32:
      return as_bytes(std::int32_t{-2147483647});
    case netcdf_type::float32:
      return as_bytes(9.9692099683868690e+36F);
    case netcdf_type::float64:
      return as_bytes(9.9692099683868690e+36);
    case netcdf_type::uint8:
      return as_bytes(std::uint8_t{255});
    case netcdf_type::uint16:
      return as_bytes(std::uint16_t{65535});
    case netcdf_type::uint32:
      return as_bytes(std::uint32_t{4294967295});
    case netcdf_type::int64:
      return as_bytes(std::int64_t{-9223372036854775806});
    case netcdf_type::uint64:
      return as_bytes(std::uint64_t{18446744073709551614U});
  }
  return std::vector<std::byte>(one);
}

json netcdf_header_json(const netcdf_header& header) {
  json::array_t dimensions, variables;
  for (const netcdf_dimension& each : header.dimensions)
    dimensions.emplace_back(json::array_t{json(as_utf8(each.name)), json(each.length), json(each.is_record)});
  for (const netcdf_variable& each : header.variables) {
    json::object_t variable;
    json::array_t names;
    for (const std::uint32_t dimension : each.dimensions)
      names.emplace_back(as_utf8(header.dimensions[dimension].name));
    variable.emplace_back("name", as_utf8(each.name));
    variable.emplace_back("dtype", stored_type_of(each.type));
    variable.emplace_back("dimensions", std::move(names));
    variable.emplace_back("offset", each.offset);
    variable.emplace_back("bytes", each.bytes);
    variable.emplace_back("attributes", netcdf_attributes_json(each.attributes));
    variable.emplace_back("attribute_types", netcdf_attribute_types_json(each.attributes));
    variables.emplace_back(std::move(variable));
  }
  return json(json::object_t{{"version", json(std::uint64_t{header.version})},
                             {"records", json(header.records)},
                             {"record_bytes", json(header.record_bytes)},
                             {"dimensions", json(std::move(dimensions))},
                             {"attributes", netcdf_attributes_json(header.attributes)},
                             {"attribute_types", netcdf_attribute_types_json(header.attributes)},
                             {"variables", json(std::move(variables))}});
}

}  // namespace penstock::inline v0
