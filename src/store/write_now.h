#pragma once

#include <penstock/store.h>

namespace penstock::inline v0 {

/// Starts one write and waits for it: `put` and `erase` of stores whose writes complete later. If the thread's wait is
/// interrupted (base/waiting.h), it stops the write, and waits for its outcome.
result<version> write_now(store& to, const byte_write& what);

}  // namespace penstock::inline v0
