// How much a program makes each tile do, counted from its instructions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilewright/base/ids.h>
#include <tilewright/program/program.h>

namespace tilewright {

/// What a tile does from the first to the last of its calls, however long it takes.
struct TileWork {
  std::vector<double> flop;      ///< matrix engine, by ProgramWork::formats
  std::vector<double> elements;  ///< vector engine, elements × passes, by ProgramWork::formats
  double engines_read = 0, engines_wrote = 0;     ///< bytes that the engines move through the SRAM
  std::uint64_t dram_read = 0, dram_written = 0;  ///< loads and stores
  std::uint64_t host_read = 0, host_written = 0;
  /// Of the loads, what is read in the name of another tile that shares them (SharingSet::first).
  std::uint64_t dram_shared = 0, host_shared = 0;
  std::uint64_t sent = 0, received = 0;  ///< messages

  /// SRAM bytes: the engines', and what loads, stores and messages put there or take.
  double sram_read() const;
  double sram_written() const;
};

struct ProgramWork {
  std::vector<std::string> formats;  ///< number formats that the program computes in
  IdVector<TileId, TileWork> tiles;  ///< up to the last one that the program uses
};

/// Every call of a program runs once, so what its tiles do is a sum over its instructions. The
/// program must be sealed. O(calls + tiles × transfers of the distinct segments).
ProgramWork count_work(const Program& program);

}  // namespace tilewright
