#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <penstock/result.h>
#include <penstock/tensor.h>
#include "codec/tiff/tiff_encoders.h"
#include "codec/worker_scratch.h"
#include "engine/context_state.h"
#include "format/tiff/tiff_chain.h"
#include "format/tiff/tiff_overview.h"
#include "store/spool_file.h"

namespace penstock::inline v0 {

/// An encoded tile in a spool file: leader, `bytes` bytes, trailer from `offset` on. 0 bytes: it was never written.
struct spooled_tile {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
};

/// The image, or an overview of it.
struct tiff_level {
  std::uint64_t width = 0, height = 0;
  bool stored = true;  ///< false: an intermediate level, which is not stored
  std::uint64_t across = 0, down = 0;
  std::vector<spooled_tile> tiles;  ///< row by row; empty tiles are not stored
};

/// Tiles of one kind: of the image, or of its mask.
struct tiff_tile_form {
  std::uint32_t samples = 1;  ///< bands that share a tile
  dtype type;
  tiff_tile_encoder encoder;
  std::optional<tiff_chain> chain;  ///< decodes a tile to (sample, row, column)

  /// \param image  Its samples, compression and tiles.
  /// \error invalid_argument, unsupported  As `tiff_tile_encoder::make`.
  static result<tiff_tile_form> make(const tiff_image& image, tiff_encoding encoding, std::optional<int> level);
};

/// Shared by all planes of a new TIFF.
struct tiff_tile_workshop {
  tiff_tile_workshop(context_state& with, unsigned workers);

  context_state& with;
  std::uint32_t tile_height = 0, tile_width = 0;
  tiff_tile_form image;
  std::optional<tiff_tile_form> mask;
  overview_rule rule;
  /// The sample with the opacity of the others in tiles that all bands share, of unsigned integers: pixels where it is
  /// 0 are not part of means.
  std::optional<std::uint32_t> alpha;
  std::vector<std::byte> fill;  ///< one item, of rows that were never written
  std::unique_ptr<spool_file> spool;

  struct worker {
    explicit worker(ledger* accounts) : scratch(accounts), room(accounts) {}
    worker_scratch scratch;
    tiff_encoder_room room;
  };
  std::vector<std::unique_ptr<worker>> workers;

  /// When the calling thread last checked whether it may continue.
  std::chrono::steady_clock::time_point asked;

  /// Runs `work(i, worker)` for every i below `count` on the context's threads.
  /// \error cancelled  The calling thread may not continue (`interruptible_waits`).
  template <class Work>
  result<> for_each(std::size_t count, Work&& work);

  /// Cuts whole rows of tiles into tiles, the first of which is number `first` of `level`, encodes and spools them.
  ///
  /// \param rows  Shape (samples, rows, width), any strides. Beyond the image, tiles repeat its last column and row.
  result<> encode_rows(const tiff_tile_form& form, tiff_level& level, std::uint64_t first, const tensor_view& rows);
  /// The reverse, for one row of tiles: fills `rows`, of shape (samples, rows, width).
  result<> decode_rows(const tiff_tile_form& form, const tiff_level& level, std::uint64_t first,
                       const tensor_view& rows);
};

/// One byte for each pixel of rows [first, end) of a sample: whether its opacity is not 0.
/// \param from  Shape (samples, rows, width), any strides. \param to  Those of all rows, contiguous.
/// Returns false if one of them is 0.
bool mark_opaque(const tensor_view& from, std::uint64_t sample, std::uint64_t first, std::uint64_t end,
                 std::byte* to) noexcept;

/// One plane of a new TIFF: bands that share tiles, and their overviews. Each overview is made from the level before as
/// long as the rows of tiles are complete from the top.
///
/// With a mask, each plane halves the mask together with its rows, because means are computed from valid pixels only;
/// one of the planes stores the mask. If a plane has the opacity of the others, its pixels that are not 0 are the mask.
class tiff_pyramid {
 public:
  /// \param levels  At least the image; each half as large as the one before. Allocates the memory that overviews need.
  /// \param mask    The mask's levels, which all planes share; null: no mask.
  /// \param stores_mask  This plane stores them.
  /// \param by_opacity   The mask is the opacity: `use_opacity` follows. Not together with `mask`.
  static result<tiff_pyramid> make(tiff_tile_workshop& with, std::vector<tiff_level> levels,
                                   std::shared_ptr<std::vector<tiff_level>> mask = nullptr, bool stores_mask = false,
                                   bool by_opacity = false);
  /// \param of  The plane with the opacity, this one or another; it must not move from now on.
  void use_opacity(const tiff_pyramid& of) noexcept { opacity_ = &of; }

  bool has_row(std::uint64_t tile_row) const noexcept {
    return levels_[0].tiles[tile_row * levels_[0].across].bytes != 0;
  }
  const std::vector<tiff_level>& levels() const noexcept { return levels_; }
  /// Null: no mask.
  const std::vector<tiff_level>* mask_levels() const noexcept { return mask_.get(); }

  /// Writes whole rows of tiles, none of which was written before. `rows` has shape (samples, rows, width), and `mask`,
  /// if there is one, (1, rows, width), contiguous. The opacity may be given as the mask; it must be written before.
  result<> write(std::uint64_t tile_row, const tensor_view& rows, const tensor_view* mask = nullptr);
  /// Computes the remaining overviews.
  result<> finish();

 private:
  // A row of tiles of an overview that is being filled.
  struct filling {
    buffer room, mask;
    buffer opaque;  // one byte for each pixel of the rows of the level before: 0 is transparent
    std::uint64_t tile_row = 0;
    std::uint64_t rows = 0;
    bool touched = false;  // whether some of it was written
  };

  explicit tiff_pyramid(tiff_tile_workshop& with) noexcept : with_(&with) {}
  // Continues from the first row of tiles that the overviews do not have. `given` are the rows of tiles from `first`
  // on, which are already in memory.
  result<> advance(const tensor_view* given, const tensor_view* mask, std::uint64_t first, bool to_the_end);
  result<> feed(std::size_t level, const tensor_view* from, const tensor_view* mask, std::uint64_t rows);
  result<> find_opaque(std::size_t level, const tensor_view& from, std::uint64_t rows, std::vector<std::uint8_t>& some);
  result<> read_mask(std::uint64_t tile_row, const tensor_view& to);
  bool has_mask() const noexcept { return mask_ != nullptr || by_opacity_; }
  tensor_view filled(std::size_t level) noexcept;
  tensor_view filled_mask(std::size_t level) noexcept;

  tiff_tile_workshop* with_;
  std::vector<tiff_level> levels_;
  std::shared_ptr<std::vector<tiff_level>> mask_;
  bool stores_mask_ = false, by_opacity_ = false;
  const tiff_pyramid* opacity_ = nullptr;
  std::vector<filling> filling_;  // of each level; the first is only used to read tiles that arrived out of order
  std::uint64_t next_ = 0;        // row of tiles of the image
};

}  // namespace penstock::inline v0
