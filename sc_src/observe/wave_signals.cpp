#include "wave_signals.h"

#include <fnmatch.h>

namespace tilewright {

WaveSignals::WaveSignals(VcdWriter& vcd, const std::vector<std::string>& patterns) : vcd_(vcd) {
  for (const std::string& p : patterns) patterns_.push_back({p, p + ".*", false});
}

bool WaveSignals::selects(const std::string& scope, const std::string& name) {
  const std::string full = scope + "." + name;
  bool selected = false;
  for (Pattern& p : patterns_) {
    if (fnmatch(p.here.c_str(), full.c_str(), 0) != 0 &&
        fnmatch(p.below.c_str(), full.c_str(), 0) != 0) {
      continue;
    }
    p.used = selected = true;
  }
  return selected;
}

WaveSignals::Signal* WaveSignals::wire(const std::string& scope, const std::string& name,
                                       unsigned bits, std::uint64_t value) {
  return selects(scope, name) ? &vcd_.wire(scope, name, bits, value) : nullptr;
}

WaveSignals::Signal* WaveSignals::text(const std::string& scope, const std::string& name,
                                       const VcdWriter::Text& text) {
  return selects(scope, name) ? &vcd_.text(scope, name, text) : nullptr;
}

const std::string* WaveSignals::unused() const {
  for (const Pattern& p : patterns_) {
    if (!p.used) return &p.here;
  }
  return nullptr;
}

}  // namespace tilewright
