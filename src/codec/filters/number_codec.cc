#include "codec/filters/number_codec.h"

#include <fmt/format.h>

#include "array/item_swap.h"
#include "base/checked.h"

namespace penstock::inline v0 {
result<stored_number> stored_number_of(const numpy_type& type, std::string_view setting) {
  const std::optional<number> kind = number_of(type.type);
  if (!kind) {
    return error{errc::unsupported, fmt::format("'{}' is {}, which has no arithmetic here", setting, type.type.name())};
  }
  return stored_number{*kind, type.big_endian != kNativeBig && item_bytes(*kind) > 1};
}

std::uint64_t item_codec::max_encoded_bytes(std::uint64_t decoded_bytes) const {
  if (decoded_item_ == encoded_item_) return decoded_bytes;
  std::uint64_t bytes = 0;
  return checked_mul(decoded_bytes / decoded_item_, encoded_item_, bytes) ? bytes : kUnbounded;
}

result<std::span<const std::byte>> item_codec::decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                                      worker_scratch& scratch) const {
  const std::uint64_t item = encoded_item_, count = encoded.size() / item;
  if (count * item != encoded.size()) {
    return error{errc::corrupt_data,
                 fmt::format("{} items of {} bytes do not fill {} bytes", count, item, encoded.size())};
  }
  if (count > out.size() / decoded_item_) {
    scratch.out_of_room = true;
    return error{errc::corrupt_data,
                 fmt::format("{} items of {} bytes do not fit into {} bytes", count, decoded_item_, out.size())};
  }
  PENSTOCK_TRY(decode_numbers(encoded, out.data()));
  return std::span<const std::byte>(out.data(), count * decoded_item_);
}

result<std::uint64_t> item_codec::encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                                         worker_scratch&) const {
  const std::uint64_t item = decoded_item_, count = decoded.size() / item;
  if (count * item != decoded.size()) {
    return error{errc::invalid_argument,
                 fmt::format("{} items of {} bytes do not fill {} bytes", count, item, decoded.size())};
  }
  PENSTOCK_TRY(encode_numbers(decoded, out.data()));
  return count * encoded_item_;
}

result<number_types> number_types::of(const codec_members& members, const stage_type& input, std::string_view decoded,
                                      std::string_view encoded) {
  number_types made;
  PENSTOCK_ASSIGN(made.decoded, members.item_type(decoded, numpy_type{input.type, input.big_endian}));
  PENSTOCK_ASSIGN(made.encoded, members.item_type(encoded, made.decoded));
  PENSTOCK_ASSIGN(made.decoded_number, stored_number_of(made.decoded, decoded));
  PENSTOCK_ASSIGN(made.encoded_number, stored_number_of(made.encoded, encoded));
  return made;
}

result<compiled_codec> filter_stage(std::shared_ptr<const byte_codec> codec, const stage_type& input,
                                    const dtype& decoded, const numpy_type& encoded) {
  const std::uint64_t bytes = input.bytes(), item = decoded.item_bytes();
  if (input.exact && bytes != kUnbounded && bytes % item != 0) {
    return error{errc::corrupt_data, fmt::format("codec '{}': items of {} bytes do not fill the {} bytes it gets",
                                                 codec->name(), item, bytes)};
  }
  stage_type output = input;
  output.type = encoded.type;
  output.big_endian = encoded.big_endian;
  if (!input.is_array) {
    output.shape = {codec->max_encoded_bytes(bytes)};
  } else if (input.type.item_bytes() != item) {
    output.shape = {bytes == kUnbounded ? kUnbounded : bytes / item};
  }
  return compiled_codec{std::move(codec), std::move(output)};
}

}  // namespace penstock::inline v0
