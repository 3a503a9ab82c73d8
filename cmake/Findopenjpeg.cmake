# Finds OpenJPEG and defines openjpeg::openjpeg. Debian's CMake config needs programs of another package.
# Installed with Penstock: users of a static library with PENSTOCK_PICTURES=LINK need it too.

find_path(openjpeg_INCLUDE_DIR openjpeg.h PATH_SUFFIXES openjpeg-2.6 openjpeg-2.5 openjpeg-2.4 openjpeg-2.3)
find_library(openjpeg_LIBRARY openjp2)
mark_as_advanced(openjpeg_INCLUDE_DIR openjpeg_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(openjpeg REQUIRED_VARS openjpeg_LIBRARY openjpeg_INCLUDE_DIR)

if(openjpeg_FOUND AND NOT TARGET openjpeg::openjpeg)
  add_library(openjpeg::openjpeg UNKNOWN IMPORTED)
  set_target_properties(openjpeg::openjpeg PROPERTIES IMPORTED_LOCATION "${openjpeg_LIBRARY}"
                                                      INTERFACE_INCLUDE_DIRECTORIES "${openjpeg_INCLUDE_DIR}")
endif()
