# Finds lz4 and defines lz4::lz4. Debian ships no CMake config for it.
# Installed with Penstock: its static library links lz4, so its users need this too.

find_path(lz4_INCLUDE_DIR lz4.h)
find_library(lz4_LIBRARY lz4)
mark_as_advanced(lz4_INCLUDE_DIR lz4_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(lz4 REQUIRED_VARS lz4_LIBRARY lz4_INCLUDE_DIR)

if(lz4_FOUND AND NOT TARGET lz4::lz4)
  add_library(lz4::lz4 UNKNOWN IMPORTED)
  set_target_properties(lz4::lz4 PROPERTIES IMPORTED_LOCATION "${lz4_LIBRARY}"
                                          INTERFACE_INCLUDE_DIRECTORIES "${lz4_INCLUDE_DIR}")
endif()
