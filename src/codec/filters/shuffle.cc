#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "codec/byte_codecs.h"
#include "codec/codec_members.h"
#include "codec/device_form.h"
#include "codec/filters/shuffle.h"
#include "codec/row_codec.h"

namespace penstock::inline v0 {
namespace {

using const_bytes = const std::uint8_t* __restrict;
using bytes_out = std::uint8_t* __restrict;

// One byte of each item after the other: byte j of item i is moved to j * items + i. The inverse reads from j * plane +
// i, for a run of items. Fixed sizes let the compiler use its interleaving loads and stores.
template <std::size_t kItem>
void shuffle_items(const_bytes from, bytes_out to, std::size_t items) {
  for (std::size_t i = 0; i < items; ++i) {
    for (std::size_t j = 0; j < kItem; ++j) to[j * items + i] = from[i * kItem + j];
  }
}
template <std::size_t kItem>
void unshuffle_items(const_bytes from, std::size_t plane, bytes_out to, std::size_t items) {
  for (std::size_t i = 0; i < items; ++i) {
    for (std::size_t j = 0; j < kItem; ++j) to[i * kItem + j] = from[j * plane + i];
  }
}

// Items of any size, in blocks that stay in the first-level cache.
constexpr std::size_t kBlockItems = 256;

void shuffle_any(const_bytes from, bytes_out to, std::size_t items, std::size_t item) {
  for (std::size_t first = 0; first < items; first += kBlockItems) {
    const std::size_t end = items - first < kBlockItems ? items : first + kBlockItems;
    for (std::size_t j = 0; j < item; ++j) {
      for (std::size_t i = first; i < end; ++i) to[j * items + i] = from[i * item + j];
    }
  }
}
void unshuffle_any(const_bytes from, std::size_t plane, bytes_out to, std::size_t items, std::size_t item) {
  for (std::size_t first = 0; first < items; first += kBlockItems) {
    const std::size_t end = items - first < kBlockItems ? items : first + kBlockItems;
    for (std::size_t j = 0; j < item; ++j) {
      for (std::size_t i = first; i < end; ++i) to[i * item + j] = from[j * plane + i];
    }
  }
}

// Eight bytes of eight items at a time: a transpose in eight words, for items that consist of such words.
struct byte_square {
  std::uint64_t rows[8];

  template <unsigned kShift>
  void exchange(std::uint64_t mask) noexcept {
    constexpr unsigned kStep = kShift / 8;
    for (unsigned i = 0; i < 8; ++i) {
      if ((i & kStep) != 0) continue;
      const std::uint64_t moved = (rows[i] >> kShift ^ rows[i + kStep]) & mask;
      rows[i] ^= moved << kShift;
      rows[i + kStep] ^= moved;
    }
  }
  void transpose() noexcept {
    exchange<32>(0x00000000ffffffff);
    exchange<16>(0x0000ffff0000ffff);
    exchange<8>(0x00ff00ff00ff00ff);
  }
};
constexpr std::size_t kSquare = 8;

bool has_squares(std::size_t item) noexcept {
  return std::endian::native == std::endian::little && item % kSquare == 0;
}

void shuffle_squares(const_bytes from, bytes_out to, std::size_t items, std::size_t item) {
  const std::size_t whole = items - items % kSquare;
  byte_square square;
  for (std::size_t first = 0; first < whole; first += kSquare) {
    for (std::size_t j = 0; j < item; j += kSquare) {
      for (std::size_t k = 0; k < kSquare; ++k) std::memcpy(&square.rows[k], from + (first + k) * item + j, kSquare);
      square.transpose();
      for (std::size_t k = 0; k < kSquare; ++k) std::memcpy(to + (j + k) * items + first, &square.rows[k], kSquare);
    }
  }
  for (std::size_t i = whole; i < items; ++i) {
    for (std::size_t j = 0; j < item; ++j) to[j * items + i] = from[i * item + j];
  }
}
void unshuffle_squares(const_bytes from, std::size_t plane, bytes_out to, std::size_t items, std::size_t item) {
  const std::size_t whole = items - items % kSquare;
  byte_square square;
  for (std::size_t first = 0; first < whole; first += kSquare) {
    for (std::size_t j = 0; j < item; j += kSquare) {
      for (std::size_t k = 0; k < kSquare; ++k) std::memcpy(&square.rows[k], from + (j + k) * plane + first, kSquare);
      square.transpose();
      for (std::size_t k = 0; k < kSquare; ++k) std::memcpy(to + (first + k) * item + j, &square.rows[k], kSquare);
    }
  }
  for (std::size_t i = whole; i < items; ++i) {
    for (std::size_t j = 0; j < item; ++j) to[i * item + j] = from[j * plane + i];
  }
}

}  // namespace

void unshuffle(const std::byte* shuffled, std::size_t plane, std::size_t first, std::span<std::byte> out,
               std::size_t item) {
  const auto* const from = reinterpret_cast<const std::uint8_t*>(shuffled) + first;
  auto* const to = reinterpret_cast<std::uint8_t*>(out.data());
  const std::size_t items = out.size() / item;
  switch (item) {
    case 2:
      return unshuffle_items<2>(from, plane, to, items);
    case 4:
      return unshuffle_items<4>(from, plane, to, items);
    case 8:
      return unshuffle_items<8>(from, plane, to, items);
    default:
      return has_squares(item) ? unshuffle_squares(from, plane, to, items, item)
                               : unshuffle_any(from, plane, to, items, item);
  }
}

namespace {

class shuffle_codec final : public byte_codec, public row_codec {
 public:
  /// \param leaves_rest    Bytes that are not a whole item are copied unchanged, at the end (HDF5); else they are
  ///              refused.
  /// \param decoded_bytes  Of all items; kUnbounded if chunks differ.
  shuffle_codec(std::size_t item_bytes, bool leaves_rest, std::uint64_t decoded_bytes) noexcept
      : item_bytes_(item_bytes), leaves_rest_(leaves_rest), decoded_bytes_(decoded_bytes) {}

