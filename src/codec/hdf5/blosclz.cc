#include "codec/hdf5/blosclz.h"

#include <cstdint>
#include <cstring>

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kFar = 8191;  // distances from here on have two bytes more

class reader {
 public:
  explicit reader(std::span<const std::byte> from) noexcept
      : at_(reinterpret_cast<const std::uint8_t*>(from.data())), end_(at_ + from.size()) {}

  std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }
  /// 0 after the end, which `left` shows before.
  std::uint32_t next() noexcept { return at_ == end_ ? 0 : *at_++; }
  const std::uint8_t* take(std::size_t bytes) noexcept {
    at_ += bytes;
    return at_ - bytes;
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

void copy_match(std::uint8_t* to, std::size_t distance, std::size_t bytes) noexcept {
  if (distance == 1) {
    std::memset(to, to[-1], bytes);
  } else if (distance >= bytes) {
    std::memcpy(to, to - distance, bytes);
  } else {
    for (std::size_t i = 0; i < bytes; ++i) to[i] = *(to + i - distance);
  }
}

}  // namespace

bool decompress_blosclz(std::span<const std::byte> from, std::span<std::byte> to) noexcept {
  reader in(from);
  auto* const begin = reinterpret_cast<std::uint8_t*>(to.data());
  std::size_t made = 0;
  std::uint32_t control = in.next() & 31;  // a stream begins with literals
  for (;;) {
    if (control < 32) {
      const std::size_t count = control + 1;
      if (count > in.left() || count > to.size() - made) return false;
      std::memcpy(begin + made, in.take(count), count);
      made += count;
      if (in.left() == 0) return made == to.size();
    } else {
      std::size_t count = (control >> 5) + 2;
      if (count == 9) {
        std::uint32_t more = 255;
        while (more == 255 && in.left() > 0) count += more = in.next();
      }
      std::size_t distance = (control & 31) << 8;
      const std::uint32_t low = in.next();
      distance += low;
      if (distance == kFar) {
        distance += in.next() << 8;
        distance += in.next();
      }
      ++distance;
      // A stream ends with literals, so one that ends here is truncated.
      if (in.left() == 0 || distance > made || count > to.size() - made) return false;
      copy_match(begin + made, distance, count);
      made += count;
    }
    control = in.next();
  }
}

}  // namespace penstock::inline v0
