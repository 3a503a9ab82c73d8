// zfp's compressed arrays: `zfp` of Zarr v3, whose streams have no header, numcodecs' `zfpy`, whose streams have one,
// and HDF5's filter 32013, which has the header of all chunks in its parameters. Sources: zarr-extensions, codecs/zfp;
// numcodecs' documentation, "ZFPY"; zfp's manual, "Compression modes"; H5Z-ZFP's manual, "Interfaces".

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "array/convert_number.h"
#include "base/checked.h"
#include "base/counted.h"
#include "codec/byte_codecs.h"
#include "codec/codec_members.h"
#include "codec/filters/zfp_library.h"
#include "codec/hdf5/hdf5_parameters.h"

namespace penstock::inline v0 {

#ifdef PENSTOCK_LIBZFP

namespace {

constexpr std::uint64_t kZfpWordBytes = 8;         // a stream is a number of words
constexpr std::uint64_t kZfpHeaderBytes = 24;      // of at most 148 bits, in words
constexpr std::uint64_t kZfpMostBitsAValue = 128;  // zfp needs 70 at most; more only makes a reader allocate

/// How the items of a chunk become numbers of one of zfp's four types, and back.
///
/// The registration does not define it for `large_unsigned`: as in zarrs, the numbers are treated as signed, and
/// negative ones decode to 0.
enum class zfp_items : std::uint8_t { same, small_signed, small_unsigned, large_unsigned, binary16, brain16 };

struct zfp_numbers {
  zfp_type type;
  zfp_items items = zfp_items::same;
  std::uint32_t bits = 0;  // of a small integer

