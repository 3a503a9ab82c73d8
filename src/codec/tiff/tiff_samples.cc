#include "codec/tiff/tiff_samples.h"

#include <fmt/format.h>

#include <cstring>
#include <type_traits>

#include "array/item_swap.h"
#include "array/strided_copy.h"
#include "base/counted.h"
#include "codec/device_form.h"
#include "codec/row_codec.h"
#include "codec/tiff/tiff_rows.h"
#include "codec/worker_scratch.h"

namespace penstock::inline v0 {
namespace {

/// Floats of 24 bits: a sign, 7 bits of exponent with bias 63, 16 bits of fraction.
std::uint32_t widen_float24(std::uint32_t from) noexcept {
  const std::uint32_t sign = from >> 23 << 31;
  std::uint32_t exponent = from >> 16 & 0x7f, fraction = from & 0xffff;
  if (exponent == 0x7f) return sign | 0x7f800000 | fraction << 7;
  if (exponent == 0) {
    if (fraction == 0) return sign;
    exponent = 1;
    for (; (fraction & 0x10000) == 0; --exponent) fraction <<= 1;
    fraction &= 0xffff;
  }
  return sign | (exponent + (127 - 63)) << 23 | fraction << 7;
}

template <class Integer, class Float>
void widen_integers(std::byte* to, const std::byte* from, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    Integer value;
    std::memcpy(&value, from + i * sizeof(value), sizeof(value));
    const auto wide = static_cast<Float>(value);
    std::memcpy(to + i * sizeof(wide), &wide, sizeof(wide));
  }
}

template <class T>
void mask_row(std::byte* items, std::size_t count, std::uint32_t bits, bool is_signed) noexcept {
  const unsigned spare = static_cast<unsigned>(sizeof(T)) * 8 - bits;
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, items + i * sizeof(T), sizeof(T));
    value = static_cast<T>(value << spare);
    value =
        is_signed ? static_cast<T>(static_cast<std::make_signed_t<T>>(value) >> spare) : static_cast<T>(value >> spare);
    std::memcpy(items + i * sizeof(T), &value, sizeof(T));
  }
}

template <class T>
void copy_items(std::byte* to, std::ptrdiff_t to_step, const std::byte* from, std::ptrdiff_t from_step,
                std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(to, from, sizeof(T));
    to += to_step;
    from += from_step;
  }
}
struct sixteen_bytes {
  std::uint64_t halves[2];
};

void copy_items(std::byte* to, std::ptrdiff_t to_step, const std::byte* from, std::ptrdiff_t from_step,
                std::size_t count, std::uint32_t item_bytes) noexcept {
  switch (item_bytes) {
    case 1:
      return copy_items<std::uint8_t>(to, to_step, from, from_step, count);
    case 2:
      return copy_items<std::uint16_t>(to, to_step, from, from_step, count);
    case 4:
      return copy_items<std::uint32_t>(to, to_step, from, from_step, count);
    case 8:
      return copy_items<std::uint64_t>(to, to_step, from, from_step, count);
    default:
      return copy_items<sixteen_bytes>(to, to_step, from, from_step, count);
  }
}

class samples_codec final : public byte_codec, public row_codec {
 public:
  samples_codec(const tiff_samples& from, const dtype& type, std::vector<std::uint32_t> picked)
      : from_(from), item_(type.item_bytes()), picked_(std::move(picked)) {
    whole_bytes_ = from_.bits == 8 || from_.bits == 16 || from_.bits == 32 || from_.bits == 64 || from_.bits == 128;
    swap_ = from_.big_endian != kNativeBig && whole_bytes_;
    unit_ = is_complex() ? from_.bits / 16 : (from_.bits + 7) / 8;
    complex_integer_ = from_.kind == sample_kind::complex_integer;
    float24_ = from_.bits == 24 && from_.kind == sample_kind::floating;
    all_ = picked_.size() == from_.samples;
    for (std::size_t i = 0; i < picked_.size(); ++i) all_ = all_ && picked_[i] == i;
  }

  std::string_view name() const override { return "tiff.samples"; }
  std::string describe() const override {
    return fmt::format("samples({} x {} bits, {}{})", from_.samples, from_.bits, from_.big_endian ? "big" : "little",
                       from_.predictor == 1 ? "" : fmt::format(", predictor={}", from_.predictor));
  }
  std::uint64_t max_encoded_bytes(std::uint64_t) const override { return from_.bytes(); }

