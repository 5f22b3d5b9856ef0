// The C++ standard must be the one that the SystemC library was built with, C++17: another one ends
// in a missing symbol sc_api_version_..._cxx202002L when linking.
#pragma once

// SystemC's name for __cplusplus, which may be defined by hand to insist.
#ifdef SC_CPLUSPLUS
#define TILEWRIGHT_CPLUSPLUS SC_CPLUSPLUS
#else
#define TILEWRIGHT_CPLUSPLUS __cplusplus
#endif

#if TILEWRIGHT_CPLUSPLUS != 201703L
#error \
    "Tilewright and its SystemC library are built for C++17: compile with -std=c++17 (CMake: CXX_STANDARD 17)"
#endif
