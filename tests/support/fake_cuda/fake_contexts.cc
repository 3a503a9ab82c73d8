// The fake driver: start, devices and contexts.

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

#include "support/fake_cuda/fake_driver.h"

namespace penstock::test::fake {

driver_status init(unsigned) {
  PENSTOCK_CALLED("cuInit");
  return self().devices == 0 ? kNoDevice : kSuccess;
}

driver_status driver_get_version(int* out) {
  PENSTOCK_CALLED("cuDriverGetVersion");
  *out = self().version;
  return kSuccess;
}

driver_status get_error_name(driver_status status, const char** out) {
  *out = status == kInvalidValue     ? "CUDA_ERROR_INVALID_VALUE"
         : status == kOutOfMemory    ? "CUDA_ERROR_OUT_OF_MEMORY"
         : status == kInvalidDevice  ? "CUDA_ERROR_INVALID_DEVICE"
         : status == kInvalidContext ? "CUDA_ERROR_INVALID_CONTEXT"
         : status == kInvalidHandle  ? "CUDA_ERROR_INVALID_HANDLE"
         : status == kNotFound       ? "CUDA_ERROR_NOT_FOUND"
                                     : "CUDA_ERROR_UNKNOWN";
  return kSuccess;
}

driver_status get_error_string(driver_status, const char** out) {
  *out = "as the fake driver has it";
  return kSuccess;
}

driver_status device_get_count(int* out) {
  PENSTOCK_CALLED("cuDeviceGetCount");
  *out = self().devices;
  return kSuccess;
}

driver_status device_get(device_number* out, int ordinal) {
  PENSTOCK_CALLED("cuDeviceGet");
  if (ordinal < 0 || ordinal >= self().devices) return kInvalidDevice;
  *out = ordinal;
  return kSuccess;
}

driver_status device_get_name(char* out, int size, device_number) {
  PENSTOCK_CALLED("cuDeviceGetName");
  if (size < 1) return kInvalidValue;
  constexpr std::string_view kName = "a fake device";
  const std::size_t count = std::min(kName.size(), static_cast<std::size_t>(size) - 1);
  std::memcpy(out, kName.data(), count);
  out[count] = '\0';
  return kSuccess;
}

driver_status device_get_attribute(int* out, int which, device_number) {
  PENSTOCK_CALLED("cuDeviceGetAttribute");
  {
    const std::lock_guard lock(self().mutex);
    if (const auto told = self().attributes.find(which); told != self().attributes.end()) {
      *out = told->second.value;
      return told->second.status;
    }
  }
  switch (which) {
    case kAttributeMultiprocessors:
      *out = 4;
      break;
    case kAttributeMajor:
      *out = 9;
      break;
    case kAttributeHostNode:
      *out = -1;
      break;
    case kAttributeDecompressFormats:
      *out = self().engine_formats;
      break;
    case kAttributeDecompressMostBytes:
      *out = self().engine_most_bytes;
      break;
    default:
      *out = 0;
  }
  return kSuccess;
}

driver_status primary_context_retain(context_ref* out, device_number device) {
  PENSTOCK_CALLED("cuDevicePrimaryCtxRetain");
  if (device < 0 || device >= self().devices) return kInvalidDevice;
  *out = fake_driver::context_of(device);
  ++self().retained;
  return kSuccess;
}

driver_status primary_context_release(device_number) {
  --self().retained;  // whatever the device's state is
  PENSTOCK_CALLED("cuDevicePrimaryCtxRelease");
  return kSuccess;
}

driver_status context_get_current(context_ref* out) {
  PENSTOCK_CALLED("cuCtxGetCurrent");
  *out = current.empty() ? nullptr : current.back();
  return kSuccess;
}

driver_status context_get_device(device_number* out) {
  PENSTOCK_CALLED("cuCtxGetDevice");
  if (fake_driver::current_device_number() < 0) return kInvalidContext;
  *out = fake_driver::current_device_number();
  return kSuccess;
}

driver_status context_push(context_ref context) {
  PENSTOCK_CALLED("cuCtxPushCurrent");
  current.push_back(context);
  return kSuccess;
}

driver_status context_pop(context_ref* out) {
  PENSTOCK_CALLED("cuCtxPopCurrent");
  if (current.empty()) return kInvalidContext;
  *out = current.back();
  current.pop_back();
  return kSuccess;
}

driver_status exchange_capture_mode(int* mode) {
  PENSTOCK_CALLED("cuThreadExchangeStreamCaptureMode");
  std::swap(*mode, capture_mode);
  return kSuccess;
}

}  // namespace penstock::test::fake
