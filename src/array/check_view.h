#pragma once

#include <string_view>

#include <penstock/result.h>
#include <penstock/tensor.h>

namespace penstock::inline v0 {

/// `check_view`, for views that may be invalid.
result<> check_odd_view(const tensor_view& of, std::string_view what);

/// Whether a caller's view has a stride for each dimension, and memory if it has elements.
/// \param what  The view in errors: `out`.
/// \error invalid_argument  It does not.
inline result<> check_view(const tensor_view& of, std::string_view what) {
  if (of.strides.size() == of.extents.size() && of.data != nullptr) return {};
  return check_odd_view(of, what);
}

}  // namespace penstock::inline v0
