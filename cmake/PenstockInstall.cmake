# Installs the library, its headers and the files that make find_package(penstock) work.

include(CMakePackageConfigHelpers)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)

install(TARGETS penstock EXPORT penstockTargets COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/penstock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.h")
install(EXPORT penstockTargets NAMESPACE penstock:: DESTINATION ${config_dir} COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/penstockConfig.cmake.in penstockConfig.cmake
                              INSTALL_DESTINATION ${config_dir})
# Before 1.0 a minor version may break: 0.1 does not serve who asks for 0.2, nor the other way round.
write_basic_package_version_file(penstockConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/penstockConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/penstockConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/Findzstd.cmake ${PROJECT_SOURCE_DIR}/cmake/Findlibdeflate.cmake
              ${PROJECT_SOURCE_DIR}/cmake/Findlz4.cmake ${PROJECT_SOURCE_DIR}/cmake/Findblosc.cmake
              ${PROJECT_SOURCE_DIR}/cmake/Findlibaec.cmake ${PROJECT_SOURCE_DIR}/cmake/Findopenjpeg.cmake
              ${PROJECT_SOURCE_DIR}/cmake/Findlibjxl.cmake
        DESTINATION ${config_dir} COMPONENT development)
