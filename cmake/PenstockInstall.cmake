# Installs the library, its headers and the files that make find_package(penstock) work.

include(CMakePackageConfigHelpers)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)

install(TARGETS penstock EXPORT penstockTargets COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/penstock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.h")
install(EXPORT penstockTargets NAMESPACE penstock:: DESTINATION ${config_dir} COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/penstockConfig.cmake.in penstockConfig.cmake
                              INSTALL_DESTINATION ${config_dir})
# Before 1.0 a minor version may be incompatible: 0.1 does not satisfy a request for 0.2, nor the reverse.
write_basic_package_version_file(penstockConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/penstockConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/penstockConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/Findzstd.cmake ${PROJECT_SOURCE_DIR}/cmake/Findlibdeflate.cmake
              ${PROJECT_SOURCE_DIR}/cmake/Findlz4.cmake ${PROJECT_SOURCE_DIR}/cmake/Findblosc.cmake
              ${PROJECT_SOURCE_DIR}/cmake/Findlibaec.cmake ${PROJECT_SOURCE_DIR}/cmake/Findopenjpeg.cmake
              ${PROJECT_SOURCE_DIR}/cmake/Findlibjxl.cmake ${PROJECT_SOURCE_DIR}/cmake/Findzfp.cmake
        DESTINATION ${config_dir} COMPONENT development)

# For pkg-config. Users of a static libpenstock also link its libraries.
set(PENSTOCK_PC_LIBS "")
if(NOT BUILD_SHARED_LIBS)
  set(PENSTOCK_PC_LIBS "-lzstd -ldeflate -llz4 -lblosc -lsz -lbz2 -llzma -lfmt -lm -lpthread -ldl")
  if(PENSTOCK_CURL STREQUAL "LINK")
    string(APPEND PENSTOCK_PC_LIBS " -lcurl")
  endif()
  if(PENSTOCK_ZFP STREQUAL "LINK")
    string(APPEND PENSTOCK_PC_LIBS " -lzfp")
  endif()
  if(PENSTOCK_PICTURES STREQUAL "LINK")
    foreach(library IN ITEMS TIFF/tiff openjpeg/openjp2 libjxl/jxl)
      cmake_path(GET library PARENT_PATH package)
      if(${package}_FOUND)
        cmake_path(GET library FILENAME name)
        string(APPEND PENSTOCK_PC_LIBS " -l${name}")
      endif()
    endforeach()
  endif()
endif()
# `cmake --install --prefix` chooses the prefix later: the paths are relative to this file.
string(REGEX REPLACE "[^/]+" ".." up "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(CONFIGURE OUTPUT penstock.pc @ONLY CONTENT [[prefix=${pcfiledir}/@up@
libdir=${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: penstock
Description: @PROJECT_DESCRIPTION@
Version: @PROJECT_VERSION@
Cflags: -std=c++20 -I${includedir}
Libs: -L${libdir} -lpenstock @PENSTOCK_PC_LIBS@
]])
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/penstock.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
