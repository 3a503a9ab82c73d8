#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <tuple>
#include <utility>

#include <penstock/georeference.h>
#include <penstock/selection.h>
#include <penstock/tiff.h>
#include "api/image/unpacked_state.h"
#include "api/image/valid_pixels.h"
#include "api/image/window_plan.h"
#include "array/conversion.h"
#include "array/strided_copy.h"
#include "array/weighted_means.h"
#include "base/buffer.h"
#include "codec/filters/half.h"
#include "format/tiff/tiff_nodata.h"

namespace penstock::inline v0 {
namespace {

/// Source elements that are in memory, while as many more are read.
constexpr std::uint64_t kStripElements = std::uint64_t{1} << 21;
/// Source elements that are unpacked at a time.
constexpr std::uint64_t kUnpackedElements = std::uint64_t{1} << 18;

using positions = std::vector<std::int64_t>;

bool is_half(const dtype& type) noexcept { return type.kind() == dtype_kind::floating && type.bits() == 16; }

orthogonal_item item_of(std::span<const std::int64_t> at) {
  if (at.back() - at.front() == static_cast<std::int64_t>(at.size()) - 1)
    return slice{at.front(), at.back() + 1, std::nullopt};
  return index_list(at.begin(), at.end());
}

selection selection_of(const array& from, orthogonal_item rows, orthogonal_item columns) {
  if (std::holds_alternative<slice>(rows) && std::holds_alternative<slice>(columns))
    return basic_selection{{ellipsis, std::get<slice>(rows), std::get<slice>(columns)}};
  orthogonal_selection out;
  out.items.resize(from.shape().size() - 2, slice{});
  out.items.push_back(std::move(rows));
  out.items.push_back(std::move(columns));
  return out;
}

// The positions within the axis: they ascend, so that those outside are at the ends.
std::pair<std::size_t, std::size_t> within(const positions& at, std::uint64_t size) {
  const auto begin = std::find_if(at.begin(), at.end(), [](std::int64_t each) { return each >= 0; });
  const auto end =
      std::find_if(begin, at.end(), [&](std::int64_t each) { return each >= static_cast<std::int64_t>(size); });
  return {static_cast<std::size_t>(begin - at.begin()), static_cast<std::size_t>(end - at.begin())};
}

void fill_items(std::byte* to, std::uint64_t count, std::span<const std::byte> item) {
  strided_fill(to, {static_cast<std::int64_t>(item.size())}, {count}, item.data(),
               static_cast<std::uint32_t>(item.size()));
}

/// The source pixels of a result, one for each pixel, within `from`; they fill a box of the result.
struct pixel_picks {
  std::size_t top = 0, bottom = 0, left = 0, right = 0;  // the rows and columns of the result that have a source pixel
  selection which;
  tensor_view part;

  bool empty() const noexcept { return top >= bottom || left >= right; }
  bool all(const positions& rows, const positions& columns) const noexcept {
    return bottom - top == rows.size() && right - left == columns.size();
  }
};

/// \param out  Has the array's dimensions with these rows and columns.
pixel_picks picks_of(const array& from, const positions& rows, const positions& columns, std::byte* out) {
  extents shape = from.shape();
  const std::size_t rank = shape.size();
  pixel_picks made;
  std::tie(made.top, made.bottom) = within(rows, shape[rank - 2]);
  std::tie(made.left, made.right) = within(columns, shape[rank - 1]);
  if (made.empty()) return made;
  shape[rank - 2] = rows.size();
  shape[rank - 1] = columns.size();
  made.part = tensor_view::contiguous(out, from.type(), shape);
  made.part.data += static_cast<std::int64_t>(made.top) * made.part.strides[rank - 2] +
                    static_cast<std::int64_t>(made.left) * made.part.strides[rank - 1];
  made.part.extents[rank - 2] = made.bottom - made.top;
  made.part.extents[rank - 1] = made.right - made.left;
  const std::span<const std::int64_t> all_rows(rows), all_columns(columns);
  made.which = selection_of(from, item_of(all_rows.subspan(made.top, made.bottom - made.top)),
                            item_of(all_columns.subspan(made.left, made.right - made.left)));
  return made;
}

read_options options_of(const window_plan& plan) {
  read_options out;
  out.threads = plan.threads;
  return out;
}

// Does not write pixels outside the level.
result<> read_picks(const window_plan& plan, const pixel_picks& picks, const progress_fn& progress) {
  if (picks.empty()) return {};
  read_options options = options_of(plan);
  options.progress = progress;
  return plan.level.read(picks.which, picks.part, options);
}

/// The same pixels of the images of a mask, which are being read: 0 outside the level.
class mask_picks {
 public:
  result<> start(const window_plan& plan, const std::vector<array>& masks, const positions& rows,
                 const positions& columns) {
    values_.reserve(masks.size());
    for (const array& mask : masks) {
      std::uint64_t count = rows.size() * columns.size();
      for (std::size_t d = 0; d + 2 < mask.shape().size(); ++d) count *= mask.shape()[d];
      std::vector<std::byte>& to = values_.emplace_back(count * mask.type().item_bytes());
      const pixel_picks picks = picks_of(mask, rows, columns, to.data());
      if (picks.empty()) continue;
      PENSTOCK_ASSIGN(ticket made, mask.read_async(picks.which, picks.part, options_of(plan)));
      tickets_.push_back(std::move(made));
    }
    return {};
  }
  /// The values of each mask.
  result<const std::vector<std::vector<std::byte>>*> wait() {
    for (ticket& each : tickets_) PENSTOCK_TRY(each.wait());
    return &values_;
  }

