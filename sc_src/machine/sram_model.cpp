#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <tilewright/machine/sram_model.h>

namespace tilewright {
namespace {

double strided_efficiency(const SramBanks& b) {
  const std::int64_t around = b.banks * b.interleave;
  const std::int64_t period = around / std::gcd(b.stride, around);
  std::vector<std::int64_t> hits(static_cast<std::size_t>(b.banks), 0);
  std::int64_t word = 0;
  for (std::int64_t i = 0; i < period; ++i) {
    ++hits[static_cast<std::size_t>(word / b.interleave)];
    word = (word + b.stride) % around;
  }
  const std::int64_t busiest = *std::max_element(hits.begin(), hits.end());
  return static_cast<double>(period) / static_cast<double>(b.banks * busiest);
}

double random_efficiency(std::int64_t banks, std::int64_t ports) {
  if (banks == 1) return 1;
  const std::int64_t requests = banks * ports;
  const double p = 1.0 / static_cast<double>(banks);
  // E[min(X, ports)] = ports − Σ_{x < ports} (ports − x) · P(X = x).
  double served = static_cast<double>(ports);
  double probability = std::pow(1 - p, static_cast<double>(requests));
  for (std::int64_t x = 0; x < ports; ++x) {
    served -= static_cast<double>(ports - x) * probability;
    probability *= static_cast<double>(requests - x) / static_cast<double>(x + 1) * p / (1 - p);
  }
  return served / static_cast<double>(ports);
}

}  // namespace

double bank_efficiency(const SramBanks& banks, std::int64_t ports) {
  return banks.access == SramAccess::random ? random_efficiency(banks.banks, ports)
                                            : strided_efficiency(banks);
}

void apply_banks(const SramBanks& b, SramConfig& sram) {
  const auto rate = [&](std::int64_t ports) {
    if (ports == 0) return Bandwidth::unlimited();
    return Bandwidth(static_cast<double>(b.banks * ports * b.word) * b.clock.value() *
                     bank_efficiency(b, ports));
  };
  sram.bandwidth = rate(b.ports);
  sram.read = rate(b.read_ports);
  sram.write = rate(b.write_ports);
}

double SramConfig::seconds(double bytes_read, double bytes_written) const {
  return std::max({(bytes_read + bytes_written) / bandwidth.value(), bytes_read / read.value(),
                   bytes_written / write.value()});
}

}  // namespace tilewright
