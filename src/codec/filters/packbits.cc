// Items of few bits: numcodecs' packbits (booleans, highest bit first, after a byte with the number of padding bits),
// and the registered extension codec (components of any width, lowest bit first).

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "codec/byte_codecs.h"
#include "codec/codec_members.h"
#include "codec/device_form.h"

namespace penstock::inline v0 {
namespace {

// Eight booleans of each byte.
template <bool kHighestFirst>
constexpr std::array<std::array<std::uint8_t, 8>, 256> make_bit_table() {
  std::array<std::array<std::uint8_t, 8>, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      table[byte][bit] = static_cast<std::uint8_t>(byte >> (kHighestFirst ? 7 - bit : bit) & 1);
    }
  }
  return table;
}
template <bool kHighestFirst>
constexpr std::array<std::array<std::uint8_t, 8>, 256> kBits = make_bit_table<kHighestFirst>();

template <bool kHighestFirst>
void unpack_booleans(const std::byte* from, std::byte* to, std::size_t count) noexcept {
  const std::size_t whole = count / 8;
  for (std::size_t i = 0; i < whole; ++i) {
    std::memcpy(to + 8 * i, kBits<kHighestFirst>[static_cast<std::uint8_t>(from[i])].data(), 8);
  }
  if (count % 8 != 0) {
    std::memcpy(to + 8 * whole, kBits<kHighestFirst>[static_cast<std::uint8_t>(from[whole])].data(), count % 8);
  }
}

template <bool kHighestFirst>
void pack_booleans(const std::byte* from, std::byte* to, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; i += 8) {
    const std::size_t bits = count - i < 8 ? count - i : 8;
    unsigned byte = 0;
    for (std::size_t bit = 0; bit < bits; ++bit) {
      byte |= static_cast<unsigned>(from[i + bit] != std::byte{0}) << (kHighestFirst ? 7 - bit : bit);
    }
    to[i / 8] = static_cast<std::byte>(byte);
  }
}

/// One bit for each byte. In types other than booleans, bytes above 1 are refused, because they would be decoded as 1.
class boolean_packbits_codec final : public byte_codec {
 public:
  explicit boolean_packbits_codec(bool booleans) noexcept : booleans_(booleans) {}
  std::string_view name() const override { return "packbits"; }
  std::string describe() const override { return "packbits"; }
  std::optional<device_form> form_on_device() const override {
    device_form out = device_form::of(device_form::kind::packed_bits);
    out.highest_first = true;
    out.padding = device_form::padding_place::first_byte;
    return out;
  }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return decoded_bytes / 8 + (decoded_bytes % 8 != 0 ? 2 : 1);
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (encoded.empty()) return error{errc::corrupt_data, "packed bits lack the byte that counts their padding"};
    const std::uint64_t bytes = encoded.size() - 1, padding = static_cast<std::uint64_t>(encoded[0]);
    if (padding > 7 || (padding != 0 && bytes == 0)) {
      return error{errc::corrupt_data, fmt::format("packed bits declare {} padding bits in {} bytes", padding, bytes)};
    }
    const std::uint64_t count = bytes * 8 - padding;
    if (count > out.size()) {
      scratch.out_of_room = true;
      return error{errc::corrupt_data, fmt::format("{} packed bits do not fit into {} bytes", count, out.size())};
    }
    unpack_booleans<true>(encoded.data() + 1, out.data(), count);
    return std::span<const std::byte>(out.data(), count);
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    if (!booleans_) {
      const auto lost =
          std::find_if(decoded.begin(), decoded.end(), [](std::byte each) { return each > std::byte{1}; });
      if (lost != decoded.end()) {
        return error{errc::invalid_argument,
                     fmt::format("codec 'packbits' of numcodecs keeps one bit of each byte: a byte of {} would be 1",
                                 static_cast<unsigned>(*lost))};
      }
    }
    out[0] = static_cast<std::byte>((8 - decoded.size() % 8) % 8);
    pack_booleans<true>(decoded.data(), out.data() + 1, decoded.size());
    return max_encoded_bytes(decoded.size());
  }

 private:
  const bool booleans_;
};

/// The layout of a component in memory, and its stored bits.
struct packed_layout {
  std::uint64_t components = 0;  // of all items
  std::uint32_t bytes = 1;       // of a component in memory
  std::uint32_t first = 0, bits = 1;
  bool sign = false;
  bool big_endian = false;  // in memory
  using padding_place = device_form::padding_place;
  padding_place padding = padding_place::none;

