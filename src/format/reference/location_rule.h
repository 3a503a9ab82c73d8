#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// Whether a document at `location` is in the local file system: a path, or a chain (`zip://x::/y.zip`) that ends at
/// one.
bool is_local_location(std::string_view location);

/// Whether reading `location` reaches other machines only, through every link of the chain.
bool is_network_location(std::string_view location);

/// The locations that a document may name: references, manifests and virtual files determine further reads.
///
/// One rule, for resolved locations (after templates and relative names). A document in the local file system may name
/// any location. A document from elsewhere may name network locations and locations of its own file system; local
/// files only if the caller allows it. Schemes are on a list of those that are allowed: an unknown scheme is refused.
struct location_rule {
  std::string document;             ///< its location; empty: the calling program created it, and it counts as local
  std::optional<bool> allow_local;  ///< whether it may name local files; empty: if it is a local file
  std::set<std::string, std::less<>> expected = {};  ///< paths that the caller named, too: always allowed

  /// The rule for a document from a store whose URIs begin with `uri`. Only local files and members of local archives
  /// count as local: a URI without a scheme is not a path.
  static location_rule of_stored(std::string uri, std::optional<bool> allow_local);

  bool may_name_local() const;
  /// Returns an error if the document may not name `location`. `name` is how the document spells it.
  /// \error unsupported
  result<> check(std::string_view location, std::string_view name) const;
};

}  // namespace penstock::inline v0
