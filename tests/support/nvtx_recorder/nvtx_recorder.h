#pragma once

/// \file The counterpart of a profiler for NVTX: a library that the environment variable NVTX_INJECTION64_PATH names,
/// which puts its functions into the tables of programs with ranges. It counts them by domain and name.

#include <cstdint>

extern "C" {

/// Ranges of `domain::name` that were opened so far; "penstock" and "read::disk" give those of storage.
std::uint64_t penstock_nvtx_opened(const char* domain, const char* name);
/// Ranges that are open on some thread now, or were started and have not ended.
std::int64_t penstock_nvtx_open();
/// Errors so far: a range that ends but never began, a string of an unknown domain, attributes of another size.
std::uint64_t penstock_nvtx_mistakes();
}
