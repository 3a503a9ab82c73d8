// A part of a chunk: the box that a virtual dataset shows of another dataset's chunk.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <utility>

#include "array/strided_copy.h"
#include "base/checked.h"
#include "codec/byte_codecs.h"
#include "codec/codec_members.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kName = "reference.window";

/// Decodes the bytes of a whole chunk to those of a box of its items, in C order.
class window_codec final : public byte_codec {
 public:
  window_codec(std::uint64_t chunk, std::uint64_t offset, extents shape, strides steps, std::uint32_t item,
               std::uint64_t bytes)
      : chunk_(chunk),
        offset_(offset),
        shape_(std::move(shape)),
        steps_(std::move(steps)),
        packed_(c_order_strides(shape_, item)),
        item_(item),
        bytes_(bytes) {}

  std::string_view name() const override { return kName; }
  std::string describe() const override {
    return fmt::format("{}(offset={}, shape={})", kName, offset_, to_string(shape_));
  }
  std::uint64_t max_encoded_bytes(std::uint64_t) const override { return chunk_; }
  result<std::uint64_t> encode(std::span<const std::byte>, std::span<std::byte>, worker_scratch&) const override {
    return error(errc::unsupported, fmt::format("codec '{}' can only decode", kName));
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch&) const override {
    if (encoded.size() != chunk_)
      return error(errc::corrupt_data,
                   fmt::format("{} data: a chunk of {} bytes, its shape needs {}", kName, encoded.size(), chunk_));
    strided_copy(out.data(), packed_, encoded.data() + offset_, steps_, shape_, item_, 1);
    return std::span<const std::byte>(out.first(static_cast<std::size_t>(bytes_)));
  }

 private:
  std::uint64_t chunk_, offset_;
  extents shape_;
  strides steps_, packed_;
  std::uint32_t item_;
  std::uint64_t bytes_;
};

result<std::vector<std::uint64_t>> numbers(const codec_members& members, std::string_view name) {
  PENSTOCK_ASSIGN(const json::array_t* const list, members.list(name));
  std::vector<std::uint64_t> out;
  for (const json& each : *list) {
    std::uint64_t value = 0;
    if (!each.get(value) || value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return error(errc::corrupt_data, fmt::format("codec '{}': '{}' has a number that is not a length", kName, name));
    out.push_back(value);
  }
  return out;
}

}  // namespace

// `chunk`: bytes of the whole chunk; `offset`: of the first item; `shape` and `strides` (bytes): of the box.
result<compiled_codec> make_window_codec(const codec_config& config, const stage_type& input) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"chunk", "offset", "shape", "strides"}));
  PENSTOCK_ASSIGN(const std::int64_t chunk, members.integer("chunk", 1, kMost));
  PENSTOCK_ASSIGN(const std::int64_t offset, members.integer("offset", 0, kMost));
  PENSTOCK_ASSIGN(const std::vector<std::uint64_t> shape, numbers(members, "shape"));
  PENSTOCK_ASSIGN(const std::vector<std::uint64_t> steps, numbers(members, "strides"));
  const auto refuse = [](std::string_view why) {
    return error(errc::corrupt_data, fmt::format("codec '{}': {}", kName, why));
  };
  if (input.type.variable_length()) return refuse("elements of variable length have no windows");
  if (shape.size() != steps.size() || shape.size() > kMaxRank) return refuse("'shape' and 'strides' differ in length");
  const std::uint32_t item = input.type.item_bytes();
  std::uint64_t bytes = item, end = static_cast<std::uint64_t>(offset);
  extents box;
  strides by;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return refuse("the box is empty");
    std::uint64_t last = 0;
    if (!checked_mul(bytes, shape[d], bytes) || !checked_mul(shape[d] - 1, steps[d], last) ||
        !checked_add(end, last, end))
      return refuse("the box exceeds the chunk");
    box.push_back(shape[d]);
    by.push_back(static_cast<std::int64_t>(steps[d]));
  }
  if (!checked_add(end, std::uint64_t{item}, end) || end > static_cast<std::uint64_t>(chunk))
    return refuse("the box exceeds the chunk");
  if (bytes != input.bytes()) return refuse(fmt::format("the box has {} bytes, a chunk {}", bytes, input.bytes()));
  auto made = std::make_shared<window_codec>(static_cast<std::uint64_t>(chunk), static_cast<std::uint64_t>(offset),
                                             std::move(box), std::move(by), item, bytes);
  return compiled_codec{std::move(made), stage_type::bytes_of(input.type, static_cast<std::uint64_t>(chunk), true)};
}

}  // namespace penstock::inline v0
