#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/little_endian.h"
#include "codec/byte_codecs.h"

namespace penstock::inline v0 {

/// A codec that can only decode.
class decode_only_codec : public byte_codec {
 public:
  /// \param name  Must outlive the codec.
  decode_only_codec(std::string_view name, std::string description) noexcept
      : name_(name), description_(std::move(description)) {}

  std::string_view name() const final { return name_; }
  std::string describe() const final { return description_; }
  /// The most bytes that other writers need: a frame around content that does not compress.
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return saturating_add(decoded_bytes, decoded_bytes / 8 + 1024);
  }
  result<std::uint64_t> encode(std::span<const std::byte>, std::span<std::byte>, worker_scratch&) const final {
    return error{errc::unsupported, fmt::format("codec '{}' can only decode", name_)};
  }

 protected:
  error damaged(std::string_view why) const {
    return error{errc::corrupt_data, fmt::format("{} data: {}", name_, why)};
  }
  /// Takes `needed` bytes of `out`, or returns an error if it is too small.
  result<std::span<std::byte>> take(std::span<std::byte> out, std::uint64_t needed, worker_scratch& scratch) const {
    if (needed <= out.size()) return out.first(static_cast<std::size_t>(needed));
    scratch.out_of_room = true;
    return damaged(fmt::format("it decodes to {} bytes, the output has room for {}", needed, out.size()));
  }

 private:
  std::string_view name_;
  std::string description_;
};

/// Numbers in the form of HDF5's filters.
inline std::uint64_t load_big(std::span<const std::byte> from) noexcept {
  std::uint64_t value = 0;
  for (const std::byte each : from) value = value << 8 | static_cast<std::uint64_t>(each);
  return value;
}
inline std::uint64_t load_little(std::span<const std::byte> from) noexcept {
  return little_endian(from.data(), from.size());
}

/// Reads bits of a stream, the highest of a byte first; zeros after its end, which sets `overrun`.
class bit_stream {
 public:
  explicit bit_stream(std::span<const std::byte> from) noexcept : at_(from.data()), end_(from.data() + from.size()) {}

  /// \param bits  At most 56.
  std::uint64_t take_few(unsigned bits) noexcept {
    while (have_ < bits) {
      std::uint64_t next = 0;
      if (at_ != end_) {
        next = static_cast<std::uint64_t>(*at_++);
      } else {
        overrun_ = true;
      }
      held_ = held_ << 8 | next;
      have_ += 8;
    }
    have_ -= bits;
    return bits == 0 ? 0 : held_ >> have_ & (~std::uint64_t{0} >> (64 - bits));
  }
  /// \param bits  At most 64.
  std::uint64_t take(unsigned bits) noexcept {
    if (bits <= 56) return take_few(bits);
    const std::uint64_t high = take_few(bits - 32);
    return high << 32 | take_few(32);
  }
  bool overrun() const noexcept { return overrun_; }

 private:
  const std::byte* at_;
  const std::byte* end_;
  std::uint64_t held_ = 0;
  unsigned have_ = 0;
  bool overrun_ = false;
};

}  // namespace penstock::inline v0
