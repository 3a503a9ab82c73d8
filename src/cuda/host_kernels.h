#pragma once

#include <cstdint>
#include <span>

namespace penstock::inline v0::cuda {

/// A kernel's host form: the same code as plain functions, run block by block and thread by thread.
///
/// Every kernel takes one parameter: a trivially copyable struct, by value.
struct host_kernel {
  const char* name;  ///< as in the device module
  std::uint32_t parameter_bytes;
  void (*run)(const void* parameters, unsigned grid, unsigned block);
};

/// All kernels. The fake driver of the tests launches them from here.
std::span<const host_kernel> host_kernels() noexcept;

}  // namespace penstock::inline v0::cuda
