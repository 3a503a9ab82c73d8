#include "format/tiff/tiff_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "array/contiguous_blocks.h"
#include "base/checked.h"
#include "format/tiff/tiff_chain.h"

namespace penstock::inline v0 {
namespace {

/// Numbers in one page of the index.
constexpr std::uint64_t kPage = 65536;
/// An uncompressed strip is divided into cells of this size.
constexpr std::uint64_t kCutBytes = std::uint64_t{1} << 20;
/// For files of unknown size.
constexpr std::uint64_t kMostCutBytes = std::uint64_t{1} << 44;
/// The same for tiles that may hold only the image's rows, whose streams can be too short for a whole tile: the ratio
/// of decoded to encoded bytes is checked only above this size.
constexpr std::uint64_t kShortTileBytes = std::uint64_t{16} << 20;

class number_page final : public index_block {
 public:
  explicit number_page(std::vector<std::uint64_t> values) noexcept : values_(std::move(values)) {}
  std::uint64_t memory_bytes() const noexcept override { return sizeof(*this) + 8 * values_.capacity(); }
  const std::vector<std::uint64_t>& values() const noexcept { return values_; }

 private:
  std::vector<std::uint64_t> values_;
};

template <class T>
std::vector<std::uint64_t> numbers_of(const std::byte* at, std::uint64_t count, bool big_endian) {
  std::vector<std::uint64_t> out(count);
  for (std::uint64_t i = 0; i < count; ++i) out[i] = tiff_number<T>(at + i * sizeof(T), big_endian);
  return out;
}

std::vector<std::uint64_t> numbers(const std::byte* at, std::uint64_t count, std::uint32_t width, bool big_endian) {
  if (width == 1) return numbers_of<std::uint8_t>(at, count, big_endian);
  if (width == 2) return numbers_of<std::uint16_t>(at, count, big_endian);
  return width == 4 ? numbers_of<std::uint32_t>(at, count, big_endian)
                    : numbers_of<std::uint64_t>(at, count, big_endian);
}

/// The number of images one after the other, if ImageJ describes only the first: for more than 4 GiB. Source: ImageJ's
/// FileSaver and TiffDecoder; tifffile's ImageJ series.
std::uint64_t images_of_stack(const tiff_details& from) {
  constexpr std::string_view kWriter = "ImageJ=", kCount = "\nimages=";
  for (const tiff_tag& each : from.tags) {
    if (each.tag != static_cast<std::uint16_t>(tiff_id::image_description)) continue;
    const std::string_view text(reinterpret_cast<const char*>(each.value.data()), each.value.size());
    const std::size_t at = text.substr(0, kWriter.size()) == kWriter ? text.find(kCount) : std::string_view::npos;
    std::uint64_t images = 1;
    if (at == std::string_view::npos) return 1;
    const auto read = std::from_chars(text.data() + at + kCount.size(), text.data() + text.size(), images);
    return read.ec == std::errc() ? std::max<std::uint64_t>(images, 1) : 1;
  }
  return 1;
}

}  // namespace

result<std::shared_ptr<const tiff_layout>> tiff_layout::make(std::shared_ptr<const tiff_details> details,
                                                             const tiff_directory& directory,
                                                             const tiff_options& options, std::string key,
                                                             const tiff_file_view& file, version seen,
                                                             std::optional<tiff_file_view> kept) {
  std::shared_ptr<tiff_layout> out(new tiff_layout);
  PENSTOCK_ASSIGN(out->image_, tiff_image::read(*details, directory));
  out->image_.mask = options.mask;
  out->details_ = std::move(details);
  out->options_ = options;
  out->key_ = std::move(key);
  out->seen_ = std::move(seen);
  out->header_ = std::move(kept);
  out->file_size_ = file.size();
  const tiff_image& from = out->image_;
  std::uint64_t cells = 0;
  if (!checked_mul(from.cells_down(), from.cells_across(), cells) ||
      !checked_mul(cells, from.planar ? from.samples : 1, cells)) {
    return error(errc::corrupt_data, "the image has more than 2^64 tiles");
  }
  // More than a file of this size can name.
  if (!file.may_hold(from.offsets.offset, from.offsets.width) || cells > file.size() / from.offsets.width) {
    return error(errc::corrupt_data,
                 fmt::format("the offsets of {} tiles or strips in a file of {} bytes", cells, file.size()));
  }
  if (from.byte_counts.width == 0 && from.compression != 1 && cells > 1) {
    return error(errc::unsupported, "compressed tiles or strips without byte counts are not readable");
  }
  PENSTOCK_TRY(out->set_bands(options));
  PENSTOCK_TRY(out->add_chains(options.native_order));
  PENSTOCK_TRY(out->find_in_stack());
  const auto keep = [&](const tiff_array& array, std::vector<std::uint64_t>& into) {
    if (array.width == 0) return;
    const std::uint64_t count = std::min(cells, array.count);
    const std::byte* const at = file.find(array.offset, count * array.width);
    if (at != nullptr) into = numbers(at, count, array.width, from.big_endian);
  };
  if (cells <= kPage) {
    keep(from.offsets, out->offsets_);
    keep(from.byte_counts, out->byte_counts_);
  }
  return std::shared_ptr<const tiff_layout>(std::move(out));
}

result<> tiff_layout::set_bands(const tiff_options& options) {
  for (const std::uint64_t band : options.bands) {
    if (band >= image_.samples)
      return error(errc::out_of_range, fmt::format("band {} of an image that has {}", band, image_.samples));
    bands_.push_back(static_cast<std::uint32_t>(band));
  }
  if (bands_.empty()) {
    for (std::uint32_t i = 0; i < image_.samples; ++i) bands_.push_back(i);
  }
  return {};
}

result<> tiff_layout::add_chains(bool native_order) {
  const bool drop_band = native_order && image_.samples == 1 && bands_.size() == 1;
  band_axis_ = drop_band ? -1 : native_order && !image_.planar ? 2 : 0;
  const std::vector<std::uint32_t> picked = image_.planar ? std::vector<std::uint32_t>{0} : bands_;
  PENSTOCK_ASSIGN(tiff_chain whole, make_tiff_chain(image_, image_.cell_height, band_axis_, picked));
  row_bytes_ = whole.samples.row_bytes();
  max_ratio_ = whole.max_ratio;
  // Rows are read separately if possible: an uncompressed image may be one strip.
  cell_rows_ = image_.cell_height;
  std::uint64_t bytes = 0;  // a strip that exceeds the file is not divided: the file bounds the number of cells
  const bool held = checked_mul(image_.height, row_bytes_, bytes) && bytes <= file_size_ && bytes <= kMostCutBytes;
  if (!image_.tiled && !whole.compressed && image_.cell_height == image_.height && held)
    cell_rows_ = std::min(cell_rows_, std::max<std::uint64_t>(1, kCutBytes / row_bytes_));

  const std::uint64_t bands = bands_.size();
  std::vector<grid_axis> axes;
  std::vector<grid_axis> objects;
  const auto add = [&](grid_axis cells, std::uint64_t extent) {
    shape_.push_back(extent);
    axes.push_back(std::move(cells));
    objects.push_back(grid_axis::uniform(extent, std::max<std::uint64_t>(extent, 1)));
  };
  if (band_axis_ == 0) add(grid_axis::uniform(bands, image_.planar ? 1 : bands), bands);
  // The last strip has only the remaining rows; a tile at the edge is complete.
  if (image_.tiled) {
    add(grid_axis::uniform(image_.height, cell_rows_), image_.height);
  } else {
    PENSTOCK_ASSIGN(grid_axis strips, block_axis(image_.height, cell_rows_));
    add(std::move(strips), image_.height);
  }
  add(grid_axis::uniform(image_.width, image_.cell_width), image_.width);
  if (band_axis_ == 2) add(grid_axis::uniform(bands, bands), bands);
  PENSTOCK_ASSIGN(grid_, chunk_grid::make(std::move(axes)));
  // A tile at the edge extends beyond the image, and so does its object.
  if (image_.tiled) {
    const std::size_t y = band_axis_ == 0 ? 1 : 0;
    objects[y] = grid_axis::uniform(image_.height, image_.cells_down() * image_.cell_height);
    objects[y + 1] = grid_axis::uniform(image_.width, image_.cells_across() * image_.cell_width);
  }
  PENSTOCK_ASSIGN(write_grid_, chunk_grid::make(std::move(objects)));
  if (cell_rows_ != image_.cell_height) {
    PENSTOCK_ASSIGN(whole, make_tiff_chain(image_, cell_rows_, band_axis_, picked));
  }
  chains_.push_back(std::move(whole.chain));
  if (!image_.tiled && image_.height % cell_rows_ != 0) {
    PENSTOCK_ASSIGN(tiff_chain last, make_tiff_chain(image_, image_.height % cell_rows_, band_axis_, picked));
    chains_.push_back(std::move(last.chain));
  }
  // Some writers store only the image's rows of the last row of tiles. GDAL and tifffile read them.
  if (image_.tiled && image_.height % cell_rows_ != 0 &&
      may_hold_fewer_rows(static_cast<tiff_compression>(image_.compression))) {
    PENSTOCK_ASSIGN(tiff_chain last,
                    make_tiff_chain(image_, cell_rows_, band_axis_, picked, image_.height % cell_rows_));
    chains_.push_back(std::move(last.chain));
  }
  return {};
}

result<> tiff_layout::find_in_stack() {
  const std::uint64_t number = details_->image_of_stack;
  if (number == 0) return {};
  const bool whole = image_.compression == 1 && !image_.tiled && !image_.planar && image_.cell_height == image_.height;
  const std::uint64_t images = whole ? images_of_stack(*details_) : 1;
  if (number >= images) return error(errc::not_found, fmt::format("page {} of a TIFF that has {}", number, images));
  if (!checked_mul(image_.height, row_bytes_, stack_bytes_) || !checked_mul(stack_bytes_, number, stack_bytes_))
    return error(errc::corrupt_data, fmt::format("a stack of {} images has 2^64 bytes or more", images));
  return {};
}

tiff_layout::place tiff_layout::place_of(cell_id cell) const {
  dim_vector<std::uint64_t> at;
  grid_.coordinates(cell, at);
  const std::size_t y = band_axis_ == 0 ? 1 : 0;
  place out{};
  out.last_row = chains_.size() > 1 && at[y] + 1 == grid_.axis(y).cells();
  std::uint64_t row = at[y];
  if (cell_rows_ != image_.cell_height) {
    out.skipped = row * cell_rows_ * row_bytes_;
    row = 0;
  }
  out.index = row * image_.cells_across() + at[y + 1];
  if (image_.planar) {
    const std::uint64_t plane = bands_[band_axis_ == 0 ? at[0] : 0];
    out.index += plane * image_.cells_down() * image_.cells_across();
  }
  return out;
}

std::uint64_t tiff_layout::rows_of(const place& at) const noexcept {
  return at.last_row && !image_.tiled ? image_.height % cell_rows_ : cell_rows_;
}

bool tiff_layout::look_up(which array, std::uint64_t index, const index_lookup& known,
                          std::vector<index_request>& missing, std::uint64_t& value) const {
  const tiff_array& from = array == which::offsets ? image_.offsets : image_.byte_counts;
  if (index >= from.count) {
    value = 0;  // of a shorter array, as in GDAL: nothing was written
    return true;
  }
  const std::vector<std::uint64_t>& kept = array == which::offsets ? offsets_ : byte_counts_;
  if (!kept.empty()) {
    value = kept[index];
    return true;
  }
  // The first page of offsets is the object's own index. All other pages must have its version.
  const std::uint64_t page = index / kPage;
  const index_key key{0, 2 * page + (array == which::offsets ? 0U : 1U)};
  if (const index_entry* const entry = known.find(key); entry != nullptr) {
    // An absent file has no tiles.
    value = entry->block ? static_cast<const number_page&>(*entry->block).values()[index % kPage] : 0;
    return true;
  }
  for (const index_request& each : missing) {
    if (each.key == key) return false;
  }
  const std::uint64_t count = std::min(kPage, from.count - page * kPage);
  const std::uint64_t bytes = count * from.width;
  missing.push_back({key, {from.offset + page * kPage * from.width, bytes, false}, bytes});
  return false;
}

result<> tiff_layout::locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                             std::vector<index_request>& missing) const {
  std::uint64_t unused = 0;
  // Requests for other pages need the first one's version.
  const bool first_page = offsets_.empty() ? look_up(which::offsets, 0, known, missing, unused) : true;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const place at = place_of(cells[i]);
    std::uint64_t offset = 0, bytes = 0;
    const bool has_offset = look_up(which::offsets, at.index, known, missing, offset);
    const bool has_bytes =
        image_.byte_counts.width == 0 || look_up(which::byte_counts, at.index, known, missing, bytes);
    if (!first_page || !has_offset || !has_bytes) continue;
    if (image_.byte_counts.width == 0) bytes = byte_range::kAll;
    auto found = to_extent(at, offset, bytes, out[i]);
    if (!found.ok()) return std::move(found).error().note(describe(cells[i]));
  }
  return {};
}

