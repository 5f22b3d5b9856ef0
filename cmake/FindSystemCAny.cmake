# Finds SystemC and always yields the imported target SystemC::systemc.
#
# Looked for, in this order: SystemC's own CMake package (SystemCLanguage), SYSTEMC_HOME (variable
# or environment), pkg-config (Debian's libsystemc-dev ships only that).
# The library exports one version symbol per C++ standard it was built with; a mismatch would show
# as an unreadable link error much later, so it is tried here, once.

if(NOT TARGET SystemC::systemc)
  find_package(SystemCLanguage CONFIG QUIET)
endif()

if(NOT TARGET SystemC::systemc)
  set(_tw_systemc_home "${SYSTEMC_HOME}")
  if(NOT _tw_systemc_home)
    set(_tw_systemc_home "$ENV{SYSTEMC_HOME}")
  endif()
  if(NOT _tw_systemc_home)
    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
      pkg_check_modules(_tw_systemc QUIET systemc)
    endif()
  endif()
  find_path(SystemCAny_INCLUDE_DIR systemc
    HINTS "${_tw_systemc_home}/include" ${_tw_systemc_INCLUDE_DIRS})
  find_library(SystemCAny_LIBRARY systemc
    HINTS "${_tw_systemc_home}" ${_tw_systemc_LIBRARY_DIRS}
    PATH_SUFFIXES lib lib64 lib-linux64)
  if(SystemCAny_INCLUDE_DIR AND SystemCAny_LIBRARY)
    find_package(Threads QUIET)
    add_library(SystemC::systemc UNKNOWN IMPORTED)
    set_target_properties(SystemC::systemc PROPERTIES
      IMPORTED_LOCATION "${SystemCAny_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${SystemCAny_INCLUDE_DIR}")
    if(TARGET Threads::Threads)
      set_property(TARGET SystemC::systemc APPEND PROPERTY
        INTERFACE_LINK_LIBRARIES Threads::Threads)
    endif()
  endif()
  mark_as_advanced(SystemCAny_INCLUDE_DIR SystemCAny_LIBRARY)
endif()

set(SystemCAny_FOUND FALSE)
if(TARGET SystemC::systemc)
  set(SystemCAny_FOUND TRUE)
  if(NOT DEFINED CACHE{SystemCAny_LINKS_CXX17})
    set(_tw_probe "${CMAKE_BINARY_DIR}/CMakeFiles/systemc_probe.cpp")
    file(WRITE "${_tw_probe}" "#include <systemc>\nint sc_main(int, char**) { return 0; }\n")
    try_compile(SystemCAny_LINKS_CXX17 "${CMAKE_BINARY_DIR}/CMakeFiles/systemc_probe" "${_tw_probe}"
      LINK_LIBRARIES SystemC::systemc
      CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
      OUTPUT_VARIABLE _tw_probe_log)
    if(NOT SystemCAny_LINKS_CXX17)
      unset(SystemCAny_LINKS_CXX17 CACHE)
      message(FATAL_ERROR
        "The SystemC library that was found does not link with C++17, the standard Tilewright is "
        "built with. It was most likely built for another C++ standard: install a C++17 build "
        "(Debian 12: libsystemc-dev) or point SYSTEMC_HOME at one.\nLinker output:\n${_tw_probe_log}")
    endif()
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SystemCAny
  REQUIRED_VARS SystemCAny_FOUND
  REASON_FAILURE_MESSAGE "install libsystemc-dev, or set SYSTEMC_HOME")
