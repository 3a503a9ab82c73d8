#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/context.h>
#include <penstock/dtype.h>
#include <penstock/extend/chunk_grid.h>
#include <penstock/extend/layout.h>
#include <penstock/result.h>
#include <penstock/shape.h>

namespace penstock::inline v0 {

/// The coding of the cells of one shape.
struct cell_coding {
  extents cell;  ///< the shape that the codecs see: full cells, also at the array's edge
  /// A list as in Zarr 3 metadata: `[{"name": "bytes", "configuration": {"endian": "big"}}, {"name": "zstd"}]`.
  std::string codecs_json;
};

/// The grids and the compiled codecs of a layout. Immutable; copies share them.
class PENSTOCK_API layout_parts {
 public:
  /// \param with  The context whose codec providers are called for codecs that the library does not have.
  /// \param cells  The smallest units that decode on their own.
  /// \param codings  Not empty: `chunk_extent::chain` is an index into it. Each cell of the grid decodes with a coding
  ///                 of its own shape (`grid_axis::codec_length`).
  /// \error unsupported, corrupt_data  A codec, by name. \error invalid_argument  A coding has another rank.
  static result<layout_parts> make(const context& with, const dtype& type, chunk_grid cells,
                                   std::span<const cell_coding> codings);
  /// The same for storage objects that have many cells each: `objects` is the grid of the objects.
  static result<layout_parts> make(const context& with, const dtype& type, chunk_grid cells, chunk_grid objects,
                                   std::span<const cell_coding> codings);

 private:
  friend class layout_base;
  struct compiled;
  explicit layout_parts(std::shared_ptr<const compiled> made) noexcept : made_(std::move(made)) {}
  std::shared_ptr<const compiled> made_;
};

/// The base class of layouts from outside the library. It has the grids and the codecs; a layout adds `locate`, `key`
/// and `describe`, `parse` if it has an index, and `assembler` if its objects can be written.
class PENSTOCK_API layout_base : public chunk_layout {
 public:
  ~layout_base() override;
  const chunk_grid& grid() const final;
  const chunk_grid& write_grid() const final;
  std::span<const codec_chain> chains() const final;  ///< for the engine
  /// For layouts without an index: `locate` never requests one.
  result<index_ptr> parse(const index_request& request, std::span<const std::byte> bytes,
                          std::uint64_t object_size) const override;

 protected:
  explicit layout_base(layout_parts parts) noexcept;

 private:
  std::shared_ptr<const layout_parts::compiled> parts_;
};

}  // namespace penstock::inline v0
