#include "driver/open_tiff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>

#include "driver/drivers.h"
#include "driver/node_mode.h"
#include "driver/tiff_new_options.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "format/tiff/tiff_layout.h"
#include "format/tiff/tiff_nodata.h"
#include "format/tiff/tiff_parser.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kFirstRead = std::uint64_t{16} << 10;
/// The first read if requests cost nothing: a second request is cheaper than bytes that most headers do not need.
constexpr std::uint64_t kFirstReadNearby = std::uint64_t{4} << 10;
constexpr std::uint64_t kLongestReadAhead = std::uint64_t{1} << 20;
/// A header is refused after this many bytes, if they are also more than four times the file.
constexpr std::uint64_t kMostRead = std::uint64_t{64} << 20;
/// More headers than any file has.
constexpr unsigned kMaxReads = 1U << 20;

constexpr std::array<std::string_view, 9> kTiffEndings = {"tif", "tiff", "gtif", "gtiff", "btf",
                                                          "tf8", "cog",  "ovr",  "msk"};

/// The part of a file's header that an open array caches, for other images of the same file.
constexpr std::uint64_t kKeptBytes = std::uint64_t{256} << 10;

/// The location of a TIFF, and an image of it that is already open, or null.
struct tiff_place {
  const node_place& at;
  const tiff_layout* opened = nullptr;
  const object_head* head = nullptr;  ///< head of the TIFF itself, read before; null: not read

  const store& from() const noexcept { return *at.from; }
  /// If storage has no round trips, opening a file is cheap enough to check for sidecar files.
  bool looks_beside() const { return from().traits().request_bytes == 0; }
};

/// Reads ranges of one file, all from one version.
class header_reader {
 public:
  /// \param suffix  Of the sidecar file; empty: the TIFF itself.
  header_reader(const tiff_place& of, const std::string& suffix)
      : from_(&of.from()),
        key_(of.at.prefix.substr(0, of.at.prefix.size() - 1) + suffix),
        beside_(!suffix.empty()),
        first_(of.looks_beside() ? kFirstReadNearby : kFirstRead) {
    if (of.head != nullptr && suffix.empty()) {
      take(0, {of.head->bytes, of.head->seen, of.head->object_size});
      return;
    }
    if (of.opened == nullptr || of.opened->details().side_file != suffix || !of.opened->header()) return;
    file_ = *of.opened->header();
    seen_ = of.opened->expected(0);
  }

  const tiff_file_view& file() const noexcept { return file_; }
  const version& seen() const noexcept { return seen_; }

  /// False if the object does not exist.
  result<bool> begin() {
    if (file_.find(0, 1) != nullptr) return true;  // an open image, or an earlier attempt, has read it
    auto read = read_and_wait(*from_, key_, {0, first_, false}, first_, nullptr, true);
    // The file may be shorter, in a store that cannot return fewer bytes than requested.
    if (!read.ok() && read.error().code() == errc::corrupt_data) read = read_and_wait(*from_, key_, {}, first_);
    if (!read.ok()) {
      const errc why = read.error().code();
      // A bucket that may not be listed answers "forbidden" for missing objects.
      if (why == errc::not_found || (beside_ && why == errc::permission_denied)) return false;
      return std::move(read).error().note(read_note(key_, {0, first_, false}));
    }
    take(0, std::move(*read));
    return true;
  }

  /// Reads `range`; if it follows the range that was read before, reads further and further ahead.
  result<> read(byte_range range) {
    const bool follows = range.offset >= last_end_ && range.offset - last_end_ <= ahead_;
    ahead_ = follows ? std::min(2 * ahead_, kLongestReadAhead) : kShortRead;
    std::uint64_t length = std::max(range.length, ahead_);
    if (file_.size() == byte_range::kAll || range.offset > file_.size()) {
      length = range.length;
    } else {
      length = std::min(length, file_.size() - range.offset);
    }
    const byte_range wanted{range.offset, std::max(length, range.length), false};
    read_bytes_ += wanted.length;
    if (read_bytes_ > kMostRead && read_bytes_ / 4 > file_.size())
      return error(errc::corrupt_data,
                   fmt::format("the TIFF's directories form a loop: reading them takes {} bytes, the file has {}",
                               read_bytes_, file_.size()));
    auto read = read_and_wait(*from_, key_, wanted, wanted.length, &seen_);
    if (!read.ok()) {
      if (read.error().code() == errc::version_changed)
        return error(errc::conflict, "the file was replaced while its header was read").note(read_note(key_, wanted));
      return std::move(read).error().note(read_note(key_, wanted));
    }
    take(wanted.offset, std::move(*read));
    return {};
  }

