#include "format/tiff/tiff_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kMaxEntries = 65536;
constexpr std::size_t kMaxDirectories = std::size_t{1} << 20;
constexpr std::uint64_t kMaxSubDirectories = 256;
/// Longer values (except those of tile arrays) are skipped.
constexpr std::uint64_t kMaxValueBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kMaxAllValueBytes = std::uint64_t{64} << 20;
/// More than a million directories of real files need.
constexpr std::uint64_t kMaxDirectoryBytes = std::uint64_t{1} << 30;
constexpr std::string_view kStructure = "GDAL_STRUCTURAL_METADATA_SIZE=";

bool is_tile_array(std::uint16_t tag) noexcept {
  const auto id = static_cast<tiff_id>(tag);
  return id == tiff_id::strip_offsets || id == tiff_id::strip_byte_counts || id == tiff_id::tile_offsets ||
         id == tiff_id::tile_byte_counts;
}

/// The limit for data that parts of a file should not share, for a file of this size. Generous, with an upper bound.
std::uint64_t allowed_bytes(const tiff_file_view& file, std::uint64_t at_most) noexcept {
  constexpr std::uint64_t kAlways = std::uint64_t{64} << 10;
  return file.size() >= at_most / 2 ? at_most : std::min(at_most, 2 * file.size() + kAlways);
}

error beyond(const char* what, std::uint64_t offset, std::uint64_t length, std::uint64_t size) {
  return {errc::corrupt_data,
          fmt::format("{} at bytes [{}, {}) of a file of {} bytes", what, offset, offset + length, size)};
}

}  // namespace

bool tiff_parser::is_tiff(std::span<const std::byte> begin) noexcept {
  if (begin.size() < 8) return false;
  const char* const text = reinterpret_cast<const char*>(begin.data());
  for (const std::string_view magic :
       {std::string_view("II*\0", 4), std::string_view("MM\0*", 4), std::string_view("II+\0\x08\0\0\0", 8),
        std::string_view("MM\0+\0\x08\0\0", 8)}) {
    if (std::memcmp(text, magic.data(), magic.size()) == 0) return true;
  }
  return false;
}

result<std::optional<byte_range>> tiff_parser::advance(const tiff_file_view& file) {
  for (;;) {
    need missing;
    switch (step_) {
      case step::header: {
        PENSTOCK_ASSIGN(missing, read_header(file));
        break;
      }
      case step::chain: {
        PENSTOCK_ASSIGN(missing, follow_chain(file));
        break;
      }
      case step::descent: {
        PENSTOCK_ASSIGN(missing, descend(file));
        break;
      }
      case step::sub_directories: {
        PENSTOCK_ASSIGN(missing, read_sub_directories(file));
        break;
      }
      case step::choose:
        PENSTOCK_TRY(choose());
        break;
      case step::image_values: {
        std::uint64_t next = 0;
        if (!have_image_) {
          PENSTOCK_ASSIGN(missing, read_directory(file, image_offset_, image_, next));
          if (missing) return missing;
          have_image_ = true;
        }
        PENSTOCK_ASSIGN(missing, read_values(file, image_, details_.tags));
        next_value_ = missing ? next_value_ : 0;
        break;
      }
      case step::page_values: {
        if (page_offset_ != image_offset_) {
          PENSTOCK_ASSIGN(missing, read_values(file, page_, details_.page_tags));
        }
        break;
      }
      case step::done:
        return need();
    }
    if (missing) return missing;
    step_ = static_cast<step>(static_cast<int>(step_) + 1);
  }
}

