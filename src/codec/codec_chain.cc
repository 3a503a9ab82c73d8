#include "codec/codec_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "array/strided_copy.h"
#include "base/checked.h"
#include "codec/array_stages.h"
#include "codec/byte_codecs.h"

namespace penstock::inline v0 {
namespace {

// Strides of dimensions with one element (or none) do not matter.
bool same_strides(const extents& shape, const strides& a, const strides& b) noexcept {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && a[d] != b[d]) return false;
  }
  return true;
}

// A checksum does not change the length by choice: neither its own encoder's nor another's.
bool is_checksum(const byte_codec& stage) { return stage.name() == "crc32c"; }

// The most bytes that are taken for what some encoder made from `decoded_bytes`; others may do worse than ours.
std::uint64_t encoded_limit(const byte_codec& stage, std::uint64_t decoded_bytes) {
  const std::uint64_t ours = stage.max_encoded_bytes(decoded_bytes);
  if (is_checksum(stage)) return ours;
  return std::max(ours, saturating_add(saturating_add(decoded_bytes, decoded_bytes), 64 * 1024));
}

}  // namespace

result<codec_chain> codec_chain::compile(std::span<const codec_config> codecs, dtype type, const extents& cell) {
  if (type.variable_length()) {
    return error{errc::unsupported, fmt::format("codecs of the variable-length type {} cannot be read", type.name())};
  }
  PENSTOCK_ASSIGN(const array_stages head, compile_array_stages(codecs, type, cell.size()));
  codec_chain made;
  made.type_ = type;
  made.cell_ = cell;
  made.array_stages_ = head.description;
  made.swap_bytes_ = head.swap ? type.swap_bytes() : 1;

  PENSTOCK_ASSIGN(const std::uint64_t elements, element_count(cell));
  if (!checked_mul(elements, type.item_bytes(), made.decoded_bytes_) ||
      made.decoded_bytes_ > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return error{errc::unsupported, fmt::format("a chunk of shape {} leaves 63 bits of bytes", to_string(cell))};
  }
  extents stored_shape(cell.size());
  for (std::size_t j = 0; j < cell.size(); ++j) stored_shape[j] = cell[head.stored_axes[j]];
  const strides stored = c_order_strides(stored_shape, type.item_bytes());
  made.stored_strides_.resize(cell.size());
  for (std::size_t j = 0; j < cell.size(); ++j) made.stored_strides_[head.stored_axes[j]] = stored[j];

  std::uint64_t limit = made.decoded_bytes_;
  for (const codec_config& config : codecs.subspan(head.used)) {
    if (std::find(kArrayCodecNames.begin(), kArrayCodecNames.end(), config.name) != kArrayCodecNames.end()) {
      return error{errc::corrupt_data,
                   fmt::format("codec '{}' works on arrays, it follows the array-to-bytes codec 'bytes'", config.name)};
    }
    PENSTOCK_ASSIGN(auto stage, make_byte_codec(config, type.item_bytes()));
    made.stage_limits_.push_back(limit);
    limit = encoded_limit(*stage, limit);
    made.fixed_size_ = made.fixed_size_ && is_checksum(*stage);
    made.stages_.push_back(std::move(stage));
  }
  made.max_encoded_bytes_ = limit;
  made.identity_ = made.stages_.empty() && made.swap_bytes_ == 1 &&
                   same_strides(cell, made.stored_strides_, c_order_strides(cell, type.item_bytes()));
  return made;
}