 private:
  static constexpr std::uint64_t kShortRead = std::uint64_t{8} << 10;

  void take(std::uint64_t offset, blocking_read read) {
    last_end_ = offset + read.bytes.size();
    if (read.object_size != byte_range::kAll) file_.set_size(read.object_size);
    seen_ = std::move(read.seen);
    file_.add(offset, std::move(read.bytes));
  }

  const store* from_;
  std::string key_;
  bool beside_;
  std::uint64_t first_;
  tiff_file_view file_;
  version seen_;
  std::uint64_t last_end_ = 0, ahead_ = kFirstRead, read_bytes_ = 0;
};

/// One image of a file: the place of its description, and the part of the file that was read.
struct found_image {
  header_reader reader;
  tiff_details details;
  tiff_directory directory;
  std::array<std::uint64_t, 2> size;  ///< height, width
  std::string suffix;                 ///< suffix of the sidecar file that holds it; empty: the file itself
  std::vector<std::optional<std::uint64_t>> bands_of_mask = {};  ///< in a sidecar file, for each of the image's
};

/// Finds an image in the reader's file; nothing if the file does not exist or is not a TIFF. The image takes ownership
/// of the bytes that were read; if no image is found, the reader keeps them.
result<std::optional<found_image>> find_image(header_reader& reader, const std::string& suffix,
                                              const tiff_options& options) {
  PENSTOCK_ASSIGN(const bool there, reader.begin());
  const std::byte* const first = there ? reader.file().find(0, 8) : nullptr;
  if (first == nullptr || !tiff_parser::is_tiff({first, 8})) return std::optional<found_image>();
  tiff_parser parser(options);
  for (unsigned reads = 0; reads < kMaxReads; ++reads) {
    auto missing = parser.advance(reader.file());
    if (!missing.ok()) {
      error why = std::move(missing).error();
      why.note(fmt::format("reading the TIFF's directories{}{}", suffix.empty() ? "" : " of ", suffix));
      return why;
    }
    if (!*missing) {
      tiff_details details = parser.take_details();
      return std::optional<found_image>(
          {std::move(reader), std::move(details), parser.directory(), parser.size(), suffix});
    }
    PENSTOCK_TRY(reader.read(**missing));
  }
  return error(errc::corrupt_data, "the TIFF's directories form a loop");
}

/// The same in the file with that name.
result<std::optional<found_image>> find_image(const tiff_place& from, const std::string& suffix,
                                              const tiff_options& options) {
  header_reader reader(from, suffix);
  return find_image(reader, suffix, options);
}

const tiff_tag* find_tag(const std::vector<tiff_tag>& tags, tiff_id id) {
  const auto at =
      std::find_if(tags.begin(), tags.end(), [&](const tiff_tag& each) { return each.tag == static_cast<int>(id); });
  return at == tags.end() ? nullptr : &*at;
}

/// GDAL's metadata of the image's page.
std::string metadata_of(const tiff_details& of) {
  const tiff_tag* const tag = find_tag(of.page_tags.empty() ? of.tags : of.page_tags, tiff_id::gdal_metadata);
  if (tag == nullptr) return {};
  return {reinterpret_cast<const char*>(tag->value.data()), tag->value.size()};
}

std::uint64_t samples_of(const std::vector<tiff_tag>& tags, bool big_endian) {
  const tiff_tag* const tag = find_tag(tags, tiff_id::samples_per_pixel);
  const std::uint64_t samples = tag == nullptr ? 1 : tiff_integer(tag->value, tag->type, 0, big_endian).value_or(1);
  return std::min<std::uint64_t>(samples, std::numeric_limits<std::uint16_t>::max());
}

