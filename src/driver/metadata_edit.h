#pragma once

#include <memory>
#include <string>

#include <penstock/array.h>
#include <penstock/extend/json.h>
#include "engine/array_state.h"

namespace penstock::inline v0 {

/// The number of attempts to change metadata that other writers keep changing.
inline constexpr int kMaxMetadataTries = 20;

/// An array's stored metadata document, in any version of the format: unknown members are left unchanged.
struct stored_metadata {
  std::string key;  ///< in the store, prefix included
  json document;
  version seen;
  std::shared_ptr<const std::string> text;  ///< the document as it was read
};

/// \error not_found  The array no longer exists. \error corrupt_data  Not a JSON object.
result<stored_metadata> read_stored_metadata(const array_state& state);

/// The member `shape`.
/// \error corrupt_data  It is absent, or not a list of sizes.
result<extents> shape_of(const stored_metadata& metadata);
/// Sets the shape, and extends a chunk grid that lists lengths if it does not reach the shape.
result<> set_shape(stored_metadata& metadata, const extents& shape);

/// Puts the document, on condition that it still has the version that was read.
/// \param guard  Null: none; borrowed.
/// \error version_changed  It has another version. \error conflict  The guard is no longer valid.
result<> put_stored_metadata(const array_state& state, const stored_metadata& metadata, bool durable,
                             const write_guard* guard = nullptr);

/// Opens the array as if its metadata were stored; objects are read from and written to the array's own store.
result<array> open_as(const array_state& state, const stored_metadata& metadata);

/// The same after set_shape.
/// \error invalid_argument  The array cannot have the new shape.
result<array> open_resized(const array_state& state, const stored_metadata& metadata, const extents& shape);

/// Opens the array as it is stored now, in the same context.
result<array> open_again(const array_state& state);

/// The store of an open array, for writing. The store itself decides whether it accepts writes.
store& writable_store(const array_state& state) noexcept;

/// `array 'file:///data/x.zarr'`, the last note of each error.
error name_array(error what, const array_state& state);

}  // namespace penstock::inline v0
