#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// A JSON document as a plain value. Keeps the order of object members, and whether a number is an integer.
///
/// One source file includes the JSON library; all others include this header.
class PENSTOCK_API json {
 public:
  using array_t = std::vector<json>;
  using object_t = std::vector<std::pair<std::string, json>>;  // in document order; later duplicates are refused

  json() noexcept = default;
  json(bool value) : value_(value) {}          // NOLINT: implicit by design
  json(std::int64_t value) : value_(value) {}  // NOLINT
  json(std::uint64_t value) {                  // NOLINT
    // int64 if it fits, so that equal numbers compare equal.
    if (value <= static_cast<std::uint64_t>(INT64_MAX))
      value_ = static_cast<std::int64_t>(value);
    else
      value_ = value;
  }
  json(double value) : value_(value) {}                    // NOLINT
  json(std::string value) : value_(std::move(value)) {}    // NOLINT
  json(const char* value) : value_(std::string(value)) {}  // NOLINT
  json(array_t value) : value_(std::move(value)) {}        // NOLINT
  json(object_t value) : value_(std::move(value)) {}       // NOLINT

  /// Parses one document. NaN and Infinity literals (which Python writes) are accepted in `attributes`-like free text.
  /// \error corrupt_data  The message has the reason and the byte offset. Nesting beyond 128 levels and duplicate
  /// members are refused.
  static result<json> parse(std::string_view text);

  bool is_null() const noexcept { return std::holds_alternative<std::monostate>(value_); }
  const bool* as_bool() const noexcept { return std::get_if<bool>(&value_); }
  const std::string* as_string() const noexcept { return std::get_if<std::string>(&value_); }
  const array_t* as_array() const noexcept { return std::get_if<array_t>(&value_); }
  const object_t* as_object() const noexcept { return std::get_if<object_t>(&value_); }
  /// The digits, with the sign, of an integer that 64 bits cannot hold, or null.
  const std::string* as_long_integer() const noexcept;
  /// The integer forms of `get` return false for numbers with a fraction or an exponent, or out of range. Both return
  /// non-negative integers.
  bool is_number() const noexcept;
  bool get(std::int64_t& out) const noexcept;
  bool get(std::uint64_t& out) const noexcept;
  bool get(double& out) const noexcept;  ///< any number; the nearest double

  /// The member with that name, or null if this is not an object or does not have it.
  const json* find(std::string_view name) const noexcept;

  /// `number`, `string`, `array`, ... for messages.
  std::string_view kind_name() const noexcept;

  /// Compact text (indent < 0) or pretty text.
  std::string dump(int indent = -1) const;

  friend bool operator==(const json&, const json&) = default;

 private:
  friend struct long_integers;  // makes them, for the parser
  struct long_integer {
    std::string digits;
    friend bool operator==(const long_integer&, const long_integer&) = default;
  };

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, array_t, object_t, long_integer>
      value_;
};

}  // namespace penstock::inline v0
