#pragma once

#include <penstock/result.h>

#include <span>
#include <string>
#include <string_view>

namespace penstock::inline v0 {

/// The word of `among` that is closest to `typed`, or nothing if none is close: at most a third of its letters are
/// missing, added, changed or exchanged with a neighbour. Upper and lower case are equal.
std::string nearest_word(std::string_view typed, std::span<const std::string> among);

/// `; did you mean 'x'?`, or nothing.
std::string suggestion(std::string_view typed, std::span<const std::string> among);

/// `failure` with the note `did you mean 'x'?`, or unchanged.
error with_suggestion(error failure, std::string_view typed, std::span<const std::string> among);

}  // namespace penstock::inline v0
