#include <penstock/extend/codec.h>

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "codec/byte_codecs.h"

namespace penstock::inline v0 {

std::uint64_t stage_type::bytes() const noexcept {
  std::uint64_t total = is_array ? type.item_bytes() : 1;
  for (const std::uint64_t length : shape) {
    if (length == kUnbounded || !checked_mul(total, length, total)) return kUnbounded;
  }
  return total;
}

compiled_codec compressed_stage(std::shared_ptr<const byte_codec> codec, const stage_type& input) {
  const std::uint64_t most = codec->max_encoded_bytes(input.bytes());
  return {std::move(codec), stage_type::bytes_of(input.type, most, false)};
}

std::uint64_t encoded_limit(const byte_codec& codec, std::uint64_t decoded_bytes) {
  const std::uint64_t ours = codec.max_encoded_bytes(decoded_bytes);
  return std::max(ours, saturating_add(saturating_add(decoded_bytes, decoded_bytes), 64 * 1024));
}

compiled_codec sized_stage(std::shared_ptr<const byte_codec> codec, const stage_type& input) {
  const std::uint64_t most = codec->max_encoded_bytes(input.bytes());
  return {std::move(codec), stage_type::bytes_of(input.type, most, input.exact)};
}

compiled_codec array_stage(std::shared_ptr<const byte_codec> codec, const stage_type& input) {
  return {std::move(codec), input};
}

}  // namespace penstock::inline v0
