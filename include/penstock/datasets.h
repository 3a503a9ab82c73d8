#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <penstock/array.h>
#include <penstock/shards.h>

namespace penstock::inline v0 {

struct dataset_options {
  std::shared_ptr<penstock::context> context;  ///< null: a context of its own
  /// A path in each file, or a shell pattern (`run/shard_*`) of which each may have many, in the order of the numbers
  /// in their names. Empty: the only dataset of the first file.
  std::string dataset;
  std::int64_t axis = 0;                    ///< along which one dataset follows the other; negative from the end
  shard_holes holes = shard_holes::refuse;  ///< in the names that a pattern finds in a file
};

/// Opens datasets of HDF5 files as one read-only array, one behind the other along an axis, in the order given.
///
/// Metadata are read once, in parallel, and no values. Datasets may be of different lengths along the axis, and have
/// other filters, chunks and byte orders than each other. The result is one table of references, unless the datasets
/// are cut into other chunks outside of the axis, or one of them is virtual: then it is what `join`
/// (<penstock/joined.h>) makes. Attributes are those of the first.
/// \param keys  Of `from`; each once.
/// \error invalid_argument  Datasets of another dtype or shape, scalars, attributes that change what values mean
///                          (`scale_factor`, `units`); the message names the first five. A group has the name. A file
///                          has several datasets, and no name is given. \error not_found  A file has no such dataset.
/// \error As open's, of a file: the message names the first five. \error conflict  By a read: a file changed since.
PENSTOCK_API result<array> open_datasets(std::shared_ptr<const store> from, std::vector<std::string> keys,
                                         const dataset_options& options = {});

}  // namespace penstock::inline v0