  std::uint64_t total_bits() const noexcept { return components * bits; }
  std::uint64_t packed_bytes() const noexcept { return (total_bits() + 7) / 8; }
  std::uint64_t encoded_bytes() const noexcept { return packed_bytes() + (padding == padding_place::none ? 0 : 1); }
};

class packbits_codec final : public byte_codec {
 public:
  explicit packbits_codec(const packed_layout& layout) noexcept : layout_(layout) {}

  std::string_view name() const override { return "packbits"; }
  std::string describe() const override {
    return layout_.first == 0 ? fmt::format("packbits({})", layout_.bits)
                              : fmt::format("packbits(bits {} to {})", layout_.first, layout_.first + layout_.bits - 1);
  }
  std::uint64_t max_encoded_bytes(std::uint64_t) const override { return layout_.encoded_bytes(); }
  std::optional<device_form> form_on_device() const override {
    if (layout_.bits != 1 || layout_.bytes != 1 || layout_.first != 0 || layout_.sign)
      return device_form::of(device_form::kind::other_settings);
    device_form out = device_form::of(device_form::kind::packed_bits);
    out.padding = layout_.padding;
    return out;
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch&) const override {
    if (encoded.size() != layout_.encoded_bytes()) {
      return error{errc::corrupt_data,
                   fmt::format("{} packed components of {} bits have {} bytes, not {}", layout_.components,
                               layout_.bits, layout_.encoded_bytes(), encoded.size())};
    }
    const std::uint64_t bytes = layout_.components * layout_.bytes;
    if (bytes > out.size()) {
      return error{errc::corrupt_data, fmt::format("packed bits do not fit into {} bytes", out.size())};
    }
    const std::byte* packed = encoded.data();
    if (layout_.padding != packed_layout::padding_place::none) {
      const bool at_start = layout_.padding == packed_layout::padding_place::first_byte;
      const auto says = static_cast<std::uint64_t>(at_start ? encoded.front() : encoded.back());
      if (says != padding()) {
        return error{errc::corrupt_data,
                     fmt::format("packed bits declare {} padding bits, expected {}", says, padding())};
      }
      if (at_start) ++packed;
    }
    if (layout_.bits == 1 && layout_.bytes == 1 && layout_.first == 0 && !layout_.sign) {
      unpack_booleans<false>(packed, out.data(), layout_.components);
    } else {
      unpack(packed, out.data());
    }
    return std::span<const std::byte>(out.data(), bytes);
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    if (decoded.size() != layout_.components * layout_.bytes) {
      return error{errc::invalid_argument, fmt::format("codec 'packbits' packs {} bytes, not {}",
                                                       layout_.components * layout_.bytes, decoded.size())};
    }
    std::byte* packed = out.data();
    if (layout_.padding == packed_layout::padding_place::first_byte) *packed++ = static_cast<std::byte>(padding());
    if (layout_.bits == 1 && layout_.bytes == 1 && layout_.first == 0) {
      pack_booleans<false>(decoded.data(), packed, layout_.components);
    } else {
      pack(decoded.data(), packed);
    }
    if (layout_.padding == packed_layout::padding_place::last_byte) {
      packed[layout_.packed_bytes()] = static_cast<std::byte>(padding());
    }
    return layout_.encoded_bytes();
  }

 private:
  std::uint64_t padding() const noexcept { return layout_.packed_bytes() * 8 - layout_.total_bits(); }
  std::uint64_t mask() const noexcept { return ~std::uint64_t{0} >> (64 - layout_.bits); }

  // Bytes go through a word of 64 bits; the rest of a component at an odd bit is kept separately.
  void unpack(const std::byte* from, std::byte* to) const noexcept {
    std::uint64_t held = 0, left = layout_.packed_bytes();
    unsigned have = 0;
    for (std::uint64_t i = 0; i < layout_.components; ++i) {
      std::uint64_t value = 0;
      unsigned got = 0;
      while (got < layout_.bits) {
        if (have == 0) {
          held = left > 0 ? static_cast<std::uint64_t>(*from++) : 0;
          --left;
          have = 8;
        }
        const unsigned take = std::min<unsigned>(have, layout_.bits - got);
        value |= (held & ((1u << take) - 1)) << got;
        held >>= take;
        have -= take;
        got += take;
      }
      if (layout_.sign && (value >> (layout_.bits - 1) & 1) != 0) value |= ~mask();
      put(to + i * layout_.bytes, value << layout_.first);
    }
  }

