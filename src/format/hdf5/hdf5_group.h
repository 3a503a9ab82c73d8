#pragma once

#include <penstock/result.h>

#include <cstdint>
#include <string_view>

#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {

/// The address of the object header that `path` ('/'-separated, from the root group) leads to by hard links.
///
/// Source: HDF5 File Format Specification 3.0, III.A.1, III.B to III.D, IV.A.2.g.
/// \error not_found    There is no such object.
/// \error unsupported  A link of another kind, or a group whose links lie in a heap.
/// \error corrupt_data  A group on the way is damaged.
result<std::uint64_t> find_hdf5_object(hdf5_file& file, std::string_view path);

/// Looks at every link of the group whose object header stands at `group`: what a damaged one would do to who trusts
/// it, is an error here.
/// \error As find_hdf5_object.
result<> check_hdf5_group(hdf5_file& file, std::uint64_t group);

}  // namespace penstock::inline v0
