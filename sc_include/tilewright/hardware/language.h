// The C++ standard must be the one that the SystemC library was built with, C++17: another one ends in
// a missing symbol sc_api_version_..._cxx2020... when linking. (Defining SC_CPLUSPLUS is SystemC's own
// way to insist.)
#pragma once

#if __cplusplus != 201703L && !defined(SC_CPLUSPLUS)
#error "Tilewright and its SystemC library are built for C++17: compile with -std=c++17 (CMake: CXX_STANDARD 17)"
#endif
