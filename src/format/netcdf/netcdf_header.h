#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/extend/json.h>

namespace penstock::inline v0 {

/// Element types of NetCDF classic files; all numbers are big-endian.
enum class netcdf_type : std::uint8_t {  // numbers of the format
  int8 = 1,
  text,
  int16,
  int32,
  float32,
  float64,
  uint8,
  uint16,
  uint32,
  int64,
  uint64,
};

std::uint64_t bytes_of(netcdf_type type) noexcept;

struct netcdf_attribute {
  std::string name;
  netcdf_type type = netcdf_type::int8;
  std::vector<std::byte> bytes;  ///< as stored, without padding
};

struct netcdf_dimension {
  std::string name;
  std::uint64_t length = 0;  ///< of the record dimension: the number of records
  bool is_record = false;
};

struct netcdf_variable {
  std::string name;
  netcdf_type type = netcdf_type::int8;
  std::vector<std::uint32_t> dimensions;  ///< numbers; the record dimension, if any, is the first
  std::vector<netcdf_attribute> attributes;
  bool has_records = false;
  /// The offset of the variable's elements, and their number of bytes without padding. A variable with records has
  /// `bytes` in each record; record `i` begins `i * netcdf_header::record_bytes` later.
  std::uint64_t offset = 0, bytes = 0;
};

/// The content of the header of a NetCDF classic file (CDF-1, CDF-2 with 64-bit offsets, CDF-5 with 64-bit data).
struct netcdf_header {
  unsigned version = 1;   ///< 1, 2 or 5
  bool streamed = false;  ///< the number of records is not in the header: it was computed from the size of the file
  std::uint64_t records = 0, record_bytes = 0;
  std::vector<netcdf_dimension> dimensions;
  std::vector<netcdf_attribute> attributes;
  std::vector<netcdf_variable> variables;
};

/// Whether a file that begins with these bytes is NetCDF classic.
bool is_netcdf_classic(std::span<const std::byte> first) noexcept;

/// Parses a header from the first bytes of a file.
///
/// Performs no I/O: if the header is longer than `first`, `needed` becomes the least number of bytes from the beginning
/// of the file that the parser needs, and nothing is returned. `needed` grows with each call. Memory is proportional to
/// `first`. The size of a variable is computed from its shape, since its size in the file is wrong for large variables.
/// Source: NetCDF Classic Format Specification; PnetCDF, CDF-5 File Format Specification.
/// \param file_bytes  Size of the file.
/// \error corrupt_data  The bytes are not such a header, or the header contradicts itself or the size of the file.
result<std::optional<netcdf_header>> parse_netcdf_header(std::span<const std::byte> first, std::uint64_t file_bytes,
                                                         std::uint64_t& needed);

/// NumPy's name of the stored form of a type: `>f4`, `|S1`.
const char* stored_type_of(netcdf_type type) noexcept;

/// Attributes as JSON, with NetCDF's meaning: a list of one number becomes the number. Trailing zero bytes of text are
/// removed, and U+FFFD replaces bytes that are not UTF-8. Of two attributes with one name the first counts.
json netcdf_attributes_json(std::span<const netcdf_attribute> from);

/// The type of each of these attributes, by name, as `stored_type_of` returns it.
json netcdf_attribute_types_json(std::span<const netcdf_attribute> from);

/// The header as JSON, for descriptions: dimensions, variables, attributes and their types.
json netcdf_header_json(const netcdf_header& header);

/// The value of elements that were not written: the attribute `_FillValue` if it is one value of the variable's type,
/// else NetCDF's value for that type. In native byte order.
std::vector<std::byte> netcdf_fill_of(const netcdf_variable& variable);

}  // namespace penstock::inline v0
