#include "base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace penstock::inline v0 {
namespace {

constexpr std::array<std::uint32_t, 64> kRound{
    0x428A2F98U, 0x71374491U, 0xB5C0FBCFU, 0xE9B5DBA5U, 0x3956C25BU, 0x59F111F1U, 0x923F82A4U, 0xAB1C5ED5U,
    0xD807AA98U, 0x12835B01U, 0x243185BEU, 0x550C7DC3U, 0x72BE5D74U, 0x80DEB1FEU, 0x9BDC06A7U, 0xC19BF174U,
    0xE49B69C1U, 0xEFBE4786U, 0x0FC19DC6U, 0x240CA1CCU, 0x2DE92C6FU, 0x4A7484AAU, 0x5CB0A9DCU, 0x76F988DAU,
    0x983E5152U, 0xA831C66DU, 0xB00327C8U, 0xBF597FC7U, 0xC6E00BF3U, 0xD5A79147U, 0x06CA6351U, 0x14292967U,
    0x27B70A85U, 0x2E1B2138U, 0x4D2C6DFCU, 0x53380D13U, 0x650A7354U, 0x766A0ABBU, 0x81C2C92EU, 0x92722C85U,
    0xA2BFE8A1U, 0xA81A664BU, 0xC24B8B70U, 0xC76C51A3U, 0xD192E819U, 0xD6990624U, 0xF40E3585U, 0x106AA070U,
    0x19A4C116U, 0x1E376C08U, 0x2748774CU, 0x34B0BCB5U, 0x391C0CB3U, 0x4ED8AA4AU, 0x5B9CCA4FU, 0x682E6FF3U,
    0x748F82EEU, 0x78A5636FU, 0x84C87814U, 0x8CC70208U, 0x90BEFFFAU, 0xA4506CEBU, 0xBEF9A3F7U, 0xC67178F2U};

std::uint32_t load_big(const std::byte* at) noexcept {
  std::uint32_t out = 0;
  for (int i = 0; i < 4; ++i) out = (out << 8) | std::to_integer<std::uint32_t>(at[i]);
  return out;
}

}  // namespace

void sha256::block(const std::byte* bytes) noexcept {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i) w[i] = load_big(bytes + 4 * i);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> more{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += more[i];
}

sha256& sha256::add(std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const std::size_t used = static_cast<std::size_t>(bytes_ % rest_.size());
    if (used == 0 && bytes.size() >= rest_.size()) {
      block(bytes.data());
      bytes_ += rest_.size();
      bytes = bytes.subspan(rest_.size());
      continue;
    }
    const std::size_t take = std::min(bytes.size(), rest_.size() - used);
    std::memcpy(rest_.data() + used, bytes.data(), take);
    bytes_ += take;
    bytes = bytes.subspan(take);
    if (used + take == rest_.size()) block(rest_.data());
  }
  return *this;
}

sha256::digest sha256::finish() noexcept {
  const std::uint64_t bits = bytes_ * 8;
  std::array<std::byte, 72> tail{std::byte{0x80}};
  const auto used = static_cast<std::size_t>(bytes_ % rest_.size());
  const std::size_t zeros = (used < 56 ? 56 : 120) - used;  // including the byte of the mark
  for (std::size_t i = 0; i < 8; ++i) tail[zeros + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  add(std::span(tail).first(zeros + 8));
  digest out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

sha256::digest hmac_sha256(std::span<const std::byte> key, std::string_view text) noexcept {
  std::array<std::byte, 64> block{};
  if (key.size() > block.size()) {
    const sha256::digest shorter = sha256().add(key).finish();
    std::copy(shorter.begin(), shorter.end(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  for (std::byte& each : block) each ^= std::byte{0x36};
  const sha256::digest inner = sha256().add(block).add(text).finish();
  for (std::byte& each : block) each ^= std::byte{0x36} ^ std::byte{0x5C};
  return sha256().add(block).add(inner).finish();
}

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::byte each : bytes) {
    out.push_back(kDigits[std::to_integer<std::size_t>(each >> 4)]);
    out.push_back(kDigits[std::to_integer<std::size_t>(each & std::byte{15})]);
  }
  return out;
}

}  // namespace penstock::inline v0
