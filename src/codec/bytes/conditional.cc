// Bytes-to-bytes codecs that are applied to a chunk or skipped; bits before the chunk record which.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/counted.h"
#include "codec/byte_codecs.h"
#include "codec/codec_members.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kMostCodecs = 64;
constexpr std::int64_t kMostHeaderBits = 4096;

struct choice {
  std::shared_ptr<const byte_codec> codec;
  std::uint64_t limit = 0;    // the most bytes that it may decode to
  bool only_if_less = false;  // a compressor: applied if it reduces the bytes
};

class conditional_codec final : public byte_codec {
 public:
  conditional_codec(std::vector<choice> choices, std::size_t header_bytes)
      : choices_(std::move(choices)), header_bytes_(header_bytes) {}

  std::string_view name() const override { return "conditional"; }
  std::string describe() const override {
    std::string list;
    for (const choice& each : choices_) list += (list.empty() ? "" : " | ") + each.codec->describe();
    return fmt::format("conditional({})", list);
  }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    std::uint64_t most = decoded_bytes;
    for (const choice& each : choices_) {
      if (!each.only_if_less) most = std::max(most, each.codec->max_encoded_bytes(most));
    }
    return saturating_add(most, header_bytes_);
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (encoded.size() < header_bytes_) {
      return error{errc::corrupt_data, fmt::format("conditional chunk has {}, its header alone has {}",
                                                   counted(encoded.size(), "byte"), header_bytes_)};
    }
    const auto applied = [&](std::size_t i) { return (encoded[i / 8] >> (i % 8) & std::byte{1}) != std::byte{0}; };
    for (std::size_t i = choices_.size(); i < 8 * header_bytes_; ++i) {
      if (!applied(i)) continue;
      return error{errc::corrupt_data,
                   fmt::format("conditional chunk applies codec {}, there are {}", i, choices_.size())};
    }
    worker_scratch& inner = scratch.inner();
    std::span<const std::byte> current = encoded.subspan(header_bytes_);
    std::size_t other = 0;  // the buffer that does not hold `current`
    for (std::size_t i = choices_.size(); i-- > 0;) {
      if (!applied(i)) continue;
      const choice& each = choices_[i];
      buffer& room = inner.stage(other);
      const auto decode = [&]() -> result<std::span<const std::byte>> {
        if (each.limit == kUnbounded) return each.codec->decode_growing(current, room, inner);
        std::span<std::byte> into;
        if (!each.codec->decodes_in_place()) {
          PENSTOCK_ASSIGN(into, room.reserve(each.limit));
        }
        return each.codec->decode(current, into, inner);
      };
      auto decoded = decode();
      if (!decoded.ok()) return std::move(decoded).error().note("decoding with " + each.codec->describe());
      if (!each.codec->decodes_in_place()) other ^= 1;
      current = *decoded;
    }
    if (current.size() > out.size()) {
      scratch.out_of_room = true;
      return error{errc::corrupt_data, fmt::format("conditional chunk decodes to {} bytes, the output has room for {}",
                                                   current.size(), out.size())};
    }
    if (!current.empty()) std::memcpy(out.data(), current.data(), current.size());
    return std::span<const std::byte>(out.data(), current.size());
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch& scratch) const override {
    std::fill_n(out.begin(), header_bytes_, std::byte{0});
    worker_scratch& inner = scratch.inner();
    std::span<const std::byte> current = decoded;
    std::size_t other = 0;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      auto encoded = choices_[i].codec->encode_growing(current, inner.stage(other), inner);
      if (!encoded.ok()) return std::move(encoded).error().note("encoding with " + choices_[i].codec->describe());
      if (choices_[i].only_if_less && encoded->size() >= current.size()) continue;
      out[i / 8] |= std::byte{1} << (i % 8);
      current = *encoded;
      other ^= 1;
    }
    if (!current.empty()) std::memcpy(out.data() + header_bytes_, current.data(), current.size());
    return header_bytes_ + current.size();
  }

 private:
  std::vector<choice> choices_;  // in encoding order
  std::size_t header_bytes_;
};

}  // namespace

// Source: zarr-extensions, codecs/conditional. The writer chooses: compressors are applied if they make a chunk
// smaller, and codecs that keep or increase its size (shuffles, checksums) always.
result<compiled_codec> make_conditional_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"codecs", "header_bits"}));
  PENSTOCK_ASSIGN(const std::vector<codec_config> codecs, members.codecs("codecs"));
  if (codecs.size() > kMostCodecs) {
    return error{errc::unsupported,
                 fmt::format("codec 'conditional' has {} codecs, at most {} are read", codecs.size(), kMostCodecs)};
  }
  const auto least = static_cast<std::int64_t>((codecs.size() + 7) / 8 * 8);
  PENSTOCK_ASSIGN(const std::int64_t bits, members.integer("header_bits", least, kMostHeaderBits, least));
  if (bits % 8 != 0) {
    return error{errc::corrupt_data,
                 fmt::format("codec 'conditional': 'header_bits' is {}, which is not a multiple of 8", bits)};
  }
  std::vector<choice> choices;
  stage_type at = stage_type::bytes_of(input.type, input.bytes(), true);
  for (const codec_config& each : codecs) {
    if (each.name == "conditional") return error{errc::unsupported, "a 'conditional' codec within another"};
    PENSTOCK_ASSIGN(compiled_codec made, make_codec(each, at));
    const std::uint64_t most = made.output.exact ? made.output.bytes() : encoded_limit(*made.codec, at.bytes());
    choices.push_back({std::move(made.codec), at.bytes(), !made.output.exact});
    at = stage_type::bytes_of(at.type, std::max(at.bytes(), most), true);
  }
  return compressed_stage(std::make_shared<conditional_codec>(std::move(choices), static_cast<std::size_t>(bits / 8)),
                          input);
}

}  // namespace penstock::inline v0
