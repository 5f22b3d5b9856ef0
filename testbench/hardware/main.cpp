// The SystemC library brings main(); this is what it calls. One simulation per process: run the
// tests through ctest, which starts the executable once per test.
#include <gtest/gtest.h>
#include <systemc>

int sc_main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
