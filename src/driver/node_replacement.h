#pragma once

#include <memory>
#include <string>

#include <penstock/store.h>
#include "store/folder_swap.h"

namespace penstock::inline v0 {

/// A node that is written elsewhere and then replaces the existing one. See docs/design/0018-overwrite.md.
class node_replacement {
 public:
  /// Returns null if the store cannot do so: the caller then erases the old node and writes the new one.
  static result<std::unique_ptr<node_replacement>> begin(std::shared_ptr<store> at, const std::string& prefix);

  /// The location at which to write the new node, at its root.
  const std::shared_ptr<store>& in() const noexcept { return in_; }
  /// Replaces the old node by the new one. Objects that are not part of the old node remain.
  result<> commit();

 private:
  std::shared_ptr<store> at_, in_;
  std::string prefix_;
  std::unique_ptr<folder_swap> swap_;  // null: the new node is in memory
};

}  // namespace penstock::inline v0
