#pragma once

#include <cstdint>
#include <vector>

#include "codec/codec_members.h"

namespace penstock::inline v0 {

/// The member `parameters` of a filter of HDF5: its client data, 32-bit numbers.
/// \error corrupt_data  Not such a list. \error unsupported  More than any filter has.
result<std::vector<std::uint32_t>> parameter_list(const codec_members& members);

}  // namespace penstock::inline v0
