// The table of driver functions, and its constants, equal those of CUDA's own headers.

#include <gtest/gtest.h>

#if __has_include(<cudaTypedefs.h>)
#include <cuda.h>
#include <cudaTypedefs.h>
#endif

#include <cstddef>
#include <tuple>
#include <type_traits>

#include "cuda/driver.h"

namespace penstock::inline v0::cuda {
namespace {

#if __has_include(<cudaTypedefs.h>)

// Whether two types are passed the same way: both addresses, or both numbers of the same size.
template <class Ours, class Theirs>
constexpr bool kSamePassing = std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
                              std::is_class_v<Ours> == std::is_class_v<Theirs> && sizeof(Ours) == sizeof(Theirs);

template <class Ours, class Theirs>
struct same_call : std::false_type {};
template <class R, class... Ours, class S, class... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct same_call<R (*)(Ours...), S (*)(Theirs...)>
    : std::bool_constant<kSamePassing<R, S> && (kSamePassing<Ours, Theirs> && ...)> {};

#define PENSTOCK_SAME_CALL(member, name, version, ...)                               \
  static_assert(same_call<decltype(driver::member), PFN_##name##_v##version>::value, \
                #name " is called otherwise than cudaTypedefs.h has it");
PENSTOCK_CUDA_DRIVER(PENSTOCK_SAME_CALL)
PENSTOCK_CUDA_DRIVER_OPTIONAL(PENSTOCK_SAME_CALL)

#define PENSTOCK_SAME_NUMBER(ours, theirs) \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #ours " is not " #theirs)
PENSTOCK_SAME_NUMBER(kSuccess, CUDA_SUCCESS);
PENSTOCK_SAME_NUMBER(kInvalidValue, CUDA_ERROR_INVALID_VALUE);
PENSTOCK_SAME_NUMBER(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
PENSTOCK_SAME_NUMBER(kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
PENSTOCK_SAME_NUMBER(kNoDevice, CUDA_ERROR_NO_DEVICE);
PENSTOCK_SAME_NUMBER(kInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
PENSTOCK_SAME_NUMBER(kInvalidImage, CUDA_ERROR_INVALID_IMAGE);
PENSTOCK_SAME_NUMBER(kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
PENSTOCK_SAME_NUMBER(kNoBinaryForDevice, CUDA_ERROR_NO_BINARY_FOR_GPU);
PENSTOCK_SAME_NUMBER(kInvalidPtx, CUDA_ERROR_INVALID_PTX);
PENSTOCK_SAME_NUMBER(kNoPtxCompiler, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
PENSTOCK_SAME_NUMBER(kUnsupportedPtx, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
PENSTOCK_SAME_NUMBER(kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
PENSTOCK_SAME_NUMBER(kNotFound, CUDA_ERROR_NOT_FOUND);
PENSTOCK_SAME_NUMBER(kNotReady, CUDA_ERROR_NOT_READY);
PENSTOCK_SAME_NUMBER(kNotSupported, CUDA_ERROR_NOT_SUPPORTED);
PENSTOCK_SAME_NUMBER(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
PENSTOCK_SAME_NUMBER(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
PENSTOCK_SAME_NUMBER(kHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);
PENSTOCK_SAME_NUMBER(kHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE);
PENSTOCK_SAME_NUMBER(kCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
PENSTOCK_SAME_NUMBER(kPointerContext, CU_POINTER_ATTRIBUTE_CONTEXT);
PENSTOCK_SAME_NUMBER(kPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
PENSTOCK_SAME_NUMBER(kPointerIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED);
PENSTOCK_SAME_NUMBER(kPointerDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
PENSTOCK_SAME_NUMBER(kMemoryTypeHost, CU_MEMORYTYPE_HOST);
PENSTOCK_SAME_NUMBER(kMemoryTypeDevice, CU_MEMORYTYPE_DEVICE);
PENSTOCK_SAME_NUMBER(kAttributeClockKilohertz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
PENSTOCK_SAME_NUMBER(kAttributeMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
PENSTOCK_SAME_NUMBER(kAttributeMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
PENSTOCK_SAME_NUMBER(kAttributeMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
PENSTOCK_SAME_NUMBER(kAttributeIntegrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
PENSTOCK_SAME_NUMBER(kAttributeUsesRegisteredAddress, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
PENSTOCK_SAME_NUMBER(kAttributePageableAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
PENSTOCK_SAME_NUMBER(kAttributeUsesHostPageTables, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
PENSTOCK_SAME_NUMBER(kAttributePciBus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
PENSTOCK_SAME_NUMBER(kAttributePciDevice, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
PENSTOCK_SAME_NUMBER(kAttributePciDomain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
#if CUDA_VERSION >= 12020
PENSTOCK_SAME_NUMBER(kAttributeHostNode, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
#endif
PENSTOCK_SAME_NUMBER(copy_attributes{}.source_order, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
#if CUDA_VERSION >= 12080
PENSTOCK_SAME_NUMBER(kAttributeDecompressFormats, CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK);
PENSTOCK_SAME_NUMBER(kAttributeDecompressMostBytes, CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH);
PENSTOCK_SAME_NUMBER(kDecompressDeflate, CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE);
PENSTOCK_SAME_NUMBER(kDecompressSnappy, CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY);
PENSTOCK_SAME_NUMBER(kDecompressLz4, CU_MEM_DECOMPRESS_ALGORITHM_LZ4);
PENSTOCK_SAME_NUMBER(sizeof(copy_attributes), sizeof(CUmemcpyAttributes));
PENSTOCK_SAME_NUMBER(offsetof(copy_attributes, source_location), offsetof(CUmemcpyAttributes, srcLocHint));
PENSTOCK_SAME_NUMBER(offsetof(copy_attributes, target_location), offsetof(CUmemcpyAttributes, dstLocHint));
PENSTOCK_SAME_NUMBER(offsetof(copy_attributes, flags), offsetof(CUmemcpyAttributes, flags));
#endif

TEST(DriverTable, EqualsTheHeadersOfCuda) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(kLegacyStream), reinterpret_cast<std::uintptr_t>(CU_STREAM_LEGACY));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(kPerThreadStream), reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD));
}

#else

TEST(DriverTable, EqualsTheHeadersOfCuda) { GTEST_SKIP() << "CUDA's headers are not on this machine"; }

#endif

}  // namespace
}  // namespace penstock::inline v0::cuda
