#pragma once

// Shared by the codecs' fuzz targets: hostile bytes into exact memory, and round trips of arbitrary content.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "codec/codec_chain.h"
#include "fuzz/require.h"

namespace penstock::inline v0 {

/// Takes small numbers from the front of an input; zeros at its end.
class fuzz_input {
 public:
  fuzz_input(const std::uint8_t* data, std::size_t size) : at_(data), left_(size) {}
  std::uint32_t byte() { return left_ == 0 ? 0 : (--left_, *at_++); }
  std::uint32_t below(std::uint32_t end) { return byte() % end; }
  std::span<const std::byte> rest() const { return std::as_bytes(std::span(at_, left_)); }

 private:
  const std::uint8_t* at_;
  std::size_t left_;
};

/// `given`, and again with a changing byte until there are `least` bytes.
inline std::vector<std::byte> repeated(std::span<const std::byte> given, std::size_t least) {
  std::vector<std::byte> out(given.begin(), given.end());
  while (!given.empty() && out.size() < least) {
    out.insert(out.end(), given.begin(), given.end());
    out.back() = static_cast<std::byte>(out.size() / given.size());
  }
  return out;
}

/// Decodes to `size` bytes in a heap block of its own, so that a sanitizer detects one byte too many.
inline void decode_hostile(const byte_codec& codec, std::span<const std::byte> encoded, std::size_t size,
                           worker_scratch& scratch) {
  const auto copy = std::make_unique<std::byte[]>(encoded.size());
  if (!encoded.empty()) std::memcpy(copy.get(), encoded.data(), encoded.size());
  const auto out = std::make_unique<std::byte[]>(size);
  const std::span<const std::byte> from(copy.get(), encoded.size());
  const auto decoded = codec.decode(from, std::span(out.get(), size), scratch);
  if (!decoded.ok()) {
    const errc code = decoded.error().code();  // unsupported: the format has it, this library does not read it
    require(code == errc::corrupt_data || code == errc::unsupported || code == errc::resource_exhausted);
    return;
  }
  const bool in_out = decoded->data() == out.get() && decoded->size() <= size;
  const bool in_encoded =
      decoded->data() >= from.data() && decoded->data() + decoded->size() <= from.data() + from.size();
  require(in_out || in_encoded);
  std::vector<std::byte> read(decoded->begin(), decoded->end());  // every byte of the output may be written
}

inline void round_trip(const byte_codec& codec, std::span<const std::byte> content, worker_scratch& scratch) {
  std::vector<std::byte> encoded(codec.max_encoded_bytes(content.size()));
  const auto made = codec.encode(content, encoded, scratch);
  require(made.ok() && *made <= encoded.size());
  std::vector<std::byte> out(content.size());
  const auto decoded = codec.decode(std::span(encoded).first(*made), out, scratch);
  require(decoded.ok() && decoded->size() == content.size());
  require(content.empty() || std::memcmp(decoded->data(), content.data(), content.size()) == 0);
}

/// Small settings first, then content: the same bytes are decoded as hostile input, and encoded as content.
inline void fuzz_byte_codec(const byte_codec& codec, fuzz_input& input) {
  // Enough memory for valid inputs, but so little that a size taken from the bytes is noticed.
  ledger accounts(std::uint64_t{64} << 20, 0);
  worker_scratch scratch(&accounts);
  const std::size_t size = input.byte() | input.byte() << 8;
  decode_hostile(codec, input.rest(), size, scratch);
  round_trip(codec, input.rest(), scratch);
}

inline std::shared_ptr<const byte_codec> codec_of(std::string_view name, json::object_t settings) {
  return make_byte_codec({std::string(name), json(std::move(settings))}, 1).value();
}

}  // namespace penstock::inline v0