 private:
  std::vector<std::vector<std::byte>> values_;
  std::vector<ticket> tickets_;  // destroyed, which waits for it, before the memory that it fills
};

// The values of pixels outside the level.
void fill_outside(const window_plan& plan, const pixel_picks& picks, std::byte* out) {
  const std::uint64_t rows = plan.rows.count(), columns = plan.columns.count(), item = plan.type.item_bytes();
  for (std::uint64_t row = 0; row < plan.planes() * rows; ++row) {
    const std::vector<std::byte>& missing = plan.missing_of(row / rows);
    std::byte* const to = out + row * columns * item;
    const bool is_inside = !picks.empty() && row % rows >= picks.top && row % rows < picks.bottom;
    fill_items(to, is_inside ? picks.left : columns, missing);
    if (is_inside) fill_items(to + picks.right * item, columns - picks.right, missing);
  }
}

// Reads one value of the level for each of `out`. Stored items are read into the end of `out` and unpacked from there:
// they are at most as large.
result<> pick_values(const window_plan& plan, const positions& rows, const positions& columns,
                     const progress_fn& progress, std::byte* out) {
  if (!plan.unpacked) {
    const pixel_picks picks = picks_of(plan.level, rows, columns, out);
    PENSTOCK_TRY(read_picks(plan, picks, progress));
    if (!picks.all(rows, columns)) fill_outside(plan, picks, out);
    return {};
  }
  const unpacked_state& of = plan.unpacked->state();
  mask_picks masks;
  PENSTOCK_TRY(masks.start(plan, of.by_mask.masks(), rows, columns));
  const std::uint64_t pixels = rows.size() * columns.size(), count = plan.planes() * pixels;
  std::byte* const stored = out + count * (plan.type.item_bytes() - plan.level.type().item_bytes());
  const pixel_picks picks = picks_of(plan.level, rows, columns, stored);
  if (!picks.all(rows, columns)) std::memset(stored, 0, count * plan.level.type().item_bytes());
  PENSTOCK_TRY(read_picks(plan, picks, progress));
  PENSTOCK_ASSIGN(const auto* const of_mask, masks.wait());
  of.unpack_bands(stored, of.mask_flags(*of_mask, pixels), pixels, out);
  if (!picks.all(rows, columns)) fill_outside(plan, picks, out);
  return {};
}

std::shared_ptr<valid_pixels> make_valid(const window_plan& plan, result<>& failed) {
  if (plan.unpacked || plan.given_nodata || tiff_details_of(plan.level) == nullptr)
    return std::make_shared<valid_pixels>(plan.type, plan.planes(), plan.nodata[0]);
  auto made = valid_pixels::of_image(plan.level, plan.planes());
  if (made.ok()) return std::make_shared<valid_pixels>(std::move(made).value());
  failed = std::move(made).error();
  return nullptr;
}

// Copies pixels, with any kernel: each result pixel has one source pixel.
result<> read_copies(const window_plan& plan, const valid_pixels& valid, const positions& rows,
                     const positions& columns, const progress_fn& progress, std::byte* out) {
  const std::uint64_t pixels = rows.size() * columns.size();
  mask_picks masks;
  PENSTOCK_TRY(masks.start(plan, valid.masks(), rows, columns));
  PENSTOCK_TRY(pick_values(plan, rows, columns, progress, out));
  PENSTOCK_ASSIGN(const auto* const of_mask, masks.wait());
  if (valid.all() || (valid.by_opacity() && !plan.fill_value)) return {};
  const std::size_t item = plan.type.item_bytes();
  const pixel_flags flags = valid.flags(out, *of_mask, pixels);
  for (std::uint64_t plane = 0; plane < plan.planes(); ++plane) {
    const std::uint8_t* const of = flags.of(plane);
    for (std::uint64_t i = 0; i < pixels; ++i)
      if (of[i] == 0) std::memcpy(out + (plane * pixels + i) * item, plan.missing_of(plane).data(), item);
  }
  return {};
}

/// Result rows, and the rectangle of their source pixels.
struct strip {
  std::size_t begin = 0, end = 0;
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;

