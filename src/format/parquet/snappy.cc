#include "format/parquet/snappy.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

namespace penstock::inline v0 {
namespace {

error bad_block(std::string_view what) { return {errc::corrupt_data, fmt::format("Snappy block: {}", what)}; }

class reader {
 public:
  explicit reader(std::span<const std::byte> from) noexcept : left_(from) {}
  bool done() const noexcept { return left_.empty(); }
  std::size_t size() const noexcept { return left_.size(); }

  // Little-endian; false if the block ends before that.
  bool number(std::size_t bytes, std::uint64_t& out) noexcept {
    if (left_.size() < bytes) return false;
    out = 0;
    for (std::size_t i = bytes; i-- > 0;) out = out << 8 | static_cast<std::uint64_t>(left_[i]);
    left_ = left_.subspan(bytes);
    return true;
  }
  const std::byte* take(std::size_t bytes) noexcept {
    const std::byte* const out = left_.data();
    left_ = left_.subspan(bytes);
    return out;
  }

 private:
  std::span<const std::byte> left_;
};

bool read_length(reader& in, std::uint64_t& out) noexcept {
  out = 0;
  for (unsigned shift = 0; shift < 35; shift += 7) {
    std::uint64_t byte = 0;
    if (!in.number(1, byte)) return false;
    out |= (byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace

result<> decode_snappy(std::span<const std::byte> block, std::span<std::byte> out) {
  reader in(block);
  std::uint64_t length = 0;
  if (!read_length(in, length)) return bad_block("it has no length");
  if (length != out.size())
    return bad_block(fmt::format("it decodes to {} bytes, {} are expected", length, out.size()));
  std::size_t at = 0;
  while (!in.done()) {
    std::uint64_t tag = 0, count = 0, distance = 0;
    in.number(1, tag);
    if ((tag & 3) == 0) {
      count = tag >> 2;
      if (count >= 60 && !in.number(static_cast<std::size_t>(count - 59), count)) return bad_block("it ends early");
      ++count;
      if (count > in.size()) return bad_block("it ends early");
      if (count > out.size() - at) return bad_block("it decodes to more bytes than announced");
      std::memcpy(out.data() + at, in.take(static_cast<std::size_t>(count)), static_cast<std::size_t>(count));
      at += static_cast<std::size_t>(count);
      continue;
    }
    const std::size_t extra = (tag & 3) == 3 ? 4 : static_cast<std::size_t>(tag & 3);
    if (!in.number(extra, distance)) return bad_block("it ends early");
    count = (tag & 3) == 1 ? (tag >> 2 & 7) + 4 : (tag >> 2) + 1;
    if ((tag & 3) == 1) distance |= (tag >> 5) << 8;
    if (distance == 0 || distance > at) return bad_block("a copy from before its beginning");
    if (count > out.size() - at) return bad_block("it decodes to more bytes than announced");
    for (std::uint64_t i = 0; i < count; ++i, ++at) out[at] = out[at - static_cast<std::size_t>(distance)];
  }
  if (at != out.size()) return bad_block(fmt::format("it decodes to {} bytes of {}", at, out.size()));
  return {};
}

}  // namespace penstock::inline v0
