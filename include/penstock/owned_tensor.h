#pragma once

#include <memory>

#include <penstock/tensor.h>

namespace penstock::inline v0 {

/// Values in memory that the context recycles after the owner is destroyed.
struct owned_tensor {
  tensor_view view;  ///< in C order
  std::shared_ptr<void> owner;
};

}  // namespace penstock::inline v0
