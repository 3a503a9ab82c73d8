// Blocks of N5 in its default mode: a header with the block's own shape, then the output of a chain of codecs.

#include <fmt/format.h>

#include <cstring>

#include "base/counted.h"
#include "codec/byte_codecs.h"
#include "codec/codec_members.h"
#include "codec/library_contexts.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kPrefixBytes = 4;  // mode and number of dimensions, 16 bits each; then 32 bits for each length

std::uint32_t big_endian(const std::byte* at, std::size_t bytes) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<std::uint32_t>(at[i]);
  return value;
}

void put_big_endian(std::byte* at, std::uint64_t value, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < bytes; ++i) at[i] = static_cast<std::byte>(value >> (8 * (bytes - 1 - i)));
}

class n5_default_codec final : public byte_codec {
 public:
  n5_default_codec(std::vector<codec_config> codecs, codec_chain whole)
      : codecs_(std::move(codecs)), whole_(std::move(whole)) {}

  std::string_view name() const override { return "n5_default"; }
  std::string describe() const override { return fmt::format("n5_default({})", whole_.describe()); }
  std::uint64_t max_encoded_bytes(std::uint64_t) const override {
    return saturating_add(whole_.max_encoded_bytes(), header_bytes());
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (encoded.size() < header_bytes()) {
      return error{errc::corrupt_data,
                   fmt::format("N5 block has {} bytes, its header alone has {}", encoded.size(), header_bytes())};
    }
    const std::uint32_t mode = big_endian(encoded.data(), 2), rank = big_endian(encoded.data() + 2, 2);
    if (mode != 0) return error{errc::unsupported, fmt::format("N5 block has mode {}, only 0 is read", mode)};
    if (rank != whole_.cell().size()) {
      return error{errc::corrupt_data,
                   fmt::format("N5 block has {}, the array has {}", counted(rank, "dimension"), whole_.cell().size())};
    }
    if (out.size() < whole_.decoded_bytes()) {
      return error{errc::corrupt_data, fmt::format("N5 block does not fit into {} bytes", out.size())};
    }
    extents shape(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      shape[d] = big_endian(encoded.data() + kPrefixBytes + 4 * d, 4);
      if (shape[d] > whole_.cell()[d]) {
        return error{errc::corrupt_data, fmt::format("N5 block has length {} in dimension {}, chunks have {}", shape[d],
                                                     d, whole_.cell()[d])};
      }
    }
    decode_target target;
    target.data = out.data();
    target.strides = c_order_strides(whole_.cell(), whole_.type().item_bytes());
    target.covers_cell = true;
    const auto content = encoded.subspan(header_bytes());
    worker_scratch& inner = scratch.libraries().nested();
    if (shape == whole_.cell()) {
      PENSTOCK_TRY(whole_.decode(content, target, inner));
    } else {
      // Some writers cut blocks at the array's edge: the rest is beyond it.
      PENSTOCK_ASSIGN(const codec_chain cut, codec_chain::compile(codecs_, whole_.type(), shape));
      std::memset(out.data(), 0, whole_.decoded_bytes());
      PENSTOCK_TRY(cut.decode(content, target, inner));
    }
    return std::span<const std::byte>(out.data(), whole_.decoded_bytes());
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch& scratch) const override {
    if (decoded.size() != whole_.decoded_bytes()) {
      return error{errc::invalid_argument,
                   fmt::format("codec 'n5_default' encodes {} bytes, not {}", whole_.decoded_bytes(), decoded.size())};
    }
    put_big_endian(out.data(), 0, 2);
    put_big_endian(out.data() + 2, whole_.cell().size(), 2);
    for (std::size_t d = 0; d < whole_.cell().size(); ++d) {
      put_big_endian(out.data() + kPrefixBytes + 4 * d, whole_.cell()[d], 4);
    }
    // Codecs only read it.
    auto* const items = const_cast<std::byte*>(decoded.data());
    PENSTOCK_ASSIGN(const std::uint64_t made,
                    whole_.encode(tensor_view::contiguous(items, whole_.type(), whole_.cell()),
                                  out.subspan(header_bytes()), scratch.libraries().nested()));
    return header_bytes() + made;
  }

 private:
  std::size_t header_bytes() const noexcept { return kPrefixBytes + 4 * whole_.cell().size(); }

  std::vector<codec_config> codecs_;
  codec_chain whole_;
};

bool reverses(const codec_config& transpose, std::size_t rank) {
  const json* const order = transpose.configuration.find("order");
  if (order == nullptr || order->as_array() == nullptr || order->as_array()->size() != rank) return false;
  for (std::size_t i = 0; i < rank; ++i) {
    std::uint64_t axis = 0;
    if (!(*order->as_array())[i].get(axis) || axis != rank - 1 - i) return false;
  }
  return true;
}

}  // namespace

result<compiled_codec> make_n5_default_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"codecs"}));
  PENSTOCK_ASSIGN(std::vector<codec_config> codecs, members.codecs("codecs"));
  const bool good = codecs.size() >= 2 && codecs.size() <= 3 && codecs[0].name == "transpose" &&
                    reverses(codecs[0], input.shape.size()) && codecs[1].name == "bytes" &&
                    (codecs.size() == 2 || codecs[2].name != "n5_default");
  if (!good) {
    return error{errc::corrupt_data,
                 "codec 'n5_default': its codecs should be a full transpose, bytes, and one more at most"};
  }
  for (const std::uint64_t length : input.shape) {
    if (length > 0xffffffff) return error{errc::unsupported, fmt::format("an N5 block of length {}", length)};
  }
  PENSTOCK_ASSIGN(codec_chain whole, codec_chain::compile(codecs, input.type, input.shape));
  const bool exact = whole.fixed_size();
  auto codec = std::make_shared<n5_default_codec>(std::move(codecs), std::move(whole));
  const std::uint64_t most = codec->max_encoded_bytes(0);
  return compiled_codec{std::move(codec), stage_type::bytes_of(input.type, most, exact)};
}

}  // namespace penstock::inline v0
