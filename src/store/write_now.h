#pragma once

#include <penstock/store.h>

namespace penstock::inline v0 {

/// Starts one write and waits for it: `put` and `erase` of stores whose writes complete later. A thread whose waits can
/// be interrupted (base/waiting.h) stops the write, and waits for how it ended.
result<version> write_now(store& to, const byte_write& what);

}  // namespace penstock::inline v0
