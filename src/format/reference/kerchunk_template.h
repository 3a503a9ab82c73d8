#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// The value of a template's expression: text, or an integer.
using template_value = std::variant<std::string, std::int64_t>;

/// Names with their values; the last one of a name counts.
using template_names = std::vector<std::pair<std::string, template_value>>;

/// Replaces the templates `{{ }}` in one document of references, within bounds that the document's size sets.
///
/// An expression is a name, a whole number, text in quotes, `+ - * // %` of whole numbers (rounded down, as in Python),
/// parentheses, or a call of a template with keyword arguments.
///
/// Bounds: 1,000 characters of an expression; 65,536 of an expanded text, or twice the length of inlined data; 2^25 of
/// all expanded texts and 256 more for each reference; 100,000 generated keys and one more for each reference; 8 nested
/// templates; signed 64-bit numbers.
class kerchunk_expander {
 public:
  using templates = std::unordered_map<std::string, std::string>;

  /// \param references  The number of references in the document.
  kerchunk_expander(templates known, std::uint64_t references);

  /// Subtracts `count` generated keys from the bound.
  /// \error unsupported  There are too many.
  result<> generate(std::uint64_t count);

  /// Returns `text` with its templates replaced.
  /// \param is_data  The text is a chunk, so it may become twice as long.
  /// \error corrupt_data  An undefined template, or templates that refer to each other in a cycle. \error unsupported
  /// Another expression, or a bound is exceeded.
  result<std::string> text(std::string_view text, const template_names& names = {}, bool is_data = false);

 private:
  class expression;

  result<std::string> fill(std::string_view text, const template_names& names, int depth);
  result<> spend(std::uint64_t characters, std::string_view text);

  templates templates_;
  std::uint64_t characters_left_, keys_left_;
  std::uint64_t most_ = 0;                              // characters of the text that is being expanded
  std::unordered_map<std::string, std::string> known_;  // expanded texts without names
};

/// `value` as text.
std::string template_text(const template_value& value);

}  // namespace penstock::inline v0
