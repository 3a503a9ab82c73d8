#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "codec/byte_codecs.h"
#include "codec/codec_chain.h"

namespace penstock::inline v0 {

/// The codecs that cost nothing at the head of a list, because the one strided copy of a chain does their work.
inline constexpr std::array<std::string_view, 2> kArrayCodecNames = {"bytes", "transpose"};

/// The combined effect of the codecs at the head of a list.
struct array_stages {
  dim_vector<std::uint32_t> stored_axes;  ///< the array's dimension that is stored j-th, slowest first
  bool swap = false;                      ///< stored in the byte order that this machine does not have
  std::string description;                ///< `transpose(1, 0) | bytes(little)`
  std::size_t used = 0;                   ///< the number of these codecs in the list
  stage_type output;                      ///< the input of the next codec
};

/// Reads the transposes at the head of `codecs`, and `bytes` after them if it only swaps equal units.
///
/// \error corrupt_data  A wrong setting. \error unsupported  A setting by name.
result<array_stages> compile_array_stages(std::span<const codec_config> codecs, const dtype& type, const extents& cell,
                                          const codec_chain_options& options);

/// The same codecs after other codecs: stages of their own. A codec without effect is null.
result<compiled_codec> make_transpose_codec(const codec_config& config, const stage_type& input);
/// With `stored_order_filters` the output stays an array, of items in that byte order.
result<compiled_codec> make_bytes_codec(const codec_config& config, const stage_type& input,
                                        const codec_chain_options& options, std::string& description);

}  // namespace penstock::inline v0