result<std::optional<byte_range>> tiff_parser::read_header(const tiff_file_view& file) {
  const std::byte* at = file.find(0, 8);
  if (at == nullptr) {
    if (!file.may_hold(0, 8)) return error(errc::corrupt_data, "a TIFF has at least 8 bytes");
    return need(byte_range{0, 8, false});
  }
  if (!is_tiff({at, 8})) return error(errc::corrupt_data, "no TIFF: its first bytes are others");
  details_.big_endian = at[0] == std::byte{'M'};
  details_.big_tiff = tiff_number<std::uint16_t>(at + 2, details_.big_endian) == 43;
  const std::uint64_t header = details_.big_tiff ? 16 : 8;
  at = file.find(0, header);
  if (at == nullptr) {
    if (!file.may_hold(0, header)) return beyond("the header is", 0, header, file.size());
    return need(byte_range{0, header, false});
  }
  next_ = details_.big_tiff ? tiff_number<std::uint64_t>(at + 8, details_.big_endian)
                            : tiff_number<std::uint32_t>(at + 4, details_.big_endian);
  if (next_ == 0) return error(errc::corrupt_data, "the TIFF has no directory");
  // GDAL's text after the header, if it was read together with the header. Parsing does not depend on it.
  constexpr std::uint64_t kHead = 43;  // `GDAL_STRUCTURAL_METADATA_SIZE=000174 bytes\n`
  const std::byte* const ghost = file.find(header, kHead);
  if (ghost != nullptr && std::memcmp(ghost, kStructure.data(), kStructure.size()) == 0) {
    std::uint64_t size = 0;
    for (std::size_t i = kStructure.size(); i < kStructure.size() + 6; ++i) {
      const auto digit = static_cast<std::uint64_t>(ghost[i]) - '0';
      if (digit <= 9) size = size * 10 + digit;
    }
    const std::byte* const text = file.find(header + kHead, size);
    if (text != nullptr) details_.structure.assign(reinterpret_cast<const char*>(text), size);
  }
  return need();
}

result<std::optional<byte_range>> tiff_parser::read_directory(const tiff_file_view& file, std::uint64_t offset,
                                                              tiff_directory& out, std::uint64_t& next) {
  const bool big = details_.big_tiff, swap = details_.big_endian;
  const std::uint64_t count_bytes = big ? 8 : 2, entry_bytes = big ? 20 : 12, next_bytes = big ? 8 : 4;
  const std::byte* at = file.find(offset, count_bytes);
  if (at == nullptr) {
    if (!file.may_hold(offset, count_bytes)) return beyond("a directory is", offset, count_bytes, file.size());
    return need(byte_range{offset, count_bytes, false});
  }
  const std::uint64_t count = big ? tiff_number<std::uint64_t>(at, swap) : tiff_number<std::uint16_t>(at, swap);
  if (count == 0 || count > kMaxEntries) {
    return error(errc::corrupt_data, fmt::format("the directory at byte {} has {} entries", offset, count));
  }
  const std::uint64_t entries = count * entry_bytes;
  const std::byte* const body = file.find(offset + count_bytes, entries);
  if (body == nullptr) {
    if (!file.may_hold(offset, count_bytes + entries))
      return beyond("a directory is", offset, count_bytes + entries, file.size());
    return need(byte_range{offset + count_bytes, entries, false});
  }
  const std::uint64_t next_at = offset + count_bytes + entries;
  const std::byte* const link = file.find(next_at, next_bytes);
  if (link == nullptr && file.may_hold(next_at, next_bytes) && file.size() != byte_range::kAll) {
    return need(byte_range{next_at, next_bytes, false});
  }
  // Some files end with their last directory's entries.
  next = link == nullptr ? 0 : big ? tiff_number<std::uint64_t>(link, swap) : tiff_number<std::uint32_t>(link, swap);
  out.offset = offset;
  out.bytes = count_bytes + entries + next_bytes;
  out.entries.clear();
  out.entries.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::byte* const one = body + i * entry_bytes;
    tiff_entry entry;
    entry.tag = tiff_number<std::uint16_t>(one, swap);
    entry.type = tiff_number<std::uint16_t>(one + 2, swap);
    entry.count = big ? tiff_number<std::uint64_t>(one + 4, swap) : tiff_number<std::uint32_t>(one + 4, swap);
    const std::uint32_t width = tiff_type_bytes(entry.type);
    if (width == 0) continue;  // a reader must skip unknown types
    if (!checked_mul(entry.count, width, entry.bytes)) {
      return error(errc::corrupt_data, fmt::format("tag {} has {} values", entry.tag, entry.count));
    }
    const std::uint64_t inline_bytes = big ? 8 : 4;
    const std::uint64_t value_at = offset + count_bytes + i * entry_bytes + (big ? 12 : 8);
    entry.offset = entry.bytes <= inline_bytes ? value_at
                   : big                       ? tiff_number<std::uint64_t>(one + 12, swap)
                                               : tiff_number<std::uint32_t>(one + 8, swap);
    out.entries.push_back(entry);
  }
  const auto by_tag = [](const tiff_entry& a, const tiff_entry& b) { return a.tag < b.tag; };
  if (!std::is_sorted(out.entries.begin(), out.entries.end(), by_tag))
    std::stable_sort(out.entries.begin(), out.entries.end(), by_tag);
  return need();
}

