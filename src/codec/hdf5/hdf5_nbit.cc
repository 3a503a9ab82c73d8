// HDF5's filter n-bit: the used bits of each element, packed one after the other, the highest first. Source:
// H5Z_FILTER_NBIT in the HDF5 reference, and the parameters in its pipeline message.

#include <cstring>
#include <vector>

#include "base/checked.h"
#include "codec/codec_members.h"
#include "codec/decode_only.h"
#include "codec/hdf5/hdf5_parameters.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kMostParameters = 65536;
constexpr int kMostDepth = 32;

/// One value of the packed stream, in the order of the stream.
struct packed_part {
  std::uint32_t offset = 0;  // of its first byte in the element
  std::uint32_t bytes = 0;   // of the position in the element
  std::uint32_t precision = 0, shift = 0;
  bool big_endian = false;
  bool plain = false;  // unchanged bytes, 8 bits each

  std::uint64_t bits() const noexcept { return plain ? 8 * std::uint64_t{bytes} : precision; }
};

/// Reads the filter's parameters: a small program that describes an element.
class nbit_program {
 public:
  explicit nbit_program(std::vector<std::uint32_t> parameters) : parameters_(std::move(parameters)) {}

  result<> read() {
    if (parameters_.size() < 3) return wrong("it has too few parameters");
    packed = parameters_[1] == 0;
    elements = parameters_[2];
    if (!packed) return {};  // text, opaque bytes, enumerations: their types do not follow
    at_ = 3;
    PENSTOCK_ASSIGN(element_bytes, read_type(0, 0));
    if (element_bytes == 0) return wrong("elements of 0 bytes");
    std::erase_if(parts, [](const packed_part& each) { return each.bits() == 0; });
    for (const packed_part& each : parts) element_bits += each.bits();
    return {};
  }

  std::vector<packed_part> parts;  // none of them without bits
  std::uint32_t elements = 0, element_bytes = 0;
  std::uint64_t element_bits = 0;
  bool packed = true;

 private:
  enum type_class : std::uint32_t { kAtomic = 1, kArray = 2, kCompound = 3, kPlain = 4 };

  static error wrong(std::string_view what) { return {errc::corrupt_data, fmt::format("codec 'hdf5.nbit': {}", what)}; }
  result<std::uint32_t> next() {
    if (at_ >= parameters_.size()) return wrong("its parameters end early");
    return parameters_[at_++];
  }

  // Adds the parts of a type at `offset`; returns its size.
  result<std::uint32_t> read_type(std::uint64_t offset, int depth) {
    if (depth > kMostDepth) return wrong("types nested too deep");
    PENSTOCK_ASSIGN(const std::uint32_t kind, next());
    PENSTOCK_ASSIGN(const std::uint32_t size, next());
    if (offset + size > (std::uint64_t{1} << 28)) return wrong("elements beyond 2^28 bytes");
    switch (kind) {
      case kAtomic:
        return read_atomic(static_cast<std::uint32_t>(offset), size);
      case kPlain: {
        packed_part part;
        part.offset = static_cast<std::uint32_t>(offset);
        part.bytes = size;
        part.plain = true;
        PENSTOCK_TRY(add(part));
        return size;
      }
      case kArray:
        return read_array(offset, size, depth);
      case kCompound:
        return read_compound(offset, size, depth);
      default:
        return wrong(fmt::format("type class {}", kind));
    }
  }

  result<> add(const packed_part& part) {
    if (parts.size() == kMostParameters) return wrong("elements of too many parts");
    parts.push_back(part);
    return {};
  }

  result<std::uint32_t> read_atomic(std::uint32_t offset, std::uint32_t size) {
    packed_part part;
    part.offset = offset;
    part.bytes = size;
    PENSTOCK_ASSIGN(const std::uint32_t order, next());
    PENSTOCK_ASSIGN(part.precision, next());
    PENSTOCK_ASSIGN(part.shift, next());
    part.big_endian = order == 1;
    if (order > 1 || size == 0 || size > 8 || part.precision == 0 ||
        std::uint64_t{part.precision} + part.shift > 8 * size) {
      return wrong(
          fmt::format("{} bits from bit {} of {} bytes, byte order {}", part.precision, part.shift, size, order));
    }
    PENSTOCK_TRY(add(part));
    return size;
  }