  std::optional<device_form> form_on_device() const override {
    device_form out = device_form::of(device_form::kind::tiff_samples);
    out.samples = &from_;
    out.picked = picked_;
    return out;
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    const std::uint64_t made_bytes = from_.rows * made_row_bytes();
    PENSTOCK_TRY(decode_rows(encoded, 0, from_.rows, out, scratch));
    return std::span<const std::byte>(out.first(made_bytes));
  }

  bool has_rows(std::uint64_t rows, std::uint64_t) const noexcept override { return rows == from_.rows; }

  result<> decode_rows(std::span<const std::byte> encoded, std::uint64_t first, std::uint64_t count,
                       std::span<std::byte> out, worker_scratch& scratch) const override {
    const std::uint64_t row_bytes = from_.row_bytes(), made_bytes = made_row_bytes();
    if (encoded.size() < from_.bytes()) {
      return error{errc::corrupt_data,
                   fmt::format("chunk decoded to {} bytes, its rows need {}", encoded.size(), from_.bytes())};
    }
    if (out.size() < count * made_bytes) {
      return error{errc::internal, fmt::format("room of {} bytes for {}", out.size(), count * made_bytes)};
    }
    const std::uint64_t work_bytes = from_.width * from_.samples * 16;
    buffer& unused = scratch.stage(encoded.data() == scratch.stage(0).data() ? 1 : 0);
    PENSTOCK_ASSIGN(const std::span<std::byte> work, unused.reserve(2 * work_bytes));
    for (std::uint64_t y = 0; y < count; ++y) {
      std::byte* const to = out.data() + y * made_bytes;
      const std::byte* const stored = encoded.data() + (first + y) * row_bytes;
      if (all_) {
        const std::byte* const made = row(stored, to, work.data());
        if (made != to) std::memcpy(to, made, made_bytes);
        continue;
      }
      const std::byte* const made = row(stored, work.data() + work_bytes, work.data());
      for (std::size_t j = 0; j < picked_.size(); ++j) {
        copy_items(to + j * item_, static_cast<std::ptrdiff_t>(picked_.size() * item_),
                   made + std::size_t{picked_[j]} * item_,
                   static_cast<std::ptrdiff_t>(std::size_t{from_.samples} * item_), from_.width, item_);
      }
    }
    return {};
  }

  result<std::uint64_t> encode(std::span<const std::byte>, std::span<std::byte>, worker_scratch&) const override {
    return error{errc::unsupported, "samples of TIFF are only decoded"};
  }

 private:
  bool is_complex() const noexcept {
    return from_.kind == sample_kind::complex_integer || from_.kind == sample_kind::complex_floating;
  }
  std::uint64_t made_row_bytes() const noexcept { return from_.width * picked_.size() * item_; }
  // Converts one row to the form of the cell; see `native_row`.
  const std::byte* row(const std::byte* stored, std::byte* to, std::byte* work) const noexcept {
    const std::byte* const made = native_row(stored, to, work);
    if (!from_.mask) return made;
    const std::size_t count = from_.width * from_.samples;
    if (made != to) std::memcpy(to, made, count);
    for (std::size_t i = 0; i < count; ++i) to[i] = to[i] == std::byte{0} ? std::byte{0} : std::byte{255};
    return to;
  }

  // Converts one row to native items: in `to`, or in place.
  const std::byte* native_row(const std::byte* stored, std::byte* to, std::byte* work) const noexcept {
    const std::size_t count = from_.width * from_.samples;
    if (from_.predictor == 3) {
      restore_float_row(to, stored, count, unit_, from_.samples, work);
      if (float24_) widen(to, count);
      return to;
    }
    if (!whole_bytes_) return unpacked(stored, to, count);
    if (from_.predictor == 2) {
      std::byte* const sums = complex_integer_ ? work : to;
      sum_row(sums, stored, count, from_.bits / 8, from_.samples, swap_);
      if (!complex_integer_) return to;
      stored = sums;
    } else if (swap_ && unit_ > 1) {
      std::byte* const native = complex_integer_ ? work : to;
      swap_contiguous(native, stored, count * (from_.bits / 8), unit_);
      if (!complex_integer_) return to;
      stored = native;
    }
    if (!complex_integer_) return stored;
    if (unit_ == 1) {
      widen_integers<std::int8_t, float>(to, stored, 2 * count);
    } else if (unit_ == 2) {
      widen_integers<std::int16_t, float>(to, stored, 2 * count);
    } else {
      widen_integers<std::int32_t, double>(to, stored, 2 * count);
    }
    return to;
  }

