#include "base/memory_node.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::inline v0 {
namespace {

constexpr int kPreferred = 1;
// The system uses one bit less than it is given.
constexpr unsigned long kBits = preferred_node::kMostNodes + 1;

}  // namespace

preferred_node::preferred_node(std::optional<unsigned> node) noexcept {
  if (!node || *node >= kMostNodes) return;
  if (syscall(SYS_get_mempolicy, &mode_before_, before_, kBits, nullptr, 0UL) != 0) return;
  unsigned long wanted[kMostNodes / kBitsOfAWord] = {};
  wanted[*node / kBitsOfAWord] = 1UL << (*node % kBitsOfAWord);
  is_set_ = syscall(SYS_set_mempolicy, kPreferred, wanted, kBits) == 0;
}

preferred_node::~preferred_node() {
  if (is_set_) (void)syscall(SYS_set_mempolicy, mode_before_, before_, kBits);
}

}  // namespace penstock::inline v0
