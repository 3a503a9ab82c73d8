#include <fmt/format.h>

#include "codec/filters/number_codec.h"

namespace penstock::inline v0 {
namespace {

void convert(std::span<const std::byte> in, stored_number from, stored_number to, std::byte* out) {
  if (from.kind == to.kind) {
    const std::uint32_t bytes = item_bytes(from.kind);
    copy_items(in.data(), out, in.size() / bytes, bytes, from.swapped != to.swapped);
    return;
  }
  const cast_function cast = cast_of(from.kind, to.kind);
  transform_numbers(in, from, from.kind, to.kind, to, out, cast);
}

class astype_codec final : public number_codec {
 public:
  explicit astype_codec(const number_types& types)
      : number_codec(types.decoded_number, types.encoded_number),
        description_(fmt::format("astype({} as {})", types.decoded.type.name(), types.encoded.type.name())) {}

  std::string_view name() const override { return "astype"; }
  std::string describe() const override { return description_; }

 private:
  result<> decode_numbers(std::span<const std::byte> encoded, std::byte* out) const override {
    convert(encoded, encoded_, decoded_, out);
    return {};
  }
  result<> encode_numbers(std::span<const std::byte> decoded, std::byte* out) const override {
    convert(decoded, decoded_, encoded_, out);
    return {};
  }

  std::string description_;
};

}  // namespace

result<compiled_codec> make_astype_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"encode_dtype", "decode_dtype"}));
  if (!members.has("encode_dtype")) {
    return error{errc::corrupt_data, "codec 'astype' needs the setting 'encode_dtype'"};
  }
  PENSTOCK_ASSIGN(const number_types types, number_types::of(members, input, "decode_dtype", "encode_dtype"));
  return filter_stage(std::make_shared<astype_codec>(types), input, types.decoded.type, types.encoded);
}

}  // namespace penstock::inline v0
