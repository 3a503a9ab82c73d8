#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <vector>

#include "format/hdf5/hdf5_file.h"
#include "format/hdf5/hdf5_object.h"

namespace penstock::inline v0 {

/// The bytes of the attributes that say what a dataset's stored values mean (its scale, what is missing, units): equal
/// bytes are equal attributes. Source: HDF5 File Format Specification 3.0, IV.A.2.m.
/// \error corrupt_data  An attribute is damaged. \error unsupported  They, or their values, lie elsewhere in the file.
result<std::vector<std::byte>> hdf5_meaning_of_values(const hdf5_file& file, const std::vector<hdf5_message>& header);

}  // namespace penstock::inline v0
