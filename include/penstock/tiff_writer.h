#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/array_writer.h>
#include <penstock/context.h>
#include <penstock/dtype.h>
#include <penstock/geo_values.h>
#include <penstock/result.h>
#include <penstock/store.h>
#include <penstock/tensor.h>
#include <penstock/tiff_header.h>
#include <penstock/tiff_meaning.h>

namespace penstock::inline v0 {

/// How the pixels of an overview are computed from those of the level before, four to one.
enum class overview_resampling : std::uint8_t {
  nearest,  ///< the pixel at the upper left
  average,  ///< the mean of those that are neither nodata nor NaN; integers rounded, halves up
};

/// A new TIFF.
struct tiff_create_options {
  std::shared_ptr<penstock::context> context;  ///< null: one of its own
  std::string path;                            ///< within the store
  bool overwrite = false;                      ///< replace an existing file, when this one is complete
  bool durable = false;                        ///< `close` returns when the file is on the storage device
  /// Folder for encoded tiles until then. Empty: the folder of the file if it is local, otherwise $TMPDIR or /tmp.
  std::string temporary_folder;

  std::uint64_t bands = 1, height = 0, width = 0;
  dtype type;                                         ///< integers and floats of 8 to 64 bits, complex numbers
  std::uint32_t tile_height = 512, tile_width = 512;  ///< multiples of 16
  std::uint32_t bits = 0;                             ///< of a sample, if fewer than those of `type` (unsigned); 0: all
  std::string compression = "deflate";       ///< none, packbits, lzw, deflate, zstd, lzma, or jpeg (through libtiff)
  std::optional<int> level;                  ///< nullopt: deflate 6, zstd 9, lzma 6, jpeg (its quality) 75
  std::optional<std::uint32_t> predictor;    ///< 1, 2, 3; nullopt: 2 for integers, 3 for floats, if allowed
  bool planar = false;                       ///< each band has tiles of its own
  std::uint16_t photometric = 1;             ///< 0, 1: grey; 2: RGB; 3: palette
  std::vector<std::uint16_t> extra_samples;  ///< of bands beyond the photometric's; missing ones are 0
  bool auto_overviews = true;                ///< overviews until one fits into a tile
  std::vector<std::uint64_t> overviews;      ///< otherwise these factors: powers of two from 2 on, ascending
  std::optional<overview_resampling> resampling;  ///< nullopt: average, or nearest for a palette
  bool mask = false;                              ///< whether the file has a mask of valid pixels, one bit each
  /// The nodata value, stored in the file, also for rows that are not written.
  /// \error invalid_argument  Pixels cannot have it.
  std::optional<nodata_value> nodata;
  /// Red, green and blue of each value of a palette; values beyond the last one are black.
  std::vector<std::array<std::uint16_t, 3>> colormap;
  tiff_meaning meaning;               ///< position on the ground, units and metadata of the image
  std::optional<bool> big_tiff;       ///< nullopt: only if necessary
  std::vector<tiff_tag> tags;         ///< additional tags of the image only, little-endian
  std::vector<tiff_tag> shared_tags;  ///< additional tags of the image and its overviews
};

/// Writes a Cloud Optimized GeoTIFF, rows of tiles in any order, each once.
///
/// Tiles are encoded as they are written, into a temporary file without a name. Tiles of overviews are encoded as soon
/// as the rows from the top are complete. `close` assembles the file; until then its name refers to the old file, if
/// there is one. Memory: one row of tiles of each overview, and a few tiles for each thread.
///
/// Thread-safe; writes take turns. Destroying it without `close` leaves no files.
class PENSTOCK_API tiff_writer final : public array_writer {
 public:
  /// Begins a file. Nothing is written yet.
  /// \error invalid_argument  An option that makes no sense, by name; the path exists.
  /// \error unsupported  A data type, a compression, or a size that cannot be written.
  /// \error resource_exhausted  The overviews' rows need more than the context's memory limit.
  static result<tiff_writer> create(std::shared_ptr<store> to, tiff_create_options options);

  tiff_writer(tiff_writer&&) noexcept;
  tiff_writer& operator=(tiff_writer&&) noexcept;
  ~tiff_writer() override;

  /// The options, with the chosen defaults.
  const tiff_create_options& options() const noexcept;

  /// Rows in a row of tiles; of all bands if they share tiles or a mask.
  extents block() const override;

  /// Writes `values`, of shape (bands, rows, width) and any strides, from `first_band` and `first_row` on.
  ///
  /// \param mask  For files with a mask: shape (rows, width), uint8, contiguous; 0 is not valid. Null: all are valid.
  /// \error invalid_argument  Rows that are not whole rows of tiles (the image's last rows are allowed), or that were
  /// already written; some of the bands, if they share tiles or a mask; a mask for a file without one; the writer is
  /// closed.
  /// \error  After any other error, also for values with too many bits, all later calls fail.
  result<> write(std::uint64_t first_band, std::uint64_t first_row, const tensor_view& values,
                 const tensor_view* mask = nullptr);
  /// The same: `origin` is (band, row, 0), or (row, 0) in an image of one band.
  result<> write(std::span<const std::uint64_t> origin, const tensor_view& values) override;

  /// Completes the overviews and stores the file. Rows that were never written are nodata, or 0, and take no space. A
  /// second call does nothing, except that it tries again if the store refused the file.
  /// \error unsupported  A classic TIFF was requested, and the file is too large.
  /// \error invalid_argument  The path exists now, and must not be replaced.
  result<> close() override;
  void discard() noexcept override;
  bool closed() const noexcept override;

 private:
  class state;
  explicit tiff_writer(std::unique_ptr<state> made) noexcept;
  std::unique_ptr<state> state_;
};

}  // namespace penstock::inline v0
