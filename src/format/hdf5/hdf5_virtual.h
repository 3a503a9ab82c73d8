#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/hdf5/hdf5_mappings.h"

namespace penstock::inline v0 {

/// Neighbours along one dimension: positions `to ...` of the virtual dataset show positions `from ...` of a source.
struct hdf5_run {
  std::uint64_t to = 0, from = 0, count = 0;
  friend bool operator==(const hdf5_run&, const hdf5_run&) = default;
};

/// The part of a source that a mapping shows: all combinations of the runs of its dimensions.
struct hdf5_part {
  /// For each dimension of the source, the position, if it is not a dimension of the dataset.
  std::vector<std::uint64_t> origin;
  /// For each dimension of the dataset, the source's dimension; none if the part has one position.
  std::vector<std::optional<std::size_t>> axes;
  std::vector<std::vector<hdf5_run>> runs;  ///< for each dimension of the dataset, ascending in `to`
};

/// Pairs the elements of two selections of equal size, one by one in HDF5's order: rows of hyperslabs, points as they
/// are listed.
///
/// Returns one part if the selections have equal lengths in their dimensions of more than one position; otherwise a
/// part for each range that is in one row of both.
/// \param shape, source_shape  Of the dataset and of the source. Both selections have a limit.
/// \error corrupt_data  The numbers of elements differ, or a selection has another rank than its shape, or leaves it.
/// \error unsupported   More than 2^20 runs of one dimension, or 2^17 rows.
result<std::vector<hdf5_part>> match_hdf5_selections(const hdf5_selection& to, std::span<const std::uint64_t> shape,
                                                     const hdf5_selection& from,
                                                     std::span<const std::uint64_t> source_shape);

/// The dimension along which a selection has no limit.
std::optional<std::size_t> unlimited_axis(const hdf5_selection& which) noexcept;

/// The number of positions below `extent` that a regular pattern selects.
std::uint64_t hdf5_positions_below(const hdf5_selection::axis& pattern, std::uint64_t extent) noexcept;
/// The least extent with that number of positions of the pattern; 0 for none.
std::uint64_t hdf5_extent_for(const hdf5_selection::axis& pattern, std::uint64_t positions) noexcept;
/// The same selection with a limit: it ends after `positions` positions of the dimension that had none.
hdf5_selection limit_hdf5_selection(const hdf5_selection& which, std::size_t axis, std::uint64_t positions);
/// The block with this number of a selection without a limit.
hdf5_selection hdf5_block(const hdf5_selection& which, std::size_t axis, std::uint64_t number);

/// The ends of the selected positions, one for each dimension; `shape` is used for "all".
std::vector<std::uint64_t> hdf5_ends(const hdf5_selection& which, std::span<const std::uint64_t> shape);

/// Whether a name stands for many files, with `%b`.
bool is_hdf5_pattern(std::string_view name) noexcept;
/// The name of a block's source: `%b` becomes its number, `%%` a percent sign.
std::string hdf5_block_name(std::string_view pattern, std::uint64_t number);

}  // namespace penstock::inline v0
