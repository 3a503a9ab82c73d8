#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/config.h>

namespace penstock::inline v0 {

/// Which image of a TIFF is opened, and how it looks.
///
/// The directories of a file are pages (full images), and behind each page its overviews and masks. In stacks of ImageJ
/// whose one directory is the first image's, the others are pages too.
struct tiff_options {
  std::uint64_t page = 0;
  std::vector<std::uint64_t> sub_ifds;  ///< which SubIFD of the page, of that one, ...: the image in the page's place
  std::uint64_t level = 0;              ///< 0: the page itself; k: its k-th overview, the largest first
  bool mask = false;                    ///< the page's (or the overview's) mask: 0 and 255
  bool native_order = false;            ///< (y, x), (y, x, band) or (band, y, x) as the file has it, not (band, y, x)
  std::vector<std::uint64_t> bands;     ///< counted from 0, in this order; empty: all
  std::optional<std::uint64_t> ifd;     ///< a directory by its number in the file, instead of page, level and mask

  bool is_default() const noexcept {
    return page == 0 && sub_ifds.empty() && level == 0 && !mask && !native_order && bands.empty() && !ifd;
  }
};

/// A tag as it stands in the file.
struct tiff_tag {
  std::uint16_t tag = 0;
  std::uint16_t type = 0;
  std::uint64_t count = 0;
  std::vector<std::byte> value;  ///< in the file's byte order; empty where it was not read (tile arrays, above 16 MiB)
};

/// What belongs to an image.
struct tiff_companions {
  std::vector<std::array<std::uint64_t, 2>> overviews;  ///< of its page, (height, width), largest first
  bool has_mask = false;                                ///< of the page or overview that is open
  std::vector<std::uint64_t> masked_bands;              ///< those that the mask is of, from 0; empty: all
};

/// What the header of a TIFF says in addition to the array itself.
struct tiff_details {
  bool big_endian = false;
  bool big_tiff = false;
  std::vector<tiff_tag> tags;       ///< of the directory that is open
  std::vector<tiff_tag> page_tags;  ///< of its page, which has the georeferencing; empty where that is open itself
  std::uint64_t page_width = 0, page_height = 0;
  tiff_companions companions;          ///< that its own file has, or those of which it is one
  std::uint64_t directory_offset = 0;  ///< of the directory that is open, in bytes of its file
  std::string side_file;  ///< ending of the file next to this one that it is in: `.ovr`, `.msk`; empty: in this one
  std::uint64_t image_of_stack = 0;  ///< the directory is of the first image; this one lies as many images behind it
  std::string structure;             ///< what GDAL writes between header and directories; empty: nothing
};

}  // namespace penstock::inline v0
