#pragma once

#include <memory>
#include <span>
#include <string>

#include <penstock/store.h>
#include "driver/node_files.h"

namespace penstock::inline v0 {

/// The place of a URI with all symbolic links of files and archives resolved, ending with '/'. Other URIs are returned
/// as they are.
std::string real_place(const std::string& uri);

/// A document of a node that is copied.
struct source_document {
  std::shared_ptr<const store> in;
  std::string key;
};

/// Checks that no source is one of the objects that a copy is going to erase, for stores whose URIs do not show it: two
/// stores of Python may be one folder or one bucket.
///
/// A document that has the same bytes on both sides gets a space at its end for a moment: if the source's has it, too,
/// both are one. At any moment it is valid.
/// \param replaced  The objects below `prefix` of `to`.
/// \error invalid_argument  A source is one of them.
result<> check_apart(std::span<const source_document> sources, store& to, const std::string& prefix,
                     const node_objects& replaced);

}  // namespace penstock::inline v0