  void pack(const std::byte* from, std::byte* to) const noexcept {
    unsigned held = 0, have = 0;
    for (std::uint64_t i = 0; i < layout_.components; ++i) {
      std::uint64_t value = get(from + i * layout_.bytes) >> layout_.first & mask();
      unsigned left = layout_.bits;
      while (left > 0) {
        const unsigned take = std::min(8 - have, left);
        held |= static_cast<unsigned>(value & ((1u << take) - 1)) << have;
        value >>= take;
        have += take;
        left -= take;
        if (have == 8) {
          *to++ = static_cast<std::byte>(held);
          held = have = 0;
        }
      }
    }
    if (have > 0) *to = static_cast<std::byte>(held);
  }

  std::uint64_t get(const std::byte* at) const noexcept {
    std::uint64_t value = 0;
    for (std::uint32_t i = 0; i < layout_.bytes; ++i) {
      value |= static_cast<std::uint64_t>(at[layout_.big_endian ? layout_.bytes - 1 - i : i]) << (8 * i);
    }
    return value;
  }
  void put(std::byte* at, std::uint64_t value) const noexcept {
    for (std::uint32_t i = 0; i < layout_.bytes; ++i) {
      at[layout_.big_endian ? layout_.bytes - 1 - i : i] = static_cast<std::byte>(value >> (8 * i));
    }
  }

  packed_layout layout_;
};

// Bits of a component, by the extension's table; 0: the table does not have the type.
std::uint32_t component_bits(const dtype& type) noexcept {
  switch (type.kind()) {
    case dtype_kind::boolean:
      return 1;
    case dtype_kind::signed_integer:
    case dtype_kind::unsigned_integer:
    case dtype_kind::floating:
    case dtype_kind::brain_float:
    case dtype_kind::small_float:
    case dtype_kind::datetime:
    case dtype_kind::timedelta:
      return type.bits();
    case dtype_kind::complex:
      switch (type.format()) {
        case float_format::float4_e2m1fn:
          return 4;
        case float_format::float6_e2m3fn:
        case float_format::float6_e3m2fn:
          return 6;
        default:
          return type.item_bytes() * 4;
      }
    default:
      return 0;
  }
}

}  // namespace

result<compiled_codec> make_numcodecs_packbits_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_TRY(codec_members::of(config, {}));
  auto codec = std::make_shared<boolean_packbits_codec>(input.type.kind() == dtype_kind::boolean);
  stage_type output = input;
  output.type = dtype(dtype_kind::unsigned_integer, 8);
  output.shape = {codec->max_encoded_bytes(input.bytes())};
  return compiled_codec{std::move(codec), std::move(output)};
}

result<compiled_codec> make_packbits_codec(const codec_config& config, const stage_type& input) {
  using place = packed_layout::padding_place;
  constexpr std::string_view kPlaces[] = {"none", "first_byte", "last_byte"};
  PENSTOCK_ASSIGN(const codec_members members,
                  codec_members::of(config, {"padding_encoding", "first_bit", "last_bit"}));
  const std::uint32_t bits = component_bits(input.type);
  if (bits == 0) {
    return error{errc::unsupported, fmt::format("codec 'packbits' does not pack {}", input.type.name())};
  }
  packed_layout layout;
  PENSTOCK_ASSIGN(const std::size_t padding, members.choice("padding_encoding", kPlaces, std::size_t{0}));
  PENSTOCK_ASSIGN(const std::int64_t first, members.integer("first_bit", 0, bits - 1, 0));
  PENSTOCK_ASSIGN(const std::int64_t last, members.integer("last_bit", first, bits - 1, bits - 1));
  layout.padding = static_cast<place>(padding);
  layout.first = static_cast<std::uint32_t>(first);
  layout.bits = static_cast<std::uint32_t>(last - first + 1);
  const std::uint32_t parts = input.type.kind() == dtype_kind::complex ? 2 : 1;
  layout.bytes = input.type.item_bytes() / parts;
  layout.sign = input.type.kind() == dtype_kind::signed_integer;
  layout.big_endian = std::endian::native == std::endian::big;
  std::uint64_t most = 0;
  if (!checked_mul(input.bytes(), std::uint64_t{8}, most)) {
    return error{errc::unsupported, "codec 'packbits' got an array of 2^64 bits or more"};
  }
  layout.components = input.bytes() / layout.bytes;
  return compiled_codec{std::make_shared<packbits_codec>(layout),
                        stage_type::bytes_of(input.type, layout.encoded_bytes(), true)};
}

}  // namespace penstock::inline v0
