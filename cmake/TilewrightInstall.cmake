# What `cmake --install` and `cpack -G DEB` deliver (docs/package.md): the executable and its data
# (component runtime), and what building against the library needs (component development).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(TILEWRIGHT_DATA_DIR "${CMAKE_INSTALL_DATADIR}/tilewright")
set(_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tilewright")

# --- runtime ---

if(TARGET tilewright_app)
  install(TARGETS tilewright_app RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/platforms" DESTINATION "${TILEWRIGHT_DATA_DIR}"
  COMPONENT runtime FILES_MATCHING PATTERN "*.yaml")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/workloads" DESTINATION "${TILEWRIGHT_DATA_DIR}"
  COMPONENT runtime)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs"
  COMPONENT runtime)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/traces" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  COMPONENT runtime FILES_MATCHING PATTERN "README.md" PATTERN "*.png")
install(FILES "${PROJECT_SOURCE_DIR}/README.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  COMPONENT runtime OPTIONAL)

# --- development ---

get_property(_layers GLOBAL PROPERTY TILEWRIGHT_LAYERS)
set(_targets ${_layers})
list(TRANSFORM _targets PREPEND tilewright_)
install(TARGETS ${_targets} tilewright EXPORT tilewrightTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/sc_include/tilewright"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development)
install(EXPORT tilewrightTargets NAMESPACE tilewright:: DESTINATION "${_cmake_dir}"
  COMPONENT development)

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/tilewrightConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/tilewrightConfig.cmake"
  INSTALL_DESTINATION "${_cmake_dir}" PATH_VARS TILEWRIGHT_DATA_DIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tilewrightConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/tilewrightConfig.cmake"
  "${PROJECT_BINARY_DIR}/tilewrightConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/FindSystemCAny.cmake"
  DESTINATION "${_cmake_dir}" COMPONENT development)

# pkg-config: the archives from the top layer down, each before those it uses.
set(TILEWRIGHT_PC_LIBS ${_layers})
list(REVERSE TILEWRIGHT_PC_LIBS)
list(TRANSFORM TILEWRIGHT_PC_LIBS PREPEND -ltilewright_)
list(JOIN TILEWRIGHT_PC_LIBS " " TILEWRIGHT_PC_LIBS)
file(RELATIVE_PATH TILEWRIGHT_PC_TO_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" TILEWRIGHT_PC_TO_PREFIX "${TILEWRIGHT_PC_TO_PREFIX}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/tilewright.pc.in" "${PROJECT_BINARY_DIR}/tilewright.pc"
  @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/tilewright.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)

# --- Debian packages: tilewright and libtilewright-dev ---

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tilewright)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_CONTACT "The Tilewright developers <tilewright@example.org>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
  "Simulates the training and inference of models on tiled AI accelerators: tiles, network and
memory in SystemC/TLM-2.0. This package holds the executable, machine descriptions, models and
plans.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
  "Headers and static libraries of Tilewright, with CMake and pkg-config files.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME tilewright)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)  # needs dpkg-dev and file
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtilewright-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "tilewright (= ${PROJECT_VERSION}), libsystemc-dev, libyaml-cpp-dev, libfmt-dev, nlohmann-json3-dev")
include(CPack)