result<> codec_chain::decode(std::span<const std::byte> encoded, const decode_target& target,
                             worker_scratch& scratch) const {
  // The decoded bytes are a block that the target has too, apart from byte order, which is then changed in place.
  const bool same_block = target.covers_cell && same_strides(cell_, target.strides, stored_strides_);
  std::span<const std::byte> current = encoded;
  std::size_t other = 0;  // the stage buffer that `current` does not lie in
  for (std::size_t i = stages_.size(); i-- > 0;) {
    const byte_codec& stage = *stages_[i];
    std::span<std::byte> out;
    if (i == 0 && same_block) {
      out = {target.data, decoded_bytes_};
    } else if (!is_checksum(stage)) {
      buffer& room = scratch.stage(i == 0 ? 2 : other);
      PENSTOCK_ASSIGN(const auto reserved, room.reserve(stage_limits_[i]));
      out = reserved.first(stage_limits_[i]);
      other ^= 1;
    }
    auto decoded = stage.decode(current, out, scratch);
    if (!decoded.ok()) return std::move(decoded).error().note("decoding with " + stage.describe());
    current = *decoded;
  }
  if (current.size() != decoded_bytes_) {
    return error{errc::corrupt_data,
                 fmt::format("chunk decoded to {} bytes, its shape needs {}", current.size(), decoded_bytes_)}
        .note("decoding with " + (stages_.empty() ? array_stages_ : stages_.front()->describe()));
  }
  if (decoded_bytes_ == 0) return {};

  // Items are copied as bytes: a bool other than 0 or 1 stays what it is, as in zarr-python.
  if (same_block) {
    if (swap_bytes_ > 1) {
      swap_contiguous(target.data, current.data(), decoded_bytes_, swap_bytes_);
    } else if (current.data() != target.data) {
      std::memcpy(target.data, current.data(), decoded_bytes_);
    }
    return {};
  }
  const std::byte* from = current.data();
  if (scratch.timed) scratch.scatter_began = std::chrono::steady_clock::now();
  if (target.covers_cell) {
    strided_copy(target.data, target.strides, from, stored_strides_, cell_, type_.item_bytes(), swap_bytes_);
    return {};
  }
  extents counts(cell_.size());
  strides steps(cell_.size());
  for (std::size_t d = 0; d < cell_.size(); ++d) {
    const axis_range& wanted = (*target.in_cell)[d];
    counts[d] = wanted.count;
    steps[d] = wanted.step * stored_strides_[d];
    from += wanted.start * stored_strides_[d];
  }
  strided_copy(target.data, target.strides, from, steps, counts, type_.item_bytes(), swap_bytes_);
  return {};
}

result<std::uint64_t> codec_chain::encode(const tensor_view& cell, std::span<std::byte> out,
                                          worker_scratch& scratch) const {
  if (!(cell.extents == cell_) || !(cell.type == type_) || cell.space != memory_space::host) {
    return error{errc::invalid_argument,
                 fmt::format("a chunk of {} {} cannot be encoded as one of {} {}", cell.type.name(),
                             to_string(cell.extents), type_.name(), to_string(cell_))};
  }
  const auto too_small = [&](std::uint64_t needed) {
    return error{errc::invalid_argument,
                 fmt::format("an encoded chunk may need {} bytes, room is for {}", needed, out.size())};
  };
  std::span<const std::byte> current(cell.data, decoded_bytes_);
  if (stages_.empty() || swap_bytes_ > 1 || !same_strides(cell_, cell.strides, stored_strides_)) {
    std::span<std::byte> gathered = out;
    if (!stages_.empty()) {
      PENSTOCK_ASSIGN(gathered, scratch.stage(2).reserve(decoded_bytes_));
    } else if (out.size() < decoded_bytes_) {
      return too_small(decoded_bytes_);
    }
    if (decoded_bytes_ > 0) {
      strided_copy(gathered.data(), stored_strides_, cell.data, cell.strides, cell_, type_.item_bytes(), swap_bytes_);
    }
    current = gathered.first(decoded_bytes_);
  }
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const byte_codec& stage = *stages_[i];
    const std::uint64_t needed = stage.max_encoded_bytes(current.size());
    std::span<std::byte> room = out;
    if (i + 1 < stages_.size()) {
      PENSTOCK_ASSIGN(room, scratch.stage(i % 2).reserve(needed));
    } else if (out.size() < needed) {
      return too_small(needed);
    }
    auto encoded = stage.encode(current, room, scratch);
    if (!encoded.ok()) return std::move(encoded).error().note("encoding with " + stage.describe());
    current = std::span<const std::byte>(room.data(), *encoded);
  }
  return current.size();
}

std::string codec_chain::describe() const {
  std::string text = array_stages_;
  for (const auto& stage : stages_) text += " | " + stage->describe();
  return text;
}

}  // namespace penstock::inline v0
