/* A libcuda.so.1 for machines without a GPU: Legate's wheels link the driver, and this one reports none.
 *
 * Every entry that is requested by name exists and returns CUDA_ERROR_NO_DEVICE, except for those that report it. The
 * toolkit's own stub is not sufficient: it lacks the names of errors. */
#include <string.h>

typedef int status;
enum { kSuccess = 0, kInvalidValue = 1, kNoDevice = 100, kVersion = 13000 };

static status no_device(void) { return kNoDevice; }

/* As the driver: a code that is not known has no text, and is an invalid value. */
static status text_of(status code, const char* success, const char* none, const char** out) {
  *out = code == kSuccess ? success : code == kNoDevice ? none : 0;
  return *out != 0 ? kSuccess : kInvalidValue;
}

status cuGetErrorName(status code, const char** name) {
  return text_of(code, "CUDA_SUCCESS", "CUDA_ERROR_NO_DEVICE", name);
}

status cuGetErrorString(status code, const char** text) {
  return text_of(code, "no error", "no CUDA-capable device is detected", text);
}

status cuDriverGetVersion(int* version) {
  *version = kVersion;
  return kSuccess;
}

status cuDeviceGetCount(int* count) {
  *count = 0;
  return kSuccess;
}

/* Those that the libraries link by name. */
status cuMemFree_v2(unsigned long long memory) {
  (void)memory;
  return kNoDevice;
}

status cuMemFreeHost(void* memory) {
  (void)memory;
  return kNoDevice;
}

static void* entry(const char* name) {
  if (strcmp(name, "cuGetErrorName") == 0) return (void*)cuGetErrorName;
  if (strcmp(name, "cuGetErrorString") == 0) return (void*)cuGetErrorString;
  if (strcmp(name, "cuDriverGetVersion") == 0) return (void*)cuDriverGetVersion;
  if (strcmp(name, "cuDeviceGetCount") == 0) return (void*)cuDeviceGetCount;
  return (void*)no_device;
}

status cuGetProcAddress(const char* name, void** found, int version, unsigned long long flags) {
  (void)version, (void)flags;
  *found = entry(name);
  return kSuccess;
}

status cuGetProcAddress_v2(const char* name, void** found, int version, unsigned long long flags, int* how) {
  if (how != 0) *how = 0;
  return cuGetProcAddress(name, found, version, flags);
}
