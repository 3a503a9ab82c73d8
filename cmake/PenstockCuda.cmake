# Decides whether this build has CUDA kernels, and builds them: one compressed fatbin for every architecture, which the
# library embeds. nvcc is only needed to build it; no target links with CUDA.

set(PENSTOCK_NVCC "")
if(NOT PENSTOCK_CUDA STREQUAL "OFF")
  find_program(PENSTOCK_NVCC_PROGRAM nvcc HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(PENSTOCK_NVCC_PROGRAM)
  if(PENSTOCK_NVCC_PROGRAM)
    set(PENSTOCK_NVCC ${PENSTOCK_NVCC_PROGRAM})
  elseif(PENSTOCK_CUDA STREQUAL "ON")
    message(FATAL_ERROR "PENSTOCK_CUDA=ON, but there is no nvcc: put it on PATH, set CUDA_PATH, or `make build CUDA=1`")
  endif()
endif()

# Machine code for these, and PTX of the first, which the driver translates for any later one.
set(PENSTOCK_CUDA_ARCHITECTURES 80 86 89 90 100 120)

if(PENSTOCK_NVCC)
  set(PENSTOCK_DEVICE_CODE "built with ${PENSTOCK_NVCC} for ${PENSTOCK_CUDA_ARCHITECTURES}")
elseif(PENSTOCK_CUDA STREQUAL "OFF")
  set(PENSTOCK_DEVICE_CODE "left out (PENSTOCK_CUDA=OFF)")
else()
  set(PENSTOCK_DEVICE_CODE "left out (no nvcc)")
endif()
message(STATUS "CUDA kernels: ${PENSTOCK_DEVICE_CODE}")
# Printed by `make build` and `make wheel` at their end.
if(PROJECT_IS_TOP_LEVEL)
  file(WRITE ${PROJECT_BINARY_DIR}/device_code "${PENSTOCK_DEVICE_CODE}\n")
endif()

# penstock_fatbin(<source> <embedding source>): builds <source> if there is nvcc, and compiles <embedding source> of
# the calling folder with PENSTOCK_FATBIN naming the result.
function(penstock_fatbin source embedding)
  if(NOT PENSTOCK_NVCC)
    return()
  endif()
  list(GET PENSTOCK_CUDA_ARCHITECTURES 0 oldest)
  set(code -gencode arch=compute_${oldest},code=[sm_${oldest},compute_${oldest}])
  list(SUBLIST PENSTOCK_CUDA_ARCHITECTURES 1 -1 others)
  foreach(architecture IN LISTS others)
    list(APPEND code -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  set(fatbin ${CMAKE_CURRENT_BINARY_DIR}/kernels.fatbin)
  add_custom_command(
    OUTPUT ${fatbin}
    BYPRODUCTS ${fatbin}.ptxas
    COMMAND ${CMAKE_COMMAND} -DREPORT=${fatbin}.ptxas -P ${PROJECT_SOURCE_DIR}/cmake/RunNvcc.cmake --
            ${PENSTOCK_NVCC} -std=c++20 -O3 -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/include ${code} --fatbin
            -Xptxas -v -Xfatbin -compress-all -MD -MF ${fatbin}.d -o ${fatbin} ${source}
    DEPENDS ${source} ${PROJECT_SOURCE_DIR}/cmake/RunNvcc.cmake
    DEPFILE ${fatbin}.d
    COMMENT "Building CUDA kernels"
    VERBATIM)
  set_source_files_properties(${embedding} PROPERTIES COMPILE_DEFINITIONS PENSTOCK_FATBIN="${fatbin}" OBJECT_DEPENDS
                                                                                                     ${fatbin})
endfunction()
