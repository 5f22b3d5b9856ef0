// Makes SystemC 2.3 look like SystemC 3 where the two differ for a module's source: processes are
// registered without SC_HAS_PROCESS, which is refused, as are the names that SystemC 3 deprecates.
// Included in front of a source by check_systemc.sh.
#pragma once

#include <type_traits>

#include <systemc>
#include <tlm>

#if SC_VERSION_MAJOR < 3
#undef SC_VERSION_MAJOR
#define SC_VERSION_MAJOR 3
#undef SC_METHOD
#define SC_METHOD(function)                                                                   \
  declare_method_process(function##_handle, #function, std::remove_pointer_t<decltype(this)>, \
                         function)
#undef SC_THREAD
#define SC_THREAD(function)                                                                   \
  declare_thread_process(function##_handle, #function, std::remove_pointer_t<decltype(this)>, \
                         function)
#undef SC_HAS_PROCESS
#pragma GCC poison SC_HAS_PROCESS sc_set_default_time_unit sc_get_default_time_unit
#endif
