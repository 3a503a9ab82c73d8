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

/// Neighbours along one dimension: positions `to ...` of the virtual dataset are positions `from ...` of a source.
struct hdf5_run {
  std::uint64_t to = 0, from = 0, count = 0;
  friend bool operator==(const hdf5_run&, const hdf5_run&) = default;
};

/// What a mapping shows of a source: all combinations of the runs of its dimensions.
struct hdf5_part {
  /// Of the source, for each of its dimensions: the position along those that are not a dimension of the dataset.
  std::vector<std::uint64_t> origin;
  /// For each dimension of the dataset, the source's; none where the part has one position.
  std::vector<std::optional<std::size_t>> axes;
  std::vector<std::vector<hdf5_run>> runs;  ///< for each dimension of the dataset, ascending in `to`
};

/// Pairs the elements of two selections of one size, one by one in the order that HDF5 gives them: rows of
/// hyperslabs, points as they are listed.
///
/// One part where the selections have equal lengths in their dimensions of more than one position; otherwise a part for
/// each piece that lies in one row of both.
/// \param shape, source_shape  Of the dataset and of the source. Neither selection is without a limit.
/// \error corrupt_data  They have different numbers of elements, another rank than the shape, or leave it.
/// \error unsupported   More than 2^20 runs of one dimension, or 2^17 rows.
result<std::vector<hdf5_part>> match_hdf5_selections(const hdf5_selection& to, std::span<const std::uint64_t> shape,
                                                     const hdf5_selection& from,
                                                     std::span<const std::uint64_t> source_shape);

/// The dimension along which a selection is without a limit.
std::optional<std::size_t> unlimited_axis(const hdf5_selection& which) noexcept;

/// Positions below `extent` that a regular pattern takes.
std::uint64_t hdf5_positions_below(const hdf5_selection::axis& pattern, std::uint64_t extent) noexcept;
/// The least extent that has so many positions of the pattern; 0 of none.
std::uint64_t hdf5_extent_for(const hdf5_selection::axis& pattern, std::uint64_t positions) noexcept;
/// The same selection with a limit: it ends after so many positions of the dimension, of which it had no limit.
hdf5_selection limit_hdf5_selection(const hdf5_selection& which, std::size_t axis, std::uint64_t positions);
/// The block of a selection without a limit that has this number.
hdf5_selection hdf5_block(const hdf5_selection& which, std::size_t axis, std::uint64_t number);

/// The positions of the selection end here, one number for each dimension; `shape` is what "all" stands for.
std::vector<std::uint64_t> hdf5_ends(const hdf5_selection& which, std::span<const std::uint64_t> shape);

/// Whether a name stands for many: it has `%b`.
bool is_hdf5_pattern(std::string_view name) noexcept;
/// The name of a block's source: `%b` is its number, `%%` one sign.
std::string hdf5_block_name(std::string_view pattern, std::uint64_t number);

}  // namespace penstock::inline v0
