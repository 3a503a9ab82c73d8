#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <penstock/result.h>
#include <penstock/store.h>
#include <penstock/tiff_header.h>
#include "format/tiff/tiff_file_view.h"
#include "format/tiff/tiff_tags.h"

namespace penstock::inline v0 {

/// Finds one image in a TIFF and reads its tags. Performs no I/O: it requests ranges until it has the data that it
/// needs.
///
/// The chain of directories is followed only as far as the image and its page's overviews and masks need. A cyclic
/// chain ends at its first repetition. Together, directories may have twice the bytes of the file, so that some may
/// overlap. A damaged part of the chain, or too much overlap, is an error only for images after it. Source: TIFF 6.0;
/// "The BigTIFF file format" (awaresystems); GDAL's page on Cloud Optimized GeoTIFF.
class tiff_parser {
 public:
  explicit tiff_parser(tiff_options wanted) : wanted_(std::move(wanted)) {}

  /// Continues with the present content of `file`.
  /// \returns The next range to read, or nothing at the end.
  /// \error corrupt_data  The file contradicts itself. \error not_found  The page, level or mask does not exist.
  result<std::optional<byte_range>> advance(const tiff_file_view& file);

  /// Returns the result, at the end.
  tiff_details take_details() noexcept { return std::move(details_); }
  /// The directory of the image, and the locations of its values.
  const tiff_directory& directory() const noexcept { return image_; }

  /// The image's height and width.
  std::array<std::uint64_t, 2> size() const noexcept { return size_; }

  /// True if the first bytes of a file are those of a TIFF.
  static bool is_tiff(std::span<const std::byte> begin) noexcept;

 private:
  // The role of a directory.
  struct summary {
    std::uint64_t offset = 0;
    std::uint64_t width = 0, height = 0;
    std::uint64_t subfile_type = 0;
    std::uint64_t samples = 1;
    std::uint64_t bits = 1;  // bits of a mask
    bool overview() const noexcept { return (subfile_type & 1) != 0; }
    bool mask() const noexcept { return (subfile_type & 4) != 0; }
  };
  enum class step : std::uint8_t { header, chain, descent, sub_directories, choose, image_values, page_values, done };
  using need = std::optional<byte_range>;

  result<need> read_header(const tiff_file_view& file);
  result<need> read_directory(const tiff_file_view& file, std::uint64_t offset, tiff_directory& out,
                              std::uint64_t& next);
  result<> charge(const tiff_file_view& file, const tiff_directory& read);
  result<need> summarise(const tiff_file_view& file, const tiff_directory& from, summary& out);
  result<need> follow_chain(const tiff_file_view& file);
  result<need> descend(const tiff_file_view& file);
  result<need> read_sub_directories(const tiff_file_view& file);
  result<need> read_values(const tiff_file_view& file, const tiff_directory& from, std::vector<tiff_tag>& out);
  result<> choose();
  bool chain_suffices() const noexcept;
  std::optional<std::uint64_t> integer(const tiff_file_view& file, const tiff_directory& from, tiff_id tag,
                                       need& missing) const;

  tiff_options wanted_;
  step step_ = step::header;
  std::uint64_t next_ = 0;  // offset of the next directory; 0: the chain ended
  std::set<std::uint64_t> seen_;
  std::uint64_t directory_bytes_ = 0;  // bytes of the directories that were read
  std::optional<error> broken_;        // why the chain ended early
  std::vector<summary> chain_;
  std::vector<std::size_t> pages_;  // indexes of the pages
  tiff_directory page_, image_;
  std::optional<summary> descended_;  // the overview or mask that is opened instead of the page
  std::size_t depth_ = 0;             // of it
  std::vector<summary> levels_;       // the page, then its overviews
  std::vector<summary> sub_;          // the page's SubIFDs
  std::vector<std::uint64_t> sub_offsets_;
  bool sub_listed_ = false;
  std::optional<std::uint64_t> mask_at_;
  std::uint64_t image_offset_ = 0, page_offset_ = 0;
  std::array<std::uint64_t, 2> size_ = {0, 0};
  bool have_image_ = false;
  std::size_t next_value_ = 0;
  tiff_details details_;
};

}  // namespace penstock::inline v0
