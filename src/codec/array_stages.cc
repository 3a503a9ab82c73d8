#include "codec/array_stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>

#include "codec/codec_members.h"

namespace penstock::inline v0 {
namespace {

// `order[i]` is the input's dimension that becomes the output's i-th.
result<dim_vector<std::uint32_t>> transpose_order(const codec_config& config, std::size_t rank) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"order"}));
  PENSTOCK_ASSIGN(const json::array_t* const list, members.list("order"));
  const auto wrong = [&] {
    return error{errc::corrupt_data,
                 fmt::format("codec 'transpose': 'order' should be a permutation of {} dimensions, is {}", rank,
                             config.configuration.find("order")->dump())};
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

result<bool> swaps_bytes(const codec_config& config, dtype type, std::string& description) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"endian"}));
  constexpr std::string_view kOrders[] = {"little", "big"};
  constexpr std::size_t kBig = 1;
  constexpr std::size_t kNative = std::endian::native == std::endian::big ? kBig : 0;
  if (!members.has("endian")) {
    // Opaque items of several bytes (r24) have no byte order either.
    if (type.swap_bytes() > 1) {
      return error{errc::corrupt_data, fmt::format("codec 'bytes' needs the setting 'endian' for {} of {} bytes",
                                                   type.name(), type.item_bytes())};
    }
    description += "bytes";
    return false;
  }
  PENSTOCK_ASSIGN(const std::size_t order, members.choice("endian", kOrders));
  description += order == kBig ? "bytes(big)" : "bytes(little)";
  return order != kNative && type.swap_bytes() > 1;
}

}  // namespace

result<array_stages> compile_array_stages(std::span<const codec_config> codecs, dtype type, std::size_t rank) {
  array_stages made;
  for (std::uint32_t d = 0; d < rank; ++d) made.stored_axes.push_back(d);
  for (const codec_config& config : codecs) {
    ++made.used;
    if (config.name == "transpose") {
      PENSTOCK_ASSIGN(const auto order, transpose_order(config, rank));
      const auto before = made.stored_axes;
      for (std::size_t i = 0; i < rank; ++i) made.stored_axes[i] = before[order[i]];
      made.description += fmt::format("transpose({}) | ", fmt::join(order, ", "));
    } else if (config.name == "bytes") {
      PENSTOCK_ASSIGN(made.swap, swaps_bytes(config, type, made.description));
      return made;
    } else {
      // A known name is a codec in the wrong place, anything else is unknown.
      PENSTOCK_TRY(make_byte_codec(config, type.item_bytes()));
      return error{errc::corrupt_data,
                   fmt::format("codec '{}' works on bytes, no array-to-bytes codec stands before it", config.name)};
    }
  }
  return error{errc::corrupt_data, fmt::format("the list of {} codecs has no array-to-bytes codec", codecs.size())};
}

}  // namespace penstock::inline v0
