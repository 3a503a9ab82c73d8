#include <fmt/format.h>

#include "codec/device_form.h"
#include "codec/filters/number_codec.h"

namespace penstock::inline v0 {
namespace {

// Wraps as in NumPy; a difference of booleans is whether they differ.
template <class T>
T minus(T a, T b) noexcept {
  if constexpr (std::is_same_v<T, half>) {
    return half(static_cast<double>(static_cast<float>(a) - static_cast<float>(b)));
  } else if constexpr (std::is_same_v<T, truth>) {
    return static_cast<truth>((static_cast<int>(a) != 0) != (static_cast<int>(b) != 0));
  } else if constexpr (std::is_integral_v<T>) {
    using word = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<word>(static_cast<word>(a) - static_cast<word>(b)));
  } else {
    return a - b;
  }
}
// NumPy's sum of booleans is "or": numcodecs does not decode these differences to the original values.
template <class T>
T plus(T a, T b) noexcept {
  if constexpr (std::is_same_v<T, half>) {
    return half(static_cast<double>(static_cast<float>(a) + static_cast<float>(b)));
  } else if constexpr (std::is_same_v<T, truth>) {
    return static_cast<truth>(static_cast<int>(a) != 0 || static_cast<int>(b) != 0);
  } else if constexpr (std::is_integral_v<T>) {
    using word = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<word>(static_cast<word>(a) + static_cast<word>(b)));
  } else {
    return a + b;
  }
}

class delta_codec final : public number_codec {
 public:
  explicit delta_codec(const number_types& types)
      : number_codec(types.decoded_number, types.encoded_number),
        sum_(promote(decoded_.kind, encoded_.kind)),
        description_(fmt::format("delta({}, astype={})", types.decoded.type.name(), types.encoded.type.name())) {}

  std::string_view name() const override { return "delta"; }
  std::string describe() const override { return description_; }

  // Sums of floats depend on their order, and those of booleans do not wrap.
  std::optional<device_form> form_on_device() const override {
    if (!is_integer(decoded_.kind) || !is_integer(encoded_.kind) || !is_integer(sum_))
      return device_form::of(device_form::kind::other_settings);
    device_form out = device_form::of(device_form::kind::delta);
    out.decoded = decoded_;
    out.encoded = encoded_;
    return out;
  }

 private:
  result<> decode_numbers(std::span<const std::byte> encoded, std::byte* out) const override {
    visit_number(sum_, [&]<class T>(number_tag<T>) {
      bool first = true;
      T sum{};
      transform_numbers(encoded, encoded_, sum_, sum_, decoded_, out,
                        [&](const std::byte* from, std::byte* to, std::size_t count) {
                          std::size_t i = 0;
                          if (first) store_item<T>(to, i, sum = load_item<T>(from, i)), ++i;
                          first = false;
                          for (; i < count; ++i) store_item<T>(to, i, sum = plus<T>(sum, load_item<T>(from, i)));
                        });
    });
    return {};
  }

  result<> encode_numbers(std::span<const std::byte> decoded, std::byte* out) const override {
    visit_number(decoded_.kind, [&]<class T>(number_tag<T>) {
      bool first = true;
      T last{};
      transform_numbers(decoded, decoded_, decoded_.kind, decoded_.kind, encoded_, out,
                        [&](const std::byte* __restrict from, std::byte* __restrict to, std::size_t count) {
                          const T begin = load_item<T>(from, 0);
                          store_item<T>(to, 0, first ? begin : minus<T>(begin, last));
                          for (std::size_t i = 1; i < count; ++i) {
                            store_item<T>(to, i, minus<T>(load_item<T>(from, i), load_item<T>(from, i - 1)));
                          }
                          last = load_item<T>(from, count - 1);
                          first = false;
                        });
    });
    return {};
  }

  number sum_;
  std::string description_;
};

}  // namespace

result<compiled_codec> make_delta_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"dtype", "astype"}));
  PENSTOCK_ASSIGN(const number_types types, number_types::of(members, input, "dtype", "astype"));
  return filter_stage(std::make_shared<delta_codec>(types), input, types.decoded.type, types.encoded);
}

}  // namespace penstock::inline v0