/// Whether an image in a sidecar file can be an overview of an image with `count` bands.
bool is_overview_of(const found_image& beside, std::uint64_t count) {
  return beside.size[0] != 0 && beside.size[1] != 0 &&
         samples_of(beside.details.tags, beside.details.big_endian) == count;
}

/// For each band of an image with `count` bands, its band of the mask, if `metadata` names one: by the flags of each
/// band, counted from 1, in which 2 means the mask of the first one. Source: GDALMaskFlags;
/// gcore/gdaldefaultoverviews.cpp, GetMaskBand.
std::vector<std::optional<std::uint64_t>> bands_of_mask(const found_image& mask, std::string_view metadata,
                                                        std::uint64_t count) {
  constexpr unsigned kOfAllBands = 2;
  constexpr std::string_view kName = "\"INTERNAL_MASK_FLAGS_";
  const std::uint64_t mask_count = samples_of(mask.details.tags, mask.details.big_endian);
  const char* const end = metadata.data() + metadata.size();
  std::vector<std::optional<std::uint64_t>> out(count);
  const char* at = metadata.data();
  for (;;) {
    at = std::search(at, end, kName.begin(), kName.end());
    if (at == end) break;
    std::uint64_t band = 0;
    unsigned flags = 0;
    const auto number = std::from_chars(at + kName.size(), end, band);
    at = std::find(number.ptr, end, '>');
    if (at == end) break;
    if (number.ec != std::errc() || band == 0 || band > count) continue;
    if (std::from_chars(at + 1, end, flags).ec != std::errc()) continue;
    if ((flags & kOfAllBands) != 0) out[band - 1] = 0;
    if ((flags & kOfAllBands) == 0 && band <= mask_count) out[band - 1] = band - 1;
  }
  return out;
}

/// The selected bands of a mask in a sidecar file, if `wanted` are the image's.
/// \error unsupported  A selected band has no mask. \error out_of_range  The image does not have the band.
result<std::vector<std::uint64_t>> chosen_bands_of_mask(const std::vector<std::optional<std::uint64_t>>& of_bands,
                                                        const std::vector<std::uint64_t>& wanted) {
  const auto is_first = [](const std::optional<std::uint64_t>& each) { return each == std::uint64_t{0}; };
  if (std::all_of(of_bands.begin(), of_bands.end(), is_first)) return std::vector<std::uint64_t>{0};
  std::vector<std::uint64_t> out;
  for (std::uint64_t i = 0; i < (wanted.empty() ? of_bands.size() : wanted.size()); ++i) {
    const std::uint64_t band = wanted.empty() ? i : wanted[i];
    if (band >= of_bands.size())
      return error(errc::out_of_range, fmt::format("band {} of an image with {}", band, of_bands.size()));
    if (!of_bands[band])
      return error(errc::unsupported,
                   fmt::format("the sidecar file of the image has masks of other bands, but not of band {}", band));
    out.push_back(*of_bands[band]);
  }
  return out;
}

/// Records in `to` the mask of that level and size, if a sidecar file has it for some of the image's bands.
void add_mask_beside(const tiff_place& from, std::uint64_t level, const std::array<std::uint64_t, 2>& size,
                     std::uint64_t count, tiff_companions& to) {
  tiff_options options;
  auto whole = find_image(from, ".msk", options);
  if (!whole.ok() || !*whole) return;
  options.level = level;
  auto found = level == 0 ? std::move(whole) : find_image(from, ".msk", options);
  if (!found.ok()) {
    options.level = level - 1;
    found = find_image(from, ".msk.ovr", options);
  }
  if (!found.ok() || !*found || (*found)->size != size) return;
  const std::string metadata = metadata_of(level == 0 ? (*found)->details : (*whole)->details);
  std::vector<std::uint64_t> masked;
  const auto of_bands = bands_of_mask(**found, metadata, count);
  for (std::uint64_t i = 0; i < count; ++i)
    if (of_bands[i]) masked.push_back(i);
  to.has_mask = !masked.empty();
  if (masked.size() < count) to.masked_bands = std::move(masked);
}

