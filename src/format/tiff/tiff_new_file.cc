#include "format/tiff/tiff_new_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "format/tiff/tiff_tags.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint16_t kShort = 3, kLong = 4, kLong8 = 16;
constexpr std::uint64_t kClassicEnd = std::numeric_limits<std::uint32_t>::max();

std::uint64_t even(std::uint64_t offset) noexcept { return offset + offset % 2; }

// The size counts the text and the space at its end, which an editor overwrites.
std::string structure_of(bool planar) {
  const std::string text = fmt::format(
      "LAYOUT=IFDS_BEFORE_DATA\nBLOCK_ORDER=ROW_MAJOR\nBLOCK_LEADER=SIZE_AS_UINT4\n"
      "BLOCK_TRAILER=LAST_4_BYTES_REPEATED\n{}KNOWN_INCOMPATIBLE_EDITION=NO\n ",
      planar ? "INTERLEAVE=BAND\n" : "");
  return fmt::format("GDAL_STRUCTURAL_METADATA_SIZE={:06} bytes\n{}", text.size(), text);
}

/// Bytes of the header's parts.
struct widths {
  explicit widths(bool big) noexcept
      : header(big ? 16 : 8), count(big ? 8 : 2), entry(big ? 20 : 12), next(big ? 8 : 4), offset(big ? 8 : 4) {}
  std::uint64_t header, count, entry, next, offset;

  std::uint64_t directory(std::size_t entries) const noexcept { return count + entries * entry + next; }
};

std::uint64_t data_bytes(const tiff_new_directory& from) noexcept {
  std::uint64_t out = 0;
  for (const std::uint32_t each : from.tile_bytes)
    if (each != 0) out += kTileLeaderBytes + each + kTileTrailerBytes;
  return out;
}

/// Writes numbers of either width, least significant byte first.
class byte_writer {
 public:
  explicit byte_writer(std::uint64_t bytes) : bytes_(bytes) {}

  void go_to(std::uint64_t offset) noexcept { at_ = offset; }
  void number(std::uint64_t value, std::uint64_t width) noexcept {
    for (std::uint64_t i = 0; i < width; ++i) bytes_[at_++] = static_cast<std::byte>(value >> (8 * i));
  }
  void copy(const void* from, std::size_t count) noexcept {
    if (count != 0) std::memcpy(bytes_.data() + at_, from, count);
    at_ += count;
  }
  std::vector<std::byte> take() noexcept { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
  std::uint64_t at_ = 0;
};

/// The positions of all parts.
struct places {
  struct directory {
    std::uint64_t at = 0;
    std::vector<std::uint64_t> values;  // of the tags that are larger than their entry, in the order of `tags`
    std::uint64_t tile_offsets = 0, tile_byte_counts = 0;  // of the arrays; unused if they fit into the entries
  };
  std::vector<directory> directories;
  std::uint64_t structure = 0, end = 0;

  places(std::span<const tiff_new_directory> from, const widths& width, std::uint64_t structure_bytes) {
    structure = width.header;
    std::uint64_t at = even(structure + structure_bytes);
    for (const tiff_new_directory& each : from) {
      directory place;
      place.at = at;
      at = even(at + width.directory(each.tags.size() + 2));
      for (const tiff_tag& tag : each.tags) {
        place.values.push_back(at);
        if (tag.value.size() > width.offset) at = even(at + tag.value.size());
      }
      directories.push_back(std::move(place));
    }
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::uint64_t tiles = from[i].tile_bytes.size();
      directories[i].tile_offsets = at;
      if (tiles > 1) at = even(at + tiles * width.offset);
      directories[i].tile_byte_counts = at;
      if (tiles * sizeof(std::uint32_t) > width.offset) at = even(at + tiles * sizeof(std::uint32_t));
    }
    end = at;
  }
};

std::uint64_t file_bytes(std::span<const tiff_new_directory> from, const places& where) noexcept {
  std::uint64_t out = where.end;
  for (const tiff_new_directory& each : from) out += data_bytes(each);
  return out;
}

// Offsets of the tiles of one directory, whose data begin at `at`; 0 for absent ones.
std::vector<std::uint64_t> offsets_of(const tiff_new_directory& from, std::uint64_t at) {
  std::vector<std::uint64_t> out;
  out.reserve(from.tile_bytes.size());
  for (const std::uint32_t bytes : from.tile_bytes) {
    out.push_back(bytes == 0 ? 0 : at + kTileLeaderBytes);
    if (bytes != 0) at += kTileLeaderBytes + bytes + kTileTrailerBytes;
  }
  return out;
}

class directory_writer {
 public:
  directory_writer(byte_writer& to, const widths& width, const places::directory& where) noexcept
      : to_(to), width_(width), where_(where) {}

