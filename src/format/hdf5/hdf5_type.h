#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {

struct hdf5_member;

/// The type of an element, as a datatype message describes it.
struct hdf5_type {
  enum class kind : std::uint8_t {  // numbers of the format
    integer,
    floating,
    time,
    text,
    bits,
    opaque,
    compound,
    reference,
    enumeration,
    variable,
    array,
    complex,
  };
  /// padding of text
  enum class pad : std::uint8_t { terminated, zeros, spaces };
  /// The kind of a reference's target.
  enum class target : std::uint8_t { object, region, new_object, new_region, attribute };

  kind what = kind::integer;
  std::uint32_t bytes = 0;  ///< of one element in the file

  bool big_endian = false;                      ///< of numbers and bit fields
  bool vax = false;                             ///< floating: the byte order of VAX
  bool is_signed = false;                       ///< integer
  std::uint32_t bit_offset = 0, precision = 0;  ///< integer, floating, bits

  struct float_fields {
    std::uint32_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0, bias = 0;
    std::uint8_t normalization = 0;  ///< 0: none, 1: the first bit is stored, 2: it is implied
    friend bool operator==(const float_fields&, const float_fields&) = default;
  } fields;  ///< floating

  pad padding = pad::terminated;      ///< text
  bool utf8 = false;                  ///< text and variable text
  bool is_text = false;               ///< variable: text, not a sequence
  target refers_to = target::object;  ///< reference
  std::string tag;                    ///< opaque

  std::vector<hdf5_member> members;                                    ///< compound, in the file's order
  std::vector<std::pair<std::string, std::vector<std::byte>>> values;  ///< enumeration
  std::vector<std::uint64_t> extents;                                  ///< array
  std::vector<hdf5_type> base;                                         ///< enumeration, variable, array, complex: one

  /// Whether elements, or parts of them, are in a heap of the file.
  bool has_variable_parts() const noexcept;
};

struct hdf5_member {
  std::string name;
  std::uint32_t offset = 0;
  hdf5_type type;
};

/// Parses a datatype message and moves `cursor` past it.
///
/// Members with dimensions in a compound of version 1 become arrays. Nesting is limited to 32 levels; memory is
/// proportional to the message. Source: HDF5 File Format Specification 4.0, IV.A.2.d.
/// \error corrupt_data  The message is contradictory. \error unsupported  An unknown version or class.
result<hdf5_type> parse_hdf5_type(hdf5_cursor& cursor);

/// `compound of 24 bytes`, for errors.
std::string describe(const hdf5_type& type);

}  // namespace penstock::inline v0
