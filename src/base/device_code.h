#pragma once

#ifdef __CUDACC__
#define PENSTOCK_DEVICE_CODE __host__ __device__ inline
#else
#define PENSTOCK_DEVICE_CODE inline
#endif
