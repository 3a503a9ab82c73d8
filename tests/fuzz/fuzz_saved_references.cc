// Any bytes as a saved manifest of references: refused, or an array that can be planned. Its files do not exist.
// Zlib's checksum would stop most inputs, so the table is also packed again, as a stored block.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "driver/open_reference.h"
#include "driver/open_saved.h"

namespace {

using namespace penstock;

void open(std::span<const std::byte> bytes) {
  static const std::shared_ptr<context> with = context::make().value();
  const auto made = open_saved_references(bytes, {"/nowhere", {}}, with);
  if (!made.ok()) {
    const errc code = made.error().code();
    if (code == errc::internal) std::abort();
    return;
  }
  extents ends = made->shape();
  for (const std::uint64_t each : ends)
    if (each == 0 || each > 64) return;
  (void)made->uri();
  // References that were readable are written in full, and read again.
  const auto saved = save_references(*made, {.folder = "/nowhere"});
  if (!saved.ok() || !open_saved_references(*saved, {"/nowhere", {}}, with).ok()) std::abort();
}

std::byte at(std::uint32_t value, int shift) { return static_cast<std::byte>(value >> shift & 0xFF); }

// A zlib stream of one stored block. Source: RFC 1950, RFC 1951, section 3.2.4.
std::vector<std::byte> packed(std::span<const std::byte> plain) {
  const auto length = static_cast<std::uint32_t>(plain.size());
  std::vector<std::byte> out = {std::byte{0x78}, std::byte{0x01}, std::byte{1},  at(length, 0),
                                at(length, 8),   at(~length, 0),  at(~length, 8)};
  out.insert(out.end(), plain.begin(), plain.end());
  std::uint32_t low = 1, high = 0;
  for (const std::byte each : plain) {
    low = (low + static_cast<std::uint32_t>(each)) % 65521;
    high = (high + low) % 65521;
  }
  const std::uint32_t sum = high << 16 | low;
  for (const int shift : {24, 16, 8, 0}) out.push_back(at(sum, shift));
  return out;
}

// Source: RFC 1952, section 8.
std::uint32_t crc32(std::span<const std::byte> bytes) {
  std::uint32_t sum = ~0U;
  for (const std::byte each : bytes) {
    sum ^= static_cast<std::uint32_t>(each);
    for (int i = 0; i < 8; ++i) sum = sum >> 1 ^ ((sum & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return ~sum;
}

}  // namespace

extern "C" int run_saved_references(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  open(bytes);
  // The document's "table" is adjusted to the table, if it is the last member.
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = text.find('\n'), table = text.find(R"("table")");
  if (line == std::string_view::npos || table > line || size - line - 1 > 60000 || line + 1 == size) return 0;
  const auto stream = packed(bytes.subspan(line + 1));
  const std::string head = std::string(text.substr(0, table)) +
                           fmt::format(R"("table": {{"bytes": {}, "plain_bytes": {}, "crc32": {}}}}})", stream.size(),
                                       size - line - 1, crc32(stream)) +
                           "\n";
  std::vector<std::byte> whole(head.size() + stream.size());
  std::copy_n(reinterpret_cast<const std::byte*>(head.data()), head.size(), whole.begin());
  std::copy(stream.begin(), stream.end(), whole.begin() + static_cast<std::ptrdiff_t>(head.size()));
  open(whole);
  return 0;
}