result<> tiff_layout::to_extent(const place& at, std::uint64_t offset, std::uint64_t bytes, chunk_extent& out) const {
  out = chunk_extent();
  out.chain = at.last_row ? 1 : 0;
  // As in libtiff: a single strip with an offset exists, whatever its count is.
  const bool lone = !image_.tiled && image_.cell_height == image_.height && (!image_.planar || image_.samples == 1);
  if (bytes == 0 && lone) bytes = byte_range::kAll;
  if (offset == 0 || bytes == 0) {
    out.state = presence::absent;
    return {};
  }
  out.state = presence::present;
  const bool stored = image_.compression == 1;
  const std::uint64_t decoded = rows_of(at) * row_bytes_;
  const bool may_be_short = image_.tiled && at.last_row;
  const std::uint64_t least = may_be_short ? image_.height % cell_rows_ * row_bytes_ : decoded;
  if (stored && may_be_short) {
    const bool is_short = bytes >= least && bytes < decoded && bytes % row_bytes_ == 0;
    out.chain = is_short ? 1 : 0;
    if (!is_short) bytes = decoded;
  } else if (stored) {
    bytes = at.skipped + decoded;  // whatever the count is: some writers store wrong counts
  } else if (bytes == byte_range::kAll) {
    // Without a byte count a single compressed strip may take the rest of the file.
    if (file_size_ == byte_range::kAll || offset >= file_size_)
      return error(errc::corrupt_data, "a strip without byte count exceeds the file");
    bytes = std::min(file_size_ - offset, chains_[out.chain].max_encoded_bytes());
  }
  if (!stored && decoded / bytes > max_ratio_ && decoded > (may_be_short ? kShortTileBytes : kCutBytes)) {
    return error(errc::corrupt_data, fmt::format("a tile or strip of {} bytes cannot decode to {}", bytes, decoded));
  }
  std::uint64_t begin = 0, end = 0;
  if (!checked_add(offset, stack_bytes_, offset) || !checked_add(offset, bytes, end) || end > file_size_ ||
      !checked_add(offset, at.skipped, begin)) {
    return error(errc::corrupt_data, fmt::format("a tile or strip at bytes [{}, {}) of a file of {} bytes", offset,
                                                 offset + bytes, file_size_));
  }
  out.range = {begin, bytes - at.skipped, false};
  return {};
}

result<index_ptr> tiff_layout::parse(const index_request& request, std::span<const std::byte> bytes,
                                     std::uint64_t) const {
  const tiff_array& from = request.key.node % 2 == 0 ? image_.offsets : image_.byte_counts;
  if (bytes.size() != request.max_bytes) {
    return error(errc::corrupt_data, fmt::format("an array of tiles or strips takes {} bytes, there are {}",
                                                 request.max_bytes, bytes.size()));
  }
  return index_ptr(
      std::make_shared<number_page>(numbers(bytes.data(), bytes.size() / from.width, from.width, image_.big_endian)));
}

void tiff_layout::key(object_id, std::string& out) const { out = key_; }

std::string tiff_layout::describe(cell_id cell) const {
  dim_vector<std::uint64_t> at;
  grid_.coordinates(cell, at);
  const std::size_t y = band_axis_ == 0 ? 1 : 0;
  std::string text =
      image_.tiled ? fmt::format("tile (row {}, column {}", at[y], at[y + 1]) : fmt::format("strip (row {}", at[y]);
  if (image_.planar) text += fmt::format(", band {}", bands_[band_axis_ == 0 ? at[0] : 0]);
  return text + ")";
}

}  // namespace penstock::inline v0