  bool widened() const noexcept { return items != zfp_items::same && items != zfp_items::large_unsigned; }
  std::uint32_t item_bytes() const noexcept { return type == zfp_type_int32 || type == zfp_type_float ? 4 : 8; }
};

std::optional<zfp_numbers> zfp_numbers_of(const dtype& type) noexcept {
  const bool small = type.bits() <= 16;
  switch (type.kind()) {
    case dtype_kind::signed_integer:
      if (small) return zfp_numbers{zfp_type_int32, zfp_items::small_signed, type.bits()};
      return zfp_numbers{type.bits() == 32 ? zfp_type_int32 : zfp_type_int64};
    case dtype_kind::unsigned_integer:
      if (small) return zfp_numbers{zfp_type_int32, zfp_items::small_unsigned, type.bits()};
      return zfp_numbers{type.bits() == 32 ? zfp_type_int32 : zfp_type_int64, zfp_items::large_unsigned};
    case dtype_kind::datetime:
    case dtype_kind::timedelta:
      return zfp_numbers{zfp_type_int64};
    case dtype_kind::brain_float:
      return zfp_numbers{zfp_type_float, zfp_items::brain16};
    case dtype_kind::floating:
      if (small) return zfp_numbers{zfp_type_float, zfp_items::binary16};
      return zfp_numbers{type.bits() == 32 ? zfp_type_float : zfp_type_double};
    default:
      return std::nullopt;
  }
}

template <class To, class From, class Change>
void change_each(const std::byte* from, std::byte* to, std::uint64_t count, Change change) noexcept {
  for (std::uint64_t i = 0; i < count; ++i) {
    From given;
    std::memcpy(&given, from + i * sizeof given, sizeof given);
    const To made = change(given);
    std::memcpy(to + i * sizeof made, &made, sizeof made);
  }
}

// Source: zarr-extensions, codecs/zfp, "Compression"; they are zfp's zfp_promote_*.
template <class Item>
void widen_integers(const zfp_numbers& numbers, const std::byte* from, std::byte* to, std::uint64_t count) noexcept {
  const std::uint32_t bits = numbers.bits, mask = (1u << bits) - 1, sign = 1u << (bits - 1);
  // Unsigned numbers are shifted down by half of their range. For both kinds that is: the bits with the highest one
  // inverted, less that bit.
  const std::uint32_t inverted = numbers.items == zfp_items::small_signed ? sign : 0;
  change_each<std::uint32_t, Item>(from, to, count, [=](Item item) {
    return (((static_cast<std::uint32_t>(item) & mask) ^ inverted) - sign) << (31 - bits);
  });
}

template <class Item>
void narrow_integers(const zfp_numbers& numbers, const std::byte* from, std::byte* to, std::uint64_t count) noexcept {
  const std::uint32_t bits = numbers.bits;
  const std::int32_t half = std::int32_t{1} << (bits - 1);
  const std::int32_t lowest = numbers.items == zfp_items::small_signed ? -half : 0;
  change_each<Item, std::int32_t>(from, to, count, [=](std::int32_t wide) {
    const std::int32_t value = (wide >> (31 - bits)) + (lowest == 0 ? half : 0);
    return static_cast<Item>(std::clamp(value, lowest, lowest + 2 * half - 1));
  });
}

void widen(const zfp_numbers& numbers, const std::byte* from, std::byte* to, std::uint64_t count) noexcept {
  using converting::single_bits;
  const number_kind kind = numbers.items == zfp_items::brain16 ? number_kind::bfloat16 : number_kind::float16;
  if (numbers.bits == 0) {
    change_each<std::uint32_t, std::uint16_t>(from, to, count,
                                              [=](std::uint16_t item) { return single_bits(kind, item); });
  } else if (numbers.bits <= 8) {
    widen_integers<std::uint8_t>(numbers, from, to, count);
  } else {
    widen_integers<std::uint16_t>(numbers, from, to, count);
  }
}

void narrow(const zfp_numbers& numbers, const std::byte* from, std::byte* to, std::uint64_t count) noexcept {
  const number_kind kind = numbers.items == zfp_items::brain16 ? number_kind::bfloat16 : number_kind::float16;
  if (numbers.bits == 0) {
    change_each<std::uint16_t, std::uint32_t>(from, to, count, [=](std::uint32_t item) {
      return static_cast<std::uint16_t>(convert_number(number_kind::float32, kind, item));
    });
  } else if (numbers.bits <= 8) {
    narrow_integers<std::uint8_t>(numbers, from, to, count);
  } else {
    narrow_integers<std::uint16_t>(numbers, from, to, count);
  }
}

template <class Signed>
void raise_to_zero(std::byte* items, std::uint64_t count) noexcept {
  change_each<Signed, Signed>(items, items, count, [](Signed item) { return std::max<Signed>(item, 0); });
}

template <class Signed>
bool any_negative(const std::byte* items, std::uint64_t count) noexcept {
  Signed all = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    Signed item;
    std::memcpy(&item, items + i * sizeof item, sizeof item);
    all |= item;
  }
  return all < 0;
}

bool aligned(const std::byte* at, std::uint64_t bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(at) % bytes == 0;
}

std::uint32_t dimensions_of(const zfp_field& field) noexcept {
  return field.ny == 0 ? 1 : field.nz == 0 ? 2 : field.nw == 0 ? 3 : 4;
}

/// The most bytes that libzfp reads or writes for a stream of this mode with a header, in whole words.
///
/// `zfp_stream_maximum_size` is less for some settings of the expert mode: libzfp's count of a block's bits wraps if
/// `maxbits` is less than the head of a block has, and the reversible mode ignores `maxprec`.
std::uint64_t most_stream_bytes(const zfp_stream& mode, const zfp_field& field) noexcept {
  constexpr std::uint64_t kHeadBits = 19;  // two flags, an exponent of 11 bits, a number of planes of 6
  const std::uint32_t dimensions = dimensions_of(field);
  const std::uint64_t block = std::uint64_t{1} << (2 * dimensions);
  std::uint64_t planes = field.type == zfp_type_int32 || field.type == zfp_type_float ? 32 : 64;
  if (mode.minexp >= ZFP_MIN_EXP) planes = std::min<std::uint64_t>(planes, mode.maxprec);
  // Each plane has a bit for each value found so far and one that ends its groups. Two bits at most, over all planes,
  // find a value.
  std::uint64_t bits = kHeadBits + block * (planes + 2) + planes;
  if (mode.maxbits >= kHeadBits) bits = std::min<std::uint64_t>(bits, mode.maxbits);
  bits = std::max<std::uint64_t>(bits, mode.minbits);
  std::uint64_t blocks = ceil_div(field.nx, 4);
  for (const std::uint64_t length : {field.ny, field.nz, field.nw}) {
    if (length != 0) blocks = saturating_mul(blocks, ceil_div(length, 4));
  }
  const std::uint64_t total = saturating_add(saturating_mul(blocks, bits), ZFP_HEADER_MAX_BITS);
  return (ceil_div(total, 8 * kZfpWordBytes) + 1) * kZfpWordBytes;
}

/// A bit stream in memory of the caller.
class zfp_bits {
 public:
  zfp_bits(const zfp_library& library, std::span<std::byte> memory) noexcept
      : library_(library), stream_(library.open(memory.data(), memory.size())) {}
  zfp_bits(const zfp_bits&) = delete;
  zfp_bits& operator=(const zfp_bits&) = delete;
  ~zfp_bits() {
    if (stream_ != nullptr) library_.close(stream_);
  }
  bitstream* get() const noexcept { return stream_; }

