# How everything here is compiled: the interface target `penstock_options`, linked privately by every other target.

add_library(penstock_options INTERFACE)
target_compile_features(penstock_options INTERFACE cxx_std_20)
target_include_directories(penstock_options INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)

target_compile_options(penstock_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                                                  -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Every x86-64 since 2009; faster code is chosen at run time, in the source that has it.
  target_compile_options(penstock_options INTERFACE -march=x86-64-v2)
else()
  # As on x86-64: char is signed, and products and sums are rounded separately. The same file then gives the same numbers
  # everywhere.
  target_compile_options(penstock_options INTERFACE -fsigned-char -ffp-contract=off)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 warns of uninitialised members of alternatives that a std::variant does not hold, and of overlaps in
  # std::string that do not exist (GCC bug 105651).
  target_compile_options(penstock_options INTERFACE -Wno-maybe-uninitialized -Wno-restrict)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Members name the mutex that guards them (src/base/mutex.h).
  target_compile_options(penstock_options INTERFACE -Wthread-safety)
  if(PENSTOCK_SANITIZE)
    target_compile_options(penstock_options INTERFACE -Werror=thread-safety)
  endif()
endif()

if(PENSTOCK_WERROR)
  # Other compilers may have other warnings, which must not stop a user's build.
  if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\.")
     OR (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^14\\."))
    target_compile_options(penstock_options INTERFACE -Werror)
  else()
    message(STATUS "Warnings stay warnings: ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} is not one of CI's compilers")
  endif()
endif()

# The standard library checks its indexes and preconditions where speed does not matter.
target_compile_definitions(penstock_options INTERFACE $<$<NOT:$<CONFIG:Release>>:_GLIBCXX_ASSERTIONS>)

find_program(PENSTOCK_LLD ld.lld)
mark_as_advanced(PENSTOCK_LLD)

# PENSTOCK_SANITIZE is a list in the form of -fsanitize.
if(PENSTOCK_SANITIZE)
  set(flags -fsanitize=${PENSTOCK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(PENSTOCK_SANITIZE MATCHES "address")  # which finds null pointers and ends of objects: a second check of each takes 7 % longer to compile
    list(APPEND flags -fno-sanitize=null,object-size)
  endif()
  target_compile_options(penstock_options INTERFACE ${flags})
  target_link_options(penstock_options INTERFACE ${flags})
  # Some fifty programs with all of the library in each: it takes a third of the usual linker's time.
  if(PENSTOCK_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_link_options(penstock_options INTERFACE -fuse-ld=lld)
  endif()
endif()
if(PENSTOCK_LIBFUZZER)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "PENSTOCK_LIBFUZZER needs clang, not ${CMAKE_CXX_COMPILER_ID}")
  endif()
  # Fuzzed code counts its branches for libFuzzer, and links this; in the tests it would be a quarter of their compile
  # time.
  add_library(penstock_fuzzed INTERFACE)
  target_compile_options(penstock_fuzzed INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(penstock_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
