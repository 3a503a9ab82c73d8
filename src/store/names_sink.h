#pragma once

#include <penstock/store.h>

namespace penstock::inline v0 {

/// A sink that has no use for sizes: a store that would have to look at each object for its size gives 0 instead.
class names_sink : public key_sink {};

}  // namespace penstock::inline v0
