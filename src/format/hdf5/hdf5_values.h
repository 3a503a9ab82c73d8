#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <penstock/extend/json.h>
#include "format/hdf5/hdf5_attributes.h"
#include "format/hdf5/hdf5_heaps.h"
#include "format/hdf5/hdf5_targets.h"
#include "format/hdf5/hdf5_type.h"

namespace penstock::inline v0 {

/// The value of an attribute as Zarr's attributes write it: numbers, text and lists.
///
/// A list of one element is that element, as in netCDF. Complex numbers are [real, imaginary], structures are lists,
/// enumerations and NumPy's times are their numbers, {FALSE: 0, TRUE: 1} is a boolean. Text and bytes are UTF-8 in
/// U+FFFD replaces invalid bytes. An empty dataspace of text is "", of other types null. References are text, as in
/// elements of datasets: paths, and paths with regions.
/// \param find  Finds the targets of references; null: they are texts such as `<HDF5 object reference>`.
/// \error corrupt_data  A value does not exist in its heap. \error unsupported  An unsupported type, by name.
result<json> hdf5_attribute_json(hdf5_file& file, hdf5_global_heap& heap, const hdf5_attribute& from,
                                 const hdf5_path_finder* find = nullptr);

/// One element as JSON, by the same rules.
/// \error As hdf5_attribute_json.
result<json> hdf5_element_json(hdf5_file& file, hdf5_global_heap& heap, const hdf5_type& type,
                               std::span<const std::byte> element);

/// The type as JSON, for descriptions: its class, its size and its parts.
json hdf5_type_json(const hdf5_type& type);

/// UTF-8 in which U+FFFD replaces each maximal invalid part. Source: Unicode Standard 15, section 3.9.
std::string hdf5_text(std::string_view bytes);

}  // namespace penstock::inline v0
