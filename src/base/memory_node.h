#pragma once

#include <optional>

namespace penstock::inline v0 {

/// While an object of this class exists, pages that the calling thread touches first are allocated on a NUMA node of
/// the host, as long as the node has free ones. If the system refuses it (a sandbox, a machine without such nodes),
/// this has no effect.
///
/// Source: set_mempolicy(2), MPOL_PREFERRED.
class preferred_node {
 public:
  explicit preferred_node(std::optional<unsigned> node) noexcept;
  ~preferred_node();
  preferred_node(const preferred_node&) = delete;
  preferred_node& operator=(const preferred_node&) = delete;

  /// Nodes of a higher number are ignored.
  static constexpr unsigned kMostNodes = 1024;

 private:
  static constexpr unsigned kBitsOfAWord = 8 * sizeof(unsigned long);
  bool is_set_ = false;
  int mode_before_ = 0;
  unsigned long before_[kMostNodes / kBitsOfAWord] = {};
};

}  // namespace penstock::inline v0