/// Adds the overviews of a sidecar file with `suffix`, and whether the file has the mask of an image of that size.
void add_side_files(const tiff_place& from, const tiff_options& options, const std::string& suffix,
                    const std::array<std::uint64_t, 2>& size, std::uint64_t count, tiff_companions& to) {
  if (to.overviews.empty()) {
    const auto found = find_image(from, suffix + ".ovr", {});
    if (found.ok() && *found && is_overview_of(**found, count)) {
      const tiff_details& beside = (*found)->details;
      to.overviews = beside.companions.overviews;
      to.overviews.insert(to.overviews.begin(), {beside.page_height, beside.page_width});
    }
  }
  if (!to.has_mask && !options.mask) add_mask_beside(from, options.level, size, count, to);
}

/// Only the first page has sidecar files.
bool may_have_side_files(const tiff_options& options) {
  return options.page == 0 && options.sub_ifds.empty() && !options.ifd;
}

/// Finds an image in the file or, if the file itself does not have that level or mask, in sidecar files. Source: GDAL's
/// page on GeoTIFF, "Overviews" and "Internal nodata masks".
result<std::optional<found_image>> find_with_side_files(const tiff_place& from, const std::string& suffix,
                                                        const tiff_options& options) {
  header_reader reader(from, suffix);
  auto found = find_image(reader, suffix, options);
  if (found.ok() || found.error().code() != errc::not_found || !may_have_side_files(options) ||
      (options.level == 0 && !options.mask)) {
    return found;
  }
  tiff_options plain;
  PENSTOCK_ASSIGN(std::optional<found_image> whole, find_image(reader, suffix, plain));
  if (!whole) return std::optional<found_image>();
  const std::uint64_t count = samples_of(whole->details.tags, whole->details.big_endian);
  std::optional<found_image> beside;
  if (options.mask) {
    plain.level = options.level;
    PENSTOCK_ASSIGN(beside, find_with_side_files(from, suffix + ".msk", plain));
  } else if (whole->details.companions.overviews.empty()) {
    plain.level = options.level - 1;
    PENSTOCK_ASSIGN(beside, find_image(from, suffix + ".ovr", plain));
    if (beside && !is_overview_of(*beside, count)) beside.reset();
  }
  if (!beside) return found;
  tiff_companions& known = whole->details.companions;
  add_side_files(from, options, suffix, whole->size, count, known);
  if (options.mask) {
    // A mask of another size is left over from another image.
    const auto& levels = known.overviews;
    const bool has_level = options.level <= levels.size();
    if (!has_level || beside->size != (options.level == 0 ? whole->size : levels[options.level - 1])) return found;
    beside->bands_of_mask = bands_of_mask(*beside, metadata_of(beside->details), count);
    if (std::none_of(beside->bands_of_mask.begin(), beside->bands_of_mask.end(),
                     [](const auto& each) { return each.has_value(); }))
      return found;
  }
  beside->details.page_tags = std::move(whole->details.tags);
  beside->details.page_width = whole->details.page_width;
  beside->details.page_height = whole->details.page_height;
  beside->details.companions.overviews = std::move(known.overviews);
  if (!options.mask && from.looks_beside() && !beside->details.companions.has_mask)
    add_mask_beside(from, options.level, beside->size, count, beside->details.companions);
  return beside;
}

/// Distinguishes the images of a file.
std::string name_of(const tiff_options& options) {
  if (options.is_default()) return {};
  return fmt::format("{} {} {} {} {} {} {}", options.page, fmt::join(options.sub_ifds, ","), options.level,
                     options.mask, options.native_order, fmt::join(options.bands, ","),
                     options.ifd ? static_cast<std::int64_t>(*options.ifd) : -1);
}

