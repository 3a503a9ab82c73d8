#include <penstock/tiff_writer.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/counted.h"
#include "driver/tiff_new_options.h"
#include "driver/tiff_pyramid.h"
#include "driver/zarr_nodes.h"
#include "engine/blocking_read.h"
#include "format/tiff/tiff_image.h"
#include "format/tiff/tiff_new_file.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint16_t kYCbCr = 6;

std::uint16_t format_of(sample_kind kind) noexcept {
  switch (kind) {
    case sample_kind::signed_integer:
      return 2;
    case sample_kind::floating:
      return 3;
    case sample_kind::complex_floating:
      return 6;
    default:
      return 1;
  }
}

tiff_tag one_short(std::uint16_t tag, std::uint16_t value) { return short_tag(tag, std::span(&value, 1)); }

// Sizes of a directory's image and of its tiles.
std::vector<tiff_tag> place_tags(const tiff_create_options& from, const tiff_level& level) {
  const auto number = [](std::uint16_t tag, std::uint64_t value) {
    return value <= 0xffff ? one_short(tag, static_cast<std::uint16_t>(value))
                           : long_tag(tag, static_cast<std::uint32_t>(value));
  };
  return {number(256, level.width), number(257, level.height), number(322, from.tile_width),
          number(323, from.tile_height)};
}

}  // namespace

class tiff_writer::state {
 public:
  result<> begin(std::shared_ptr<store> to, tiff_create_options options);
  result<> write(std::uint64_t first_band, std::uint64_t first_row, const tensor_view& values, const tensor_view* mask);
  result<> close();

