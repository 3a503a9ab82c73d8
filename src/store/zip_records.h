#pragma once

// The numbers of APPNOTE.TXT 6.3 that reading and writing of zip archives share.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::inline v0::zip {

inline constexpr std::uint32_t kLocalSignature = 0x04034b50;
inline constexpr std::uint32_t kCentralSignature = 0x02014b50;
inline constexpr std::uint32_t kSignatureSignature = 0x05054b50;  // of a digital signature
inline constexpr std::uint32_t kEndSignature = 0x06054b50;
inline constexpr std::uint32_t kZip64EndSignature = 0x06064b50;
inline constexpr std::uint32_t kLocatorSignature = 0x07064b50;
inline constexpr std::size_t kCentralBytes = 46, kLocatorBytes = 20, kZip64EndBytes = 56;
inline constexpr std::uint64_t kSaturated32 = 0xffffffff;  // "see the zip64 field"
inline constexpr unsigned kZip64Extra = 0x0001, kUnicodePathExtra = 0x7075;
inline constexpr unsigned kUtf8Flag = 1U << 11;

inline std::uint8_t u8(std::span<const std::byte> from, std::size_t at) {
  return std::to_integer<std::uint8_t>(from[at]);
}
inline std::uint16_t u16(std::span<const std::byte> from, std::size_t at) {
  return static_cast<std::uint16_t>(u8(from, at) | u8(from, at + 1) << 8);
}
inline std::uint32_t u32(std::span<const std::byte> from, std::size_t at) {
  return u16(from, at) | static_cast<std::uint32_t>(u16(from, at + 2)) << 16;
}
inline std::uint64_t u64(std::span<const std::byte> from, std::size_t at) {
  return u32(from, at) | static_cast<std::uint64_t>(u32(from, at + 4)) << 32;
}

/// Appends little-endian numbers.
class record_writer {
 public:
  record_writer& u16(std::uint64_t value) { return number(value, 2); }
  record_writer& u32(std::uint64_t value) { return number(value, 4); }
  record_writer& u64(std::uint64_t value) { return number(value, 8); }
  record_writer& text(std::string_view value) {
    const auto* const from = reinterpret_cast<const std::byte*>(value.data());
    bytes_.insert(bytes_.end(), from, from + value.size());
    return *this;
  }
  std::size_t size() const noexcept { return bytes_.size(); }
  std::vector<std::byte> bytes() && { return std::move(bytes_); }

 private:
  record_writer& number(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    return *this;
  }
  std::vector<std::byte> bytes_;
};

/// The text of bytes in the default code page of names, as UTF-8.
std::string from_code_page_437(std::string_view bytes);

}  // namespace penstock::inline v0::zip
