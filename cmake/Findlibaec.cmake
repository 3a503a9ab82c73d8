# Finds libaec's szip interface and defines libaec::sz. Debian's package ships no CMake config.
# Installed with Penstock: its static library links it, so its users need this too.

find_path(libaec_INCLUDE_DIR szlib.h)
find_library(libaec_SZ_LIBRARY sz)
mark_as_advanced(libaec_INCLUDE_DIR libaec_SZ_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(libaec REQUIRED_VARS libaec_SZ_LIBRARY libaec_INCLUDE_DIR)

if(libaec_FOUND AND NOT TARGET libaec::sz)
  add_library(libaec::sz UNKNOWN IMPORTED)
  set_target_properties(libaec::sz PROPERTIES IMPORTED_LOCATION "${libaec_SZ_LIBRARY}"
                                          INTERFACE_INCLUDE_DIRECTORIES "${libaec_INCLUDE_DIR}")
endif()
