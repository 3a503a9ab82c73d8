#include "base/memory_node.h"

#include "base/system_calls.h"

namespace penstock::inline v0 {
namespace {

constexpr int kPreferred = 1;

}  // namespace

preferred_node::preferred_node(std::optional<unsigned> node) noexcept {
  if (!node || *node >= kMostNodes) return;
  if (!get_memory_policy(mode_before_, before_)) return;
  unsigned long wanted[kMostNodes / kBitsOfAWord] = {};
  wanted[*node / kBitsOfAWord] = 1UL << (*node % kBitsOfAWord);
  is_set_ = set_memory_policy(kPreferred, wanted);
}

preferred_node::~preferred_node() {
  if (is_set_) (void)set_memory_policy(mode_before_, before_);
}

}  // namespace penstock::inline v0
