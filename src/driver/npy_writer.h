#pragma once

#include <memory>

#include <penstock/extend/driver.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

/// Begins a `.npy` file of items in C order. Its writer accepts any boxes in any order; after a box of all items it
/// accepts no other box. Items that are never written are 0.
///
/// If `dtype_json` is NumPy's and `type` is raw (`r32`), items are stored unchanged, in any type that NumPy has;
/// otherwise values have the type of the array, in native byte order.
/// \error invalid_argument  An option that such files do not have; the file exists.
/// \error unsupported  A type that such files cannot have.
result<std::unique_ptr<array_writer>> begin_npy(const new_location& at, const create_options& how);

}  // namespace penstock::inline v0