  void write(const tiff_new_directory& from, std::uint64_t next, std::uint64_t data) {
    // Entries are in the order of their tags; -1 and -2 are the arrays of tiles.
    std::vector<std::pair<std::uint16_t, int>> order;
    for (std::size_t i = 0; i < from.tags.size(); ++i) order.emplace_back(from.tags[i].tag, static_cast<int>(i));
    order.emplace_back(static_cast<std::uint16_t>(tiff_id::tile_offsets), -1);
    order.emplace_back(static_cast<std::uint16_t>(tiff_id::tile_byte_counts), -2);
    std::sort(order.begin(), order.end());
    const std::vector<std::uint64_t> offsets = offsets_of(from, data);

    to_.go_to(where_.at);
    to_.number(order.size(), width_.count);
    std::uint64_t entry = where_.at + width_.count;
    for (const auto& [tag, which] : order) {
      to_.go_to(entry);
      to_.number(tag, 2);
      if (which == -1) {
        numbers(offsets, width_.offset == 8 ? kLong8 : kLong, width_.offset, where_.tile_offsets);
      } else if (which == -2) {
        numbers(from.tile_bytes, kLong, sizeof(std::uint32_t), where_.tile_byte_counts);
      } else {
        value(from.tags[static_cast<std::size_t>(which)], where_.values[static_cast<std::size_t>(which)]);
      }
      entry += width_.entry;
    }
    to_.go_to(entry);
    to_.number(next, width_.next);
  }

 private:
  void value(const tiff_tag& tag, std::uint64_t place) noexcept {
    to_.number(tag.type, 2);
    to_.number(tag.count, width_.offset);
    if (tag.value.size() > width_.offset) {
      to_.number(place, width_.offset);
      to_.go_to(place);
    }
    to_.copy(tag.value.data(), tag.value.size());
  }

  template <class T>
  void numbers(const std::vector<T>& values, std::uint16_t type, std::uint64_t item, std::uint64_t place) noexcept {
    to_.number(type, 2);
    to_.number(values.size(), width_.offset);
    if (values.size() * item > width_.offset) {
      to_.number(place, width_.offset);
      to_.go_to(place);
    }
    for (const T each : values) to_.number(each, item);
  }

  byte_writer& to_;
  const widths& width_;
  const places::directory& where_;
};

}  // namespace

void mark_tile(std::span<std::byte> tile) noexcept {
  std::byte* const leader = tile.data() - kTileLeaderBytes;
  for (std::size_t i = 0; i < kTileLeaderBytes; ++i) leader[i] = static_cast<std::byte>(tile.size() >> (8 * i));
  std::byte* const trailer = tile.data() + tile.size();
  const std::size_t kept = std::min<std::size_t>(tile.size(), kTileTrailerBytes);
  std::memset(trailer, 0, kTileTrailerBytes);
  std::memcpy(trailer, tile.data() + tile.size() - kept, kept);
}

tiff_tag short_tag(std::uint16_t tag, std::span<const std::uint16_t> values) {
  tiff_tag out{tag, kShort, values.size(), {}};
  for (const std::uint16_t value : values) {
    out.value.push_back(static_cast<std::byte>(value & 0xff));
    out.value.push_back(static_cast<std::byte>(value >> 8));
  }
  return out;
}

tiff_tag long_tag(std::uint16_t tag, std::uint32_t value) {
  tiff_tag out{tag, kLong, 1, {}};
  for (unsigned i = 0; i < 4; ++i) out.value.push_back(static_cast<std::byte>(value >> (8 * i)));
  return out;
}

bool needs_big_tiff(std::span<const tiff_new_directory> directories, bool planar) noexcept {
  const places where(directories, widths(false), structure_of(planar).size());
  return file_bytes(directories, where) > kClassicEnd;
}

result<std::vector<std::byte>> make_tiff_begin(std::span<const tiff_new_directory> directories, bool big, bool planar) {
  const widths width(big);
  const std::string structure = structure_of(planar);
  const places where(directories, width, structure.size());
  const std::uint64_t bytes = file_bytes(directories, where);
  if (!big && bytes > kClassicEnd) {
    return error{errc::unsupported,
                 fmt::format("{} bytes are too many for a classic TIFF, which has at most 4 GiB: use "
                             "BigTIFF",
                             bytes)};
  }
  byte_writer out(where.end);
  out.copy("II", 2);
  out.number(big ? 43 : 42, 2);
  if (big) {
    out.number(8, 2);
    out.number(0, 2);
  }
  out.number(where.directories[0].at, width.offset);
  out.go_to(where.structure);
  out.copy(structure.data(), structure.size());

  std::uint64_t data = bytes;
  for (std::size_t i = 0; i < directories.size(); ++i) {
    data -= data_bytes(directories[i]);
    const std::uint64_t next = i + 1 < directories.size() ? where.directories[i + 1].at : 0;
    directory_writer(out, width, where.directories[i]).write(directories[i], next, data);
  }
  return out.take();
}

}  // namespace penstock::inline v0