  result<std::uint32_t> read_array(std::uint64_t offset, std::uint32_t size, int depth) {
    const std::size_t base_at = at_;
    const std::size_t first = parts.size();
    PENSTOCK_ASSIGN(const std::uint32_t base, read_type(offset, depth + 1));
    if (parameters_[base_at] == kPlain) {  // its part becomes the whole array
      parts[first].bytes = size;
      return size;
    }
    if (base == 0 || size == 0 || size % base != 0) return wrong(fmt::format("an array of {} bytes of {}", size, base));
    const std::size_t last = parts.size();
    for (std::uint32_t i = 1; first != last && i < size / base; ++i) {
      for (std::size_t k = first; k < last; ++k) {
        packed_part part = parts[k];
        part.offset += i * base;
        PENSTOCK_TRY(add(part));
      }
    }
    return size;
  }

  result<std::uint32_t> read_compound(std::uint64_t offset, std::uint32_t size, int depth) {
    PENSTOCK_ASSIGN(const std::uint32_t members, next());
    for (std::uint32_t i = 0; i < members; ++i) {
      PENSTOCK_ASSIGN(const std::uint32_t place, next());
      PENSTOCK_ASSIGN(const std::uint32_t used, read_type(offset + place, depth + 1));
      if (std::uint64_t{place} + used > size) return wrong(fmt::format("member {} exceeds its compound", i));
    }
    return size;
  }

  std::vector<std::uint32_t> parameters_;
  std::size_t at_ = 0;
};

class nbit_codec final : public decode_only_codec {
 public:
  explicit nbit_codec(nbit_program program)
      : decode_only_codec("hdf5.nbit", "hdf5.nbit"), program_(std::move(program)) {}

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (!program_.packed) {
      PENSTOCK_ASSIGN(const auto room, take(out, encoded.size(), scratch));
      if (!room.empty()) std::memcpy(room.data(), encoded.data(), room.size());
      return std::span<const std::byte>(room);
    }
    // Before any part is read: parts may share bytes, so that an element has many times its bytes of bits.
    if (saturating_mul(program_.elements, program_.element_bits) > 8 * std::uint64_t{encoded.size()})
      return damaged("it ends before its last element");
    const std::uint64_t bytes = std::uint64_t{program_.elements} * program_.element_bytes;
    PENSTOCK_ASSIGN(const auto room, take(out, bytes, scratch));
    if (!room.empty()) std::memset(room.data(), 0, room.size());
    bit_stream bits(encoded);
    for (std::size_t at = 0; at < room.size(); at += program_.element_bytes)
      for (const packed_part& part : program_.parts) unpack(part, bits, room.data() + at + part.offset);
    return std::span<const std::byte>(room);
  }

 private:
  static void unpack(const packed_part& part, bit_stream& bits, std::byte* to) noexcept {
    if (part.plain) {
      for (std::uint32_t i = 0; i < part.bytes; ++i) to[i] = static_cast<std::byte>(bits.take_few(8));
      return;
    }
    const std::uint64_t value = bits.take(part.precision) << part.shift;
    for (std::uint32_t i = 0; i < part.bytes; ++i) {
      const std::uint32_t place = part.big_endian ? part.bytes - 1 - i : i;
      to[place] = static_cast<std::byte>(value >> (8 * i));
    }
  }

  nbit_program program_;
};

}  // namespace

result<std::vector<std::uint32_t>> parameter_list(const codec_members& members) {
  PENSTOCK_ASSIGN(const json::array_t* const list, members.list("parameters"));
  if (list->size() > kMostParameters) return error{errc::unsupported, "a codec with too many 'parameters'"};
  std::vector<std::uint32_t> out;
  for (const json& each : *list) {
    std::uint64_t value = 0;
    if (!each.get(value) || value > 0xffffffff) {
      return error{errc::corrupt_data, "a codec's 'parameters' are not a list of 32-bit numbers"};
    }
    out.push_back(static_cast<std::uint32_t>(value));
  }
  return out;
}

result<compiled_codec> make_hdf5_nbit_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"parameters"}));
  PENSTOCK_ASSIGN(std::vector<std::uint32_t> parameters, parameter_list(members));
  nbit_program program(std::move(parameters));
  PENSTOCK_TRY(program.read());
  return compressed_stage(std::make_shared<nbit_codec>(std::move(program)), input);
}

}  // namespace penstock::inline v0
