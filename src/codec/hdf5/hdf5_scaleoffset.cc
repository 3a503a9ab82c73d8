// HDF5's filter scale-offset: differences from the smallest value, in as many bits as the largest needs. Source:
// H5Z_FILTER_SCALEOFFSET in the HDF5 reference, and the parameters in its pipeline message.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "codec/codec_members.h"
#include "codec/decode_only.h"
#include "codec/hdf5/hdf5_parameters.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kHeaderBytes = 21;  // bits of a value, the smallest value's size and bytes, and padding

struct settings {
  std::int32_t decimal_places = 0;
  std::uint32_t elements = 0, bytes = 0;
  bool floating = false, is_signed = false, big_endian = false, has_fill = false;
  std::uint64_t fill = 0;  // its bits
};

class scaleoffset_codec final : public decode_only_codec {
 public:
  explicit scaleoffset_codec(const settings& with)
      : decode_only_codec("hdf5.scaleoffset", "hdf5.scaleoffset"), with_(with) {}

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    PENSTOCK_ASSIGN(const auto room, take(out, std::uint64_t{with_.elements} * with_.bytes, scratch));
    if (encoded.size() < kHeaderBytes) return damaged(fmt::format("its header has {} bytes", kHeaderBytes));
    const std::uint64_t bits = load_little(encoded.first(4));
    const auto least_bytes = static_cast<std::size_t>(encoded[4]);
    if (bits > 8 * std::uint64_t{with_.bytes}) return damaged(fmt::format("values of {} bits", bits));
    if (least_bytes > 8) return damaged(fmt::format("a least value of {} bytes", least_bytes));
    const std::uint64_t least = load_little(encoded.subspan(5, least_bytes));
    encoded = encoded.subspan(kHeaderBytes);
    if (bits == 8 * with_.bytes) {  // no gain: the values themselves, in the writing machine's byte order
      if (encoded.size() < room.size()) return damaged("it ends before its last value");
      if (!room.empty()) std::memcpy(room.data(), encoded.data(), room.size());
      for (std::size_t at = 0; with_.big_endian && at < room.size(); at += with_.bytes) {
        const auto value = room.subspan(at, with_.bytes);
        std::reverse(value.begin(), value.end());
      }
      return std::span<const std::byte>(room);
    }
    bit_stream stream(encoded);
    switch (with_.bytes) {
      case 1:
        restore<std::uint8_t>(stream, static_cast<unsigned>(bits), least, room);
        break;
      case 2:
        restore<std::uint16_t>(stream, static_cast<unsigned>(bits), least, room);
        break;
      case 4:
        restore<std::uint32_t>(stream, static_cast<unsigned>(bits), least, room);
        break;
      default:
        restore<std::uint64_t>(stream, static_cast<unsigned>(bits), least, room);
    }
    if (stream.overrun()) return damaged("it ends before its last value");
    return std::span<const std::byte>(room);
  }

 private:
  template <class Bits>
  void restore(bit_stream& stream, unsigned bits, std::uint64_t least, std::span<std::byte> room) const {
    const std::uint64_t no_value = (std::uint64_t{1} << bits) - 1;
    for (std::size_t at = 0; at < room.size(); at += sizeof(Bits)) {
      const std::uint64_t packed = stream.take(bits);
      Bits value = static_cast<Bits>(packed + least);
      if (with_.has_fill && packed == no_value) {
        value = static_cast<Bits>(with_.fill);
      } else if (with_.floating) {
        value = scaled<Bits>(packed, least);
      }
      for (std::size_t i = 0; i < sizeof value; ++i) {
        room[at + (with_.big_endian ? sizeof value - 1 - i : i)] =
            static_cast<std::byte>(std::uint64_t{value} >> (8 * i));
      }
    }
  }

  // As the library computes it, in the element's own precision.
  template <class Bits>
  Bits scaled(std::uint64_t packed, std::uint64_t least) const {
    if constexpr (sizeof(Bits) == 4) {
      float from = 0;
      const auto low = static_cast<std::uint32_t>(least);
      std::memcpy(&from, &low, sizeof from);
      const float made = static_cast<float>(static_cast<std::int32_t>(packed)) /
                             static_cast<float>(std::pow(10.0, with_.decimal_places)) +
                         from;
      Bits out = 0;
      std::memcpy(&out, &made, sizeof out);
      return out;
    } else if constexpr (sizeof(Bits) == 8) {
      double from = 0;
      std::memcpy(&from, &least, sizeof from);
      const double made =
          static_cast<double>(static_cast<std::int64_t>(packed)) / std::pow(10.0, with_.decimal_places) + from;
      Bits out = 0;
      std::memcpy(&out, &made, sizeof out);
      return out;
    } else {
      return static_cast<Bits>(packed + least);  // there are no floats of this size
    }
  }

  settings with_;
};

}  // namespace

result<compiled_codec> make_hdf5_scaleoffset_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"parameters"}));
  PENSTOCK_ASSIGN(const std::vector<std::uint32_t> from, parameter_list(members));
  const auto wrong = [](std::string_view what, std::uint64_t value) {
    return error{errc::corrupt_data, fmt::format("codec 'hdf5.scaleoffset': {} {}", what, value)};
  };
  // way of scaling, its factor, elements, class, bytes, sign, byte order, whether there is a fill value, and its words
  if (from.size() < 8) return wrong("too few parameters:", from.size());
  settings with;
  with.floating = from[3] == 1;
  if (from[3] > 1) return wrong("element class", from[3]);
  if (from[0] != (with.floating ? 0U : 2U)) {
    return error{errc::unsupported,
                 fmt::format("codec 'hdf5.scaleoffset': way of scaling {} is not readable", from[0])};
  }
  with.decimal_places = static_cast<std::int32_t>(from[1]);
  with.elements = from[2];
  with.bytes = from[4];
  const bool known = with.floating ? with.bytes == 4 || with.bytes == 8
                                   : with.bytes == 1 || with.bytes == 2 || with.bytes == 4 || with.bytes == 8;
  if (!known) return wrong("elements of bytes", with.bytes);
  with.big_endian = from[6] == 1;
  with.has_fill = from[7] == 1;
  if (with.has_fill) {
    if (from.size() < 8 + (with.bytes + 3) / 4) return wrong("too few words of the fill value:", from.size() - 8);
    with.fill = from[8];
    if (with.bytes == 8) with.fill |= std::uint64_t{from[9]} << 32;
  }
  return compressed_stage(std::make_shared<scaleoffset_codec>(with), input);
}

}  // namespace penstock::inline v0
