#include "codec/codec_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "array/converted_copy.h"
#include "array/element_bits.h"
#include "array/strided_copy.h"
#include "base/checked.h"
#include "base/counted.h"
#include "base/thrown.h"
#include "codec/byte_codecs.h"
#include "codec/filters/array_stages.h"
#include "codec/library_contexts.h"
#include "codec/row_codec.h"

namespace penstock::inline v0 {
namespace {

// Strides of dimensions with one element (or none) have no effect.
bool same_strides(const extents& shape, const strides& a, const strides& b) noexcept {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && a[d] != b[d]) return false;
  }
  return true;
}

/// Rows that are decoded before they are copied: they stay in the first level of the cache.
constexpr std::uint64_t kRowBlockBytes = std::uint64_t{16} << 10;
/// Shorter rows do not justify a call for each.
constexpr std::uint64_t kShortRowBytes = 256;

/// What threw an exception; the note has its name.
constexpr std::string_view kCodec = "the codec";

/// The codec that decodes a part of a chunk.
constexpr std::string_view kWindowName = "reference.window";

void append(std::string& list, std::string_view codec) {
  if (!list.empty()) list += " | ";
  list += codec;
}

// Only the bytes of selected items are copied. Their order is that of the stored cell.
void choose_items(const codec_chain& chain, const decode_target& target, worker_scratch::contexts& to) {
  constexpr std::uint64_t kMostBits = std::uint64_t{1} << 26;
  to.wanted_items = {};
  if ((target.covers_cell && target.indexed == nullptr) || !chain.stores_native_order() ||
      chain.decoded_bytes() / chain.type().item_bytes() > kMostBits)
    return;
  mark_elements(target.in_cell, target.indexed, chain.cell(), to.item_bits);
  to.wanted_items = to.item_bits;
}

}  // namespace

result<codec_chain> codec_chain::compile(std::span<const codec_config> codecs, const dtype& type, const extents& cell,
                                         const codec_chain_options& options) {
  PENSTOCK_ASSIGN(const array_stages head, compile_array_stages(codecs, type, cell, options));
  codec_chain made;
  made.type_ = type;
  made.cell_ = cell;
  made.head_ = made.description_ = head.description;
  made.swap_bytes_ = head.swap ? type.swap_bytes() : 1;
  made.variable_ = type.variable_length();

  PENSTOCK_ASSIGN(const std::uint64_t elements, element_count(cell));
  if (!checked_mul(elements, type.item_bytes(), made.decoded_bytes_) ||
      made.decoded_bytes_ > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return error{errc::unsupported, fmt::format("a chunk of shape {} has 2^63 bytes or more", to_string(cell))};
  }
  extents stored_shape(cell.size());
  for (std::size_t j = 0; j < cell.size(); ++j) stored_shape[j] = cell[head.stored_axes[j]];
  const strides stored = c_order_strides(stored_shape, type.item_bytes());
  made.stored_strides_.resize(cell.size());
  for (std::size_t j = 0; j < cell.size(); ++j) made.stored_strides_[head.stored_axes[j]] = stored[j];

  stage_type at = head.output;
  for (const codec_config& config : codecs.subspan(head.used)) PENSTOCK_TRY(made.add(config, options, at));
  if (at.is_array && (!options.stored_order_filters || at.type.variable_length())) {
    return error{errc::corrupt_data,
                 fmt::format("the list of {} has no array-to-bytes codec", counted(codecs.size(), "codec"))};
  }
  made.fixed_size_ = at.exact;
  made.max_encoded_bytes_ = at.bytes();
  if (!made.stages_.empty() && made.swap_bytes_ == 1 && made.decoded_bytes_ != 0) {
    const auto* const rows = dynamic_cast<const row_codec*>(made.stages_.front().codec.get());
    // The slowest stored dimension with more than one element.
    std::size_t j = 0;
    while (j + 1 < cell.size() && cell[head.stored_axes[j]] == 1) ++j;
    const std::size_t axis = j < cell.size() ? head.stored_axes[j] : 0;
    if (rows != nullptr && j < cell.size() &&
        rows->has_rows(cell[axis], static_cast<std::uint64_t>(made.stored_strides_[axis]))) {
      made.rows_ = rows;
      made.row_axis_ = axis;
    }
  }
  if (made.stages_.size() > 1 && made.stages_.front().config.name.ends_with(kWindowName)) {
    for (std::size_t i = 1; i < made.stages_.size(); ++i)
      append(made.below_window_, made.stages_[i].config.name + made.stages_[i].config.configuration.dump() +
                                     std::to_string(made.stages_[i].limit));
  }
  made.identity_ = made.stages_.empty() && made.swap_bytes_ == 1 &&
                   same_strides(cell, made.stored_strides_, c_order_strides(cell, type.item_bytes()));
  return made;
}