 private:
  const zfp_library& library_;
  bitstream* stream_;
};

error zfp_no_memory() { return {errc::resource_exhausted, "libzfp has no memory for a stream"}; }

/// The mode and shape that the header at the beginning of `bytes` has.
/// \error corrupt_data  The bytes do not begin with a header; `what` names them.
result<> read_zfp_header(const zfp_library& library, std::span<const std::byte> bytes, std::string_view what,
                         zfp_stream& mode, zfp_field& field) {
  alignas(kZfpWordBytes) std::byte head[kZfpHeaderBytes] = {};
  if (!bytes.empty()) std::memcpy(head, bytes.data(), std::min<std::size_t>(bytes.size(), sizeof head));
  const zfp_bits bits(library, head);
  if (bits.get() == nullptr) return zfp_no_memory();
  zfp_stream read_mode = mode;
  field = {};
  read_mode.stream = bits.get();
  if (library.read_header(&read_mode, &field, ZFP_HEADER_FULL) == 0) {
    return error{errc::corrupt_data, fmt::format("{} of {} bytes has no header of zfp", what, bytes.size())};
  }
  if (read_mode.minbits > kZfpMostBitsAValue << (2 * dimensions_of(field))) {
    return error{errc::corrupt_data,
                 fmt::format("{} has a header that requires more than {} bits a value", what, kZfpMostBitsAValue)};
  }
  mode = read_mode;
  mode.stream = nullptr;
  return {};
}

std::string described_field(const zfp_field& field) {
  return fmt::format("type {}, {} x {} x {} x {}", static_cast<int>(field.type), field.nw, field.nz, field.ny,
                     field.nx);
}

struct zfp_settings {
  std::string_view name;
  std::string description;
  zfp_stream mode = {};
  zfp_field field = {};
  zfp_numbers numbers = {};
  bool header = false;
  std::uint64_t values = 0;
  std::uint64_t item_bytes = 0;  // in memory
  dtype type;
};

class zfp_codec final : public byte_codec {
 public:
  zfp_codec(const zfp_library& library, zfp_settings settings)
      : library_(library), all_(std::move(settings)), most_(most_stream_bytes(all_.mode, all_.field)) {}

  std::string_view name() const override { return all_.name; }
  std::string describe() const override { return all_.description; }
  std::uint64_t max_encoded_bytes(std::uint64_t) const override { return all_.values == 0 ? 0 : most_; }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    const std::uint64_t bytes = all_.values * all_.item_bytes;
    if (out.size() < bytes) {
      return out_of_room(scratch,
                         fmt::format("{} decodes to {} bytes, there is room for {}", name(), bytes, out.size()));
    }
    if (bytes == 0) return std::span<const std::byte>(out.data(), 0);
    zfp_stream mode = all_.mode;
    zfp_field field = all_.field;
    if (all_.header) PENSTOCK_TRY(read_header(encoded, mode, field));
    // The library does not check for a stream's end. It receives a copy that is followed by zeros.
    const std::uint64_t padded = most_stream_bytes(mode, field);
    const bool directly = !all_.numbers.widened() && aligned(out.data(), all_.item_bytes);
    const std::uint64_t wide = directly ? 0 : all_.values * all_.numbers.item_bytes();
    PENSTOCK_ASSIGN(const std::span<std::byte> memory, scratch_memory(scratch, saturating_add(padded, wide)));
    const std::size_t taken = std::min<std::uint64_t>(encoded.size(), padded);
    if (taken != 0) std::memcpy(memory.data(), encoded.data(), taken);
    std::memset(memory.data() + taken, 0, padded - taken);

