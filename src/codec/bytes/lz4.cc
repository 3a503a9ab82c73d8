#include <fmt/format.h>
#include <lz4.h>

#include <limits>

#include "codec/byte_codecs.h"
#include "codec/codec_members.h"
#include "codec/device_form.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kSizeBytes = 4;  // of decoded bytes, little-endian; then one LZ4 block

error damaged(std::string_view why, std::uint64_t found) {
  return {errc::corrupt_data, fmt::format("lz4 block is damaged ({} {})", why, found)};
}

class lz4_codec final : public byte_codec {
 public:
  explicit lz4_codec(int acceleration) noexcept : acceleration_(acceleration) {}

  std::string_view name() const override { return "lz4"; }
  std::string describe() const override { return fmt::format("lz4(acceleration={})", acceleration_); }
  std::optional<device_form> form_on_device() const override { return device_form::both_ways(device_form::kind::lz4); }

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    // LZ4_compressBound, also for sizes that the library does not accept.
    return saturating_add(decoded_bytes, decoded_bytes / 255 + 16 + kSizeBytes);
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (encoded.size() < kSizeBytes) return damaged("its header has 4 bytes, there are", encoded.size());
    std::uint32_t bytes = 0;
    for (std::size_t i = kSizeBytes; i-- > 0;) bytes = bytes << 8 | static_cast<std::uint32_t>(encoded[i]);
    if (bytes > out.size()) {
      scratch.out_of_room = bytes <= LZ4_MAX_INPUT_SIZE;
      return error{errc::corrupt_data,
                   fmt::format("lz4 block declares {} decoded bytes, the output has room for {}", bytes, out.size())};
    }
    const std::size_t block = encoded.size() - kSizeBytes;
    if (bytes > LZ4_MAX_INPUT_SIZE || block > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      return damaged("its size is", bytes > LZ4_MAX_INPUT_SIZE ? bytes : block);
    }
    // The library does not accept a null pointer for an empty output: an empty block is one token without literals.
    if (bytes == 0) {
      if (block != 1 || encoded[kSizeBytes] != std::byte{0}) return damaged("it should be empty, has bytes:", block);
      return std::span<const std::byte>(out.data(), 0);
    }
    const int made =
        LZ4_decompress_safe(reinterpret_cast<const char*>(encoded.data() + kSizeBytes),
                            reinterpret_cast<char*>(out.data()), static_cast<int>(block), static_cast<int>(bytes));
    if (made < 0) return damaged("the library stops at byte", static_cast<std::uint64_t>(-(std::int64_t{made} + 1)));
    if (static_cast<std::uint32_t>(made) != bytes) {
      return error{errc::corrupt_data, fmt::format("lz4 block decodes to {} bytes, its header has {}", made, bytes)};
    }
    return std::span<const std::byte>(out.data(), bytes);
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    if (decoded.size() > LZ4_MAX_INPUT_SIZE) {
      return error{errc::unsupported,
                   fmt::format("lz4 encodes {} bytes at most, not {}", LZ4_MAX_INPUT_SIZE, decoded.size())};
    }
    const std::size_t room =
        std::min<std::size_t>(out.size() - kSizeBytes, static_cast<std::size_t>(std::numeric_limits<int>::max()));
    const int made = LZ4_compress_fast(reinterpret_cast<const char*>(decoded.data()),
                                       reinterpret_cast<char*>(out.data() + kSizeBytes),
                                       static_cast<int>(decoded.size()), static_cast<int>(room), acceleration_);
    if (made <= 0) {
      return error{errc::internal, fmt::format("lz4 cannot encode {} bytes into {}", decoded.size(), out.size())};
    }
    for (std::size_t i = 0; i < kSizeBytes; ++i) out[i] = static_cast<std::byte>(decoded.size() >> (8 * i));
    return kSizeBytes + static_cast<std::uint64_t>(made);
  }

 private:
  int acceleration_;
};

}  // namespace

result<compiled_codec> make_lz4_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"acceleration"}));
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  PENSTOCK_ASSIGN(const std::int64_t acceleration, members.integer("acceleration", -kMost, kMost, 1));
  return compressed_stage(std::make_shared<lz4_codec>(static_cast<int>(acceleration)), input);
}

}  // namespace penstock::inline v0
