// TIFF's LZW: codes of 9 to 12 bits, one bit earlier than the table needs them.
//
// The table maps a code and one more byte to the code of that string. It is a hash table with open addressing, which
// holds at most 3837 strings in 16384 slots before it is cleared.

#include <array>
#include <cstring>

#include "codec/tiff/tiff_encoders.h"
#include "codec/tiff/tiff_lzw.h"

namespace penstock::inline v0 {
namespace {

constexpr unsigned kFull = 4095;  // a clear code follows the code that adds string 4094
constexpr std::uint32_t kPlaces = 1U << 14;

class string_table {
 public:
  void clear() noexcept { places_.fill(0); }

  /// The code of a string, or 0; `place` is its slot, or the slot for it.
  unsigned find(unsigned prefix, unsigned byte, std::uint32_t& place) const noexcept {
    const std::uint32_t key = prefix << 8 | byte;
    place = key * 2654435761U >> 18;
    while (places_[place] != 0) {
      if (places_[place] >> 12 == key) return places_[place] & 0xfff;
      place = (place + 1) & (kPlaces - 1);
    }
    return 0;
  }
  void add(unsigned prefix, unsigned byte, unsigned code, std::uint32_t place) noexcept {
    places_[place] = (prefix << 8 | byte) << 12 | code;
  }

 private:
  std::array<std::uint32_t, kPlaces> places_;  // 20 bits of string, 12 bits of code; 0: free, because no code is 0
};

class code_writer {
 public:
  explicit code_writer(std::byte* to) noexcept : begin_(to), at_(to) {}

  void put(unsigned code, unsigned width) noexcept {
    bits_ = bits_ << width | code;
    have_ += width;
    while (have_ >= 8) {
      have_ -= 8;
      *at_++ = static_cast<std::byte>(bits_ >> have_);
    }
  }
  std::size_t finish() noexcept {
    if (have_ > 0) *at_++ = static_cast<std::byte>(bits_ << (8 - have_));
    return static_cast<std::size_t>(at_ - begin_);
  }

 private:
  std::byte *begin_, *at_;
  std::uint64_t bits_ = 0;
  unsigned have_ = 0;
};

}  // namespace

std::size_t encode_tiff_lzw(std::span<const std::byte> from, std::byte* to) noexcept {
  string_table table;
  table.clear();
  code_writer codes(to);
  unsigned width = 9, next = kLzwFirst;
  codes.put(kLzwClear, width);

  // The reader adds one more string, whether it is in the table or not.
  const auto count_string = [&] {
    ++next;
    if (next == kFull) {
      codes.put(kLzwClear, width);
      width = 9;
      next = kLzwFirst;
      table.clear();
    } else if (next >= 1U << width) {
      ++width;
    }
  };
  if (!from.empty()) {
    auto prefix = static_cast<unsigned>(from[0]);
    for (std::size_t i = 1; i < from.size(); ++i) {
      const auto byte = static_cast<unsigned>(from[i]);
      std::uint32_t place = 0;
      const unsigned known = table.find(prefix, byte, place);
      if (known != 0) {
        prefix = known;
        continue;
      }
      codes.put(prefix, width);
      table.add(prefix, byte, next, place);
      count_string();
      prefix = byte;
    }
    codes.put(prefix, width);
    count_string();
  }
  codes.put(kLzwEnd, width);
  return codes.finish();
}

}  // namespace penstock::inline v0