    std::byte* const to = directly ? out.data() : memory.data() + padded;
    field.data = to;
    const zfp_bits bits(library_, memory.first(padded));
    if (bits.get() == nullptr) return zfp_no_memory();
    mode.stream = bits.get();
    if (all_.header) {
      zfp_field checked = {};
      library_.read_header(&mode, &checked, ZFP_HEADER_FULL);
    }
    const std::uint64_t used = library_.decompress(&mode, &field);
    if (used > round_up(encoded.size(), *library_.word_bits / 8)) {
      return error{errc::corrupt_data, fmt::format("{} stream is cut short: has {} bytes, its blocks need {}", name(),
                                                   encoded.size(), used)};
    }
    if (all_.numbers.items == zfp_items::large_unsigned) {
      all_.item_bytes == 4 ? raise_to_zero<std::int32_t>(to, all_.values)
                           : raise_to_zero<std::int64_t>(to, all_.values);
    }
    if (all_.numbers.widened()) {
      narrow(all_.numbers, to, out.data(), all_.values);
    } else if (!directly) {
      std::memcpy(out.data(), to, bytes);
    }
    return std::span<const std::byte>(out.data(), bytes);
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch& scratch) const override {
    const std::uint64_t bytes = all_.values * all_.item_bytes;
    if (decoded.size() != bytes) {
      return error{errc::invalid_argument,
                   fmt::format("codec '{}' encodes {} bytes, not {}", name(), bytes, decoded.size())};
    }
    if (bytes == 0) return std::uint64_t{0};
    if (all_.numbers.items == zfp_items::large_unsigned &&
        (all_.item_bytes == 4 ? any_negative<std::int32_t>(decoded.data(), all_.values)
                              : any_negative<std::int64_t>(decoded.data(), all_.values))) {
      const std::uint64_t most = ~std::uint64_t{0} >> (65 - 8 * all_.item_bytes);
      return error{errc::invalid_argument,
                   fmt::format("codec '{}' supports {} up to {} only", name(), all_.type.name(), most)};
    }
    const bool reads_directly = !all_.numbers.widened() && aligned(decoded.data(), all_.item_bytes);
    const bool writes_directly = aligned(out.data(), kZfpWordBytes);
    const std::uint64_t wide = reads_directly ? 0 : round_up(all_.values * all_.numbers.item_bytes(), kZfpWordBytes);
    PENSTOCK_ASSIGN(const std::span<std::byte> memory,
                    scratch_memory(scratch, saturating_add(wide, writes_directly ? 0 : most_)));
    zfp_field field = all_.field;
    field.data = const_cast<std::byte*>(decoded.data());  // the library only reads it
    if (!reads_directly) {
      field.data = memory.data();
      if (all_.numbers.widened()) {
        widen(all_.numbers, decoded.data(), memory.data(), all_.values);
      } else {
        std::memcpy(memory.data(), decoded.data(), bytes);
      }
    }
    const std::span<std::byte> made = writes_directly ? out.first(most_) : memory.subspan(wide, most_);
    const zfp_bits bits(library_, made);
    if (bits.get() == nullptr) return zfp_no_memory();
    zfp_stream mode = all_.mode;
    mode.stream = bits.get();
    if (all_.header && library_.write_header(&mode, &field, ZFP_HEADER_FULL) == 0) {
      return error{errc::invalid_argument,
                   fmt::format("codec '{}': zfp's header cannot hold this chunk's shape", name())};
    }
    std::uint64_t written = library_.compress(&mode, &field);
    // Some builds of libzfp, such as Debian's, write single bytes; those of other readers read words.
    for (; written % kZfpWordBytes != 0; ++written) made[written] = std::byte{0};
    if (!writes_directly) std::memcpy(out.data(), made.data(), written);
    return written;
  }

 private:
  /// The mode and shape of a stream with a header. As in numcodecs, the header's mode counts, not that of the metadata.
  result<> read_header(std::span<const std::byte> encoded, zfp_stream& mode, zfp_field& field) const {
    zfp_field read = {};
    PENSTOCK_TRY(read_zfp_header(library_, encoded, fmt::format("{} chunk", name()), mode, read));
    // Filters of Zarr v2 flatten the array that numcodecs then encodes.
    const bool flat = dimensions_of(read) == 1 && read.nx == all_.values;
    const bool same = read.nx == field.nx && read.ny == field.ny && read.nz == field.nz && read.nw == field.nw;
    if (read.type != field.type || !(flat || same)) {
      return error{errc::corrupt_data, fmt::format("{} header has another type or shape than the chunk: {}", name(),
                                                   described_field(read))};
    }
    field = read;
    return {};
  }

