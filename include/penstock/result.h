#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/config.h>

namespace penstock::inline v0 {

/// The kind of failure. Bindings map each code to one exception type.
enum class errc : std::uint8_t {
  invalid_argument,    ///< the request has no meaning
  out_of_range,        ///< an index or box exceeds the array
  not_found,           ///< the object is absent; a read turns this into the fill value, `open` does not
  corrupt_data,        ///< bytes from storage contradict the format or the metadata
  unsupported,         ///< well-formed, but not supported by Penstock
  permission_denied,   ///< the store refused
  io_error,            ///< the store failed, or ended early
  version_changed,     ///< the object is no longer the expected one; internal, retried a bounded number of times
  conflict,            ///< the object kept changing while it was read or written
  read_only,           ///< a write to a node that was opened for reading, or whose store or format is read-only
  cancelled,           ///< the caller cancelled, or was interrupted
  deadline_exceeded,   ///< time ran out
  resource_exhausted,  ///< a limit of the context, or of the system, was reached
  internal,            ///< a fault in Penstock
};

/// The snake_case name of a code, with which every message begins.
PENSTOCK_API std::string_view to_string(errc code) noexcept;

/// A failure as a value: one sentence, then one note from each layer that the failure passed.
///
/// Moves cheaply (one pointer). Each layer adds the facts that only it has: codec, chunk, key and byte range, array.
class [[nodiscard]] error {
 public:
  error(errc code, std::string message) : details_(std::make_unique<details>(details{code, std::move(message), {}})) {}

  errc code() const noexcept { return details_->code; }
  const std::string& message() const noexcept { return details_->message; }
  const std::vector<std::string>& notes() const noexcept { return details_->notes; }

  /// Appends the note of one layer; innermost layer first.
  error& note(std::string text) & {
    details_->notes.push_back(std::move(text));
    return *this;
  }
  error&& note(std::string text) && {
    details_->notes.push_back(std::move(text));
    return std::move(*this);
  }

  /// A second owner of the same text, for tickets with several waiting callers.
  error clone() const {
    error copy(code(), message());
    copy.details_->notes = details_->notes;
    return copy;
  }

  /// `code: message`, then each note on a line of its own, indented by two spaces.
  PENSTOCK_API std::string to_string() const;

 private:
  struct details {
    errc code;
    std::string message;
    std::vector<std::string> notes;
  };
  std::unique_ptr<details> details_;
};

/// A value or an error. Never throws; `value()` of a failed result is a programming mistake.
template <class T = void>
class [[nodiscard]] result {
 public:
  using value_type = T;

  result(T value) : state_(std::in_place_index<0>, std::move(value)) {}                    // NOLINT: implicit by design
  result(penstock::error failure) : state_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT

  bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  T& value() & noexcept {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& noexcept {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  T&& value() && noexcept {
    assert(ok());
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & noexcept { return value(); }
  const T& operator*() const& noexcept { return value(); }
  T* operator->() noexcept { return &value(); }
  const T* operator->() const noexcept { return &value(); }

  penstock::error& error() & noexcept {
    assert(!ok());
    return *std::get_if<1>(&state_);
  }
  const penstock::error& error() const& noexcept {
    assert(!ok());
    return *std::get_if<1>(&state_);
  }
  penstock::error&& error() && noexcept {
    assert(!ok());
    return std::move(*std::get_if<1>(&state_));
  }

 private:
  std::variant<T, penstock::error> state_;
};

template <>
class [[nodiscard]] result<void> {
 public:
  using value_type = void;

  result() noexcept = default;
  result(penstock::error failure) : state_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT

  bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  penstock::error& error() & noexcept {
    assert(!ok());
    return *std::get_if<1>(&state_);
  }
  const penstock::error& error() const& noexcept {
    assert(!ok());
    return *std::get_if<1>(&state_);
  }
  penstock::error&& error() && noexcept {
    assert(!ok());
    return std::move(*std::get_if<1>(&state_));
  }

 private:
  std::variant<std::monostate, penstock::error> state_;
};

}  // namespace penstock::inline v0

#define PENSTOCK_CONCAT_IMPL(a, b) a##b
#define PENSTOCK_CONCAT(a, b) PENSTOCK_CONCAT_IMPL(a, b)

/// Returns the error of `expression` (a result) to the caller, or continues.
#define PENSTOCK_TRY(expression)                                                                               \
  do {                                                                                                         \
    if (auto penstock_result = (expression); !penstock_result.ok()) return std::move(penstock_result).error(); \
  } while (false)

/// Declares `declaration` from the value of `expression` (a result), or returns its error to the caller.
#define PENSTOCK_ASSIGN(declaration, expression)                           \
  auto PENSTOCK_CONCAT(penstock_result_, __LINE__) = (expression);         \
  if (!PENSTOCK_CONCAT(penstock_result_, __LINE__).ok())                   \
    return std::move(PENSTOCK_CONCAT(penstock_result_, __LINE__)).error(); \
  declaration = std::move(PENSTOCK_CONCAT(penstock_result_, __LINE__)).value()
