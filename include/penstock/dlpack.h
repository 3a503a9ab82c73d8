#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <penstock/dtype.h>
#include <penstock/result.h>
#include <penstock/tensor.h>

/// DLPack's own name for `penstock::dlpack_managed_versioned`: complete if dlpack.h is included.
struct DLManagedTensorVersioned;

/// The memory layout of DLPack 1.x (https://dmlc.github.io/dlpack/latest/c_api.html), declared here because it is an
/// interface and not a library: other array libraries accept it without a copy.
namespace penstock::inline v0 {

inline constexpr std::uint32_t kDlpackMajor = 1;
inline constexpr std::uint32_t kDlpackMinor = 1;  // the first with floats of 8 bits
inline constexpr std::uint64_t kDlpackReadOnly = 1;
inline constexpr std::uint64_t kDlpackIsCopied = 2;

struct dlpack_device {
  std::int32_t type;  // 1: host, 2: CUDA, 3: page-locked host, 13: CUDA managed
  std::int32_t index;
};

struct dlpack_type {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct dlpack_tensor {
  void* data;
  dlpack_device device;
  std::int32_t rank;
  dlpack_type type;
  const std::int64_t* shape;
  const std::int64_t* strides;  // in elements
  std::uint64_t byte_offset;
};

/// "dltensor": for consumers before 1.0
struct dlpack_managed {
  dlpack_tensor tensor;
  void* content;  // the producer's
  void (*deleter)(dlpack_managed*);
};

/// "dltensor_versioned"
struct dlpack_managed_versioned {
  std::uint32_t major;
  std::uint32_t minor;
  void* content;  // the producer's
  void (*deleter)(dlpack_managed_versioned*);
  std::uint64_t flags;
  dlpack_tensor tensor;
};

static_assert(sizeof(dlpack_tensor) == 48 && sizeof(dlpack_managed) == 64 && sizeof(dlpack_managed_versioned) == 80);

/// Empty for types that have no DLPack code, and for types of less than a byte: they take a byte each in memory here,
/// and consumers expect different forms.
PENSTOCK_API std::optional<dlpack_type> dlpack_type_of(const dtype& type) noexcept;

/// Exports a tensor without a copy for consumers of DLPack 1.x, including bfloat16 and floats of 8 bits.
///
/// The owner of the pointer calls its `deleter` once, on any thread; consumers do. Without dlpack.h, read it as a
/// `dlpack_managed_versioned`.
/// \param owner   Owns the memory; released by the deleter. Null: the memory outlives the consumer.
/// \param device  Where the memory is; for host memory {1, 0}.
/// \param flags   kDlpackReadOnly and kDlpackIsCopied.
/// \error unsupported  DLPack does not have the type, or the strides are not whole elements.
PENSTOCK_API result<DLManagedTensorVersioned*> to_dlpack(const tensor_view& view, std::shared_ptr<const void> owner,
                                                         dlpack_device device = {1, 0}, std::uint64_t flags = 0);

}  // namespace penstock::inline v0
