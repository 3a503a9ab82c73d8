#pragma once

#include <string>

#include "codec/byte_codecs.h"
#include "codec/codec_members.h"
#include "codec/filters/number.h"

namespace penstock::inline v0 {

/// A codec that encodes each item to one item.
class item_codec : public byte_codec {
 public:
  item_codec(std::uint32_t decoded_bytes, std::uint32_t encoded_bytes) noexcept
      : decoded_item_(decoded_bytes), encoded_item_(encoded_bytes) {}

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const final;
  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const final;
  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch& scratch) const final;

 protected:
  /// Whole items, and memory for as many; the two do not overlap.
  virtual result<> decode_numbers(std::span<const std::byte> encoded, std::byte* out) const = 0;
  virtual result<> encode_numbers(std::span<const std::byte> decoded, std::byte* out) const = 0;

 private:
  const std::uint32_t decoded_item_, encoded_item_;
};

/// The same for numbers with fast arithmetic.
class number_codec : public item_codec {
 public:
  number_codec(stored_number decoded, stored_number encoded) noexcept
      : item_codec(item_bytes(decoded.kind), item_bytes(encoded.kind)), decoded_(decoded), encoded_(encoded) {}

 protected:
  const stored_number decoded_, encoded_;
};

/// numcodecs' settings of filters that change the element type.
struct number_types {
  numpy_type decoded, encoded;
  stored_number decoded_number, encoded_number;

  /// `dtype`, or the input's type if it is absent; `astype`, or the same if it is absent.
  /// \error unsupported  A type without arithmetic here.
  static result<number_types> of(const codec_members& members, const stage_type& input, std::string_view decoded,
                                 std::string_view encoded);
};

/// \param setting  For the error's text.
/// \error unsupported  A type without arithmetic here.
result<stored_number> stored_number_of(const numpy_type& type, std::string_view setting);

/// The output of a filter that makes items of `encoded` from the input's bytes, interpreted as items of `decoded`.
/// \error corrupt_data  The bytes are not a whole number of those.
result<compiled_codec> filter_stage(std::shared_ptr<const byte_codec> codec, const stage_type& input,
                                    const dtype& decoded, const numpy_type& encoded);

}  // namespace penstock::inline v0