  const zfp_library& library_;
  zfp_settings all_;
  std::uint64_t most_;
};

/// Mode and limits: of `zfp` by name, of `zfpy` by zfp's numbers.
struct zfp_wanted {
  enum class mode : std::uint8_t { expert = 1, fixed_rate, fixed_precision, fixed_accuracy, reversible };
  mode is = mode::reversible;
  double limit = 0;                                                // rate, precision or tolerance
  std::int64_t minbits = 0, maxbits = 0, maxprec = 0, minexp = 0;  // expert
};
using zfp_mode_name = zfp_wanted::mode;

constexpr std::int64_t kMostZfpNumber = std::numeric_limits<std::uint32_t>::max();

error zfp_wrong(const codec_config& config, std::string_view what) {
  return {errc::corrupt_data, fmt::format("codec '{}' {}", config.name, what)};
}

result<zfp_wanted> zfp_wanted_of(const codec_members& members) {
  constexpr std::string_view kModes[] = {"expert", "fixed_rate", "fixed_precision", "fixed_accuracy", "reversible"};
  zfp_wanted out;
  PENSTOCK_ASSIGN(const std::size_t mode, members.choice("mode", kModes));
  out.is = static_cast<zfp_mode_name>(mode + 1);
  switch (out.is) {
    case zfp_mode_name::expert: {
      PENSTOCK_ASSIGN(out.minbits, members.integer("minbits", 0, kMostZfpNumber));
      PENSTOCK_ASSIGN(out.maxbits, members.integer("maxbits", 0, kMostZfpNumber));
      PENSTOCK_ASSIGN(out.maxprec, members.integer("maxprec", 0, kMostZfpNumber));
      PENSTOCK_ASSIGN(out.minexp, members.integer("minexp", std::numeric_limits<std::int32_t>::min(),
                                                  std::numeric_limits<std::int32_t>::max()));
      break;
    }
    case zfp_mode_name::fixed_rate: {
      PENSTOCK_ASSIGN(out.limit, members.number("rate"));
      break;
    }
    case zfp_mode_name::fixed_precision: {
      PENSTOCK_ASSIGN(const std::int64_t precision, members.integer("precision", 0, kMostZfpNumber));
      out.limit = static_cast<double>(precision);
      break;
    }
    case zfp_mode_name::fixed_accuracy: {
      PENSTOCK_ASSIGN(out.limit, members.number("tolerance"));
      break;
    }
    case zfp_mode_name::reversible:
      break;
  }
  return out;
}

/// As in zfpy: a negative limit means no limit, and without a limit the mode is the reversible one.
result<zfp_wanted> zfpy_wanted_of(const codec_members& members) {
  zfp_wanted out;
  PENSTOCK_ASSIGN(const std::int64_t mode, members.integer("mode", 2, 5, 4));
  constexpr std::string_view kLimits[] = {"rate", "precision", "tolerance"};
  if (mode == 5) return out;
  PENSTOCK_ASSIGN(const double limit, members.number(kLimits[mode - 2], -1.0));
  if (limit < 0) return out;
  out.limit = limit;
  out.is = static_cast<zfp_mode_name>(mode);
  return out;
}