result<> codec_chain::add(const codec_config& config, const codec_chain_options& options, stage_type& at) {
  compiled_codec made;
  std::string description;
  if (std::find(kArrayCodecNames.begin(), kArrayCodecNames.end(), config.name) == kArrayCodecNames.end()) {
    PENSTOCK_ASSIGN(made, make_codec(config, at, options));
  } else if (!at.is_array) {
    return error{errc::corrupt_data,
                 fmt::format("codec '{}' works on arrays, it follows the array-to-bytes codec", config.name)};
  } else if (config.name == "bytes") {
    PENSTOCK_ASSIGN(made, make_bytes_codec(config, at, options, description));
  } else {
    PENSTOCK_ASSIGN(made, make_transpose_codec(config, at));
  }
  append(description_, made.codec ? made.codec->describe() : description);
  if (made.codec) {
    if (!made.output.exact) made.output.shape = {encoded_limit(*made.codec, at.bytes())};
    via_python_ = via_python_ || made.codec->via_python();
    const bool in_place = made.codec->decodes_in_place();
    stages_.push_back({std::move(made.codec), config, at.bytes(), in_place});
  }
  at = made.output;
  return {};
}

result<> codec_chain::decode(std::span<const std::byte> encoded, const decode_target& target,
                             worker_scratch& scratch) const {
  // The decoded bytes are a block of the target too, apart from byte order, which is then changed in place.
  const bool same_block =
      target.convert == nullptr && target.covers_cell && same_strides(cell_, target.strides, stored_strides_);
  if (variable_) {
    if (scratch.arena == nullptr) scratch.forget_own_items();
    choose_items(*this, target, scratch.libraries());
  }
  std::span<const std::byte> current = encoded;
  std::size_t other = 0;  // the stage buffer that does not hold `current`
  std::size_t left = stages_.size();
  worker_scratch::shared_chunk& shared = scratch.shared;
  const bool shares = shared.enabled && !below_window_.empty();
  if (shares && shared.encoded.data() == encoded.data() && shared.encoded.size() == encoded.size() &&
      shared.codecs == below_window_) {
    current = shared.decoded;
    left = 1;
  } else {
    shared.codecs = {};  // its bytes are overwritten
  }
  for (std::size_t i = left; i-- > 0;) {
    if (shares && i == 0) shared = {true, encoded, current, below_window_};
    const stage& each = stages_[i];
    const bool along_rows =
        target.convert != nullptr && !target.convert->along.empty() && target.convert->by_axis == row_axis_;
    if (i == 0 && rows_ != nullptr && !same_block && target.indexed == nullptr && !along_rows) {
      return decode_rows(current, target, scratch);
    }
    std::span<std::byte> out;
    if (i == 0 && same_block) {
      out = {target.data, decoded_bytes_};
    } else if (!each.in_place) {
      buffer& room = scratch.stage(i == 0 ? 2 : other);
      other ^= 1;
      if (each.limit == kUnbounded) {
        auto decoded = caught(kCodec, [&] { return each.codec->decode_growing(current, room, scratch); });
        if (!decoded.ok()) return std::move(decoded).error().note("decoding with " + each.codec->describe());
        current = *decoded;
        continue;
      }
      PENSTOCK_ASSIGN(out, room.reserve(each.limit));
    }
    auto decoded = caught(kCodec, [&] { return each.codec->decode(current, out, scratch); });
    if (!decoded.ok()) return std::move(decoded).error().note("decoding with " + each.codec->describe());
    current = *decoded;
  }
  PENSTOCK_TRY(check_decoded(current.size()));
  if (decoded_bytes_ == 0) return {};

  // Items are copied as bytes: a bool other than 0 or 1 is not changed, as in zarr-python.
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
  if (target.indexed != nullptr) {
    copy_indexed(target, from, stored_strides_, swap_bytes_);
    return {};
  }
  if (target.covers_cell) {
    copy_box(target, target.data, from, stored_strides_, cell_, swap_bytes_);
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
  copy_box(target, target.data, from, steps, counts, swap_bytes_);
  return {};
}

// The last copy of a decode, which also converts the elements if necessary.
void codec_chain::copy_box(const decode_target& target, std::byte* to, const std::byte* from, const strides& steps,
                           const extents& counts, std::uint32_t swap_bytes) const noexcept {
  if (target.convert != nullptr && !target.convert->along.empty()) {
    const std::size_t axis = target.convert->by_axis;
    extents one = counts;
    one[axis] = 1;
    for (std::uint64_t i = 0; i < counts[axis]; ++i) {
      const auto at = static_cast<std::int64_t>(i);
      strided_convert(to + at * target.strides[axis], target.strides, from + at * steps[axis], steps, one,
                      target.convert->along[target.first_along + i], swap_bytes);
    }
    return;
  }
  if (target.convert != nullptr)
    return strided_convert(to, target.strides, from, steps, counts, target.convert->how, swap_bytes);
  strided_copy(to, target.strides, from, steps, counts, type_.item_bytes(), swap_bytes);
}

void codec_chain::copy_indexed(const decode_target& target, const std::byte* cell, const strides& of_cell,
                               std::uint32_t swap_bytes) const noexcept {
  // The copy only reads from the cell.
  const indexed_blocks blocks{target.data, target.strides, const_cast<std::byte*>(cell),
                              of_cell,     cell_,          type_.item_bytes()};
  if (target.convert != nullptr) return indexed_scatter(blocks, *target.indexed, swap_bytes, target.convert->how);
  indexed_scatter(blocks, *target.indexed, swap_bytes);
}

// The last stage of `decode`, row by row: to their destination, or through a small buffer.
result<> codec_chain::decode_rows(std::span<const std::byte> encoded, const decode_target& target,
                                  worker_scratch& scratch) const {
  const auto row_bytes = static_cast<std::uint64_t>(stored_strides_[row_axis_]);
  bool straight = target.convert == nullptr && row_bytes >= kShortRowBytes;  // a row in the target has the stored form
  axis_range wanted{0, 1, cell_[row_axis_]};
  extents counts(cell_.size());
  strides steps(cell_.size());
  std::int64_t skipped = 0;  // bytes of a row before its first selected item
  for (std::size_t d = 0; d < cell_.size(); ++d) {
    const axis_range all{0, 1, cell_[d]};
    const axis_range& each = target.covers_cell ? all : (*target.in_cell)[d];
    counts[d] = each.count;
    steps[d] = each.step * stored_strides_[d];
    if (d == row_axis_) {
      wanted = each;
      continue;
    }
    skipped += static_cast<std::int64_t>(each.start) * stored_strides_[d];
    straight = straight && (cell_[d] == 1 || (each.start == 0 && each.step == 1 && each.count == cell_[d] &&
                                              target.strides[d] == stored_strides_[d]));
  }
  const std::uint64_t most = straight || wanted.step != 1 ? 1 : std::max<std::uint64_t>(kRowBlockBytes / row_bytes, 1);
  std::span<std::byte> room;
  if (!straight) {
    PENSTOCK_ASSIGN(room, scratch.stage(2).reserve(std::min(most, wanted.count) * row_bytes));
  }
  for (std::uint64_t i = 0, count = 0; i < wanted.count; i += count) {
    count = std::min(most, wanted.count - i);
    std::byte* const to = target.data + static_cast<std::int64_t>(i) * target.strides[row_axis_];
    const std::uint64_t first = wanted.start + i * static_cast<std::uint64_t>(wanted.step);
    auto decoded = rows_->decode_rows(encoded, first, count,
                                      straight ? std::span(to, row_bytes) : room.first(count * row_bytes), scratch);
    if (!decoded.ok()) return std::move(decoded).error().note("decoding with " + stages_.front().codec->describe());
    if (straight) continue;
    counts[row_axis_] = count;
    steps[row_axis_] = stored_strides_[row_axis_];
    copy_box(target, to, room.data() + skipped, steps, counts, 1);
  }
  return {};
}

void codec_chain::decode_part(std::span<const std::byte> stored, std::uint64_t skipped,
                              const decode_target& target) const noexcept {
  copy_part(stored.data(), skipped, stored_strides_, swap_bytes_, target);
}

void codec_chain::scatter(const std::byte* cell_items, const decode_target& target) const noexcept {
  copy_part(cell_items, 0, c_order_strides(cell_, type_.item_bytes()), 1, target);
}

// Copies from `items`, which begin at byte `skipped` of the cell.
void codec_chain::copy_part(const std::byte* items, std::uint64_t skipped, const strides& of_cell,
                            std::uint32_t swap_bytes, const decode_target& target) const noexcept {
  if (target.indexed != nullptr) {
    // The address at which the cell would begin. Nothing before `items` is accessed.
    return copy_indexed(target, items - skipped, of_cell, swap_bytes);
  }
  extents counts(cell_.size());
  strides steps(cell_.size());
  auto first = -static_cast<std::int64_t>(skipped);
  for (std::size_t d = 0; d < cell_.size(); ++d) {
    const axis_range& wanted = (*target.in_cell)[d];
    counts[d] = wanted.count;
    steps[d] = wanted.step * of_cell[d];
    first += static_cast<std::int64_t>(wanted.start) * of_cell[d];
  }
  copy_box(target, target.data, items + first, steps, counts, swap_bytes);
}

result<> codec_chain::check_decoded(std::uint64_t bytes) const {
  if (bytes == decoded_bytes_) return {};
  return error{errc::corrupt_data, fmt::format("chunk decoded to {} bytes, its shape needs {}", bytes, decoded_bytes_)}
      .note("decoding with " + (stages_.empty() ? head_ : stages_.front().codec->describe()));
}

result<std::span<const std::byte>> codec_chain::decode_stages(std::span<const std::byte> encoded, std::size_t made,
                                                              std::size_t keep, std::span<std::byte> out,
                                                              worker_scratch& scratch) const {
  std::span<const std::byte> current = encoded;
  std::size_t other = 0;  // the stage buffer that does not hold `current`
  if (variable_) scratch.libraries().wanted_items = {};
  for (std::size_t i = made; i-- > keep;) {
    const stage& each = stages_[i];
    std::span<std::byte> room;
    if (i == keep && each.limit <= out.size()) {
      room = out;
    } else if (!each.in_place) {
      buffer& memory = scratch.stage(other);
      other ^= 1;
      if (each.limit == kUnbounded) {
        auto decoded = caught(kCodec, [&] { return each.codec->decode_growing(current, memory, scratch); });
        if (!decoded.ok()) return std::move(decoded).error().note("decoding with " + each.codec->describe());
        current = *decoded;
        continue;
      }
      PENSTOCK_ASSIGN(room, memory.reserve(each.limit));
    }
    auto decoded = caught(kCodec, [&] { return each.codec->decode(current, room, scratch); });
    if (!decoded.ok()) return std::move(decoded).error().note("decoding with " + each.codec->describe());
    current = *decoded;
  }
  return current;
}

result<> codec_chain::check_cell(const tensor_view& cell) const {
  if (cell.extents == cell_ && cell.type == type_ && cell.space == memory_space::host) return {};
  return error{errc::invalid_argument,
               fmt::format("a chunk of {} {} cannot be encoded as one of {} {}", cell.type.name(),
                           to_string(cell.extents), type_.name(), to_string(cell_))};
}

bool codec_chain::must_gather(const tensor_view& cell) const noexcept {
  return stages_.empty() || swap_bytes_ > 1 || !same_strides(cell_, cell.strides, stored_strides_);
}

void codec_chain::gather(const tensor_view& cell, std::byte* to) const noexcept {
  if (decoded_bytes_ == 0) return;
  strided_copy(to, stored_strides_, cell.data, cell.strides, cell_, type_.item_bytes(), swap_bytes_);
}

result<std::span<const std::byte>> codec_chain::encode(const tensor_view& cell, buffer& out,
                                                       worker_scratch& scratch) const {
  PENSTOCK_TRY(check_cell(cell));
  std::span<const std::byte> current(cell.data, decoded_bytes_);
  if (must_gather(cell)) {
    PENSTOCK_ASSIGN(const auto gathered, (stages_.empty() ? out : scratch.stage(2)).reserve(decoded_bytes_));
    gather(cell, gathered.data());
    current = gathered;
  }
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const byte_codec& codec = *stages_[i].codec;
    buffer& room = i + 1 < stages_.size() ? scratch.stage(i % 2) : out;
    auto encoded = caught(kCodec, [&] { return codec.encode_growing(current, room, scratch); });
    if (!encoded.ok()) return std::move(encoded).error().note("encoding with " + codec.describe());
    current = *encoded;
  }
  return current;
}

