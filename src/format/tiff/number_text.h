#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace penstock::inline v0 {

/// The number in the whole text, except white space around it; nothing if it is not a number. Numbers beyond the range
/// of a double are infinite or 0, as in C.
std::optional<double> number_of_text(std::string_view text) noexcept;

/// The number at the beginning of the text. Microsoft's spellings of infinity and NaN (`1.#INF`, `-1.#IND`) are
/// numbers.
std::optional<double> leading_number(std::string_view text) noexcept;

/// The shortest text that reads back as the number, as Python writes floats: `-9999.0`, `1e-07`, `nan`, `-inf`.
std::string text_of_number(double value);

/// The text without ASCII white space at both ends.
std::string_view trimmed(std::string_view text) noexcept;

}  // namespace penstock::inline v0
