#pragma once

#include <penstock/result.h>

#include <penstock/extend/json.h>
#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {

/// All metadata of a file as JSON: `{"objects": [...]}`.
///
/// Each object is listed once, under the first path that leads to it, groups before their members: `path`, `address`,
/// `kind` ("group", "dataset", "type" or "unknown") and `attributes`. A group has `links`; a dataset `type`, `shape`,
/// `maxshape` (null: unlimited), `layout`, `chunks`, `filters`, their `codecs` (text: why there is none) and `fill`.
/// Datasets and types have `items`: `dtype`, `shape` and `codecs` as in hdf5_element, or the `error`. Damaged or
/// unsupported parts of an object are text in its `errors`; other objects are described nevertheless.
///
/// Objects of one level are read together: a file that is fetched in rounds needs about one round for each level of
/// groups.
/// \error As hdf5_file::open, or if the file has more objects than its size allows.
result<json> describe_hdf5(hdf5_source& from, hdf5_checksums sums = hdf5_checksums::verified);

}  // namespace penstock::inline v0
