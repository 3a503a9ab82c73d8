#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/array.h>
#include <penstock/virtual.h>
#include "driver/merge_references.h"

namespace penstock::inline v0 {

/// How the chunks of a variable are encoded.
struct variable_coding {
  chunk_codecs codecs;
  std::string order;  ///< of the items of a chunk: "C" or "F"
  std::string key;    ///< equal for chunks with the same decoding, regardless of the encoder's effort
};

/// The properties of a variable that must match those in other files.
struct variable_facts {
  std::vector<std::string> dimensions;  ///< empty text: it has no name; empty: none has
  dtype type;
  std::vector<std::byte> fill;  ///< one item
  json attributes;
};

/// A variable of one of many files. Small, because every file has an entry for each variable; equal members are shared.
struct virtual_variable {
  std::string name;
  std::string uri;
  std::shared_ptr<const variable_facts> facts;
  /// How its chunks are encoded; null if its references cannot be merged with those of other files.
  std::shared_ptr<const variable_coding> coding;
  reference_part part;  ///< its references are set if `coding` is; its shape is always set
  /// null: `opened` is set, and the locations of its chunks are not in references.
  std::shared_ptr<const referenced_array> what;
  std::optional<array> opened;  ///< otherwise `what` describes it

  const short_extents& shape() const noexcept { return part.shape; }
};

/// One of many files.
struct virtual_file {
  std::string name;  ///< its name in errors
  std::string attributes_json;
  std::shared_ptr<const hdf5_facts> facts;
  std::vector<virtual_variable> variables;  ///< in the order of the file, else sorted
  std::vector<std::byte> coordinate;        ///< values, in native byte order
  std::optional<std::uint64_t> length;      ///< along the dimension that is joined

  const virtual_variable* find(std::string_view name) const noexcept;
  virtual_variable* find(std::string_view name) noexcept;
};

/// Reads the metadata of a file, and the values of its coordinate.
/// \error As open's; invalid_argument  Variables of different lengths along the dimension.
result<virtual_file> read_virtual_file(std::shared_ptr<const store> from, const std::string& key,
                                       const virtual_options& how);

/// The array of a variable. \error As open_reference's.
result<array> open_virtual_variable(const virtual_variable& of, const std::shared_ptr<context>& with);

/// Equal values; NaN equals NaN.
bool same_json(const json& a, const json& b);

/// Attributes that change the meaning of a stored value.
inline constexpr std::array<std::string_view, 7> kMeaning = {
    "scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units", "calendar"};

/// Such an attribute in the form that errors show.
/// \param value  null: the attribute does not exist.
std::string value_text(const json* value);

/// A dataset that is described but not opened.
virtual_variable variable_of(std::string name, std::shared_ptr<const referenced_array> what);

/// An opened array with the references to its chunks, even if reading by these is slower than reading the array itself.
/// \error As references_of.
result<virtual_variable> referenced_variable(std::string name, array opened);

/// Makes the references of a variable those of a part of an array that is stored as `like`.
/// \returns False if they cannot be merged.
bool make_part_like(const virtual_variable& like, virtual_variable& of);

/// Replaces members that equal those of the first file's variable by shared ones, so that thousands of files fit in
/// memory.
void share_with(const virtual_variable& first, virtual_variable& other);
/// A variable before its members were shared with those of the first file.
virtual_variable restored(const virtual_variable& first, const virtual_variable& of);

/// Whether a coordinate's values can be compared: fixed-width integers and floats.
bool is_comparable(const dtype& type) noexcept;
/// The value at index `i` of a coordinate.
long double value_at(const dtype& type, const std::vector<std::byte>& values, std::size_t i) noexcept;

}  // namespace penstock::inline v0