std::optional<std::uint64_t> tiff_parser::integer(const tiff_file_view& file, const tiff_directory& from, tiff_id tag,
                                                  need& missing) const {
  const tiff_entry* const entry = from.find(tag);
  if (entry == nullptr || entry->count == 0) return std::nullopt;
  const std::uint32_t width = tiff_type_bytes(entry->type);
  const std::byte* const at = file.find(entry->offset, width);
  if (at == nullptr) {
    if (file.may_hold(entry->offset, width)) missing = byte_range{entry->offset, width, false};
    return std::nullopt;
  }
  return tiff_integer({at, width}, entry->type, 0, details_.big_endian);
}

result<> tiff_parser::charge(const tiff_file_view& file, const tiff_directory& read) {
  directory_bytes_ += read.bytes;
  if (directory_bytes_ <= allowed_bytes(file, kMaxDirectoryBytes)) return {};
  return error(errc::corrupt_data,
               fmt::format("directories of {} bytes in a file of {}: they overlap", directory_bytes_, file.size()));
}

result<std::optional<byte_range>> tiff_parser::summarise(const tiff_file_view& file, const tiff_directory& from,
                                                         summary& out) {
  need missing;
  out.offset = from.offset;
  out.width = integer(file, from, tiff_id::image_width, missing).value_or(0);
  out.height = integer(file, from, tiff_id::image_length, missing).value_or(0);
  out.subfile_type = integer(file, from, tiff_id::new_subfile_type, missing).value_or(0);
  out.samples = integer(file, from, tiff_id::samples_per_pixel, missing).value_or(1);
  if (out.mask()) out.bits = integer(file, from, tiff_id::bits_per_sample, missing).value_or(1);
  return missing;
}

bool tiff_parser::chain_suffices() const noexcept {
  if (wanted_.ifd) return chain_.size() > *wanted_.ifd;
  return pages_.size() > wanted_.page + 1;  // the next page ends this one's overviews
}

