#include "codec/filters/array_stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "array/item_swap.h"
#include "array/strided_copy.h"
#include "base/counted.h"
#include "codec/codec_members.h"

namespace penstock::inline v0 {
namespace {

// `order[i]` is the input's dimension that becomes the output's i-th.
result<dim_vector<std::uint32_t>> transpose_order(const codec_config& config, std::size_t rank) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"order"}));
  PENSTOCK_ASSIGN(const json::array_t* const list, members.list("order"));
  const auto wrong = [&] {
    return error{errc::corrupt_data,
                 fmt::format("codec 'transpose': 'order' should be a permutation of {}, is {}",
                             counted(rank, "dimension"), config.configuration.find("order")->dump())};
  };
  if (list->size() != rank) return wrong();
  dim_vector<std::uint32_t> order;
  std::uint64_t seen = 0;
  for (const json& item : *list) {
    std::uint64_t axis = 0;
    if (!item.get(axis) || axis >= rank || (seen >> axis & 1) != 0) return wrong();
    seen |= std::uint64_t{1} << axis;
    order.push_back(static_cast<std::uint32_t>(axis));
  }
  return order;
}

/// The settings of `bytes`: one byte order, or one for each leaf of a structure.
struct byte_order {
  bool big = false;
  std::vector<bool> leaves;  // empty: all as `big`
  std::string description = "bytes";

  bool swaps(const dtype& type) const noexcept { return leaves.empty() && big != kNativeBig && type.has_byte_order(); }
};

result<byte_order> read_byte_order(const codec_config& config, const dtype& type, bool leaves_may_differ) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"endian"}));
  constexpr std::string_view kOrders[] = {"little", "big"};
  byte_order made;
  made.big = kNativeBig;
  if (!members.has("endian")) {
    // Opaque items of several bytes (r24) have no byte order. zarr-python before 3.2 wrote structures in this way.
    if (type.kind() == dtype_kind::structured) made.big = false;
    if (type.has_byte_order() && type.kind() != dtype_kind::structured) {
      return error{errc::corrupt_data, fmt::format("codec 'bytes' needs the setting 'endian' for {} of {} bytes",
                                                   type.name(), type.item_bytes())};
    }
    return made;
  }
  const json::array_t* const list = config.configuration.find("endian")->as_array();
  if (list != nullptr && leaves_may_differ) {
    for (const json& each : *list) {
      const std::string* const text = each.as_string();
      if (text == nullptr || (*text != "little" && *text != "big")) {
        return error{errc::corrupt_data, fmt::format("codec 'bytes': 'endian' is {}", list->size())};
      }
      made.leaves.push_back((*text == "big") != kNativeBig);
    }
    if (made.leaves.size() != leaf_count(type)) {
      return error{errc::corrupt_data, fmt::format("codec 'bytes': 'endian' lists {} byte orders, {} has {} fields",
                                                   made.leaves.size(), type.name(), leaf_count(type))};
    }
    made.description = "bytes(mixed)";
    return made;
  }
  PENSTOCK_ASSIGN(const std::size_t order, members.choice("endian", kOrders));
  made.big = order == 1;
  made.description = made.big ? "bytes(big)" : "bytes(little)";
  return made;
}

error wrong_size(std::string_view codec, std::uint64_t has, std::uint64_t needs) {
  return {errc::corrupt_data, fmt::format("codec '{}' got {}, its array has {}", codec, counted(has, "byte"), needs)};
}

/// A transpose that follows other array codecs.
class transpose_codec final : public byte_codec {
 public:
  transpose_codec(const dim_vector<std::uint32_t>& order, const stage_type& input, std::string description)
      : description_(std::move(description)),
        shape_(input.shape),
        item_bytes_(input.type.item_bytes()),
        bytes_(input.bytes()),
        array_(c_order_strides(shape_, item_bytes_)),
        stored_(shape_.size()) {
    extents moved(shape_.size());
    for (std::size_t i = 0; i < order.size(); ++i) moved[i] = shape_[order[i]];
    const strides packed = c_order_strides(moved, item_bytes_);
    for (std::size_t i = 0; i < order.size(); ++i) stored_[order[i]] = packed[i];
  }

  std::string_view name() const override { return "transpose"; }
  std::string describe() const override { return description_; }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override { return decoded_bytes; }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch&) const override {
    if (encoded.size() != bytes_ || out.size() < bytes_) return wrong_size("transpose", encoded.size(), bytes_);
    if (bytes_ != 0) strided_copy(out.data(), array_, encoded.data(), stored_, shape_, item_bytes_, 1);
    return std::span<const std::byte>(out.data(), bytes_);
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    if (decoded.size() != bytes_) return wrong_size("transpose", decoded.size(), bytes_);
    if (bytes_ != 0) strided_copy(out.data(), stored_, decoded.data(), array_, shape_, item_bytes_, 1);
    return bytes_;
  }

 private:
  std::string description_;
  extents shape_;
  std::uint32_t item_bytes_;
  std::uint64_t bytes_;
  strides array_, stored_;
};

