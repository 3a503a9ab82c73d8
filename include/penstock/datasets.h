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
  /// A path in each file, or a shell pattern (`run/shard_*`) that may match several datasets in each file, in the order
  /// of the numbers in their names. Empty: the only dataset of the first file.
  std::string dataset;
  std::int64_t axis = 0;                 ///< the axis of the join; negative: counted from the end
  shard_gaps gaps = shard_gaps::refuse;  ///< missing numbers in the names that a pattern matches in a file
};

/// Opens datasets of HDF5 files as one read-only array, joined along an axis in the given order.
///
/// Metadata are read once, in parallel; values are not read. Datasets may differ in their lengths along the axis, and
/// in filters, chunks and byte order. The result is one table of references, unless the datasets differ in their chunks
/// outside of the axis, or one of them is virtual: then it is the result of `join` (<penstock/joined.h>). Attributes
/// are those of the first dataset.
/// \param keys  Keys in `from`, each once.
/// \error invalid_argument  Datasets of another dtype or shape, scalars, attributes that change the meaning of values
///                          (`scale_factor`, `units`); the message names the first five. A group has the name. A file
///                          has several datasets, and no name is given. \error not_found  A file does not have such a
///                          dataset.
/// \error As `open`'s, for a file: the message names the first five. \error conflict  In a read: a file has changed
/// since.
PENSTOCK_API result<array> open_datasets(std::shared_ptr<const store> from, std::vector<std::string> keys,
                                         const dataset_options& options = {});

}  // namespace penstock::inline v0