result<> set_zfp_mode(const zfp_library& library, const codec_config& config, const zfp_wanted& wanted,
                      const zfp_field& field, zfp_settings& settings) {
  zfp_stream& mode = settings.mode;
  const std::uint32_t dimensions = dimensions_of(field);
  const auto described = [&](std::string_view limit) {
    settings.description = fmt::format("{}({}={})", settings.name, limit, wanted.limit);
  };
  if (!(wanted.limit >= 0) || std::isinf(wanted.limit)) {
    return zfp_wrong(config, fmt::format("needs a limit of 0 or more, not {}", wanted.limit));
  }
  const double bits_a_value = wanted.is == zfp_mode_name::fixed_rate
                                  ? wanted.limit
                                  : static_cast<double>(wanted.minbits) / static_cast<double>(1u << (2 * dimensions));
  if (bits_a_value > static_cast<double>(kZfpMostBitsAValue)) {
    return zfp_wrong(config, fmt::format("requires more than {} bits a value", kZfpMostBitsAValue));
  }
  switch (wanted.is) {
    case zfp_mode_name::fixed_rate:
      library.stream_set_rate(&mode, wanted.limit, field.type, dimensions, zfp_false);
      described("rate");
      break;
    case zfp_mode_name::fixed_precision:
      library.stream_set_precision(&mode, static_cast<unsigned>(std::min(wanted.limit, 1e6)));
      described("precision");
      break;
    case zfp_mode_name::fixed_accuracy:
      library.stream_set_accuracy(&mode, wanted.limit);
      described("tolerance");
      break;
    case zfp_mode_name::reversible:
      library.stream_set_reversible(&mode);
      settings.description = fmt::format("{}(reversible)", settings.name);
      break;
    case zfp_mode_name::expert: {
      // All exponents below ZFP_MIN_EXP select the reversible mode, and all far above those of numbers drop all planes.
      const int minexp = static_cast<int>(std::clamp<std::int64_t>(wanted.minexp, ZFP_MIN_EXP - 1, 4096));
      if (library.stream_set_params(&mode, static_cast<unsigned>(wanted.minbits), static_cast<unsigned>(wanted.maxbits),
                                    static_cast<unsigned>(wanted.maxprec), minexp) == zfp_false) {
        return zfp_wrong(config, fmt::format("has no expert mode with minbits {}, maxbits {}, maxprec {}",
                                             wanted.minbits, wanted.maxbits, wanted.maxprec));
      }
      settings.description = fmt::format("{}(minbits={}, maxbits={}, maxprec={}, minexp={})", settings.name,
                                         wanted.minbits, wanted.maxbits, wanted.maxprec, wanted.minexp);
      break;
    }
  }
  return {};
}

result<compiled_codec> make_zfp_of(const zfp_library& library, const codec_config& config, const zfp_wanted& wanted,
                                   const stage_type& input, zfp_settings settings) {
  const std::optional<zfp_numbers> numbers = zfp_numbers_of(input.type);
  // zfpy takes zfp's own types in the machine's byte order, and no others.
  const bool own = numbers && numbers->items == zfp_items::same &&
                   (input.type.kind() == dtype_kind::floating || input.type.kind() == dtype_kind::signed_integer);
  if (!input.is_array || input.big_endian || !numbers || (settings.name == "zfpy" && !own) || input.shape.size() > 4) {
    return error{errc::unsupported,
                 fmt::format("codec '{}' does not support {} of {}", config.name,
                             input.is_array ? input.type.name() : "bytes", counted(input.shape.size(), "dimension"))};
  }
  settings.numbers = *numbers;
  settings.type = input.type;
  settings.item_bytes = input.type.item_bytes();
  settings.values = input.bytes() / settings.item_bytes;
  std::uint64_t wide = 0;
  if (input.bytes() == kUnbounded || !checked_mul(settings.values, std::uint64_t{8}, wide)) {
    return error{errc::unsupported, fmt::format("codec '{}' got an array of 2^64 bytes or more", config.name)};
  }
  zfp_field& field = settings.field;
  field.type = numbers->type;
  std::size_t* const lengths[] = {&field.nx, &field.ny, &field.nz, &field.nw};
  field.nx = 1;  // an array without dimensions has one value
  for (std::size_t i = 0; i < input.shape.size(); ++i) *lengths[i] = input.shape[input.shape.size() - 1 - i];
  settings.mode.exec.policy = zfp_exec_serial;
  PENSTOCK_TRY(set_zfp_mode(library, config, wanted, field, settings));

  const bool header = settings.header;
  auto codec = std::make_shared<zfp_codec>(library, std::move(settings));
  const std::uint64_t ours = codec->max_encoded_bytes(0);
  if (ours == kUnbounded) {
    return error{errc::unsupported, fmt::format("codec '{}' got an array whose streams exceed 64 bits", config.name)};
  }
  // A stream with a header may have another mode than this codec's.
  const std::uint64_t most = header ? encoded_limit(*codec, input.bytes()) : ours;
  return compiled_codec{std::move(codec), stage_type::bytes_of(input.type, most, false)};
}

