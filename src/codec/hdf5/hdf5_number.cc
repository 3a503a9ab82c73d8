// hdf5.number: converts numbers with unusual widths and fields to numbers of 4 or 8 bytes, or to long doubles of 16.

#include "codec/hdf5/hdf5_number.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "codec/codec_members.h"
#include "codec/decode_only.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kExtendedBytes = 16;

class number_codec final : public decode_only_codec {
 public:
  number_codec(hdf5_number_form form, std::size_t item)
      : decode_only_codec("hdf5.number", fmt::format("hdf5.number(of {} bytes)", form.bytes)),
        form_(form),
        item_(item) {}

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    return saturating_mul(decoded_bytes / item_ + 1, form_.bytes);
  }
  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (encoded.size() % form_.bytes != 0)
      return damaged(fmt::format("{} bytes are not a multiple of a number's {}", encoded.size(), form_.bytes));
    const std::size_t count = encoded.size() / form_.bytes;
    PENSTOCK_ASSIGN(const auto room, take(out, std::uint64_t{count} * item_, scratch));
    for (std::size_t i = 0; i < count; ++i)
      convert(encoded.subspan(i * form_.bytes, form_.bytes), room.data() + i * item_);
    return std::span<const std::byte>(room);
  }

 private:
  // Converts to the order of this machine: the codec `bytes` has no byte order, or that one.
  void convert(std::span<const std::byte> from, std::byte* to) const noexcept {
    if (!form_.floating) return store_little(form_.integer(from), to);
    if (item_ == kExtendedBytes) return form_.extended(from, to);
    const double value = form_.real(from);
    std::uint64_t bits = 0;
    if (item_ == sizeof value) {
      std::memcpy(&bits, &value, sizeof value);
    } else {
      const auto single = static_cast<float>(value);
      std::memcpy(&bits, &single, sizeof single);
    }
    store_little(bits, to);
  }

  void store_little(std::uint64_t value, std::byte* to) const noexcept {
    for (std::size_t i = 0; i < item_; ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
  }

  hdf5_number_form form_;
  std::size_t item_;
};

}  // namespace

result<compiled_codec> make_hdf5_number_codec(const codec_config& config, const stage_type& input) {
  constexpr std::int64_t kMostBytes = 16, kMostBits = 8 * kMostBytes;
  PENSTOCK_ASSIGN(
      const codec_members members,
      codec_members::of(config, {"elementsize", "to", "endian", "kind", "precision", "offset", "signed", "sign",
                                 "exponent", "exponent_bits", "mantissa", "mantissa_bits", "bias", "implied"}));
  hdf5_number_form form;
  const auto number = [&](std::string_view name, std::int64_t least, std::int64_t most, std::uint32_t& to) -> result<> {
    PENSTOCK_ASSIGN(const std::int64_t value, members.integer(name, least, most));
    to = static_cast<std::uint32_t>(value);
    return {};
  };
  constexpr std::string_view kOrders[] = {"little", "big", "vax"}, kKinds[] = {"integer", "float"};
  PENSTOCK_ASSIGN(const std::int64_t item, members.integer("to", 4, kExtendedBytes));
  if (item != 4 && item != 8 && item != kExtendedBytes)
    return error{errc::corrupt_data, "codec 'hdf5.number' makes numbers of 4 or 8 bytes, or long doubles of 16"};
  PENSTOCK_TRY(number("elementsize", 1, kMostBytes, form.bytes));
  PENSTOCK_ASSIGN(const std::size_t order, members.choice("endian", kOrders, 0));
  PENSTOCK_ASSIGN(const std::size_t kind, members.choice("kind", kKinds));
  form.big_endian = order == 1;
  form.vax = order == 2;
  form.floating = kind == 1;
  if (form.vax && (!form.floating || form.bytes % 2 != 0))
    return error{errc::corrupt_data, "codec 'hdf5.number' has the order of VAX for floats of whole words of 16 bits"};
  const std::int64_t bits = 8 * static_cast<std::int64_t>(form.bytes);
  if (form.floating) {
    PENSTOCK_TRY(number("sign", 0, bits - 1, form.sign));
    PENSTOCK_TRY(number("exponent_bits", 1, 31, form.exponent_bits));
    PENSTOCK_TRY(number("exponent", 0, bits - form.exponent_bits, form.exponent));
    PENSTOCK_TRY(number("mantissa_bits", 0, 64, form.mantissa_bits));
    PENSTOCK_TRY(number("mantissa", 0, bits - form.mantissa_bits, form.mantissa));
    PENSTOCK_TRY(number("bias", 0, std::int64_t{0xFFFFFFFF}, form.bias));
    PENSTOCK_ASSIGN(form.implied, members.boolean("implied", true));
  } else {
    PENSTOCK_TRY(number("precision", 1, std::min<std::int64_t>(bits, 64), form.precision));
    PENSTOCK_TRY(number("offset", 0, std::min(bits - form.precision, kMostBits), form.offset));
    PENSTOCK_ASSIGN(form.is_signed, members.boolean("signed", false));
  }
  if (item == kExtendedBytes && !form.is_extended())
    return error{errc::corrupt_data, "codec 'hdf5.number' makes long doubles of 16 bytes from those of x87 only"};
  return compressed_stage(std::make_shared<number_codec>(form, static_cast<std::size_t>(item)), input);
}

}  // namespace penstock::inline v0
