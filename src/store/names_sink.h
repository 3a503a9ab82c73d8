#pragma once

#include <penstock/store.h>

namespace penstock::inline v0 {

/// A sink that does not use sizes: a store that would have to query each object for its size passes 0 instead.
class names_sink : public key_sink {};

}  // namespace penstock::inline v0
