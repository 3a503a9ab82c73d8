#pragma once

#include <penstock/extend/layout.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "array/chunk_grid.h"
#include "codec/codec_chain.h"
#include "format/tiff/tiff_file_view.h"
#include "format/tiff/tiff_image.h"

namespace penstock::inline v0 {

/// The locations of the tiles or strips of one image of a TIFF.
///
/// Cells are tiles or strips, of all bands if the file interleaves them, else of one. An uncompressed image of one
/// strip is divided into cells of about a megabyte. The one object is the file. Its arrays of offsets and byte counts
/// are the index. They are stored here if they were read with the header; otherwise they are read in pages of 65536
/// numbers, all in one round.
class tiff_layout final : public chunk_layout {
 public:
  /// \param directory  The locations of the values of the image's tags.
  /// \param key    The key of the file in its store.
  /// \param file   The parts of the file that were read so far.
  /// \param seen   The version of the file.
  /// \param kept  Data that other openings of an image in the same file may parse again.
  /// \error unsupported  A compression, by name, or one that the samples do not allow.
  static result<std::shared_ptr<const tiff_layout>> make(std::shared_ptr<const tiff_details> details,
                                                         const tiff_directory& directory, const tiff_options& options,
                                                         std::string key, const tiff_file_view& file, version seen,
                                                         std::optional<tiff_file_view> kept = {});

  const chunk_grid& grid() const override { return grid_; }
  const chunk_grid& write_grid() const override { return write_grid_; }
  std::span<const codec_chain> chains() const override { return chains_; }
  result<> locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                  std::vector<index_request>& missing) const override;
  result<index_ptr> parse(const index_request& request, std::span<const std::byte> bytes,
                          std::uint64_t object_size) const override;
  void key(object_id object, std::string& out) const override;
  version expected(object_id) const override { return seen_; }
  /// `tile (band 0, row 3, column 1)`, `strip (row 3)`: in the grid of tiles.
  std::string describe(cell_id cell) const override;

  const tiff_image& image() const noexcept { return image_; }
  const tiff_details& details() const noexcept { return *details_; }
  /// Identifies the image among those of the file.
  const tiff_options& options() const noexcept { return options_; }
  /// The header's bytes, if they are kept: those of the expected version.
  const std::optional<tiff_file_view>& header() const noexcept { return header_; }
  const extents& shape() const noexcept { return shape_; }
  const extents& chunks() const noexcept { return chains_[0].cell(); }
  const dtype& type() const noexcept { return chains_[0].type(); }
  /// Which dimension counts bands, or -1.
  int band_axis() const noexcept { return band_axis_; }

 private:
  // The number of a tile in the file's arrays, and the offset of the cell in it.
  struct place {
    std::uint64_t index, skipped;
    bool last_row;
  };
  enum class which : std::uint8_t { offsets, byte_counts };

  tiff_layout() = default;
  result<> set_bands(const tiff_options& options);
  result<> add_chains(bool native_order);
  result<> find_in_stack();
  place place_of(cell_id cell) const;
  std::uint64_t rows_of(const place& at) const noexcept;
  // The number from the index; false if its page is requested now.
  bool look_up(which array, std::uint64_t index, const index_lookup& known, std::vector<index_request>& missing,
               std::uint64_t& value) const;
  result<> to_extent(const place& at, std::uint64_t offset, std::uint64_t bytes, chunk_extent& out) const;

  tiff_image image_;
  std::shared_ptr<const tiff_details> details_;
  tiff_options options_;
  std::string key_;
  version seen_;
  std::optional<tiff_file_view> header_;
  std::uint64_t file_size_ = byte_range::kAll;
  std::vector<std::uint32_t> bands_;
  int band_axis_ = 0;
  extents shape_;
  chunk_grid grid_, write_grid_;
  std::vector<codec_chain> chains_;
  std::uint64_t cell_rows_ = 0;                       // rows of a cell; fewer than those of a strip that is divided
  std::uint64_t row_bytes_ = 0;                       // decompressed
  std::uint64_t max_ratio_ = 1;                       // largest ratio that the compression can reach
  std::uint64_t stack_bytes_ = 0;                     // bytes of the images before this one that share its directory
  std::vector<std::uint64_t> offsets_, byte_counts_;  // empty: they are read as an index
};

}  // namespace penstock::inline v0
