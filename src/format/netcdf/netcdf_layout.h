#pragma once

#include <penstock/dtype.h>
#include <penstock/extend/layout.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "array/chunk_grid.h"
#include "codec/codec_chain.h"
#include "format/netcdf/netcdf_header.h"

namespace penstock::inline v0 {

/// An open file: its header, and the facts about the object. Immutable.
struct netcdf_file {
  netcdf_header header;
  std::string key;                         ///< of the object, relative to the arrays' prefix
  std::uint64_t bytes = byte_range::kAll;  ///< kAll: the store does not report it
  version seen;

  /// Numbers of the variables, by name.
  std::unordered_map<std::string, std::size_t> numbers;
  bool cheap_requests = false;  ///< a request takes no longer than reading some KiB

  static std::shared_ptr<const netcdf_file> make(netcdf_header header, std::string key, std::uint64_t bytes,
                                                 version seen, bool cheap_requests = false);
};

/// The element type of a variable in memory. `text` is one byte, NumPy's `S1`.
dtype dtype_of(netcdf_type type) noexcept;

/// One variable of a NetCDF classic file.
///
/// A variable without records, and the only record variable of a file, is contiguous: its cells are blocks of about a
/// MiB, as those of `.npy` files. The records of several record variables interleave: a cell is then a part of one
/// record or, if records are short, the variable's parts of several adjacent records. Such a cell is read together with
/// the bytes between its parts, which the codec `netcdf.records` skips.
class netcdf_layout final : public chunk_layout {
 public:
  /// \param block_bytes  The most bytes of the file in a cell; 0: about a MiB.
  /// \error unsupported  A shape beyond 63 bits of bytes, or more than 2^63 cells.
  static result<std::shared_ptr<const netcdf_layout>> make(std::shared_ptr<const netcdf_file> file,
                                                           std::size_t variable, std::uint64_t block_bytes = 0);

  const chunk_grid& grid() const override { return grid_; }
  const chunk_grid& write_grid() const override { return write_grid_; }
  std::span<const codec_chain> chains() const override { return chains_; }
  const chunk_layout* finer() const override;
  /// \error corrupt_data  A cell begins after the end of the file, by variable and range of bytes.
  result<> locate(std::span<const cell_id> cells, const index_lookup& known, std::span<chunk_extent> out,
                  std::vector<index_request>& missing) const override;
  result<index_ptr> parse(const index_request& request, std::span<const std::byte> bytes,
                          std::uint64_t object_size) const override;
  void key(object_id object, std::string& out) const override;
  std::string describe(cell_id cell) const override;
  version expected(object_id) const override { return file_->seen; }

  const extents& shape() const noexcept { return shape_; }
  /// Shape of the largest cells.
  const extents& block() const noexcept { return block_; }
  /// Whether parts of other variables are between the records.
  bool interleaved() const noexcept { return interleaved_; }
  const std::shared_ptr<const netcdf_file>& file() const noexcept { return file_; }
  const netcdf_variable& variable() const noexcept { return file_->header.variables[number_]; }

 private:
  netcdf_layout() = default;
  void choose_block(std::uint64_t block_bytes, std::uint64_t all_bytes);
  result<> cut();
  result<> compile();
  std::uint64_t offset_of(const dim_vector<std::uint64_t>& at) const noexcept;

  std::shared_ptr<const netcdf_file> file_;
  std::size_t number_ = 0;
  dtype type_;
  extents shape_, block_;
  strides steps_;             // bytes between neighbours in the file, for each dimension
  std::size_t cut_ = 0;       // the dimension whose last cell is shorter, if there is one
  bool interleaved_ = false;  // other variables' parts are between the records
  chunk_grid grid_, write_grid_;
  std::vector<codec_chain> chains_;   // of whole cells, and of shorter ones at the end of dimension `cut_`
  std::vector<std::uint64_t> spans_;  // for each chain: the number of bytes of the file in a cell
  mutable std::once_flag asked_for_finer_;
  mutable std::shared_ptr<const netcdf_layout> finer_;
};

}  // namespace penstock::inline v0
