# Says whether this build carries CUDA kernels. There are none yet: src/cuda brings them, and what it needs stands here
# so that a build without them is a visible choice, not a surprise.

set(PENSTOCK_NVCC "")
if(NOT PENSTOCK_CUDA STREQUAL "OFF")
  find_program(PENSTOCK_NVCC_PROGRAM nvcc HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(PENSTOCK_NVCC_PROGRAM)
  if(PENSTOCK_NVCC_PROGRAM)
    set(PENSTOCK_NVCC ${PENSTOCK_NVCC_PROGRAM})
  elseif(PENSTOCK_CUDA STREQUAL "ON")
    message(FATAL_ERROR "PENSTOCK_CUDA=ON, and there is no nvcc: put it on PATH or set CUDA_PATH")
  endif()
endif()

if(PENSTOCK_NVCC)
  message(STATUS "CUDA kernels: none to build yet (they would be built with ${PENSTOCK_NVCC})")
elseif(PENSTOCK_CUDA STREQUAL "OFF")
  message(STATUS "CUDA kernels: left out (PENSTOCK_CUDA=OFF)")
else()
  message(STATUS "CUDA kernels: left out (no nvcc)")
endif()