result<array> make_array(const tiff_place& from, tiff_options options, found_image found) {
  const node_place& at = from.at;
  const bool is_of_all_bands = found.suffix.empty() && samples_of(found.details.tags, found.details.big_endian) == 1;
  if (options.mask && is_of_all_bands) options.bands.clear();
  if (options.mask && !found.suffix.empty()) {
    PENSTOCK_ASSIGN(options.bands, chosen_bands_of_mask(found.bands_of_mask, options.bands));
  }
  auto details = std::make_shared<tiff_details>(std::move(found.details));
  details->side_file = found.suffix;
  std::string key = at.prefix;
  const std::size_t slash = key.empty() ? std::string::npos : key.find_last_of('/', key.size() - 2);
  std::string name = key.substr(slash == std::string::npos ? 0 : slash + 1);
  if (!name.empty()) name.pop_back();
  name += found.suffix;
  std::optional<tiff_file_view> kept;
  if (!from.looks_beside() && found.reader.seen().known()) kept = found.reader.file().first(kKeptBytes);
  PENSTOCK_ASSIGN(const std::shared_ptr<const tiff_layout> layout,
                  tiff_layout::make(std::move(details), found.directory, options, std::move(name), found.reader.file(),
                                    found.reader.seen(), std::move(kept)));
  const tiff_image& image = layout->image();
  array_site where = site_of(at);
  where.prefix = slash == std::string::npos ? std::string() : key.substr(0, slash + 1);
  array_facts facts;
  facts.shape = layout->shape();
  facts.chunks = layout->chunks();
  facts.type = layout->type();
  tiff_fill fill = fill_of_nodata(options.mask ? std::string_view() : image.nodata, facts.type);
  facts.fill_value = std::move(fill.item);
  facts.fill_value_json = std::move(fill.json);
  facts.fill_is_nodata = fill.is_nodata;
  facts.codecs_json = fmt::format(R"([{{"name": "tiff", "configuration": {{"compression": "{}", "predictor": {}}}}}])",
                                  compression_name(image.compression), image.predictor);
  facts.codecs_text = layout->chains()[0].describe();
  facts.format = "tiff";
  if (layout->band_axis() == 0) facts.dimension_names.emplace_back("band");
  facts.dimension_names.emplace_back("y");
  facts.dimension_names.emplace_back("x");
  if (layout->band_axis() == 2) facts.dimension_names.emplace_back("band");
  return array(std::make_shared<const array_state>(std::move(where), layout, std::move(facts), cache_name::lasting,
                                                   name_of(options)));
}

result<std::optional<array>> open_image(const tiff_place& from, const tiff_options& options) {
  if (from.at.prefix.empty()) return std::optional<array>();
  const auto note = [&] { return fmt::format("opening '{}'", from.at.uri); };
  auto found = find_with_side_files(from, "", options);
  if (!found.ok()) return std::move(found).error().note(note());
  if (!*found) return std::optional<array>();
  auto made = make_array(from, options, std::move(**found));
  if (!made.ok()) return std::move(made).error().note(note());
  return std::optional<array>(std::move(*made));
}

/// The location of the file of an open image, or of the TIFF to which the sidecar file belongs.
node_place file_of(const array_state& image, const tiff_layout& layout) {
  std::string name;
  layout.key(0, name);
  name.resize(name.size() - layout.details().side_file.size());
  node_place at;
  at.context = image.context;
  at.from = image.store;
  at.prefix = image.prefix + name + '/';
  at.uri = image.uri;
  at.cache_unversioned_indexes = image.caches_indexes;
  return at;
}

}  // namespace

const tiff_details* tiff_details_of(const array& from) noexcept {
  const auto* const layout = dynamic_cast<const tiff_layout*>(from.state().layout.get());
  return layout == nullptr ? nullptr : &layout->details();
}

tiff_options tiff_options_of(const array& from) {
  const auto* const layout = dynamic_cast<const tiff_layout*>(from.state().layout.get());
  return layout == nullptr ? tiff_options() : layout->options();
}

tiff_companions tiff_companions_of(const array& from) {
  const auto* const layout = dynamic_cast<const tiff_layout*>(from.state().layout.get());
  if (layout == nullptr) return {};
  tiff_companions out = layout->details().companions;
  const node_place at = file_of(from.state(), *layout);
  const tiff_place file{at, layout};
  if (!layout->details().side_file.empty() || !may_have_side_files(layout->options()) || !file.looks_beside())
    return out;
  add_side_files(file, layout->options(), "", {layout->image().height, layout->image().width}, layout->image().samples,
                 out);
  return out;
}

