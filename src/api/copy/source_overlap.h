#pragma once

#include <span>
#include <string>

#include <penstock/store.h>
#include "driver/node_files.h"

namespace penstock::inline v0 {

/// A text, ending with '/', that is equal for all names of one place in files and archives: symbolic links are
/// resolved, and an archive, which may have hard links, is its file's number. Other URIs are returned as they are.
std::string real_place(const std::string& uri);

/// A document of a node, in a store that outlives this.
struct node_document {
  const store* in = nullptr;
  std::string key;
};

/// Checks that no source is one of the objects that a copy is going to erase, for stores whose URIs do not show it: two
/// stores of Python may be one folder or one bucket.
///
/// Where a document of the target has the same bytes as one of the sources, an object `.penstock-copy` is put next to
/// it for a moment: if it is next to the source's, too, both are one. Nothing that exists is changed.
/// \param replaced  The objects below `prefix` of `to`.
/// \error invalid_argument  A source is one of them.
/// \error unsupported  The store does not keep such an object, so that this is not known.
result<> check_apart(std::span<const node_document> sources, store& to, const std::string& prefix,
                     const node_objects& replaced);

}  // namespace penstock::inline v0
