// SC_HAS_PROCESS is needed by SystemC 2.3 and deprecated by SystemC 3.
#pragma once

#include <systemc>

#if SC_VERSION_MAJOR >= 3
#define TILEWRIGHT_HAS_PROCESS(module) static_assert(true)
#else
#define TILEWRIGHT_HAS_PROCESS(module) SC_HAS_PROCESS(module)
#endif
