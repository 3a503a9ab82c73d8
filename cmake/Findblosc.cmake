# Finds blosc and defines blosc::blosc. It ships no CMake config.
# Installed with Penstock: its static library links blosc, so its users need this too.

find_path(blosc_INCLUDE_DIR blosc.h)
find_library(blosc_LIBRARY blosc)
mark_as_advanced(blosc_INCLUDE_DIR blosc_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(blosc REQUIRED_VARS blosc_LIBRARY blosc_INCLUDE_DIR)

if(blosc_FOUND AND NOT TARGET blosc::blosc)
  add_library(blosc::blosc UNKNOWN IMPORTED)
  set_target_properties(blosc::blosc PROPERTIES IMPORTED_LOCATION "${blosc_LIBRARY}"
                                          INTERFACE_INCLUDE_DIRECTORIES "${blosc_INCLUDE_DIR}")
endif()
