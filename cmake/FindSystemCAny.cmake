# Finds SystemC, however it was installed, and always yields the imported target SystemC::systemc.
#
# Looked for, in this order:
#   1. SYSTEMC_HOME (variable or environment): SystemC's own CMake package below it, else
#      include/systemc and the library in lib, lib64 or lib-linux64. Nothing else is tried then.
#   2. SystemC's own CMake package (SystemCLanguage) where CMake finds packages.
#   3. pkg-config (Debian's libsystemc-dev ships only that), then the system's folders.
#
# The library exports one version symbol per C++ standard it was built with; a mismatch would show as
# an unreadable link error much later. So linking is tried here, with the project's CMAKE_CXX_STANDARD
# (17 where it sets none). Tilewright itself is C++17.

set(_tw_systemc_home "${SYSTEMC_HOME}")
if(NOT _tw_systemc_home)
  set(_tw_systemc_home "$ENV{SYSTEMC_HOME}")
endif()

# --- find ---

if(NOT TARGET SystemC::systemc)
  if(_tw_systemc_home)
    find_package(SystemCLanguage CONFIG QUIET PATHS "${_tw_systemc_home}" NO_DEFAULT_PATH)
  else()
    find_package(SystemCLanguage CONFIG QUIET)
  endif()
endif()

if(NOT TARGET SystemC::systemc)
  set(_tw_systemc_search HINTS "")
  if(_tw_systemc_home)
    set(_tw_systemc_search PATHS "${_tw_systemc_home}" NO_DEFAULT_PATH)
  else()
    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
      pkg_check_modules(_tw_systemc QUIET systemc)
      set(_tw_systemc_search HINTS ${_tw_systemc_INCLUDE_DIRS} ${_tw_systemc_LIBRARY_DIRS})
    endif()
  endif()
  find_path(SystemCAny_INCLUDE_DIR systemc ${_tw_systemc_search} PATH_SUFFIXES include)
  find_library(SystemCAny_LIBRARY systemc ${_tw_systemc_search}
    PATH_SUFFIXES lib lib64 lib-linux64)
  mark_as_advanced(SystemCAny_INCLUDE_DIR SystemCAny_LIBRARY)
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
endif()

# --- try ---

# Whether an empty simulation links with C++`standard`; remembered when it does.
function(_tw_systemc_links standard result)
  if(NOT SystemCAny_LINKS_CXX${standard})
    set(source "${CMAKE_BINARY_DIR}/CMakeFiles/systemc_probe.cpp")
    file(WRITE "${source}" "#include <systemc>\nint sc_main(int, char**) { return 0; }\n")
    try_compile(SystemCAny_LINKS_CXX${standard} "${CMAKE_BINARY_DIR}/CMakeFiles/systemc_probe"
      "${source}" LINK_LIBRARIES SystemC::systemc
      CXX_STANDARD ${standard} CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
      OUTPUT_VARIABLE log)
    set(SystemCAny_LOG "${log}" PARENT_SCOPE)
  endif()
  set(${result} "${SystemCAny_LINKS_CXX${standard}}" PARENT_SCOPE)
  if(NOT SystemCAny_LINKS_CXX${standard})
    unset(SystemCAny_LINKS_CXX${standard} CACHE)
  endif()
endfunction()

set(SystemCAny_FOUND FALSE)
set(_tw_systemc_failure "install libsystemc-dev, or set SYSTEMC_HOME")
if(_tw_systemc_home)
  set(_tw_systemc_failure
    "SYSTEMC_HOME is '${_tw_systemc_home}', which holds no include/systemc or no libsystemc")
endif()
if(TARGET SystemC::systemc)
  set(SystemCAny_FOUND TRUE)
  set(_tw_standard 17)
  if(CMAKE_CXX_STANDARD)
    set(_tw_standard ${CMAKE_CXX_STANDARD})
  endif()
  _tw_systemc_links(${_tw_standard} _tw_links)
  if(NOT _tw_links)
    set(SystemCAny_FOUND FALSE)
    set(_tw_log "${SystemCAny_LOG}")
    _tw_systemc_links(17 _tw_links)
    if(_tw_links)
      set(_tw_systemc_failure
        "the SystemC library that was found was built for C++17 and does not link with "
        "C++${_tw_standard}, the CMAKE_CXX_STANDARD of this project: set(CMAKE_CXX_STANDARD 17)")
    else()
      set(_tw_systemc_failure
        "the SystemC library that was found does not link with C++${_tw_standard} or C++17, the "
        "standard of Tilewright. It was most likely built for another C++ standard: install a C++17 "
        "build (Debian 12: libsystemc-dev) or point SYSTEMC_HOME at one. Linker output:\n${_tw_log}")
    endif()
    list(JOIN _tw_systemc_failure "" _tw_systemc_failure)
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SystemCAny
  REQUIRED_VARS SystemCAny_FOUND
  REASON_FAILURE_MESSAGE "${_tw_systemc_failure}")