  std::string_view name() const override { return leaves_rest_ ? "hdf5.shuffle" : "shuffle"; }
  std::string describe() const override { return fmt::format("{}(elementsize={})", name(), item_bytes_); }
  std::optional<device_form> form_on_device() const override {
    if (item_bytes_ < 1 || item_bytes_ > kMostDeviceItemBytes)
      return device_form::of(device_form::kind::other_settings);
    device_form out = device_form::of(device_form::kind::shuffle);
    out.encodes = !leaves_rest_;
    out.item_bytes = static_cast<std::uint32_t>(item_bytes_);
    return out;
  }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override { return decoded_bytes; }
  bool decodes_in_place() const noexcept override { return item_bytes_ <= 1; }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (item_bytes_ <= 1) return encoded;
    const std::size_t rest = encoded.size() % item_bytes_;
    if (rest != 0 && !leaves_rest_) {
      return error{errc::corrupt_data,
                   fmt::format("shuffled bytes are not a multiple of the item's {}: {}", item_bytes_, encoded.size())};
    }
    if (encoded.size() > out.size()) {
      scratch.out_of_room = true;
      return error{errc::corrupt_data,
                   fmt::format("{} shuffled bytes decode to more than {}", encoded.size(), out.size())};
    }
    const std::size_t whole = encoded.size() - rest;
    unshuffle(encoded.data(), whole / item_bytes_, 0, out.first(whole), item_bytes_);
    if (rest != 0) std::memcpy(out.data() + whole, encoded.data() + whole, rest);
    return std::span<const std::byte>(out.data(), encoded.size());
  }

  bool has_rows(std::uint64_t rows, std::uint64_t row_bytes) const noexcept override {
    return item_bytes_ > 1 && row_bytes % item_bytes_ == 0 && rows == decoded_bytes_ / row_bytes &&
           decoded_bytes_ % row_bytes == 0;
  }

  result<> decode_rows(std::span<const std::byte> encoded, std::uint64_t first, std::uint64_t count,
                       std::span<std::byte> out, worker_scratch&) const override {
    if (encoded.size() != decoded_bytes_) {
      return error{errc::corrupt_data,
                   fmt::format("chunk decoded to {} bytes, its shape needs {}", encoded.size(), decoded_bytes_)};
    }
    const std::size_t row_items = out.size() / count / item_bytes_;
    unshuffle(encoded.data(), encoded.size() / item_bytes_, first * row_items, out, item_bytes_);
    return {};
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    if (item_bytes_ <= 1) {
      if (!decoded.empty()) std::memcpy(out.data(), decoded.data(), decoded.size());
      return decoded.size();
    }
    const std::size_t rest = decoded.size() % item_bytes_;
    if (rest != 0 && !leaves_rest_) {
      return error{errc::invalid_argument, fmt::format("bytes to shuffle are not a multiple of the item's {}: {}",
                                                       item_bytes_, decoded.size())};
    }
    const auto* const from = reinterpret_cast<const std::uint8_t*>(decoded.data());
    auto* const to = reinterpret_cast<std::uint8_t*>(out.data());
    const std::size_t items = decoded.size() / item_bytes_;
    switch (item_bytes_) {
      case 2:
        shuffle_items<2>(from, to, items);
        break;
      case 4:
        shuffle_items<4>(from, to, items);
        break;
      default:
        if (has_squares(item_bytes_)) {
          shuffle_squares(from, to, items, item_bytes_);
        } else {
          shuffle_any(from, to, items, item_bytes_);
        }
    }
    if (rest != 0) std::memcpy(to + items * item_bytes_, from + items * item_bytes_, rest);
    return decoded.size();
  }

 private:
  std::size_t item_bytes_;
  bool leaves_rest_;
  std::uint64_t decoded_bytes_;
};

result<compiled_codec> make_with(const codec_config& config, const stage_type& input, bool leaves_rest) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"elementsize"}));
  // zarr-python uses the array's item size if none is written; numcodecs has a default, and always writes it.
  PENSTOCK_ASSIGN(const std::int64_t item_bytes,
                  members.integer("elementsize", 0, std::int64_t{1} << 20, std::int64_t{input.type.item_bytes()}));
  const std::uint64_t decoded_bytes = input.exact ? input.bytes() : kUnbounded;
  return sized_stage(std::make_shared<shuffle_codec>(static_cast<std::size_t>(item_bytes), leaves_rest, decoded_bytes),
                     input);
}

}  // namespace

result<compiled_codec> make_shuffle_codec(const codec_config& config, const stage_type& input) {
  return make_with(config, input, false);
}

result<compiled_codec> make_hdf5_shuffle_codec(const codec_config& config, const stage_type& input) {
  return make_with(config, input, true);
}

}  // namespace penstock::inline v0
