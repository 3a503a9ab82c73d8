// Codecs that change an array's shape and keep its bytes.

#include <fmt/format.h>

#include <cstring>

#include "base/checked.h"
#include "codec/byte_codecs.h"
#include "codec/codec_members.h"

namespace penstock::inline v0 {
namespace {

class reshape_codec final : public byte_codec {
 public:
  reshape_codec(std::string_view name, const extents& shape)
      : name_(name), description_(fmt::format("{}{}", name, to_string(shape))) {}

  std::string_view name() const override { return name_; }
  std::string describe() const override { return description_; }
  bool decodes_in_place() const noexcept override { return true; }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override { return decoded_bytes; }
  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte>,
                                            worker_scratch&) const override {
    return encoded;
  }
  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    if (!decoded.empty()) std::memcpy(out.data(), decoded.data(), decoded.size());
    return decoded.size();
  }

 private:
  std::string_view name_;
  std::string description_;
};

compiled_codec reshaped(std::string_view name, const stage_type& input, const extents& shape) {
  stage_type output = input;
  output.shape = shape;
  return {std::make_shared<reshape_codec>(name, shape), std::move(output)};
}

/// The product of dimensions `from` to `to`.
result<std::uint64_t> product(const extents& shape, std::size_t from, std::size_t to) {
  std::uint64_t all = 1;
  for (std::size_t d = from; d < to; ++d) {
    if (!checked_mul(all, shape[d], all)) return error{errc::unsupported, "a shape has 2^64 elements or more"};
  }
  return all;
}

}  // namespace

result<compiled_codec> make_reshape_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"shape"}));
  PENSTOCK_ASSIGN(const json::array_t* const list, members.list("shape"));
  const auto wrong = [&](std::string_view why) {
    return error{errc::corrupt_data, fmt::format("codec 'reshape': shape {} {}, the array has shape {}",
                                                 members.find("shape")->dump(), why, to_string(input.shape))};
  };
  const std::size_t rank = input.shape.size();
  if (list->size() > kMaxRank) return error{errc::unsupported, fmt::format("{} dimensions", list->size())};
  extents shape;
  std::vector<std::pair<std::size_t, std::size_t>> taken(list->size());  // the input's dimensions of each
  std::size_t open = list->size(), next = 0;
  std::uint64_t known = 1;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const json& each = (*list)[i];
    std::int64_t size = 0;
    if (each.get(size)) {
      if (size == -1 && open == list->size()) {
        open = i;
        shape.push_back(1);
        continue;
      }
      if (size <= 0) return wrong("has an invalid length");
      shape.push_back(static_cast<std::uint64_t>(size));
    } else if (const json::array_t* const dims = each.as_array()) {
      if (dims->empty()) return wrong("names no dimension");
      std::uint64_t length = 1;
      for (const json& dim : *dims) {
        std::uint64_t d = 0;
        if (!dim.get(d) || d >= rank || d < next) return wrong("does not name dimensions in their order");
        if (taken[i].second != 0 && d != next) return wrong("joins dimensions that are not neighbours");
        if (taken[i].second == 0) taken[i].first = static_cast<std::size_t>(d);
        next = static_cast<std::size_t>(d) + 1;
        taken[i].second = next;
        if (!checked_mul(length, input.shape[d], length)) return wrong("does not fit in 64 bits");
      }
      shape.push_back(length);
    } else {
      return wrong("has an invalid length");
    }
    if (!checked_mul(known, shape[i], known)) return wrong("does not fit in 64 bits");
  }
  PENSTOCK_ASSIGN(const std::uint64_t elements, product(input.shape, 0, rank));
  if (open < list->size()) {
    if (known == 0 || elements % known != 0) return wrong("does not divide its elements");
    shape[open] = elements / known;
    known = elements;
  }
  if (known != elements) return wrong("has another number of elements");
  for (std::size_t i = 0; i < list->size(); ++i) {
    if (taken[i].second == 0) continue;
    PENSTOCK_ASSIGN(const std::uint64_t before, product(input.shape, 0, taken[i].first));
    PENSTOCK_ASSIGN(const std::uint64_t made_before, product(shape, 0, i));
    if (before != made_before) return wrong("names dimensions at other positions");
  }
  return reshaped("reshape", input, shape);
}

result<compiled_codec> make_squeeze_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_TRY(codec_members::of(config, {}));
  extents shape;
  for (const std::uint64_t length : input.shape) {
    if (length != 1) shape.push_back(length);
  }
  return reshaped("squeeze", input, shape);
}

}  // namespace penstock::inline v0