  std::uint64_t pixels() const noexcept {
    return static_cast<std::uint64_t>(bottom - top) * static_cast<std::uint64_t>(right - left);
  }
};

// Strips of the result rows [begin, end) whose source has at most this many pixels; whole rows of chunks if they fit.
std::vector<strip> cut_into_strips(const window_plan& plan, std::size_t begin, std::size_t end, std::uint64_t pixels,
                                   std::int64_t chunk_rows) {
  const extents& shape = plan.level.shape();
  const auto height = static_cast<std::int64_t>(shape[shape.size() - 2]);
  const auto width = static_cast<std::int64_t>(shape[shape.size() - 1]);
  const resample_taps& rows = plan.rows;
  const std::int64_t low = plan.columns.low(), high = plan.columns.high();
  const auto source_rows =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(pixels) / std::max<std::int64_t>(1, high - low));
  const auto first = rows.first.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last_row = rows.first.begin() + static_cast<std::ptrdiff_t>(end);
  std::vector<strip> out;
  for (std::size_t start = begin; start < end;) {
    std::size_t stop = start;
    const std::int64_t source_end = rows.first[start] + source_rows;
    for (const std::int64_t last : {source_end / chunk_rows * chunk_rows, source_end}) {
      const auto found = std::upper_bound(first, last_row, last - static_cast<std::int64_t>(rows.width));
      stop = static_cast<std::size_t>(found - rows.first.begin());
      if (stop > start) break;
    }
    stop = std::max(start + 1, stop);
    strip& made = out.emplace_back();
    made.begin = start;
    made.end = stop;
    const auto taps_end = rows.first[stop - 1] + static_cast<std::int64_t>(rows.width);
    made.top = std::clamp<std::int64_t>(rows.first[start], 0, height);
    made.bottom = std::clamp<std::int64_t>(taps_end, 0, height);
    made.left = std::clamp<std::int64_t>(low, 0, width);
    made.right = std::clamp<std::int64_t>(high, 0, width);
    start = stop;
  }
  return out;
}

/// A strip's source and masks, which are being read.
class strip_read {
 public:
  static result<std::unique_ptr<strip_read>> start(const window_plan& plan, const valid_pixels& valid,
                                                   const strip& of) {
    auto out = std::make_unique<strip_read>();
    const std::vector<array>& masks = plan.unpacked ? plan.unpacked->state().by_mask.masks() : valid.masks();
    out->masks.resize(masks.size());
    for (std::size_t i = 0; i < masks.size(); ++i) PENSTOCK_TRY(out->add(masks[i], of, plan.threads, out->masks[i]));
    PENSTOCK_TRY(out->add(plan.level, of, plan.threads, out->values));
    return out;
  }
  result<> wait() {
    for (ticket& each : tickets_) PENSTOCK_TRY(each.wait());
    return {};
  }

  std::vector<std::byte> values;  // as they are stored
  std::vector<std::vector<std::byte>> masks;

 private:
  result<> add(const array& from, const strip& of, unsigned threads, std::vector<std::byte>& to) {
    extents shape = from.shape();
    shape[shape.size() - 2] = static_cast<std::uint64_t>(of.bottom - of.top);
    shape[shape.size() - 1] = static_cast<std::uint64_t>(of.right - of.left);
    PENSTOCK_ASSIGN(const std::uint64_t count, element_count(shape));
    to.resize(count * from.type().item_bytes());
    read_options options;
    options.threads = threads;
    const basic_selection which{{ellipsis, slice{of.top, of.bottom, {}}, slice{of.left, of.right, {}}}};
    PENSTOCK_ASSIGN(ticket made,
                    from.read_async(which, tensor_view::contiguous(to.data(), from.type(), shape), options));
    tickets_.push_back(std::move(made));
    return {};
  }

