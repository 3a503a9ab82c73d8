#pragma once

#include <penstock/context.h>
#include <penstock/result.h>
#include <penstock/tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/output_pool.h"

namespace penstock::inline v0 {

/// Items in C order: the caller's memory, or a copy.
struct items_in_order {
  output_block copied;
  std::span<const std::byte> bytes;
};

/// \param size  Of all items, in bytes. \error resource_exhausted
result<items_in_order> in_c_order(const tensor_view& items, std::uint64_t size, context& with);

/// Returns when the names of these files are on the storage device, in their folders and those above, up to the file
/// system's root.
result<> sync_names(std::span<const std::string> paths);

/// A path in the form of keys below '/': absolute, without '.' and '..'.
std::string key_of_path(const std::string& path);

}  // namespace penstock::inline v0
