#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/config.h>

namespace penstock::inline v0 {

/// Selects an image of a TIFF, and the form in which it is opened.
/// The directories of a file are pages (full images), and after each page its overviews and masks. ImageJ's stacks may
/// have one directory, for the first image; their other images are pages, too.
struct tiff_options {
  std::uint64_t page = 0;
  std::vector<std::uint64_t> sub_ifds;  ///< which SubIFD of the page, then of that SubIFD, ...: it is opened
  std::uint64_t level = 0;              ///< 0: the page itself; k: its k-th overview, the largest first
  bool mask = false;                    ///< the page's (or the overview's) mask: 0 and 255
  bool native_order = false;            ///< (y, x), (y, x, band) or (band, y, x) as in the file, not (band, y, x)
  std::vector<std::uint64_t> bands;     ///< counted from 0, in this order; empty: all
  std::optional<std::uint64_t> ifd;     ///< a directory by its number in the file, instead of page, level and mask

  bool is_default() const noexcept {
    return page == 0 && sub_ifds.empty() && level == 0 && !mask && !native_order && bands.empty() && !ifd;
  }
};

/// A tag as in the file.
struct tiff_tag {
  std::uint16_t tag = 0;
  std::uint16_t type = 0;
  std::uint64_t count = 0;
  std::vector<std::byte> value;  ///< in the file's byte order; empty if it was not read (tile arrays, above 16 MiB)
};

/// The other images that belong to an image.
struct tiff_companions {
  std::vector<std::array<std::uint64_t, 2>> overviews;  ///< overviews of its page, (height, width), largest first
  bool has_mask = false;                                ///< whether the open page or overview has a mask
  std::vector<std::uint64_t> masked_bands;              ///< the bands of the mask, from 0; empty: all
};

/// The contents of a TIFF's header in addition to the array itself.
struct tiff_details {
  bool big_endian = false;
  bool big_tiff = false;
  std::vector<tiff_tag> tags;       ///< tags of the directory that is open
  std::vector<tiff_tag> page_tags;  ///< tags of its page, which has the georeferencing; empty if it is the page
  std::uint64_t page_width = 0, page_height = 0;
  tiff_companions companions;          ///< images that its own file has, or that its file belongs to
  std::uint64_t directory_offset = 0;  ///< offset of the open directory in bytes of its file
  std::string side_file;  ///< ending of the sidecar file that holds it: `.ovr`, `.msk`; empty: the file itself
  std::uint64_t image_of_stack = 0;  ///< in a stack of one directory: images from the first one to this one
  std::string structure;             ///< GDAL's text between header and directories; empty: none
};

}  // namespace penstock::inline v0