  std::vector<ticket> tickets_;  // destroyed, which waits for it, before the memory that it fills
};

// A value that a mean must not have, and the next number, which replaces it; in the type in which means are stored.
std::vector<std::byte> nodata_pair(const dtype& type, const std::optional<nodata_value>& nodata) {
  std::vector<std::byte> out;
  const auto add = [&](const nodata_value& value, const dtype& as) {
    const std::vector<std::byte> item = item_of_nodata(value, as);
    out.insert(out.end(), item.begin(), item.end());
  };
  if (!nodata) return out;
  if (const auto* const real = std::get_if<double>(&*nodata)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (std::isnan(*real)) return out;
    double next = std::nextafter(*real, kInfinity);
    if (type.bits() == 32)
      next = static_cast<double>(std::nextafter(static_cast<float>(*real), std::numeric_limits<float>::infinity()));
    if (is_half(type)) {
      half of(*real);
      const bool is_zero = (of.bits & 0x7fff) == 0, is_top = of.bits == 0x7c00;
      of.bits = static_cast<std::uint16_t>(is_zero                   ? 1
                                           : is_top                  ? of.bits
                                           : (of.bits & 0x8000) != 0 ? of.bits - 1
                                                                     : of.bits + 1);
      next = static_cast<double>(of);
    }
    const dtype stored = is_half(type) ? dtype(dtype_kind::floating, 32) : type;
    add(*real, stored);
    add(next, stored);
    return out;
  }
  add(*nodata, type);
  if (const auto* const number = std::get_if<std::int64_t>(&*nodata)) {
    const bool is_top = *number == (std::int64_t{1} << (type.bits() - 2)) - 1 + (std::int64_t{1} << (type.bits() - 2));
    add(is_top ? *number - 1 : *number + 1, type);
  } else {
    const std::uint64_t value = std::get<std::uint64_t>(*nodata);
    const bool is_top = value == ~std::uint64_t{0} >> (64 - type.bits());
    add(is_top ? value - 1 : value + 1, type);
  }
  return out;
}

/// Computes the means of strips.
class strip_means {
 public:
  strip_means(const window_plan& plan, const valid_pixels& valid)
      : plan_(plan), valid_(valid), type_(is_half(plan.type) ? dtype(dtype_kind::floating, 32) : plan.type) {
    for (const std::optional<nodata_value>& each : plan.nodata) instead_.push_back(nodata_pair(plan.type, each));
  }

  // Unpacked images are processed in ranges of one band that stay in the processor's cache.
  result<> make(const strip& of, const strip_read& from, std::byte* out) {
    if (!plan_.unpacked) return make_planes(of, from.values.data(), from.masks, valid_, 0, plan_.planes(), out);
    const unpacked_state& how = plan_.unpacked->state();
    const std::vector<std::uint8_t> flags = how.mask_flags(from.masks, of.pixels());
    const valid_pixels valid(plan_.type, 1, plan_.nodata[0]);
    const std::uint64_t item = plan_.level.type().item_bytes();
    for (const strip& part : cut_into_strips(plan_, of.begin, of.end, kUnpackedElements, 1)) {
      PENSTOCK_TRY(unpacked_.reserve(part.pixels() * plan_.type.item_bytes()));
      const auto before =
          static_cast<std::uint64_t>(part.top - of.top) * static_cast<std::uint64_t>(of.right - of.left);
      for (std::size_t band = 0; band < how.bands.size(); ++band) {
        const std::uint8_t* const of_band = how.flags_of(band, flags, of.pixels());
        how.unpack_band(band, from.values.data() + (band * of.pixels() + before) * item,
                        of_band == nullptr ? nullptr : of_band + before, part.pixels(), unpacked_.data());
        PENSTOCK_TRY(make_planes(part, unpacked_.data(), {}, valid, band, 1, out));
      }
    }
    return {};
  }