result<std::optional<byte_range>> tiff_parser::follow_chain(const tiff_file_view& file) {
  while (next_ != 0 && !chain_suffices()) {
    if (seen_.count(next_) != 0) {
      next_ = 0;  // the chain is a cycle
      break;
    }
    tiff_directory here;
    std::uint64_t next = 0;
    summary short_form;
    auto read = read_directory(file, next_, here, next);
    if (!read.ok()) {
      if (chain_.empty()) return std::move(read).error();
      broken_.emplace(std::move(read).error());
      next_ = 0;
      break;
    }
    if (*read) return *read;
    PENSTOCK_ASSIGN(const need missing, summarise(file, here, short_form));
    if (missing) return missing;
    auto charged = charge(file, here);
    if (!charged.ok()) {
      broken_.emplace(std::move(charged).error());
      next_ = 0;
      break;
    }
    seen_.insert(next_);
    if (chain_.size() == kMaxDirectories)
      return error(errc::unsupported, fmt::format("a TIFF with more than {} directories", kMaxDirectories));
    const bool page = chain_.empty() || !(short_form.overview() || short_form.mask());
    if (page) pages_.push_back(chain_.size());
    if (page && !wanted_.ifd && (pages_.size() == 1 || pages_.size() == wanted_.page + 1)) page_ = here;
    if (wanted_.ifd && chain_.size() == *wanted_.ifd) page_ = here;
    chain_.push_back(short_form);
    next_ = next;
  }
  const bool found = wanted_.ifd ? chain_.size() > *wanted_.ifd : pages_.size() > wanted_.page;
  if (found) return need();
  if (broken_) return std::move(*broken_);
  if (!wanted_.ifd && wanted_.sub_ifds.empty() && chain_.size() == 1) {
    details_.image_of_stack = wanted_.page;  // if the directory describes a stack
    return need();
  }
  if (wanted_.ifd)
    return error(errc::not_found, fmt::format("directory {} of a TIFF that has {}", *wanted_.ifd, chain_.size()));
  return error(errc::not_found, fmt::format("page {} of a TIFF that has {}", wanted_.page, pages_.size()));
}

result<std::optional<byte_range>> tiff_parser::descend(const tiff_file_view& file) {
  for (; depth_ < wanted_.sub_ifds.size(); ++depth_) {
    const std::uint64_t number = wanted_.sub_ifds[depth_];
    const tiff_entry* const entry = page_.find(tiff_id::sub_ifds);
    const std::uint64_t count = entry == nullptr ? 0 : entry->count;
    if (number >= count) return error(errc::not_found, fmt::format("SubIFD {} of an image that has {}", number, count));
    const std::uint32_t width = tiff_type_bytes(entry->type);
    const std::uint64_t place = entry->offset + number * width;
    const std::byte* const at = file.find(place, width);
    if (at == nullptr) {
      if (!file.may_hold(place, width)) return beyond("the offset of a SubIFD is", place, width, file.size());
      return need(byte_range{place, width, false});
    }
    const auto offset = tiff_integer({at, width}, entry->type, 0, details_.big_endian);
    if (!offset) return error(errc::corrupt_data, "the offset of a SubIFD is not an integer");
    tiff_directory here;
    std::uint64_t next = 0;
    summary short_form;
    PENSTOCK_ASSIGN(need missing, read_directory(file, *offset, here, next));
    if (missing) return missing;
    PENSTOCK_ASSIGN(missing, summarise(file, here, short_form));
    if (missing) return missing;
    PENSTOCK_TRY(charge(file, here));
    page_ = std::move(here);
    descended_ = short_form;
  }
  return need();
}

result<std::optional<byte_range>> tiff_parser::read_sub_directories(const tiff_file_view& file) {
  const tiff_entry* const entry = page_.find(tiff_id::sub_ifds);
  if (wanted_.ifd || entry == nullptr || entry->count == 0) return need();
  if (!sub_listed_) {
    if (entry->count > kMaxSubDirectories) return need();  // not supported here
    const std::byte* const at = file.find(entry->offset, entry->bytes);
    if (at == nullptr) {
      if (!file.may_hold(entry->offset, entry->bytes)) return need();
      return need(byte_range{entry->offset, entry->bytes, false});
    }
    for (std::uint64_t i = 0; i < entry->count; ++i) {
      if (const auto offset = tiff_integer({at, entry->bytes}, entry->type, i, details_.big_endian))
        sub_offsets_.push_back(*offset);
    }
    sub_listed_ = true;
  }
  while (sub_.size() < sub_offsets_.size()) {
    tiff_directory here;
    std::uint64_t next = 0;
    summary short_form;
    auto read = read_directory(file, sub_offsets_[sub_.size()], here, next);
    if (!read.ok()) {
      sub_offsets_.resize(sub_.size());  // an unreadable directory is not an overview
      break;
    }
    if (*read) return *read;
    PENSTOCK_ASSIGN(const need missing, summarise(file, here, short_form));
    if (missing) return missing;
    if (!charge(file, here).ok()) {
      sub_offsets_.resize(sub_.size());
      break;
    }
    sub_.push_back(short_form);
  }
  return need();
}

