# Finds zfp and defines zfp::zfp. Debian's CMake config needs OpenMP for C, which these builds do not use.
# Installed with Penstock: users of a static library with PENSTOCK_ZFP=LINK need it too.

find_path(zfp_INCLUDE_DIR zfp/version.h)
find_library(zfp_LIBRARY zfp)
mark_as_advanced(zfp_INCLUDE_DIR zfp_LIBRARY)
if(zfp_INCLUDE_DIR)
  file(STRINGS ${zfp_INCLUDE_DIR}/zfp/version.h zfp_lines REGEX "define ZFP_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*PATCH +([0-9]+).*" "\\1.\\2.\\3" zfp_VERSION "${zfp_lines}")
  unset(zfp_lines)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(zfp REQUIRED_VARS zfp_LIBRARY zfp_INCLUDE_DIR VERSION_VAR zfp_VERSION)

if(zfp_FOUND AND NOT TARGET zfp::zfp)
  add_library(zfp::zfp UNKNOWN IMPORTED)
  set_target_properties(zfp::zfp PROPERTIES IMPORTED_LOCATION "${zfp_LIBRARY}"
                                            INTERFACE_INCLUDE_DIRECTORIES "${zfp_INCLUDE_DIR}")
endif()