 private:
  result<> make_planes(const strip& of, const std::byte* values, const std::vector<std::vector<std::byte>>& masks,
                       const valid_pixels& valid, std::uint64_t first, std::uint64_t planes, std::byte* out) {
    const std::uint64_t pixels = (of.end - of.begin) * plan_.columns.count();
    pixel_planes source;
    source.type = type_;
    source.planes = planes;
    source.rows = static_cast<std::size_t>(of.bottom - of.top);
    source.columns = static_cast<std::size_t>(of.right - of.left);
    pixel_flags flags;
    if (!valid.all()) {
      flags = valid.flags(values, masks, of.pixels());
      source.valid = flags.values.data();
      source.valid_planes = flags.planes;
    }
    PENSTOCK_ASSIGN(source.values, widen(values, planes * of.pixels()));
    means_.resize(planes * pixels);
    weight_.resize((valid.all() ? 1 : planes) * pixels);
    weighted_means(source, plan_.rows.part(of.begin, of.end, of.top),
                   plan_.columns.part(0, plan_.columns.count(), of.left), plan_.how == resampling::bilinear,
                   means_.data(), weight_.data());
    const std::uint64_t rows = plan_.rows.count(), item = plan_.type.item_bytes();
    for (std::uint64_t plane = 0; plane < planes; ++plane) {
      const double* const weight = weight_.data() + (valid.all() ? 0 : plane * pixels);
      std::byte* const to = out + ((first + plane) * rows + of.begin) * plan_.columns.count() * item;
      const std::vector<std::byte>& pair = instead_[instead_.size() == 1 ? 0 : first + plane];
      if (!store_plane(means_.data() + plane * pixels, weight, pixels, pair, to)) continue;
      for (std::uint64_t i = 0; i < pixels; ++i)
        if (weight[i] <= 0) std::memcpy(to + i * item, plan_.missing_of(first + plane).data(), item);
    }
    return {};
  }

  // Converts floats of 16 bits to floats of 32 bits.
  result<const std::byte*> widen(const std::byte* values, std::uint64_t count) {
    if (!is_half(plan_.type)) return values;
    PENSTOCK_TRY(wide_.reserve(count * sizeof(float)));
    convert_items(*conversion_of(plan_.type, type_), values, wide_.data(), count);
    return wide_.data();
  }

  // Returns whether there is a pixel without any valid source pixel.
  bool store_plane(double* means, const double* weight, std::uint64_t count, const std::vector<std::byte>& pair,
                   std::byte* to) {
    const std::byte* const instead = pair.empty() ? nullptr : pair.data();
    if (!is_half(plan_.type)) return store_means(type_, to, means, weight, count, instead);
    for (std::uint64_t i = 0; i < count; ++i) means[i] = static_cast<double>(half(means[i]));
    std::vector<std::byte> stored(count * sizeof(float));
    const bool has_nothing = store_means(type_, stored.data(), means, weight, count, instead);
    convert_items(*conversion_of(type_, plan_.type), stored.data(), to, count);
    return has_nothing;
  }

  const window_plan& plan_;
  const valid_pixels& valid_;
  const dtype type_;                             // the type that is resampled
  std::vector<std::vector<std::byte>> instead_;  // pairs, as many as the plan's `nodata`
  buffer unpacked_, wide_;
  std::vector<double> means_, weight_;
};

// The next strip is read while one is resampled.
result<> read_means(const window_plan& plan, const valid_pixels& valid, const progress_fn& progress, std::byte* out) {
  const std::uint64_t chunk_rows = plan.level.chunks()[plan.level.shape().size() - 2];
  const std::vector<strip> strips =
      cut_into_strips(plan, 0, plan.rows.count(), kStripElements / std::max<std::uint64_t>(1, plan.planes()),
                      static_cast<std::int64_t>(std::max<std::uint64_t>(1, chunk_rows)));
  const std::uint64_t item = plan.planes() * plan.level.type().item_bytes();
  read_progress now;
  for (const strip& each : strips) now.total_bytes += each.pixels() * item;
  strip_means means(plan, valid);
  PENSTOCK_ASSIGN(std::unique_ptr<strip_read> next, strip_read::start(plan, valid, strips.front()));
  for (std::size_t i = 0; i < strips.size(); ++i) {
    const std::unique_ptr<strip_read> current = std::move(next);
    PENSTOCK_TRY(current->wait());
    if (i + 1 < strips.size()) {
      PENSTOCK_ASSIGN(next, strip_read::start(plan, valid, strips[i + 1]));
    }
    PENSTOCK_TRY(means.make(strips[i], *current, out));
    now.done_bytes += strips[i].pixels() * item;
    if (progress && !progress(now)) return error(errc::cancelled, "the caller stopped it");
  }
  return {};
}

}  // namespace

result<> read_planned(const window_plan& plan, const progress_fn& progress, std::byte* out) {
  if (plan.how == resampling::nearest) return pick_values(plan, plan.rows.first, plan.columns.first, progress, out);
  result<> failed;
  const std::shared_ptr<valid_pixels> valid = make_valid(plan, failed);
  if (valid == nullptr) return failed;
  const auto rows = plan.rows.single_pixels(), columns = plan.columns.single_pixels();
  if (rows && columns) return read_copies(plan, *valid, *rows, *columns, progress, out);
  return read_means(plan, *valid, progress, out);
}

}  // namespace penstock::inline v0