/// A byte order that follows other array codecs, or that of structures.
class swap_codec final : public byte_codec {
 public:
  swap_codec(const dtype& type, byte_order order) : type_(type), order_(std::move(order)) {}

  std::string_view name() const override { return "bytes"; }
  std::string describe() const override { return order_.description; }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override { return decoded_bytes; }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (encoded.size() > out.size()) {
      scratch.out_of_room = true;
      return wrong_size("bytes", encoded.size(), out.size());
    }
    PENSTOCK_TRY(swap(encoded, out));
    return std::span<const std::byte>(out.data(), encoded.size());
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    PENSTOCK_TRY(swap(decoded, out));
    return decoded.size();
  }

 private:
  result<> swap(std::span<const std::byte> from, std::span<std::byte> to) const {
    const std::uint64_t item_bytes = std::max<std::uint32_t>(1, type_.item_bytes());
    const std::uint64_t items = from.size() / item_bytes;
    if (items * item_bytes != from.size()) {
      return error{errc::corrupt_data, fmt::format("codec 'bytes' got {} bytes, which items of {} do not divide",
                                                   from.size(), type_.item_bytes())};
    }
    if (from.empty()) return {};
    if (type_.fields().empty()) {
      swap_contiguous(to.data(), from.data(), from.size(), type_.swap_bytes());
      return {};
    }
    std::memcpy(to.data(), from.data(), from.size());
    swap_items(to.data(), items, type_, order_.leaves);
    return {};
  }

  dtype type_;
  byte_order order_;
};

}  // namespace

result<array_stages> compile_array_stages(std::span<const codec_config> codecs, const dtype& type, const extents& cell,
                                          const codec_chain_options& options) {
  array_stages made;
  const std::size_t rank = cell.size();
  for (std::uint32_t d = 0; d < rank; ++d) made.stored_axes.push_back(d);
  made.output.type = type;
  made.output.big_endian = kNativeBig;
  for (const codec_config& config : codecs) {
    if (config.name != "transpose") break;
    ++made.used;
    PENSTOCK_ASSIGN(const auto order, transpose_order(config, rank));
    const auto before = made.stored_axes;
    for (std::size_t i = 0; i < rank; ++i) made.stored_axes[i] = before[order[i]];
    made.description += fmt::format("{}transpose({})", made.description.empty() ? "" : " | ", fmt::join(order, ", "));
  }
  for (std::size_t j = 0; j < rank; ++j) made.output.shape.push_back(cell[made.stored_axes[j]]);
  // A codec that neither transposes nor swaps equal units is a stage.
  if (made.used == codecs.size() || codecs[made.used].name != "bytes" || type.variable_length()) return made;
  PENSTOCK_ASSIGN(const byte_order order, read_byte_order(codecs[made.used], type, options.stored_order_filters));
  const bool structure = !type.fields().empty();
  if (!order.leaves.empty() || (structure && order.swaps(type))) return made;
  ++made.used;
  made.swap = order.swaps(type);
  made.description += (made.description.empty() ? "" : " | ") + order.description;
  if (options.stored_order_filters) {
    made.output.big_endian = order.big;
  } else {
    made.output = stage_type::bytes_of(type, made.output.bytes(), true);
  }
  return made;
}

result<compiled_codec> make_transpose_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const auto order, transpose_order(config, input.shape.size()));
  auto codec = std::make_shared<transpose_codec>(order, input, fmt::format("transpose({})", fmt::join(order, ", ")));
  stage_type output = input;
  for (std::size_t i = 0; i < order.size(); ++i) output.shape[i] = input.shape[order[i]];
  return compiled_codec{std::move(codec), output};
}

result<compiled_codec> make_bytes_codec(const codec_config& config, const stage_type& input,
                                        const codec_chain_options& options, std::string& description) {
  if (input.type.variable_length()) {
    return error{errc::unsupported,
                 fmt::format("codec 'bytes' does not support elements of variable length ({})", input.type.name())};
  }
  PENSTOCK_ASSIGN(byte_order order, read_byte_order(config, input.type, options.stored_order_filters));
  description = order.description;
  stage_type output = input;
  if (options.stored_order_filters) {
    output.big_endian = order.big;
  } else {
    output = stage_type::bytes_of(input.type, input.bytes(), input.exact);
  }
  std::shared_ptr<const byte_codec> codec;
  // Codecs before it may have produced items with a byte order of their own.
  const bool swaps = order.leaves.empty() && order.big != input.big_endian && input.type.has_byte_order();
  if (swaps || !order.leaves.empty()) codec = std::make_shared<swap_codec>(input.type, std::move(order));
  return compiled_codec{std::move(codec), output};
}

}  // namespace penstock::inline v0
