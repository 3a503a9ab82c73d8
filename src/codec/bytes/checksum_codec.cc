#include "codec/bytes/checksum_codec.h"

#include <fmt/format.h>

#include <cstring>

#include "codec/codec_members.h"
#include "codec/device_form.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kChecksumBytes = 4;  // little-endian

// Before version 1.6.3, the HDF5 library swapped the bytes of both sums on little-endian machines. It still reads these
// files. Source: HDF5 Reference Manual, H5Pset_fletcher32.
constexpr std::uint32_t with_swapped_halves(std::uint32_t checksum) noexcept {
  return (checksum & 0x00FF00FF) << 8 | (checksum >> 8 & 0x00FF00FF);
}

class checksum_codec final : public byte_codec {
 public:
  checksum_codec(std::string_view name, checksum_function function, checksum_place place, std::uint32_t seed) noexcept
      : name_(name), function_(function), place_(place), seed_(seed) {}

  std::string_view name() const override { return name_; }
  std::string describe() const override {
    std::string text(name_);
    if (place_ == checksum_place::start) text += "(location=start)";
    if (seed_ != 0) text += fmt::format("(initval={})", seed_);
    return text;
  }
  std::optional<device_form> form_on_device() const override {
    if (name_ != "crc32c") return std::nullopt;
    if (place_ == checksum_place::start) return device_form::of(device_form::kind::other_settings);
    return device_form::both_ways(device_form::kind::crc32c);
  }
  bool decodes_in_place() const noexcept override { return true; }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return saturating_add(decoded_bytes, kChecksumBytes);
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte>,
                                            worker_scratch&) const override {
    if (encoded.size() < kChecksumBytes) {
      return error{errc::corrupt_data, fmt::format("data with a {} has {} bytes, the checksum alone has {}", name_,
                                                   encoded.size(), kChecksumBytes)};
    }
    const std::size_t bytes = encoded.size() - kChecksumBytes;
    const bool first = place_ == checksum_place::start;
    const auto content = encoded.subspan(first ? kChecksumBytes : 0, bytes);
    const std::byte* const at = encoded.data() + (first ? 0 : bytes);
    std::uint32_t stored = 0;
    for (std::size_t i = kChecksumBytes; i-- > 0;) stored = stored << 8 | static_cast<std::uint32_t>(at[i]);
    const std::uint32_t computed = function_(content, seed_);
    const bool same = stored == computed || (name_ == "fletcher32" && stored == with_swapped_halves(computed));
    if (!same) {
      return error{errc::corrupt_data,
                   fmt::format("{} of {} bytes is {:08x}, stored is {:08x}", name_, bytes, computed, stored)};
    }
    return content;
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    const bool first = place_ == checksum_place::start;
    if (!decoded.empty()) std::memcpy(out.data() + (first ? kChecksumBytes : 0), decoded.data(), decoded.size());
    const std::uint32_t computed = function_(decoded, seed_);
    std::byte* const at = out.data() + (first ? 0 : decoded.size());
    for (std::size_t i = 0; i < kChecksumBytes; ++i) at[i] = static_cast<std::byte>(computed >> (8 * i));
    return decoded.size() + kChecksumBytes;
  }

 private:
  std::string_view name_;
  checksum_function function_;
  checksum_place place_;
  std::uint32_t seed_;
};

}  // namespace

compiled_codec make_checksum_codec(std::string_view name, checksum_function function, checksum_place place,
                                   const stage_type& input, std::uint32_t seed) {
  return sized_stage(std::make_shared<checksum_codec>(name, function, place, seed), input);
}

result<checksum_place> checksum_place_of(const codec_config& config, checksum_place absent) {
  constexpr std::string_view kPlaces[] = {"start", "end"};
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"location"}));
  PENSTOCK_ASSIGN(const std::size_t which, members.choice("location", kPlaces, static_cast<std::size_t>(absent)));
  return static_cast<checksum_place>(which);
}

}  // namespace penstock::inline v0
