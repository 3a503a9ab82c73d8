#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// The error for an exception of a store, a codec or a driver of another project. They return errors, but the libraries
/// that they use may throw.
/// \param who  `the store`.
inline error thrown_error(std::string_view who, const std::exception& thrown) {
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr;
  return {no_memory ? errc::resource_exhausted : errc::io_error,
          std::string(who) + " threw an exception: " + thrown.what()};
}

/// The result of `call`, or the error for its exception.
template <class Call>
std::invoke_result_t<Call&> caught(std::string_view who, Call call) {
  try {
    return call();
  } catch (const std::exception& thrown) {
    return thrown_error(who, thrown);
  }
}

}  // namespace penstock::inline v0
