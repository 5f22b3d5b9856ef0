// Latency of a network against its load, drawn.
#pragma once

#include <string>
#include <vector>

#include <tilewright/hardware/traffic_driver.h>

namespace tilewright {

/// The results of one traffic at rising loads as SVG: the mean latency and the 99th percentile, in
/// cycles, over the offered load, in flits per cycle and tile. The drawing ends at five times the
/// least mean latency; what lies above stands at its upper edge. Results without packets are left
/// out.
std::string load_curve(const std::string& title, const std::vector<LoadResult>& results);

}  // namespace tilewright