bool is_tiff_name(std::string_view prefix) noexcept {
  while (!prefix.empty() && prefix.back() == '/') prefix.remove_suffix(1);
  const std::size_t dot = prefix.rfind('.');
  if (dot == std::string_view::npos) return false;
  std::string ending(prefix.substr(dot + 1, 8));
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char each) { return static_cast<char>(std::tolower(each)); });
  return std::find(kTiffEndings.begin(), kTiffEndings.end(), ending) != kTiffEndings.end();
}

result<array> open_tiff(std::shared_ptr<const store> from, const open_options& options, const tiff_options& image) {
  PENSTOCK_TRY(check_open_mode(options.mode));
  node_place at;
  at.context = options.context;
  if (!at.context) {
    PENSTOCK_ASSIGN(at.context, penstock::context::make());
  }
  at.prefix = prefix_of(options.path);
  at.uri = child_uri(from->uri(), at.prefix);
  at.from = std::move(from);
  at.cache_unversioned_indexes = options.cache_unversioned_indexes;
  PENSTOCK_ASSIGN(std::optional<array> opened, open_tiff(at, image));
  if (!opened) return error(errc::not_found, fmt::format("no TIFF at '{}'", at.uri));
  PENSTOCK_ASSIGN(node as, in_mode(node(std::move(*opened)), options.mode));
  return std::get<array>(std::move(as));
}

result<array> open_tiff(const array& of_file, const tiff_options& image) {
  const array_state& known = of_file.state();
  const auto* const layout = dynamic_cast<const tiff_layout*>(known.layout.get());
  if (layout == nullptr) return error(errc::invalid_argument, fmt::format("'{}' is not an image of a TIFF", known.uri));
  const node_place at = file_of(known, *layout);
  PENSTOCK_ASSIGN(std::optional<array> opened, open_image({at, layout}, image));
  if (!opened) return error(errc::not_found, fmt::format("no TIFF at '{}'", at.uri));
  const auto& other = static_cast<const tiff_layout&>(*opened->state().layout);
  const version before = layout->expected(0), now = other.expected(0);
  if (other.details().side_file == layout->details().side_file && before.known() && !(before == now))
    return error(errc::conflict, "the file was replaced since its first image was opened")
        .note(fmt::format("opening '{}'", at.uri));
  return std::move(*opened);
}

result<std::optional<array>> open_tiff(const node_place& at, const tiff_options& options, const object_head* head) {
  return open_image({at, nullptr, head}, options);
}

namespace {

class tiff_format final : public format_driver {
 public:
  std::string_view name() const noexcept override { return "tiff"; }
  std::span<const std::string_view> endings() const noexcept override { return kTiffEndings; }
  bool has_members() const noexcept override { return false; }
  bool sniff(std::span<const std::byte> begin, std::string_view) const noexcept override {
    return tiff_parser::is_tiff(begin);
  }
  result<node> open(const location& at, const open_options& how) const override {
    const node_place place = place_of(at, how);
    PENSTOCK_ASSIGN(std::optional<array> image, open_image({place, nullptr, at.head.get()}, tiff_options()));
    if (!image) return error(errc::not_found, fmt::format("no TIFF at '{}'", at.uri));
    return node(std::move(*image));
  }
  bool writes_once() const noexcept override { return true; }
  result<std::unique_ptr<array_writer>> begin(const new_location& at, const create_options& how) const override {
    return begin_tiff(at, how);
  }
  result<array> create(const new_location& at, const create_options& how) const override {
    PENSTOCK_ASSIGN(const std::unique_ptr<array_writer> writer, begin(at, how));
    PENSTOCK_TRY(writer->close());
    return open_new_object(at, *this);
  }
  std::string_view written_by() const noexcept override {
    return "penstock.convert or penstock.save in Python, penstock convert, or begin_array in C++";
  }
};

}  // namespace

const format_driver& tiff_driver() noexcept {
  static const tiff_format kDriver;
  return kDriver;
}

}  // namespace penstock::inline v0
