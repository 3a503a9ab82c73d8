#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace penstock::inline v0 {

/// SHA-256 (FIPS 180-4), for names of versions and signatures of requests: not tuned, and not protected against timing
/// attacks.
class sha256 {
 public:
  using digest = std::array<std::byte, 32>;

  sha256& add(std::span<const std::byte> bytes) noexcept;
  sha256& add(std::string_view text) noexcept { return add(std::as_bytes(std::span(text))); }
  /// The hash of all added bytes. Nothing may be added afterwards.
  digest finish() noexcept;

  static digest of(std::string_view text) noexcept { return sha256().add(text).finish(); }

 private:
  void block(const std::byte* bytes) noexcept;

  std::array<std::uint32_t, 8> state_{0x6A09E667U, 0xBB67AE85U, 0x3C6EF372U, 0xA54FF53AU,
                                      0x510E527FU, 0x9B05688CU, 0x1F83D9ABU, 0x5BE0CD19U};
  std::array<std::byte, 64> rest_{};
  std::uint64_t bytes_ = 0;
};

/// HMAC (RFC 2104) with SHA-256.
sha256::digest hmac_sha256(std::span<const std::byte> key, std::string_view text) noexcept;

/// Lower-case hexadecimal digits.
std::string to_hex(std::span<const std::byte> bytes);

}  // namespace penstock::inline v0