  const std::byte* unpacked(const std::byte* stored, std::byte* to, std::size_t count) const noexcept {
    const bool is_signed = from_.kind == sample_kind::signed_integer;
    if (float24_ && !from_.big_endian) {  // integers of odd width have their most significant bit first everywhere
      for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t value = 0;
        for (std::size_t b = 3; b-- > 0;) value = value << 8 | static_cast<std::uint32_t>(stored[3 * i + b]);
        if (is_signed && (value & 0x800000) != 0) value |= 0xff000000;
        std::memcpy(to + 4 * i, &value, 4);
      }
    } else {
      unpack_row(to, stored, count, from_.bits, item_, is_signed);
    }
    if (from_.predictor == 2) {
      // Differences are taken modulo the samples' own range.
      sum_row(to, to, count, item_, from_.samples, false);
      if (item_ == 1) mask_row<std::uint8_t>(to, count, from_.bits, is_signed);
      if (item_ == 2) mask_row<std::uint16_t>(to, count, from_.bits, is_signed);
      if (item_ == 4) mask_row<std::uint32_t>(to, count, from_.bits, is_signed);
      if (item_ == 8) mask_row<std::uint64_t>(to, count, from_.bits, is_signed);
    }
    if (float24_) widen(to, count);
    return to;
  }

  static void widen(std::byte* items, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t value = 0;
      std::memcpy(&value, items + 4 * i, 4);
      value = widen_float24(value);
      std::memcpy(items + 4 * i, &value, 4);
    }
  }

  tiff_samples from_;
  std::uint32_t item_;
  std::vector<std::uint32_t> picked_;
  bool whole_bytes_, swap_, complex_integer_, float24_, all_;
  std::uint32_t unit_;
};

error bad_samples(const char* what, std::uint32_t bits) {
  return {errc::unsupported, fmt::format("{} of {} are not readable", what, counted(bits, "bit"))};
}

}  // namespace

result<dtype> type_of_samples(std::uint32_t bits, sample_kind kind) {
  switch (kind) {
    case sample_kind::floating:
      if (bits == 24) return dtype(dtype_kind::floating, 32);
      if (bits != 16 && bits != 32 && bits != 64) return bad_samples("floats", bits);
      return dtype(dtype_kind::floating, bits);
    case sample_kind::complex_floating:
      if (bits != 64 && bits != 128) return bad_samples("complex numbers", bits);
      return dtype(dtype_kind::complex, bits);
    case sample_kind::complex_integer:
      if (bits != 16 && bits != 32 && bits != 64) return bad_samples("complex integers", bits);
      return dtype(dtype_kind::complex, bits == 64 ? 128 : 64);
    default:
      break;
  }
  if (bits == 0 || bits > 64) return bad_samples("integers", bits);
  const std::uint32_t wide = bits <= 8 ? 8 : bits <= 16 ? 16 : bits <= 32 ? 32 : 64;
  return dtype(kind == sample_kind::signed_integer ? dtype_kind::signed_integer : dtype_kind::unsigned_integer, wide);
}

result<std::shared_ptr<const byte_codec>> make_tiff_samples(const tiff_samples& from,
                                                            std::vector<std::uint32_t> picked) {
  PENSTOCK_ASSIGN(const dtype type, type_of_samples(from.bits, from.kind));
  if (from.mask && type.item_bytes() != 1) return bad_samples("masks", from.bits);
  const bool is_complex = from.kind == sample_kind::complex_integer || from.kind == sample_kind::complex_floating;
  if (from.predictor < 1 || from.predictor > 3) {
    return error{errc::unsupported, fmt::format("predictor {} is not readable; there are 1, 2 and 3", from.predictor)};
  }
  if (from.predictor == 3 && from.kind != sample_kind::floating) {
    return error{errc::corrupt_data, fmt::format("predictor 3 is for floats, the samples are {}", type.name())};
  }
  // The only writer of this kind treats a complex number as one integer, which has no meaning in the other byte order.
  if (from.predictor == 2 && is_complex && (from.bits > 64 || from.big_endian)) {
    return error{errc::unsupported, fmt::format("predictor 2 of {}-bit complex numbers is not readable", from.bits)};
  }
  return std::shared_ptr<const byte_codec>(std::make_shared<samples_codec>(from, type, std::move(picked)));
}

}  // namespace penstock::inline v0
