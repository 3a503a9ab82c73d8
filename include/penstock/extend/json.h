#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// A JSON document as a plain value. Keeps the order of object members and the text of numbers' kind (integer or not).
///
/// One source file knows the JSON library; everything else compiles against this header.
class PENSTOCK_API json {
 public:
  using array_t = std::vector<json>;
  using object_t = std::vector<std::pair<std::string, json>>;  // in document order; later duplicates are refused

  json() noexcept = default;
  json(bool value) : value_(value) {}          // NOLINT: implicit by design
  json(std::int64_t value) : value_(value) {}  // NOLINT
  json(std::uint64_t value) {                  // NOLINT
    // int64 wherever it fits, so that equal numbers compare equal.
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
  /// \error corrupt_data  Says what and where (byte offset); nesting beyond 128 levels and duplicate members are
  /// refused.
  static result<json> parse(std::string_view text);

  bool is_null() const noexcept { return std::holds_alternative<std::monostate>(value_); }
  const bool* as_bool() const noexcept { return std::get_if<bool>(&value_); }
  const std::string* as_string() const noexcept { return std::get_if<std::string>(&value_); }
  const array_t* as_array() const noexcept { return std::get_if<array_t>(&value_); }
  const object_t* as_object() const noexcept { return std::get_if<object_t>(&value_); }
  /// A number without fraction or exponent that fits; non-negative ones are found by both.
  bool is_number() const noexcept;
  bool get(std::int64_t& out) const noexcept;
  bool get(std::uint64_t& out) const noexcept;
  bool get(double& out) const noexcept;  // any number

  /// The member of that name, or null where this is no object or has none.
  const json* find(std::string_view name) const noexcept;

  /// `number`, `string`, `array`, ... for messages.
  std::string_view kind_name() const noexcept;

  /// Compact text (indent < 0) or pretty text.
  std::string dump(int indent = -1) const;

  friend bool operator==(const json&, const json&) = default;

 private:
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, array_t, object_t> value_;
};

}  // namespace penstock::inline v0
