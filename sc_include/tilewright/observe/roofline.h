// The operators of a job against what a tile can do.
#pragma once

#include <string>
#include <vector>

namespace tilewright {

struct RooflineOperator {
  std::string name;    ///< "mlp_up.dgrad"
  std::string phase;   ///< "forward", ...: decides its colour
  std::string stages;  ///< "0-18"
  std::string bound;   ///< what takes longest of it: "matrix", "vector", "sram", "dram"
  bool matrix = true;  ///< counts FLOP; else elements × passes of the vector engine
  double operations = 0;
  double dram_bytes = 0, sram_bytes = 0;
  double seconds = 0;  ///< of one call
  double calls = 0;    ///< in all

  double rate() const { return seconds > 0 ? operations / seconds : 0; }
  double busy() const { return seconds * calls; }
  double dram_intensity() const;  ///< operations per byte; infinite without bytes
  double sram_intensity() const;
};

struct Roofline {
  std::string title;
  std::string format;                             ///< number format that the peaks hold for
  double matrix_peak = 0, vector_peak = 0;        ///< FLOP/s, elements/s of a tile
  double dram_bandwidth = 0, sram_bandwidth = 0;  ///< bytes/s of a tile; infinite: no roof
  std::vector<RooflineOperator> operators;
};

/// One row per operator: name, phase, stages, kind (matrix or vector), operations, DRAM and SRAM
/// bytes and operations per byte of both ("inf" without bytes), seconds of a call, calls,
/// operations per second, its roof in operations per second, part of the roof reached, what bounds
/// it.
std::string roofline_csv(const Roofline& roofline);

/// As an SVG drawing, both axes logarithmic: intensity (operations per DRAM byte, and hollow per
/// SRAM byte) against operations per second; an operator's area is its part of the time.
std::string roofline_svg(const Roofline& roofline);

/// What an operator cannot exceed: the peak of its engine, and what DRAM and SRAM can feed.
double roof(const Roofline& roofline, const RooflineOperator& o);

}  // namespace tilewright
