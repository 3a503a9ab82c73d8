#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/context.h>
#include <penstock/dtype.h>
#include <penstock/geo_values.h>
#include <penstock/result.h>
#include <penstock/store.h>
#include <penstock/tensor.h>
#include <penstock/tiff_header.h>
#include <penstock/tiff_meaning.h>

namespace penstock::inline v0 {

/// How an overview's pixels come from those of the level before, four to one.
enum class overview_resampling : std::uint8_t {
  nearest,  ///< the pixel at the upper left
  average,  ///< the mean of those that are neither nodata nor NaN; integers rounded, halves up
};

/// A new TIFF.
struct tiff_create_options {
  std::shared_ptr<penstock::context> context;  ///< null: one of its own
  std::string path;                            ///< within the store
  bool overwrite = false;                      ///< replace what stands there, when the file is whole
  bool durable = false;                        ///< `close` returns when the device has the file
  std::string temporary_folder;                ///< of encoded tiles until then; empty: $TMPDIR, or /tmp

  std::uint64_t bands = 1, height = 0, width = 0;
  dtype type;                                         ///< integers and floats of 8 to 64 bits, complex numbers
  std::uint32_t tile_height = 512, tile_width = 512;  ///< multiples of 16
  std::uint32_t bits = 0;                  ///< of a sample, for unsigned integers of fewer bits than `type`; 0: its own
  std::string compression = "deflate";     ///< none, packbits, lzw, deflate, zstd, lzma, or jpeg (through libtiff)
  std::optional<int> level;                ///< nothing: deflate 6, zstd 9, lzma 6, jpeg (its quality) 75
  std::optional<std::uint32_t> predictor;  ///< 1, 2, 3; nothing: 2 for integers, 3 for floats, where it goes
  bool planar = false;                     ///< each band has tiles of its own
  std::uint16_t photometric = 1;           ///< 0, 1: grey; 2: RGB; 3: palette
  std::vector<std::uint16_t> extra_samples;       ///< of bands beyond the photometric's; missing ones are 0
  bool auto_overviews = true;                     ///< until one fits a tile
  std::vector<std::uint64_t> overviews;           ///< else these: powers of two from 2 on, ascending
  std::optional<overview_resampling> resampling;  ///< nothing: average, of a palette nearest: its indexes have no mean
  bool mask = false;                              ///< with a mask of what is valid, of one bit a pixel, in the file
  /// Of rows that are not written too; the file names it. \error invalid_argument  Pixels cannot have it.
  std::optional<nodata_value> nodata;
  /// Red, green and blue of each value of a palette; values beyond the last one are black.
  std::vector<std::array<std::uint16_t, 3>> colormap;
  tiff_meaning meaning;               ///< of the image: its place on the ground, units, metadata
  std::optional<bool> big_tiff;       ///< nothing: where it has to be
  std::vector<tiff_tag> tags;         ///< further ones of the image alone, little-endian
  std::vector<tiff_tag> shared_tags;  ///< further ones of overviews too
};

/// Writes a Cloud Optimized GeoTIFF, rows of tiles in any order, each once.
///
/// Tiles are encoded as they come, into a temporary file without a name, and so are the overviews' as far as rows are
/// there without a gap from the top. `close` puts the file together: under its name stands the old file, or nothing,
/// until then. Memory: one row of tiles of the overviews together, and a few tiles for each thread.
///
/// Thread-safe; writes take turns. Destroying it without `close` leaves nothing behind.
class PENSTOCK_API tiff_writer {
 public:
  /// Nothing is written yet.
  /// \error invalid_argument  An option that makes no sense, by name; something stands there already.
  /// \error unsupported  A data type, a compression, or a size that is not written here.
  /// \error resource_exhausted  The overviews' rows need more than the context's memory limit.
  static result<tiff_writer> create(std::shared_ptr<store> to, tiff_create_options options);

  tiff_writer(tiff_writer&&) noexcept;
  tiff_writer& operator=(tiff_writer&&) noexcept;
  ~tiff_writer();

  /// The options, with what was chosen.
  const tiff_create_options& options() const noexcept;

  /// Writes `values`, of shape (bands, rows, width) and any strides, from `first_band` and `first_row` on.
  ///
  /// \param mask  Of files with a mask: shape (rows, width), uint8, contiguous; 0 is not valid. Null: all are.
  /// \error invalid_argument  Rows that are no whole rows of tiles (the image's last ones are whole), or that were
  /// written
  ///                          already; some of the bands, where they share tiles or a mask; a mask that the file has
  ///                          not; the writer is closed.
  /// After another error, values of too many bits among them, the writer only refuses.
  result<> write(std::uint64_t first_band, std::uint64_t first_row, const tensor_view& values,
                 const tensor_view* mask = nullptr);

  /// Finishes the overviews and puts the file in its place. Rows that were never written are nodata, or 0, and take no
  /// room. A second call does nothing, but tries again where the first one met a store that did not take the file.
  /// \error unsupported  A classic TIFF was asked for, and the file is too large.
  /// \error invalid_argument  Something stands there by now, and is not to be replaced.
  result<> close();
  /// Gives up what was written.
  void discard() noexcept;
  /// `close` or `discard` was called.
  bool closed() const noexcept;

 private:
  class state;
  explicit tiff_writer(std::unique_ptr<state> made) noexcept;
  std::unique_ptr<state> state_;
};

}  // namespace penstock::inline v0