result<const zfp_library*> zfp_library_for(const codec_config& config) {
  result<const zfp_library*> found = zfp_library::get();
  if (found.ok()) return found;
  return error{errc::unsupported, fmt::format("codec '{}' needs libzfp: {} (Debian, Ubuntu: apt install libzfp1)",
                                              config.name, found.error().message())};
}

}  // namespace

result<compiled_codec> make_zfp_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const zfp_library* const library, zfp_library_for(config));
  PENSTOCK_ASSIGN(const codec_members members,
                  codec_members::of(config, {"mode", "rate", "precision", "tolerance", "minbits", "maxbits", "maxprec",
                                             "minexp", "write_header"}));
  PENSTOCK_ASSIGN(const zfp_wanted wanted, zfp_wanted_of(members));
  zfp_settings settings;
  settings.name = "zfp";
  // zarrs wrote the setting before the codec was registered.
  PENSTOCK_ASSIGN(settings.header, members.boolean("write_header", false));
  return make_zfp_of(*library, config, wanted, input, std::move(settings));
}

result<compiled_codec> make_zfpy_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const zfp_library* const library, zfp_library_for(config));
  // `compression_kwargs` repeats the limit.
  PENSTOCK_ASSIGN(const codec_members members,
                  codec_members::of(config, {"mode", "rate", "precision", "tolerance", "compression_kwargs"}));
  PENSTOCK_ASSIGN(const zfp_wanted wanted, zfpy_wanted_of(members));
  zfp_settings settings;
  settings.name = "zfpy";
  settings.header = true;
  return make_zfp_of(*library, config, wanted, input, std::move(settings));
}

result<compiled_codec> make_hdf5_zfp_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const zfp_library* const library, zfp_library_for(config));
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"parameters"}));
  PENSTOCK_ASSIGN(const std::vector<std::uint32_t> parameters, parameter_list(members));
  // A number of versions precedes the header, which is in words of 32 bits.
  std::vector<std::byte> head;
  for (std::size_t i = 1; i < parameters.size(); ++i) {
    for (std::uint32_t bit = 0; bit < 32; bit += 8) head.push_back(static_cast<std::byte>(parameters[i] >> bit));
  }
  zfp_settings settings;
  settings.name = "hdf5.zfp";
  zfp_field& field = settings.field;
  PENSTOCK_TRY(read_zfp_header(*library, head, "hdf5.zfp's list of parameters", settings.mode, field));
  // The header's type and shape apply. The array's may differ: another byte order, signs, more dimensions of length 1.
  settings.mode.exec.policy = zfp_exec_serial;
  settings.numbers = {field.type};
  settings.item_bytes = settings.numbers.item_bytes();
  settings.values = field.nx;
  for (const std::size_t length : {field.ny, field.nz, field.nw}) {
    if (length != 0) settings.values = saturating_mul(settings.values, std::uint64_t{length});
  }
  if (const std::uint64_t bytes = saturating_mul(settings.values, settings.item_bytes);
      bytes == kUnbounded || (input.bytes() != kUnbounded && bytes != input.bytes())) {
    return zfp_wrong(config,
                     fmt::format("has a header of {}, and chunks of {} bytes", described_field(field), input.bytes()));
  }
  settings.description = fmt::format("hdf5.zfp(minbits={}, maxbits={}, maxprec={}, minexp={})", settings.mode.minbits,
                                     settings.mode.maxbits, settings.mode.maxprec, settings.mode.minexp);
  auto codec = std::make_shared<zfp_codec>(*library, std::move(settings));
  if (codec->max_encoded_bytes(0) == kUnbounded) {
    return zfp_wrong(config, "has a header of a shape whose streams exceed 64 bits");
  }
  return compressed_stage(std::move(codec), input);
}

#else

result<compiled_codec> make_zfp_codec(const codec_config& config, const stage_type&) {
  return error{errc::unsupported,
               fmt::format("codec '{}' needs a build with libzfp: install its headers (libzfp-dev) and configure again",
                           config.name)};
}

result<compiled_codec> make_zfpy_codec(const codec_config& config, const stage_type& input) {
  return make_zfp_codec(config, input);
}

result<compiled_codec> make_hdf5_zfp_codec(const codec_config& config, const stage_type& input) {
  return make_zfp_codec(config, input);
}

#endif

}  // namespace penstock::inline v0
