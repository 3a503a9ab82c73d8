#pragma once

#include <string>
#include <string_view>

namespace penstock::inline v0 {

/// `text` (UTF-8) for one line of output: a line feed becomes `\n`, other control characters `\x1b`. Names of nodes and
/// attributes may contain such characters, and a terminal would execute them.
std::string printable(std::string_view text);
/// The same for several lines: line feeds and tabs are unchanged.
std::string printable_lines(std::string_view text);

}  // namespace penstock::inline v0