result<std::uint64_t> codec_chain::encode(const tensor_view& cell, std::span<std::byte> out,
                                          worker_scratch& scratch) const {
  PENSTOCK_TRY(check_cell(cell));
  const auto too_small = [&](std::uint64_t needed) {
    return error{errc::invalid_argument,
                 fmt::format("an encoded chunk may need {} bytes, the output has room for {}", needed, out.size())};
  };
  std::span<const std::byte> current(cell.data, decoded_bytes_);
  if (must_gather(cell)) {
    std::span<std::byte> gathered = out;
    if (!stages_.empty()) {
      PENSTOCK_ASSIGN(gathered, scratch.stage(2).reserve(decoded_bytes_));
    } else if (out.size() < decoded_bytes_) {
      return too_small(decoded_bytes_);
    }
    gather(cell, gathered.data());
    current = gathered.first(decoded_bytes_);
  }
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const byte_codec& codec = *stages_[i].codec;
    const std::uint64_t needed = codec.max_encoded_bytes(current.size());
    const bool last = i + 1 == stages_.size();
    if (last && needed != kUnbounded) {
      if (out.size() < needed) return too_small(needed);
      auto encoded = caught(kCodec, [&] { return codec.encode(current, out, scratch); });
      if (!encoded.ok()) return std::move(encoded).error().note("encoding with " + codec.describe());
      return *encoded;
    }
    auto encoded = caught(kCodec, [&] { return codec.encode_growing(current, scratch.stage(i % 2), scratch); });
    if (!encoded.ok()) return std::move(encoded).error().note("encoding with " + codec.describe());
    current = *encoded;
    if (!last) continue;
    if (out.size() < current.size()) return too_small(current.size());
    if (!current.empty()) std::memcpy(out.data(), current.data(), current.size());
  }
  return current.size();
}

}  // namespace penstock::inline v0
