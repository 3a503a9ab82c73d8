#include "driver/tiff_pyramid.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>

#include "array/strided_copy.h"
#include "base/waiting.h"
#include "engine/batch_job.h"
#include "format/tiff/tiff_new_file.h"

namespace penstock::inline v0 {
namespace {

/// Rows of an overview that one worker computes at a time.
constexpr std::uint64_t kRowsEach = 32;

// `values[:, first : first + count, :]`.
tensor_view rows_of(const tensor_view& values, std::uint64_t first, std::uint64_t count) noexcept {
  tensor_view out = values;
  out.data += static_cast<std::ptrdiff_t>(first) * values.strides[1];
  out.extents[1] = count;
  return out;
}

// Repeats the last column and the last row of the values up to the end of a tile of (row, column, sample).
void pad_tile(std::byte* tile, std::uint64_t rows, std::uint64_t columns, std::uint64_t tile_rows,
              std::uint64_t tile_columns, std::size_t pixel) noexcept {
  const std::size_t row_bytes = tile_columns * pixel;
  for (std::uint64_t y = 0; y < rows; ++y) {
    std::byte* const row = tile + y * row_bytes;
    for (std::uint64_t x = columns; x < tile_columns; ++x)
      std::memcpy(row + x * pixel, row + (columns - 1) * pixel, pixel);
  }
  for (std::uint64_t y = rows; y < tile_rows; ++y)
    std::memcpy(tile + y * row_bytes, tile + (rows - 1) * row_bytes, row_bytes);
}

}  // namespace

result<tiff_tile_form> tiff_tile_form::make(const tiff_image& image, tiff_encoding encoding, std::optional<int> level) {
  tiff_tile_form out;
  tiff_samples samples;
  samples.rows = image.cell_height;
  samples.width = image.cell_width;
  samples.samples = out.samples = image.samples;
  samples.bits = image.bits;
  samples.kind = image.kind;
  samples.predictor = image.predictor;
  samples.mask = image.mask;
  PENSTOCK_ASSIGN(out.encoder, tiff_tile_encoder::make(samples, encoding, level));
  PENSTOCK_ASSIGN(out.type, type_of_samples(image.bits, image.kind));
  std::vector<std::uint32_t> all(image.samples);
  std::iota(all.begin(), all.end(), 0U);
  PENSTOCK_ASSIGN(out.chain, make_tiff_chain(image, samples.rows, 0, all));
  return out;
}

tiff_tile_workshop::tiff_tile_workshop(context_state& state, unsigned count) : with(state) {
  for (unsigned i = 0; i < count; ++i) workers.push_back(std::make_unique<worker>(&state.accounts()));
}

template <class Work>
result<> tiff_tile_workshop::for_each(std::size_t count, Work&& work) {
  using std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kBetweenQuestions{20};
  const auto all = std::make_shared<batch_job>(count, std::forward<Work>(work));
  const auto useful = static_cast<unsigned>(std::min<std::size_t>(count, workers.size()));
  std::function<void()> poll;
  if (interruptible_waits* const asks = interruptible_waits::current(); asks != nullptr) {
    poll = [this, asks, batch = all.get()] {
      asked = steady_clock::now();
      if (!asks->ask()) batch->cancel();
    };
    if (steady_clock::now() - asked >= kBetweenQuestions) poll();  // many batches take less time than that
  }
  with.executor().run(all, std::max(1U, useful), poll, kBetweenQuestions);
  return all->outcome();
}

result<> tiff_tile_workshop::encode_rows(const tiff_tile_form& form, tiff_level& level, std::uint64_t first,
                                         const tensor_view& rows) {
  const std::uint64_t item = form.type.item_bytes(), pixel = item * form.samples;
  const std::uint64_t count = (rows.extents[1] - 1) / tile_height + 1;
  return for_each(count * level.across, [&](std::size_t i, unsigned which) -> result<> {
    worker& mine = *workers[which];
    const std::uint64_t y = i / level.across * tile_height, x = i % level.across * tile_width;
    const std::uint64_t high = std::min<std::uint64_t>(tile_height, rows.extents[1] - y);
    const std::uint64_t wide = std::min<std::uint64_t>(tile_width, level.width - x);
    PENSTOCK_ASSIGN(const std::span<std::byte> room, mine.room.items.reserve(form.encoder.item_bytes()));
    const std::span<std::byte> tile = room.first(form.encoder.item_bytes());
    const auto stride = [](std::uint64_t bytes) { return static_cast<std::ptrdiff_t>(bytes); };
    const std::byte* const from = rows.data + stride(y) * rows.strides[1] + stride(x) * rows.strides[2];
    strided_copy(tile.data(), strides{stride(item), stride(tile_width * pixel), stride(pixel)}, from, rows.strides,
                 extents{form.samples, high, wide}, form.type.item_bytes(), 1);
    pad_tile(tile.data(), high, wide, tile_height, tile_width, pixel);
    auto encoded = form.encoder.encode(tile, kTileLeaderBytes, mine.room, mine.scratch);
    if (!encoded.ok()) {
      return std::move(encoded).error().note(fmt::format("encoding the tile of row {}, column {}",
                                                         first / level.across + i / level.across, i % level.across));
    }
    mark_tile(*encoded);
    PENSTOCK_ASSIGN(const std::uint64_t at, spool->append({encoded->data() - kTileLeaderBytes,
                                                           kTileLeaderBytes + encoded->size() + kTileTrailerBytes}));
    level.tiles[first + i] = {at, static_cast<std::uint32_t>(encoded->size())};
    return {};
  });
}

result<> tiff_tile_workshop::decode_rows(const tiff_tile_form& form, const tiff_level& level, std::uint64_t first,
                                         const tensor_view& rows) {
  const std::uint64_t item = form.type.item_bytes(), plane = std::uint64_t{tile_height} * tile_width * item;
  return for_each(level.across, [&](std::size_t i, unsigned which) -> result<> {
    worker& mine = *workers[which];
    const spooled_tile& tile = level.tiles[first + i];
    PENSTOCK_ASSIGN(const std::span<std::byte> encoded, mine.room.encoded.reserve(tile.bytes));
    PENSTOCK_TRY(spool->read(tile.offset + kTileLeaderBytes, encoded.first(tile.bytes)));
    PENSTOCK_ASSIGN(const std::span<std::byte> decoded, mine.room.items.reserve(form.samples * plane));
    const extents cell{form.samples, tile_height, tile_width};
    strided_box whole;
    for (const std::uint64_t length : cell) whole.push_back({0, 1, length});
    decode_target target;
    target.data = decoded.data();
    target.strides = c_order_strides(cell, form.type.item_bytes());
    target.in_cell = &whole;
    target.covers_cell = true;
    PENSTOCK_TRY(form.chain->chain.decode(encoded.first(tile.bytes), target, mine.scratch));
    const std::uint64_t x = i * tile_width;
    const extents counts{form.samples, rows.extents[1], std::min<std::uint64_t>(tile_width, level.width - x)};
    strided_copy(rows.data + static_cast<std::ptrdiff_t>(x) * rows.strides[2], rows.strides, decoded.data(),
                 target.strides, counts, form.type.item_bytes(), 1);
    return {};
  });
}

bool mark_opaque(const tensor_view& from, std::uint64_t sample, std::uint64_t first, std::uint64_t end,
                 std::byte* to) noexcept {
  const std::uint64_t width = from.extents[2];
  const std::size_t item_bytes = from.type.item_bytes();
  const std::byte* const alpha = from.data + static_cast<std::ptrdiff_t>(sample) * from.strides[0];
  std::byte least{1};
  for (std::uint64_t y = first; y < end; ++y) {
    const std::byte* at = alpha + static_cast<std::ptrdiff_t>(y) * from.strides[1];
    for (std::uint64_t x = 0; x < width; ++x, at += from.strides[2]) {
      const bool is_opaque = std::any_of(at, at + item_bytes, [](std::byte each) { return each != std::byte{0}; });
      to[y * width + x] = std::byte{is_opaque};
      least &= to[y * width + x];
    }
  }
  return least != std::byte{0};
}

result<tiff_pyramid> tiff_pyramid::make(tiff_tile_workshop& with, std::vector<tiff_level> levels,
                                        std::shared_ptr<std::vector<tiff_level>> mask, bool stores_mask,
                                        bool by_opacity) {
  tiff_pyramid out(with);
  out.levels_ = std::move(levels);
  out.mask_ = std::move(mask);
  out.stores_mask_ = stores_mask;
  out.by_opacity_ = by_opacity;
  for (std::size_t k = 0; k < out.levels_.size(); ++k) {
    ledger& accounts = with.with.accounts();
    filling each{buffer(&accounts), buffer(&accounts), buffer(&accounts), 0, 0, false};
    const tiff_level& level = out.levels_[k];
    if (k > 0) {
      const std::uint64_t pixels = std::min<std::uint64_t>(with.tile_height, level.height) * level.width;
      auto taken = each.room.reserve(pixels * with.image.samples * with.image.type.item_bytes());
      if (taken.ok() && out.has_mask()) taken = each.mask.reserve(pixels);
      const tiff_level& before = out.levels_[k - 1];
      if (taken.ok() && with.alpha)
        taken = each.opaque.reserve(std::min<std::uint64_t>(with.tile_height, before.height) * before.width);
      if (!taken.ok()) {
        return std::move(taken).error().note(fmt::format(
            "taking memory for a row of tiles of the overview of {} x {} pixels", level.height, level.width));
      }
    }
    out.filling_.push_back(std::move(each));
  }
  return out;
}

tensor_view tiff_pyramid::filled(std::size_t level) noexcept {
  const std::uint64_t rows = std::min<std::uint64_t>(with_->tile_height, levels_[level].height);
  return tensor_view::contiguous(filling_[level].room.data(), with_->image.type,
                                 extents{with_->image.samples, rows, levels_[level].width});
}

tensor_view tiff_pyramid::filled_mask(std::size_t level) noexcept {
  const std::uint64_t rows = std::min<std::uint64_t>(with_->tile_height, levels_[level].height);
  return tensor_view::contiguous(filling_[level].mask.data(), dtype(dtype_kind::unsigned_integer, 8),
                                 extents{1, rows, levels_[level].width});
}

result<> tiff_pyramid::write(std::uint64_t tile_row, const tensor_view& rows, const tensor_view* mask) {
  PENSTOCK_TRY(with_->encode_rows(with_->image, levels_[0], tile_row * levels_[0].across, rows));
  if (stores_mask_) PENSTOCK_TRY(with_->encode_rows(*with_->mask, mask_->front(), tile_row * levels_[0].across, *mask));
  return advance(&rows, mask, tile_row, false);
}

result<> tiff_pyramid::finish() { return advance(nullptr, nullptr, 0, true); }

result<> tiff_pyramid::advance(const tensor_view* given, const tensor_view* mask, std::uint64_t first,
                               bool to_the_end) {
  if (levels_.size() == 1) return {};
  const tiff_level& image = levels_[0];
  const std::uint64_t tile_height = with_->tile_height;
  const auto is_ready = [&] { return has_row(next_) && (opacity_ == nullptr || opacity_->has_row(next_)); };
  for (; next_ < image.down && (to_the_end || is_ready()); ++next_) {
    const std::uint64_t y = next_ * tile_height, rows = std::min(tile_height, image.height - y);
    if (!has_row(next_)) {
      PENSTOCK_TRY(feed(1, nullptr, nullptr, rows));
      continue;
    }
    const bool is_given = given != nullptr && (!has_mask() || mask != nullptr) && next_ >= first &&
                          (next_ - first) * tile_height < given->extents[1];
    if (is_given) {
      const tensor_view here = rows_of(*given, (next_ - first) * tile_height, rows);
      tensor_view valid;
      if (has_mask()) valid = rows_of(*mask, (next_ - first) * tile_height, rows);
      PENSTOCK_TRY(feed(1, &here, has_mask() ? &valid : nullptr, rows));
      continue;
    }
    // It was written out of order, or before its opacity, and is only in the spool file.
    const std::uint64_t pixels = tile_height * image.width, tile = next_ * image.across;
    PENSTOCK_TRY(filling_[0].room.reserve(pixels * with_->image.samples * with_->image.type.item_bytes()));
    const tensor_view here = rows_of(filled(0), 0, rows);
    PENSTOCK_TRY(with_->decode_rows(with_->image, image, tile, here));
    tensor_view valid;
    if (has_mask()) {
      PENSTOCK_TRY(filling_[0].mask.reserve(pixels));
      valid = rows_of(filled_mask(0), 0, rows);
      PENSTOCK_TRY(read_mask(next_, valid));
    }
    PENSTOCK_TRY(feed(1, &here, has_mask() ? &valid : nullptr, rows));
  }
  return {};
}

// The mask of a row of tiles, from the spool file. An opacity that was never written is 0.
result<> tiff_pyramid::read_mask(std::uint64_t tile_row, const tensor_view& to) {
  const std::uint64_t tile = tile_row * levels_[0].across;
  if (opacity_ == nullptr) return with_->decode_rows(*with_->mask, mask_->front(), tile, to);
  if (!opacity_->has_row(tile_row)) {
    std::memset(to.data, 0, to.extents[1] * to.extents[2]);
    return {};
  }
  const dtype& type = with_->image.type;
  PENSTOCK_ASSIGN(const std::span<std::byte> room,
                  filling_[0].opaque.reserve(to.extents[1] * to.extents[2] * type.item_bytes()));
  const tensor_view values = tensor_view::contiguous(room.data(), type, to.extents);
  PENSTOCK_TRY(with_->decode_rows(with_->image, opacity_->levels_[0], tile, values));
  (void)mark_opaque(values, 0, 0, to.extents[1], to.data);
  return {};
}

// Finds the opaque pixels of rows of the level before. `some`, for each kRowsEach rows of this level: 1 if one of their
// pixels is transparent.
result<> tiff_pyramid::find_opaque(std::size_t level, const tensor_view& from, std::uint64_t rows,
                                   std::vector<std::uint8_t>& some) {
  PENSTOCK_ASSIGN(const std::span<std::byte> to, filling_[level].opaque.reserve(rows * levels_[level - 1].width));
  return with_->for_each(some.size(), [&, to](std::size_t i, unsigned) -> result<> {
    const std::uint64_t first = i * 2 * kRowsEach, end = std::min(first + 2 * kRowsEach, rows);
    some[i] = mark_opaque(from, *with_->alpha, first, end, to.data()) ? 0 : 1;
    return {};
  });
}

// Takes `rows` rows of the level before; `from` is null if all of them are empty.
result<> tiff_pyramid::feed(std::size_t level, const tensor_view* from, const tensor_view* mask, std::uint64_t rows) {
  if (level == levels_.size()) return {};
  filling& mine = filling_[level];
  tiff_level& made = levels_[level];
  const tiff_tile_form& form = with_->image;
  const std::uint64_t half = (rows + 1) / 2, width = levels_[level - 1].width;
  const tensor_view room = filled(level);
  const tensor_view to = rows_of(room, mine.rows, half);
  tensor_view valid;
  if (has_mask()) {
    valid = rows_of(filled_mask(level), mine.rows, half);
    if (mask == nullptr) {
      std::memset(valid.data, 0, half * made.width);
    } else {
      halve_mask(valid.data, mask->data, rows, width, with_->rule.average);
    }
  }
  if (from == nullptr) {
    strided_fill(to.data, to.strides, to.extents, with_->fill.data(), form.type.item_bytes());
  } else {
    mine.touched = true;
    const std::uint64_t pieces = (half - 1) / kRowsEach + 1;
    std::vector<std::uint8_t> has_transparent;
    if (with_->alpha) {
      has_transparent.resize(pieces);
      PENSTOCK_TRY(find_opaque(level, *from, rows, has_transparent));
    }
    PENSTOCK_TRY(with_->for_each(pieces * form.samples, [&](std::size_t i, unsigned) -> result<> {
      const auto sample = static_cast<std::ptrdiff_t>(i / pieces);
      const std::uint64_t at = i % pieces * kRowsEach;
      const std::byte* known = mask == nullptr ? nullptr : mask->data;
      if (!has_transparent.empty() && has_transparent[i % pieces] != 0) known = mine.opaque.data();
      halve_rows(to.data + sample * to.strides[0] + static_cast<std::ptrdiff_t>(at) * to.strides[1],
                 static_cast<std::size_t>(to.strides[1]),
                 from->data + sample * from->strides[0] + static_cast<std::ptrdiff_t>(2 * at) * from->strides[1],
                 from->strides[1], from->strides[2], std::min(2 * kRowsEach, rows - 2 * at), width, with_->rule,
                 known == nullptr ? nullptr : known + 2 * at * width, width);
      return {};
    }));
  }
  mine.rows += half;
  const std::uint64_t y = mine.tile_row * with_->tile_height;
  if (mine.rows < with_->tile_height && y + mine.rows < made.height) return {};
  const tensor_view whole = rows_of(room, 0, mine.rows);
  tensor_view whole_mask;
  if (has_mask()) whole_mask = rows_of(filled_mask(level), 0, mine.rows);
  if (made.stored && mine.touched) {
    PENSTOCK_TRY(with_->encode_rows(form, made, mine.tile_row * made.across, whole));
    if (stores_mask_)
      PENSTOCK_TRY(with_->encode_rows(*with_->mask, (*mask_)[level], mine.tile_row * made.across, whole_mask));
  }
  PENSTOCK_TRY(
      feed(level + 1, mine.touched ? &whole : nullptr, mine.touched && has_mask() ? &whole_mask : nullptr, mine.rows));
  mine.rows = 0;
  mine.touched = false;
  ++mine.tile_row;
  return {};
}

}  // namespace penstock::inline v0
