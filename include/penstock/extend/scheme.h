#pragma once

#include <string_view>

#include <penstock/place.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

/// Finds the stores for the URIs of one scheme: a member of `context_options::schemes`.
///
/// Thread-safe; lives as long as the context.
class PENSTOCK_API uri_scheme {
 public:
  virtual ~uri_scheme() = default;
  /// Lower case, without the colon: `toy`. This scheme opens URIs that begin with `toy:`, even if the library has a
  /// scheme of that name.
  virtual std::string_view name() const noexcept = 0;
  /// The store and the path in it that `uri` names. Nothing needs to exist there yet.
  ///
  /// Opening the same URI twice may return the same store or two stores of the same objects.
  /// \param uri  The complete URI, with the scheme.
  /// \error invalid_argument  It is not a URI of this scheme.
  virtual result<place> find(std::string_view uri, const place_options& options) const = 0;
};

}  // namespace penstock::inline v0
