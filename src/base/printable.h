#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::inline v0 {

/// `text` (UTF-8) for one line of output: a line feed becomes `\n`, other control characters `\x1b`. Names of nodes and
/// attributes may contain such characters, and a terminal would execute them.
std::string printable(std::string_view text);
/// The same for several lines: line feeds and tabs are unchanged.
std::string printable_lines(std::string_view text);
/// The first characters of `text` (UTF-8), at most `most` bytes.
std::string_view first_characters(std::string_view text, std::size_t most) noexcept;

}  // namespace penstock::inline v0
