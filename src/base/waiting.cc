#include "base/waiting.h"

namespace penstock::inline v0 {

thread_local interruptible_waits* interruptible_waits::current_ = nullptr;

}  // namespace penstock::inline v0