result<> tiff_parser::choose() {
  const std::size_t first = wanted_.ifd ? *wanted_.ifd : pages_[details_.image_of_stack == 0 ? wanted_.page : 0];
  const std::size_t end = wanted_.ifd || descended_          ? first + 1
                          : wanted_.page + 1 < pages_.size() ? pages_[wanted_.page + 1]
                                                             : chain_.size();
  const summary& page = descended_ ? *descended_ : chain_[first];
  page_offset_ = page.offset;
  details_.page_width = page.width;
  details_.page_height = page.height;
  std::vector<summary> masks;
  levels_.push_back(page);
  // As in GDAL: a directory without pixels, or with other bands, is not an overview.
  const auto add = [&](const summary& each) {
    const bool fits = each.width != 0 && each.height != 0 && (each.mask() || each.samples == page.samples);
    if (fits) (each.mask() ? masks : levels_).push_back(each);
  };
  for (std::size_t i = first + 1; i < end; ++i) add(chain_[i]);
  for (const summary& each : sub_) {
    if (each.mask() || each.overview()) add(each);
  }
  std::stable_sort(levels_.begin() + 1, levels_.end(),
                   [](const summary& a, const summary& b) { return a.width > b.width; });
  for (std::size_t i = 1; i < levels_.size(); ++i)
    details_.companions.overviews.push_back({levels_[i].height, levels_[i].width});
  if (wanted_.level >= levels_.size()) {
    return error(errc::not_found, fmt::format("level {} of an image that has {}", wanted_.level, levels_.size()));
  }
  const summary& level = levels_[wanted_.level];
  // As in GDAL: the first mask that has at most 8 bits, with one sample for all bands or one for each.
  for (const summary& each : masks) {
    const bool fits = each.width == level.width && each.height == level.height && each.bits <= 8 &&
                      (each.samples == 1 || each.samples == page.samples);
    if (!mask_at_ && fits) mask_at_ = each.offset;
  }
  details_.companions.has_mask = mask_at_.has_value();
  image_offset_ = level.offset;
  size_ = {level.height, level.width};
  if (wanted_.mask) {
    if (!mask_at_) return error(errc::not_found, "the image has no mask");
    image_offset_ = *mask_at_;
  }
  details_.directory_offset = image_offset_;
  if (image_offset_ == page_offset_) {
    image_ = page_;
    have_image_ = true;
  }
  return {};
}

result<std::optional<byte_range>> tiff_parser::read_values(const tiff_file_view& file, const tiff_directory& from,
                                                           std::vector<tiff_tag>& out) {
  const std::uint64_t allowed = allowed_bytes(file, kMaxAllValueBytes);
  std::uint64_t total = 0;
  for (const tiff_tag& each : out) total += each.value.size();
  for (; next_value_ < from.entries.size(); ++next_value_) {
    const tiff_entry& entry = from.entries[next_value_];
    tiff_tag tag{entry.tag, entry.type, entry.count, {}};
    const bool is_short = entry.bytes <= kMaxValueBytes && total + entry.bytes <= allowed;
    if (!is_tile_array(entry.tag) && is_short) {
      const std::byte* const at = file.find(entry.offset, entry.bytes);
      if (at != nullptr) {
        tag.value.assign(at, at + entry.bytes);
        total += entry.bytes;
      } else if (file.may_hold(entry.offset, entry.bytes)) {
        return need(byte_range{entry.offset, entry.bytes, false});
      }
      // A value beyond the end counts as absent: the code that needs it reports that.
    }
    out.push_back(std::move(tag));
  }
  return need();
}

}  // namespace penstock::inline v0
