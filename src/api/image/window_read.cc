#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include <penstock/georeference.h>
#include <penstock/selection.h>
#include <penstock/tiff.h>
#include "api/image/valid_pixels.h"
#include "api/image/window_plan.h"
#include "array/conversion.h"
#include "array/strided_copy.h"
#include "array/weighted_means.h"
#include "codec/filters/half.h"
#include "format/tiff/tiff_nodata.h"

namespace penstock::inline v0 {
namespace {

/// Source elements that are resampled at a time, while as many more are read.
constexpr std::uint64_t kStripElements = std::uint64_t{1} << 21;

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

// Reads one source pixel for each of `out`, which has the array's dimensions with these rows and columns.
result<> pick(const array& from, const positions& rows, const positions& columns, std::span<const std::byte> missing,
              std::byte* out, unsigned threads) {
  extents shape = from.shape();
  const std::size_t rank = shape.size();
  const auto [top, bottom] = within(rows, shape[rank - 2]);
  const auto [left, right] = within(columns, shape[rank - 1]);
  shape[rank - 2] = rows.size();
  shape[rank - 1] = columns.size();
  const strides steps = c_order_strides(shape, from.type().item_bytes());
  if (bottom - top < rows.size() || right - left < columns.size()) {
    PENSTOCK_ASSIGN(const std::uint64_t count, element_count(shape));
    fill_items(out, count, missing);
  }
  if (top >= bottom || left >= right) return {};
  tensor_view part{out, from.type(), shape, steps, memory_space::host};
  part.data += static_cast<std::int64_t>(top) * steps[rank - 2] + static_cast<std::int64_t>(left) * steps[rank - 1];
  part.extents[rank - 2] = bottom - top;
  part.extents[rank - 1] = right - left;
  read_options options;
  options.threads = threads;
  const std::span<const std::int64_t> all_rows(rows), all_columns(columns);
  return from.read(selection_of(from, item_of(all_rows.subspan(top, bottom - top)),
                                item_of(all_columns.subspan(left, right - left))),
                   part, options);
}

std::shared_ptr<valid_pixels> make_valid(const window_plan& plan, result<>& failed) {
  if (plan.given_nodata || tiff_details_of(plan.level) == nullptr)
    return std::make_shared<valid_pixels>(plan.level.type(), plan.planes(), plan.nodata);
  auto made = valid_pixels::of_image(plan.level, plan.planes());
  if (made.ok()) return std::make_shared<valid_pixels>(std::move(made).value());
  failed = std::move(made).error();
  return nullptr;
}

// Copies pixels, with any kernel: each result pixel has one source pixel.
result<> read_copies(const window_plan& plan, const valid_pixels& valid, const positions& rows,
                     const positions& columns, std::byte* out) {
  std::vector<std::vector<std::byte>> masks;
  const std::uint64_t pixels = plan.rows.count() * plan.columns.count();
  for (const array& mask : valid.masks()) {
    std::uint64_t planes = 1;
    for (std::size_t d = 0; d + 2 < mask.shape().size(); ++d) planes *= mask.shape()[d];
    const std::vector<std::byte> nothing(mask.type().item_bytes());
    masks.emplace_back(planes * pixels * mask.type().item_bytes());
    PENSTOCK_TRY(pick(mask, rows, columns, nothing, masks.back().data(), plan.threads));
  }
  PENSTOCK_TRY(pick(plan.level, rows, columns, plan.missing, out, plan.threads));
  if (valid.all() || (valid.by_opacity() && !plan.fill_value)) return {};
  const std::size_t item = plan.missing.size();
  const pixel_flags flags = valid.flags(out, masks, pixels);
  for (std::uint64_t plane = 0; plane < plan.planes(); ++plane) {
    const std::uint8_t* const of = flags.of(plane);
    for (std::uint64_t i = 0; i < pixels; ++i)
      if (of[i] == 0) std::memcpy(out + (plane * pixels + i) * item, plan.missing.data(), item);
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

// Strips whose source is small enough to be in memory; whole rows of chunks if they fit.
std::vector<strip> cut_into_strips(const window_plan& plan) {
  const extents& shape = plan.level.shape();
  const auto height = static_cast<std::int64_t>(shape[shape.size() - 2]);
  const auto width = static_cast<std::int64_t>(shape[shape.size() - 1]);
  const auto chunk_rows = static_cast<std::int64_t>(std::max<std::uint64_t>(1, plan.level.chunks()[shape.size() - 2]));
  const resample_taps& rows = plan.rows;
  const std::int64_t low = plan.columns.low(), high = plan.columns.high();
  const auto of_row = plan.planes() * static_cast<std::uint64_t>(high - low);
  const auto source_rows =
      static_cast<std::int64_t>(std::max<std::uint64_t>(1, kStripElements / std::max<std::uint64_t>(1, of_row)));
  std::vector<strip> out;
  for (std::size_t start = 0; start < rows.count();) {
    std::size_t stop = start;
    const std::int64_t end = rows.first[start] + source_rows;
    for (const std::int64_t last : {end / chunk_rows * chunk_rows, end}) {
      const auto found =
          std::upper_bound(rows.first.begin(), rows.first.end(), last - static_cast<std::int64_t>(rows.width));
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
    out->masks.resize(valid.masks().size());
    for (std::size_t i = 0; i < valid.masks().size(); ++i)
      PENSTOCK_TRY(out->add(valid.masks()[i], of, plan.threads, out->masks[i]));
    PENSTOCK_TRY(out->add(plan.level, of, plan.threads, out->values));
    return out;
  }
  result<> wait() {
    for (ticket& each : tickets_) PENSTOCK_TRY(each.wait());
    return {};
  }

  std::vector<std::byte> values;
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

// A value that a mean must not have, and the next number that replaces it; in the type in which means are stored.
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
      : plan_(plan),
        valid_(valid),
        type_(is_half(plan.level.type()) ? dtype(dtype_kind::floating, 32) : plan.level.type()),
        instead_(nodata_pair(plan.level.type(), plan.nodata)) {}

  void make(const strip& of, strip_read& from, std::byte* out) {
    const std::uint64_t planes = plan_.planes(), pixels = (of.end - of.begin) * plan_.columns.count();
    pixel_planes source;
    source.type = type_;
    source.planes = planes;
    source.rows = static_cast<std::size_t>(of.bottom - of.top);
    source.columns = static_cast<std::size_t>(of.right - of.left);
    pixel_flags flags;
    if (!valid_.all()) {
      flags = valid_.flags(from.values.data(), from.masks, of.pixels());
      source.valid = flags.values.data();
      source.valid_planes = flags.planes;
    }
    widen(from.values, planes * of.pixels());
    source.values = from.values.data();
    means_.resize(planes * pixels);
    weight_.resize((valid_.all() ? 1 : planes) * pixels);
    weighted_means(source, plan_.rows.part(of.begin, of.end, of.top),
                   plan_.columns.part(0, plan_.columns.count(), of.left), plan_.how == resampling::bilinear,
                   means_.data(), weight_.data());
    const std::uint64_t rows = plan_.rows.count(), item = plan_.missing.size();
    for (std::uint64_t plane = 0; plane < planes; ++plane) {
      const double* const weight = weight_.data() + (valid_.all() ? 0 : plane * pixels);
      std::byte* const to = out + (plane * rows + of.begin) * plan_.columns.count() * item;
      if (!store_plane(means_.data() + plane * pixels, weight, pixels, to)) continue;
      for (std::uint64_t i = 0; i < pixels; ++i)
        if (weight[i] <= 0) std::memcpy(to + i * item, plan_.missing.data(), item);
    }
  }

 private:
  // Converts floats of 16 bits to floats of 32 bits.
  void widen(std::vector<std::byte>& values, std::uint64_t count) {
    if (!is_half(plan_.level.type())) return;
    std::vector<std::byte> wide(count * sizeof(float));
    convert_items(*conversion_of(plan_.level.type(), type_), values.data(), wide.data(), count);
    values = std::move(wide);
  }

  // Returns whether there is a pixel without any valid source pixel.
  bool store_plane(double* means, const double* weight, std::uint64_t count, std::byte* to) {
    const std::byte* const instead = instead_.empty() ? nullptr : instead_.data();
    if (!is_half(plan_.level.type())) return store_means(type_, to, means, weight, count, instead);
    for (std::uint64_t i = 0; i < count; ++i) means[i] = static_cast<double>(half(means[i]));
    std::vector<std::byte> stored(count * sizeof(float));
    const bool has_nothing = store_means(type_, stored.data(), means, weight, count, instead);
    convert_items(*conversion_of(type_, plan_.level.type()), stored.data(), to, count);
    return has_nothing;
  }

  const window_plan& plan_;
  const valid_pixels& valid_;
  const dtype type_;  // that is resampled
  const std::vector<std::byte> instead_;
  std::vector<double> means_, weight_;
};

// The next strip is read while one is resampled.
result<> read_means(const window_plan& plan, const valid_pixels& valid, std::byte* out) {
  const std::vector<strip> strips = cut_into_strips(plan);
  strip_means means(plan, valid);
  PENSTOCK_ASSIGN(std::unique_ptr<strip_read> next, strip_read::start(plan, valid, strips.front()));
  for (std::size_t i = 0; i < strips.size(); ++i) {
    const std::unique_ptr<strip_read> current = std::move(next);
    PENSTOCK_TRY(current->wait());
    if (i + 1 < strips.size()) {
      PENSTOCK_ASSIGN(next, strip_read::start(plan, valid, strips[i + 1]));
    }
    means.make(strips[i], *current, out);
  }
  return {};
}

}  // namespace

result<> read_planned(const window_plan& plan, std::byte* out) {
  if (plan.how == resampling::nearest)
    return pick(plan.level, plan.rows.first, plan.columns.first, plan.missing, out, plan.threads);
  result<> failed;
  const std::shared_ptr<valid_pixels> valid = make_valid(plan, failed);
  if (valid == nullptr) return failed;
  const auto rows = plan.rows.single_pixels(), columns = plan.columns.single_pixels();
  if (rows && columns) return read_copies(plan, *valid, *rows, *columns, out);
  return read_means(plan, *valid, out);
}

}  // namespace penstock::inline v0
