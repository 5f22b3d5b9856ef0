// What events cost in energy, and what the parts of a machine draw all the time (docs/energy.md).
#pragma once

#include <map>
#include <string>
#include <vector>

#include <tilewright/base/config.h>
#include <tilewright/base/quantity.h>

namespace tilewright {

/// Of a memory, per byte.
struct MemoryEnergy {
  EnergyPerByte read{0}, write{0};
};

/// Per byte that takes one link: the wires, and the router or switch it comes out of.
struct LinkEnergy {
  EnergyPerByte wire{0}, router{0};
};

/// Drawn by each of the parts of a machine for as long as it runs, whatever it does.
struct StaticPower {
  Watts tile{0};  ///< spare ones too, dead ones not
  Watts dram{0};  ///< a controller and the memory behind it
  Watts host{0};
  Watts switches{0};  ///< of a fabric, each
};

/// The energy coefficients of a machine. 0 where nothing is known.
struct EnergyConfig {
  std::map<std::string, EnergyPerFlop> matrix;  ///< by number format, really multiplied FLOP
  std::map<std::string, Joules> vector;         ///< by number format, of an element in a pass
  MemoryEnergy sram, dram, host;
  std::vector<LinkEnergy> links;  ///< by LinkKind
  StaticPower idle;

  EnergyPerFlop matrix_flop(const std::string& format) const;  ///< 0 if not known
  Joules vector_element(const std::string& format) const;      ///< 0 if not known
};

}  // namespace tilewright
