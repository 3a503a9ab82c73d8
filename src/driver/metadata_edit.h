#pragma once

#include <memory>
#include <string>

#include <penstock/array.h>
#include <penstock/extend/json.h>
#include "engine/array_state.h"

namespace penstock::inline v0 {

/// Metadata that others change as often as that between being read and being put.
inline constexpr int kMaxMetadataTries = 20;

/// An array's metadata document as it is stored, whatever its version of the format: members that are not known here
/// stay what they are.
struct stored_metadata {
  std::string key;  ///< in the store, prefix included
  json document;
  version seen;
};

/// \error not_found  The array no longer exists. \error corrupt_data  Not a JSON object.
result<stored_metadata> read_stored_metadata(const array_state& state);

/// The member `shape`.
/// \error corrupt_data  It is absent, or no list of sizes.
result<extents> shape_of(const stored_metadata& metadata);
/// The shape, and with it the chunk grid where that lists lengths that do not reach it.
/// \error corrupt_data, unsupported  As for reading the chunk grid.
result<> set_shape(stored_metadata& metadata, const extents& shape);

/// Puts the document, on condition that it still has the version that was read.
/// \param guard  Null: none; borrowed.
/// \error version_changed  It has not. \error conflict  The guard does not hold.
result<> put_stored_metadata(const array_state& state, const stored_metadata& metadata, bool durable,
                             const write_guard* guard = nullptr);

/// Opens the array as if its metadata were stored; objects are read from and written to the array's own store.
result<array> open_as(const array_state& state, const stored_metadata& metadata);

/// The same after set_shape.
/// \error invalid_argument  The array cannot have the new shape.
result<array> open_resized(const array_state& state, const stored_metadata& metadata, const extents& shape);

/// Opens the array as it is stored now, in the same context.
result<array> open_again(const array_state& state);

/// The store of an open array, to be written to. Whether it can be is its own to say.
store& writable_store(const array_state& state) noexcept;

/// `array 'file:///data/x.zarr'`, the last note of each error.
error name_array(error what, const array_state& state);

}  // namespace penstock::inline v0
