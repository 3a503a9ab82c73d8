#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "codec/codec_chain.h"

namespace penstock::inline v0 {

/// The codecs that work on arrays: they cost nothing by themselves, as the one strided copy of a chain does their work.
inline constexpr std::array<std::string_view, 2> kArrayCodecNames = {"bytes", "transpose"};

/// What the leading array codecs of a list come to.
struct array_stages {
  dim_vector<std::uint32_t> stored_axes;  ///< the array's dimension that is stored j-th, slowest first
  bool swap = false;                      ///< stored in the other byte order than this machine's
  std::string description;                ///< `transpose(1, 0) | bytes(little)`
  std::size_t used = 0;                   ///< how many codecs of the list these are
};

/// Reads the array-to-array codecs and the one array-to-bytes codec at the head of `codecs`.
///
/// \error unsupported  A codec by name, a setting by name. \error corrupt_data  No array-to-bytes codec, a wrong order
/// of
///                     codecs, a wrong setting.
result<array_stages> compile_array_stages(std::span<const codec_config> codecs, dtype type, std::size_t rank);

}  // namespace penstock::inline v0
