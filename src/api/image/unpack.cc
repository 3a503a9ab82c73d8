#include <penstock/unpack.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <penstock/georeference.h>
#include <penstock/tiff.h>
#include "api/image/unpacked_state.h"
#include "api/read_source.h"
#include "array/check_view.h"
#include "driver/metadata_edit.h"
#include "engine/array_state.h"
#include "format/tiff/tiff_layout.h"
#include "format/tiff/tiff_nodata.h"

namespace penstock::inline v0 {
namespace {

error bad_unpacking(std::string what) { return {errc::invalid_argument, std::move(what)}; }

bool is_unscaled(const band_meaning& band) noexcept { return band.scale == 1 && band.offset == 0; }

bool is_alike(const number_unpacking& a, const number_unpacking& b) noexcept {
  return std::memcmp(&a.scale, &b.scale, sizeof a.scale) == 0 &&
         std::memcmp(&a.offset, &b.offset, sizeof a.offset) == 0 && a.has_nodata == b.has_nodata &&
         std::memcmp(a.nodata, b.nodata, sizeof a.nodata) == 0;
}

// Writes an item of a known size to the elements of a run whose flag is 0.
template <std::size_t kBytes>
void set_missing_run(std::byte* to, std::int64_t step, std::uint64_t count, const std::uint8_t* flags,
                     std::int64_t flag_step, const std::byte* item) {
  for (std::uint64_t i = 0; i < count; ++i, to += step, flags += flag_step)
    if (*flags == 0) std::memcpy(to, item, kBytes);
}

// Writes NaN (and 0 as its imaginary part) to the elements whose flag is 0.
void set_missing(std::byte* to, const strides& to_strides, const extents& counts, const std::uint8_t* flags,
                 const strides& flag_strides, const std::vector<std::byte>& nan) {
  const std::size_t rank = counts.size();
  const auto set_run = nan.size() == 2   ? set_missing_run<2>
                       : nan.size() == 4 ? set_missing_run<4>
                       : nan.size() == 8 ? set_missing_run<8>
                                         : set_missing_run<16>;
  dim_vector<std::uint64_t> at(rank, 0);
  for (;;) {
    std::int64_t target = 0, flag = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      target += static_cast<std::int64_t>(at[d]) * to_strides[d];
      flag += static_cast<std::int64_t>(at[d]) * flag_strides[d];
    }
    const std::uint64_t run = rank == 0 ? 1 : counts[rank - 1];
    const std::int64_t step = rank == 0 ? 0 : to_strides[rank - 1], flag_step = rank == 0 ? 0 : flag_strides[rank - 1];
    set_run(to + target, step, run, flags + flag, flag_step, nan.data());
    std::size_t d = rank < 2 ? 0 : rank - 1;
    while (d > 0 && ++at[d - 1] == counts[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace

result<> unpacked_state::set_bands() {
  const georeference of = georeference_of(image);
  const std::vector<band_meaning> meanings = of.bands();
  const bool scales = !std::all_of(meanings.begin(), meanings.end(), is_unscaled);
  const dtype& stored = image.type();
  type = unpacked_type(stored, scales);
  PENSTOCK_ASSIGN(how, unpacking_of(stored, type));
  if (masked) {
    PENSTOCK_ASSIGN(validity, validity_of(image, of));
    PENSTOCK_ASSIGN(by_mask, valid_pixels::of_validity(image, meanings.size(), validity));
  }
  validity.nodata.resize(meanings.size());
  validity.masked.resize(meanings.size());
  for (std::size_t i = 0; i < meanings.size(); ++i) {
    number_unpacking& band = bands.emplace_back();
    band.scales = scales;
    band.scale = meanings[i].scale;
    band.offset = meanings[i].offset;
    if (const auto& nodata = validity.nodata[i]) {
      band.has_nodata = true;
      const std::vector<std::byte> item = item_of_nodata(*nodata, stored);
      std::copy(item.begin(), item.end(), band.nodata);
    }
    alike = alike && is_alike(band, bands.front());
  }
  nan.resize(type.item_bytes());
  const std::vector<std::byte> real = item_of_nodata(nodata_value(std::numeric_limits<double>::quiet_NaN()), type);
  std::copy(real.begin(), real.begin() + static_cast<std::ptrdiff_t>(std::min(real.size(), nan.size())), nan.begin());
  return {};
}

result<> unpacked_state::check(const extents& shape, const tensor_view& out) const {
  if (out.space != memory_space::host) return error(errc::unsupported, "unpacked reads go to host memory only");
  if (!(out.type == type) || !(out.extents == shape))
    return bad_unpacking(fmt::format("out is {} of shape {}, the selection returns {} of shape {}", out.type.name(),
                                     to_string(out.extents), type.name(), to_string(shape)));
  return check_view(out, "out");
}

// The target of the conversion; a fill value that is not nodata is converted like other stored values.
element_conversion unpacked_state::conversion_for(const resolved_basic& which) const {
  element_conversion out;
  const std::byte* const fill = image.state().fill_value.data();
  const axis_range all{0, 1, 1};
  const axis_range& wanted = band_axis ? which.from[*band_axis] : all;
  const auto band_at = [&](std::uint64_t i) {
    return static_cast<std::size_t>(static_cast<std::int64_t>(wanted.start) +
                                    static_cast<std::int64_t>(i) * wanted.step);
  };
  out.how = of_band(alike ? 0 : band_at(0));
  convert_items(out.how, fill, out.fill, 1);
  if (alike) return out;
  out.by_axis = band_axis.value_or(0);
  for (std::uint64_t i = 0; i < wanted.count; ++i) {
    out.along.push_back(of_band(band_at(i)));
    convert_items(out.along.back(), fill, out.fills.emplace_back().data(), 1);
  }
  return out;
}

// The same pixels of the first band.
resolved_basic unpacked_state::of_one_band(resolved_basic which) const {
  if (!band_axis) return which;
  which.from[*band_axis] = {0, 1, 1};
  const int axis = which.axis[*band_axis];
  if (axis >= 0) which.shape[static_cast<std::size_t>(axis)] = 1;
  return which;
}

result<> unpacked_state::start_masks(const resolved_basic& which, unsigned threads, std::vector<mask_read>& to) const {
  to.reserve(by_mask.masks().size());
  for (const array& mask : by_mask.masks()) {
    resolved_selection wanted;
    static_cast<resolved_basic&>(wanted) = has_shared_mask() ? of_one_band(which) : which;
    mask_read& made = to.emplace_back();
    PENSTOCK_ASSIGN(const std::uint64_t count, element_count(wanted.shape));
    made.values.resize(count * mask.type().item_bytes());
    read_options options;
    options.threads = threads;
    PENSTOCK_ASSIGN(
        made.reading,
        mask.read_async(wanted, tensor_view::contiguous(made.values.data(), mask.type(), wanted.shape), options));
  }
  return {};
}

result<> unpacked_state::apply_masks(const resolved_basic& which, const tensor_view& out,
                                     std::vector<mask_read>& masks) const {
  if (masks.empty()) return {};
  std::vector<std::vector<std::byte>> values;
  for (mask_read& each : masks) {
    PENSTOCK_TRY(each.reading.wait());
    values.push_back(std::move(each.values));
  }
  const bool is_shared = has_shared_mask();
  const resolved_basic of_mask = is_shared ? of_one_band(which) : which;
  PENSTOCK_ASSIGN(const std::uint64_t count, element_count(of_mask.shape));
  const std::vector<std::uint8_t> flags = by_mask.mask_values(values, count);
  strides flag_strides = c_order_strides(of_mask.shape, 1);
  const axis_range all{0, 1, 1};
  const axis_range& wanted = band_axis ? which.from[*band_axis] : all;
  const int axis = band_axis ? which.axis[*band_axis] : -1;
  tensor_view one = out;
  if (axis >= 0) one.extents[static_cast<std::size_t>(axis)] = 1;
  for (std::uint64_t i = 0; i < wanted.count; ++i) {
    const auto band =
        static_cast<std::size_t>(static_cast<std::int64_t>(wanted.start) + static_cast<std::int64_t>(i) * wanted.step);
    if (!is_masked(band)) continue;
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t to = axis < 0 ? 0 : at * out.strides[static_cast<std::size_t>(axis)];
    const std::int64_t flag = axis < 0 || is_shared ? 0 : at * flag_strides[static_cast<std::size_t>(axis)];
    set_missing(out.data + to, out.strides, one.extents, flags.data() + flag, flag_strides, nan);
  }
  return {};
}

std::vector<std::uint8_t> unpacked_state::mask_flags(const std::vector<std::vector<std::byte>>& masks,
                                                     std::uint64_t pixels) const {
  if (masks.empty()) return {};
  return by_mask.mask_values(masks, pixels * (has_shared_mask() ? 1 : bands.size()));
}

void unpacked_state::unpack_band(std::size_t band, const std::byte* packed, const std::uint8_t* flags,
                                 std::uint64_t pixels, std::byte* out) const {
  constexpr std::uint64_t kBlock = 1024;
  alignas(16) std::byte block[kBlock * 16];  // a copy, because the values may overwrite the packed block
  const std::uint64_t from_bytes = image.type().item_bytes(), to_bytes = type.item_bytes();
  const conversion with = of_band(band);
  for (std::uint64_t at = 0; at < pixels; at += kBlock) {
    const std::uint64_t count = std::min(kBlock, pixels - at);
    std::memcpy(block, packed + at * from_bytes, count * from_bytes);
    convert_items(with, block, out + at * to_bytes, count);
  }
  if (flags != nullptr) set_missing(out, {static_cast<std::int64_t>(to_bytes)}, extents{pixels}, flags, {1}, nan);
}

void unpacked_state::unpack_bands(const std::byte* packed, const std::vector<std::uint8_t>& flags, std::uint64_t pixels,
                                  std::byte* out) const {
  const std::uint64_t from_bytes = pixels * image.type().item_bytes(), to_bytes = pixels * type.item_bytes();
  for (std::size_t band = 0; band < bands.size(); ++band)
    unpack_band(band, packed + band * from_bytes, flags_of(band, flags, pixels), pixels, out + band * to_bytes);
}

result<unpacked_image> unpacked_image::make(const array& image, bool masked) {
  const auto* const layout = dynamic_cast<const tiff_layout*>(image.state().layout.get());
  const auto noted = [&](error from) { return std::move(from).note(fmt::format("array '{}'", image.uri())); };
  if (layout == nullptr) return noted(bad_unpacking("only images of TIFFs are unpacked"));
  auto made = std::make_shared<unpacked_state>(image);
  if (layout->band_axis() >= 0) made->band_axis = static_cast<std::size_t>(layout->band_axis());
  made->masked = masked;
  if (auto done = made->set_bands(); !done.ok()) return noted(std::move(done).error());
  if (!made->band_axis && made->bands.size() != 1)
    return noted(bad_unpacking("scales belong to bands, for which the array has no axis"));
  return unpacked_image(std::move(made));
}

const dtype& unpacked_image::type() const noexcept { return state_->type; }
const array& unpacked_image::packed() const noexcept { return state_->image; }
bool unpacked_image::is_partial() const noexcept { return state_->validity.is_partial(); }

result<> unpacked_image::read(const resolved_basic& which, const tensor_view& out, const read_options& options) const {
  const array_state& of = state_->image.state();
  if (auto checked = state_->check(which.shape, out); !checked.ok()) return name_array(std::move(checked).error(), of);
  if (is_empty(which.shape)) return {};
  std::vector<mask_read> masks;
  PENSTOCK_TRY(state_->start_masks(which, options.threads, masks));
  const element_conversion how = state_->conversion_for(which);
  PENSTOCK_TRY(read_converted(of, source_of(of, which, out.strides, out.data), how, options));
  return state_->apply_masks(which, out, masks);
}

result<> unpacked_image::read(const selection& which, const tensor_view& out, const read_options& options) const {
  const array_state& of = state_->image.state();
  PENSTOCK_ASSIGN(const resolved_selection resolved, state_->image.select(which));
  if (!resolved.indexed) return read(static_cast<const resolved_basic&>(resolved), out, options);
  if (auto checked = state_->check(resolved.shape, out); !checked.ok())
    return name_array(std::move(checked).error(), of);
  if (!state_->alike || !state_->by_mask.masks().empty())
    return name_array(error(errc::unsupported,
                            "lists, points and masks of elements can only be unpacked in images without a "
                            "mask whose bands have equal scales, offsets and nodata values"),
                      of);
  if (is_empty(resolved.shape)) return {};
  element_conversion how;
  how.how = state_->of_band(0);
  convert_items(how.how, of.fill_value.data(), how.fill, 1);
  return read_converted(of, source_of(of, resolved, out.strides, out.data), how, options);
}

}  // namespace penstock::inline v0
