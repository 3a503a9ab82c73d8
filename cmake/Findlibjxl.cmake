# Finds libjxl and defines libjxl::libjxl. It ships no CMake config.
# Installed with Penstock: users of a static library with PENSTOCK_PICTURES=LINK need it too.

find_path(libjxl_INCLUDE_DIR jxl/decode.h)
find_library(libjxl_LIBRARY jxl)
mark_as_advanced(libjxl_INCLUDE_DIR libjxl_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(libjxl REQUIRED_VARS libjxl_LIBRARY libjxl_INCLUDE_DIR)

if(libjxl_FOUND AND NOT TARGET libjxl::libjxl)
  add_library(libjxl::libjxl UNKNOWN IMPORTED)
  set_target_properties(libjxl::libjxl PROPERTIES IMPORTED_LOCATION "${libjxl_LIBRARY}"
                                                  INTERFACE_INCLUDE_DIRECTORIES "${libjxl_INCLUDE_DIR}")
endif()