  const tiff_create_options& options() const noexcept { return options_; }
  void discard() noexcept {
    const std::lock_guard lock(mutex_);
    let_go();
  }
  bool closed() const noexcept {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  void let_go() noexcept {
    closed_ = true;
    planes_.clear();
    shop_.reset();
  }
  result<> usable() const;
  result<> check_write(std::uint64_t first_band, std::uint64_t first_row, const tensor_view& values) const;
  result<> check_mask(const tensor_view& values, const tensor_view* mask) const;
  result<> write_planes(std::uint64_t first_band, std::uint64_t first_row, const tensor_view& values,
                        const tensor_view* mask);
  result<> put_together();
  result<> finish();
  std::vector<tiff_new_directory> directories() const;
  std::vector<tiff_tag> tags_of(const tiff_level& level, bool image) const;
  std::vector<tiff_tag> mask_tags_of(const tiff_level& level, bool image) const;
  error note(error from) const { return std::move(from).note(fmt::format("writing '{}'", uri_)); }

  mutable std::mutex mutex_;
  tiff_create_options options_;
  std::shared_ptr<store> to_;
  std::string key_, uri_;
  tiff_new_image made_;
  std::unique_ptr<tiff_tile_workshop> shop_;
  std::vector<tiff_pyramid> planes_;
  bool by_opacity_ = false;  // the last plane has the opacity of the others
  bool closed_ = false;
  std::optional<error> failed_;
};

namespace {

// Whether pixels whose opacity is 0 are omitted from means: as in GDAL, of the types that it treats so, and without
// nodata and mask. If the opacity has tiles of its own, they may have to be decoded: JPEG changes values.
bool uses_alpha(const tiff_create_options& options, const tiff_new_image& made) {
  const std::uint64_t colours = options.photometric == 3 || options.photometric < 2 ? 1 : 3;  // 3: YCbCr, too
  const std::vector<std::uint16_t>& extra = options.extra_samples;
  // ExtraSamples: 1 is associated (premultiplied) opacity, 2 is unassociated.
  const bool is_last =
      !extra.empty() && extra.size() == options.bands - colours && (extra.back() == 1 || extra.back() == 2);
  return is_last && *options.resampling == overview_resampling::average && !options.mask && made.nodata.empty() &&
         (!options.planar || made.compression != tiff_compression::jpeg) &&
         made.kind == sample_kind::unsigned_integer && options.type.bits() <= 16;
}

}  // namespace

result<> tiff_writer::state::begin(std::shared_ptr<store> to, tiff_create_options options) {
  options_ = std::move(options);
  to_ = std::move(to);
  key_ = prefix_of(options_.path);
  uri_ = child_uri(to_->uri(), key_);
  if (key_.empty()) return wrong_image("a TIFF needs a name within its store");
  key_.pop_back();
  if (!to_->traits().writable) return error{errc::read_only, "this store is read-only"};
  if (!options_.context) {
    PENSTOCK_ASSIGN(options_.context, penstock::context::make());
  }

  PENSTOCK_ASSIGN(made_, resolve_options(options_));
  if (!options_.overwrite) {
    const auto found = read_and_wait(*to_, key_, {0, 0, false}, byte_range::kAll);
    if (found.ok()) return wrong_image("it already exists (overwrite replaces it)");
    if (found.error().code() != errc::not_found) return found.error().clone();
  }

  context_state& with = options_.context->state();
  shop_ = std::make_unique<tiff_tile_workshop>(with, with.threads());
  tiff_image image;
  image.samples = options_.planar ? 1 : static_cast<std::uint32_t>(options_.bands);
  image.bits = options_.bits;
  image.kind = made_.kind;
  image.compression = static_cast<std::uint16_t>(made_.compression);
  image.predictor = *options_.predictor;
  image.cell_width = options_.tile_width;
  image.cell_height = options_.tile_height;
  if (made_.compression == tiff_compression::jpeg && image.samples == 3) {
    if (options_.photometric != 2) return wrong_image("JPEG of three bands that share tiles must be RGB");
    options_.photometric = kYCbCr;
  }
  if (made_.compression == tiff_compression::jpeg && options_.photometric == 3)
    return wrong_image("JPEG changes values, so it cannot store palette indexes");
  image.photometric = options_.photometric;
  PENSTOCK_ASSIGN(shop_->image, tiff_tile_form::make(image, made_.encoding, options_.level));
  if (options_.mask) {
    tiff_image mask;
    mask.mask = true;
    mask.compression = static_cast<std::uint16_t>(tiff_compression::adobe_deflate);
    mask.cell_width = options_.tile_width;
    mask.cell_height = options_.tile_height;
    PENSTOCK_ASSIGN(shop_->mask, tiff_tile_form::make(mask, tiff_encoding::deflate, std::nullopt));
  }
  shop_->tile_height = options_.tile_height;
  shop_->tile_width = options_.tile_width;
  shop_->rule = {options_.type, *options_.resampling == overview_resampling::average, made_.nodata};
  const bool with_alpha = uses_alpha(options_, made_);
  by_opacity_ = with_alpha && options_.planar;
  if (with_alpha && !options_.planar) shop_->alpha = static_cast<std::uint32_t>(options_.bands - 1);
  shop_->fill = made_.nodata;
  shop_->fill.resize(options_.type.item_bytes());
  PENSTOCK_ASSIGN(shop_->spool,
                  spool_file::make(options_.temporary_folder.empty() ? spool_folder(uri_) : options_.temporary_folder));
  std::vector<tiff_level> levels = std::move(made_.levels);
  for (tiff_level& level : levels)
    if (level.stored) level.tiles.resize(level.across * level.down);
  std::shared_ptr<std::vector<tiff_level>> mask;
  if (options_.mask) mask = std::make_shared<std::vector<tiff_level>>(levels);
  for (std::uint64_t plane = 0; plane < (options_.planar ? options_.bands : 1); ++plane) {
    PENSTOCK_ASSIGN(tiff_pyramid made, tiff_pyramid::make(*shop_, levels, mask, mask && plane == 0, by_opacity_));
    planes_.push_back(std::move(made));
  }
  if (by_opacity_)
    for (tiff_pyramid& plane : planes_) plane.use_opacity(planes_.back());
  return {};
}

result<> tiff_writer::state::usable() const {
  if (failed_) return failed_->clone().note("an earlier write failed, so the file cannot be completed");
  if (closed_) return wrong_image("this TIFF is closed");
  return {};
}

result<> tiff_writer::state::check_write(std::uint64_t first_band, std::uint64_t first_row,
                                         const tensor_view& values) const {
  if (values.extents.size() != 3 || !(values.type == options_.type) || values.space != memory_space::host)
    return wrong_image("values should be host memory of shape (bands, rows, columns) and of the image's type");
  const std::uint64_t bands = values.extents[0], rows = values.extents[1];
  if (values.extents[2] != options_.width)
    return wrong_image(
        fmt::format("rows of {} are given, the image's have {}", counted(values.extents[2], "pixel"), options_.width));
  if (first_band > options_.bands || bands > options_.bands - first_band || first_row > options_.height ||
      rows > options_.height - first_row)
    return error{errc::out_of_range, fmt::format("bands [{}, {}) and rows [{}, {}) exceed an image of {} and {}",
                                                 first_band, first_band + bands, first_row, first_row + rows,
                                                 counted(options_.bands, "band"), counted(options_.height, "row"))};
  if (!options_.planar && bands != options_.bands)
    return wrong_image(
        fmt::format("the bands share tiles: all {} must be written together, {} are given (bands interleaved by band "
                    "can be written one by one)",
                    options_.bands, bands));
  if (options_.mask && bands != options_.bands)
    return wrong_image(
        fmt::format("the bands share a mask: all {} must be written together, {} are given", options_.bands, bands));
  const std::uint64_t end = first_row + rows, tile = options_.tile_height;
  if (first_row % tile != 0 || (end % tile != 0 && end != options_.height))
    return wrong_image(fmt::format("rows [{}, {}) are not whole rows of tiles of {} rows each", first_row, end, tile));
  for (std::uint64_t band = first_band; band < first_band + bands; ++band) {
    const tiff_pyramid& plane = planes_[options_.planar ? band : 0];
    for (std::uint64_t row = first_row / tile; row * tile < end; ++row) {
      if (plane.has_row(row))
        return wrong_image(fmt::format("rows [{}, {}){} are written already: a tile is written once", row * tile,
                                       std::min((row + 1) * tile, options_.height),
                                       options_.planar ? fmt::format(" of band {}", band) : ""));
    }
    if (!options_.planar) break;
  }
  return {};
}

result<> tiff_writer::state::check_mask(const tensor_view& values, const tensor_view* mask) const {
  if (mask == nullptr) return {};
  if (!options_.mask) return wrong_image("this TIFF was created without a mask");
  if (mask->space != memory_space::host || !(mask->type == shop_->mask->type) ||
      mask->extents != extents{values.extents[1], values.extents[2]} ||
      mask->strides != c_order_strides(mask->extents, 1))
    return wrong_image(fmt::format("a mask of {} rows of {} pixels is needed: host memory, uint8, contiguous",
                                   values.extents[1], values.extents[2]));
  return {};
}

result<> tiff_writer::state::write_planes(std::uint64_t first_band, std::uint64_t first_row, const tensor_view& values,
                                          const tensor_view* mask) {
  const std::uint64_t tile_row = first_row / options_.tile_height;
  buffer all_valid(&options_.context->state().accounts());
  tensor_view valid;
  if (options_.mask) {
    const std::uint64_t pixels = values.extents[1] * values.extents[2];
    if (mask == nullptr) {
      PENSTOCK_TRY(all_valid.reserve(pixels));
      std::memset(all_valid.data(), 255, pixels);
    }
    valid = tensor_view::contiguous(mask == nullptr ? all_valid.data() : mask->data, shop_->mask->type,
                                    extents{1, values.extents[1], values.extents[2]});
    mask = &valid;
  }
  if (!options_.planar) return planes_[0].write(tile_row, values, mask);
  const std::uint64_t bands = values.extents[0];
  buffer opaque(&options_.context->state().accounts());
  if (by_opacity_ && first_band + bands == options_.bands) {
    PENSTOCK_TRY(opaque.reserve(values.extents[1] * values.extents[2]));
    (void)mark_opaque(values, bands - 1, 0, values.extents[1], opaque.data());
    valid = tensor_view::contiguous(opaque.data(), dtype(dtype_kind::unsigned_integer, 8),
                                    extents{1, values.extents[1], values.extents[2]});
    mask = &valid;
  }
  for (std::uint64_t i = 0; i < bands; ++i) {
    const std::uint64_t band = by_opacity_ ? bands - 1 - i : i;  // the opacity is the last one
    tensor_view one = values;
    one.data += static_cast<std::ptrdiff_t>(band) * values.strides[0];
    one.extents[0] = 1;
    PENSTOCK_TRY(planes_[first_band + band].write(tile_row, one, mask));
  }
  return {};
}

result<> tiff_writer::state::write(std::uint64_t first_band, std::uint64_t first_row, const tensor_view& values,
                                   const tensor_view* mask) {
  const std::lock_guard lock(mutex_);
  auto checked = usable();
  if (checked.ok()) checked = check_write(first_band, first_row, values);
  if (checked.ok()) checked = check_mask(values, mask);
  if (!checked.ok()) return note(std::move(checked).error());
  if (values.extents[0] == 0 || values.extents[1] == 0) return {};
  auto done = write_planes(first_band, first_row, values, mask);
  if (!done.ok()) {
    failed_.emplace(done.error().clone());
    return note(std::move(done).error());
  }
  return {};
}

std::vector<tiff_tag> tiff_writer::state::tags_of(const tiff_level& level, bool image) const {
  const std::size_t bands = options_.bands;
  std::vector<tiff_tag> out = place_tags(options_, level);
  if (!image) out.push_back(long_tag(254, 1));
  out.push_back(short_tag(258, std::vector<std::uint16_t>(bands, static_cast<std::uint16_t>(options_.bits))));
  out.push_back(one_short(259, static_cast<std::uint16_t>(made_.compression)));
  out.push_back(one_short(262, options_.photometric));
  out.push_back(one_short(277, static_cast<std::uint16_t>(bands)));
  out.push_back(one_short(284, options_.planar ? 2 : 1));
  if (*options_.predictor != 1) out.push_back(one_short(317, static_cast<std::uint16_t>(*options_.predictor)));
  const bool ycbcr = options_.photometric == kYCbCr;
  if (ycbcr) out.push_back(short_tag(530, std::vector<std::uint16_t>{2, 2}));
  const std::size_t extra = bands - (ycbcr || options_.photometric == 2 ? 3 : 1);
  if (extra > 0) {
    std::vector<std::uint16_t> meaning = options_.extra_samples;
    meaning.resize(extra);
    out.push_back(short_tag(338, meaning));
  }
  out.push_back(short_tag(339, std::vector<std::uint16_t>(bands, format_of(made_.kind))));
  out.insert(out.end(), made_.shared_tags.begin(), made_.shared_tags.end());
  if (image) out.insert(out.end(), made_.tags.begin(), made_.tags.end());
  return out;
}

// Source: TIFF 6.0, "Bilevel images" and the tags NewSubfileType and PhotometricInterpretation.
std::vector<tiff_tag> tiff_writer::state::mask_tags_of(const tiff_level& level, bool image) const {
  constexpr std::uint32_t kMask = 4, kOfOverview = 1;
  constexpr std::uint16_t kTransparencyMask = 4;
  std::vector<tiff_tag> out = place_tags(options_, level);
  out.push_back(long_tag(254, image ? kMask : kMask | kOfOverview));
  out.push_back(one_short(258, 1));
  out.push_back(one_short(259, static_cast<std::uint16_t>(tiff_compression::adobe_deflate)));
  out.push_back(one_short(262, kTransparencyMask));
  out.push_back(one_short(277, 1));
  out.push_back(one_short(284, 1));
  out.push_back(one_short(339, 1));
  return out;
}

std::vector<tiff_new_directory> tiff_writer::state::directories() const {
  std::vector<tiff_new_directory> out;
  const std::vector<tiff_level>& levels = planes_[0].levels();
  for (std::size_t k = 0; k < levels.size(); ++k) {
    if (!levels[k].stored) continue;
    tiff_new_directory each;
    each.tags = tags_of(levels[k], k == 0);
    each.tile_bytes.reserve(levels[k].tiles.size() * planes_.size());
    for (const tiff_pyramid& plane : planes_)
      for (const spooled_tile& tile : plane.levels()[k].tiles) each.tile_bytes.push_back(tile.bytes);
    out.push_back(std::move(each));
    if (planes_[0].mask_levels() == nullptr) continue;
    tiff_new_directory mask;
    mask.tags = mask_tags_of(levels[k], k == 0);
    for (const spooled_tile& tile : (*planes_[0].mask_levels())[k].tiles) mask.tile_bytes.push_back(tile.bytes);
    out.push_back(std::move(mask));
  }
  return out;
}

result<> tiff_writer::state::finish() {
  for (tiff_pyramid& plane : planes_) PENSTOCK_TRY(plane.finish());
  return {};
}

result<> tiff_writer::state::put_together() {
  const std::vector<tiff_new_directory> all = directories();
  const bool big = options_.big_tiff ? *options_.big_tiff : needs_big_tiff(all, options_.planar);
  PENSTOCK_ASSIGN(const std::vector<std::byte> begin, make_tiff_begin(all, big, options_.planar));
  PENSTOCK_ASSIGN(const spool_file::view spooled, shop_->spool->map());

  // The tiles of all directories, beginning with the last directory.
  std::vector<part> parts{begin};
  const auto add = [&](const std::vector<spooled_tile>& tiles) {
    for (const spooled_tile& tile : tiles) {
      if (tile.bytes == 0) continue;
      const part next = spooled.bytes().subspan(tile.offset, kTileLeaderBytes + tile.bytes + kTileTrailerBytes);
      part& last = parts.back();
      if (parts.size() > 1 && last.data() + last.size() == next.data()) {
        last = {last.data(), last.size() + next.size()};
      } else {
        parts.push_back(next);
      }
    }
  };
  for (std::size_t k = planes_[0].levels().size(); k-- > 0;) {
    if (planes_[0].mask_levels() != nullptr) add((*planes_[0].mask_levels())[k].tiles);
    for (const tiff_pyramid& plane : planes_) add(plane.levels()[k].tiles);
  }
  write_condition condition;
  if (!options_.overwrite) condition.what = write_condition::kind::must_be_absent;
  condition.durable = options_.durable;
  auto done = to_->put(key_, parts, condition);
  if (!done.ok()) {
    if (done.error().code() == errc::version_changed)
      return wrong_image("another writer has created it meanwhile (overwrite replaces it)");
    return std::move(done).error();
  }
  return to_->flush();
}

result<> tiff_writer::state::close() {
  const std::lock_guard lock(mutex_);
  if (failed_) return note(failed_->clone().note("an earlier write failed, so the file cannot be completed"));
  if (closed_) return {};
  auto finished = finish();
  if (!finished.ok()) {
    failed_.emplace(finished.error().clone());
    return note(std::move(finished).error());
  }
  auto done = put_together();
  if (!done.ok()) return note(std::move(done).error());
  let_go();
  return {};
}

tiff_writer::tiff_writer(std::unique_ptr<state> made) noexcept : state_(std::move(made)) {}
tiff_writer::tiff_writer(tiff_writer&&) noexcept = default;
tiff_writer& tiff_writer::operator=(tiff_writer&&) noexcept = default;
tiff_writer::~tiff_writer() = default;

result<tiff_writer> tiff_writer::create(std::shared_ptr<store> to, tiff_create_options options) {
  auto made = std::make_unique<state>();
  const std::string where = child_uri(to->uri(), prefix_of(options.path));
  auto begun = made->begin(std::move(to), std::move(options));
  if (!begun.ok()) return std::move(begun).error().note(fmt::format("creating '{}'", where));
  return tiff_writer(std::move(made));
}

const tiff_create_options& tiff_writer::options() const noexcept { return state_->options(); }
extents tiff_writer::block() const {
  const tiff_create_options& how = options();
  return {how.planar && !how.mask ? 1 : how.bands, how.tile_height, how.width};
}
result<> tiff_writer::write(std::uint64_t first_band, std::uint64_t first_row, const tensor_view& values,
                            const tensor_view* mask) {
  return state_->write(first_band, first_row, values, mask);
}
result<> tiff_writer::write(std::span<const std::uint64_t> origin, const tensor_view& values) {
  const std::size_t rank = origin.size();
  if ((rank != 2 && rank != 3) || values.extents.size() != rank || (rank == 2 && options().bands != 1))
    return wrong_image("origin and values are (band, y, x), or (y, x) in an image of one band");
  if (origin[rank - 1] != 0) return wrong_image("whole rows are written: they begin at column 0");
  tensor_view rows = values;
  if (rank == 2) {
    rows.extents = {1, values.extents[0], values.extents[1]};
    rows.strides = {0, values.strides[0], values.strides[1]};
  }
  return write(rank == 3 ? origin[0] : 0, origin[rank - 2], rows, nullptr);
}
result<> tiff_writer::close() { return state_->close(); }
void tiff_writer::discard() noexcept { state_->discard(); }
bool tiff_writer::closed() const noexcept { return state_->closed(); }

}  // namespace penstock::inline v0
