#pragma once

#include <cstdlib>

namespace penstock::inline v0 {

/// Ends the process, which counts as a finding, if a target's condition does not hold.
inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace penstock::inline v0
