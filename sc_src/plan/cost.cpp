#include <algorithm>
#include <cmath>

#include <tilewright/base/integer.h>
#include <tilewright/plan/cost.h>

namespace tilewright {
namespace {

/// The slower of the engines, which work on a kernel's blocks side by side.
double engine_seconds(const Kernel& kernel, const TileRates& rates) {
  double t = matrix_seconds(kernel, rates);
  if (kernel.vector_elements > 0) {
    t = std::max(t, rates.engines->vector_seconds(kernel.vector_elements, rates.format));
  }
  return t;
}

/// Bytes that a kernel streams between SRAM and one memory.
struct Streamed {
  std::int64_t in = 0, out = 0;
};

KernelCost stream_cost(const Streamed& dram, const Streamed& host, std::int64_t sram_free) {
  KernelCost cost;
  cost.load = dram.in;
  cost.store = dram.out;
  cost.host_load = host.in;
  cost.host_store = host.out;
  const std::int64_t moved = dram.in + dram.out + host.in + host.out;
  // An SRAM that two slices do not fit works with smaller ones, and is not the faster for it.
  cost.pipelining.steps = std::max<std::int64_t>(1, ceil_div(moved, kSlice));
  cost.footprint = std::min({2 * kSlice, moved, sram_free});
  cost.pipelining.fill = ceil_div(dram.in, cost.pipelining.steps);
  cost.feasible = sram_free >= 2 || moved == 0;
  return cost;
}

/// Bytes per second of the slowest links between two tiles.
double narrowest(const MachineConfig& machine, TileId from, TileId to) {
  double bandwidth = Bandwidth::unlimited().value();
  if (from == to) return bandwidth;
  const auto take = [&](const LinkConfig& link) {
    bandwidth = std::min(bandwidth, link.bandwidth.value());
  };
  if (machine.fabric) {
    for (const NamedLinkConfig& kind : machine.link_kinds()) take(kind.link);
    return bandwidth;
  }
  take(machine.noc.link);
  if (machine.crosses_die(from, to)) take(machine.noc.die_link);
  if (machine.crosses_wafer(from, to)) take(machine.noc.wafer_link);
  return bandwidth;
}

/// Seconds that the head of a message takes between two tiles, at most.
double way_latency(const MachineConfig& machine, TileId from, TileId to) {
  if (from == to) return 0;
  const auto slowest = [](double latency, const LinkConfig& link) {
    return std::max(latency, link.latency.value());
  };
  double latency = 0;
  if (machine.fabric) {
    for (const NamedLinkConfig& kind : machine.link_kinds()) latency = slowest(latency, kind.link);
    return 2 * latency;
  }
  latency = machine.noc.link.latency.value();
  if (machine.crosses_die(from, to)) latency = slowest(latency, machine.noc.die_link);
  if (machine.crosses_wafer(from, to)) latency = slowest(latency, machine.noc.wafer_link);
  return latency *
         (std::abs(machine.x(from) - machine.x(to)) + std::abs(machine.y(from) - machine.y(to)));
}

StreamRates stream_rates(const MachineConfig& machine, const DramConfig& memory,
                         const std::vector<TileId>& tiles) {
  const auto controllers = assign_controllers(machine, memory);
  std::vector<int> clients(memory.sites.size(), 0);
  int busiest = 1;
  std::size_t per_tile = 1;
  double way = Bandwidth::unlimited().value(), farthest = 0;
  for (const TileId t : tiles) {
    for (const DramId d : controllers[t]) {
      busiest = std::max(busiest, ++clients[index(d)]);
      const auto [x, y] = memory.sites[index(d)];
      const TileId site = machine.tile(x, y);
      way = std::min(way, narrowest(machine, t, site));
      farthest = std::max(farthest, way_latency(machine, t, site));
    }
    per_tile = std::max(per_tile, controllers[t].size());
  }
  StreamRates rates;
  rates.dram = memory.bandwidth.value() * static_cast<double>(per_tile) / busiest;
  rates.way = static_cast<double>(per_tile) * way;
  rates.sram = machine.sram;
  rates.latency = 2 * (memory.latency.value() + 2 * farthest);
  rates.overlapped = machine.dma.prefetch > 0;
  return rates;
}

/// A kernel's traffic with the DRAM beside its engines, and after them.
Stream dram_stream(const KernelCost& cost, double engine_seconds) {
  Stream s{engine_seconds, cost.load, cost.store, cost.sram + cost.beside, cost.pipelining};
  s.spared = cost.spared;
  if (cost.blocking && cost.blocking->in_place) {
    s.alone = cost.blocking->c_read + cost.store;
    s.load -= cost.blocking->c_read;
    s.store = 0;
  }
  return s;
}

/// What loads and stores move through the SRAM, where they contend with the engines.
SramBytes beside(const KernelCost& cost, const SramConfig& sram) {
  if (!sram.contention) return {};
  return transfers(cost.load + cost.host_load, cost.store + cost.host_store);
}

}  // namespace

KernelCost kernel_cost(const Kernel& kernel, const Residency& residency, std::int64_t sram_free,
                       DType precision, const StateBytes& state, const TileRates& rates) {
  SramBytes through_sram;
  Streamed in_sram, in_dram, in_host;
  std::int64_t shared = 0, results_out = 0;
  const auto spared_part = [&](const Access& a) {
    return residency.shares(a) ? 1 - 1.0 / residency.sharers : 0;
  };
  const auto stream = [&](TensorClass cls) -> Streamed& {
    const Space space = residency.space(cls);
    return space == Space::sram ? in_sram : space == Space::dram ? in_dram : in_host;
  };
  for (const Access& r : kernel.reads) {
    through_sram.read += r.bytes;
    stream(r.cls).in += r.bytes;
    if (residency.shares(r)) shared += r.bytes;
  }
  std::int64_t normalised = 0;
  for (const Access& w : kernel.writes) {
    through_sram.written += w.bytes;
    const bool of_a = !kernel.normalised.empty() && w.tensor == kernel.normalised;
    if (of_a && residency.space(w.cls) != Space::sram) {
      normalised = residency.kept(w);
      continue;
    }
    stream(w.cls).out += residency.kept(w);
    if (residency.space(w.cls) == Space::dram) results_out += w.bytes;
  }
  if (!kernel.normalised.empty()) through_sram.read += kernel.a.bytes;
  const auto note = [&](KernelCost& cost) {
    cost.pipelining.overlapped = rates.dram.overlapped;
    cost.shared_load = shared;
    cost.spared = shared - kept_part(shared, residency.sharers);
  };
  const auto [stream_in, stream_out] = in_dram;
  if (kernel.collective) {
    KernelCost cost;
    cost.load = stream_in;
    cost.store = stream_out;
    note(cost);
    return cost;
  }
  if (!kernel.matrix) {
    KernelCost cost = stream_cost(in_dram, in_host, sram_free);
    cost.sram = through_sram;
    cost.beside = beside(cost, rates.dram.sram);
    note(cost);
    return cost;
  }

  const Gemm& g = kernel.gemm;
  GemmOperands o;
  o.a_bytes = o.b_bytes = bytes_of(precision);
  o.a_made = kernel.a.tensor.empty();
  o.a_resident = !o.a_made && residency[kernel.a.cls];
  o.b_resident = residency[kernel.b.cls];
  o.accumulate =
      kernel.accumulate && !kernel.writes.empty() && !residency[kernel.writes.front().cls];
  o.sum_bytes = std::max(rates.sum_bytes, o.a_bytes);
  const auto& convolution = kernel.convolution;
  const std::int64_t results = convolution ? convolution->c_elements() : g.batch * g.m * g.n;
  o.c_resident = stream_out == 0;
  o.c_bytes = kernel.accumulate ? state.gradient : static_cast<int>(ceil_div(results_out, results));
  o.a_total = convolution ? convolution->a_elements() * o.a_bytes : kernel.a.bytes;
  o.b_total = kernel.b.bytes;
  o.c_total = stream_out;
  o.other_loads = stream_in;
  o.other_stores = normalised;
  o.other_spared = shared - kept_part(shared, residency.sharers);
  o.a_spared = spared_part(kernel.a);
  o.b_spared = spared_part(kernel.b);
  o.other_sram = through_sram;
  if (const auto edges = rates.engines->traffic({g.batch, g.m, g.n, g.k, g.flop()}, o.a_bytes)) {
    o.engine_sram = SramBytes{std::llround(edges->read), std::llround(edges->written)};
  }

  const double engines = engine_seconds(kernel, rates);
  KernelCost cost;
  Blocking b;
  if (convolution) {
    const ConvolutionBlocking blocked =
        block_convolution(*convolution, o, sram_free, engines, rates.dram);
    b = blocked.blocks;
    cost.pixels = blocked.pixels;
  } else {
    b = rates.blockings->find(g, o, sram_free, engines, rates.dram);
  }
  cost.feasible = b.feasible;
  if (!b.feasible) return cost;
  cost.load = b.a_traffic + b.b_traffic + b.c_read + stream_in;
  cost.store = b.c_write + normalised;
  cost.pipelining = pipelining(g, o);
  cost.sram = b.sram + through_sram;
  cost.beside = beside(cost, rates.dram.sram);
  cost.footprint = b.footprint;
  cost.blocking = b;
  if (residency.shares(kernel.a)) shared += b.a_traffic;
  if (residency.shares(kernel.b)) shared += b.b_traffic;
  note(cost);
  return cost;
}

TileRates tile_rates(const MachineConfig& machine, DType precision,
                     const std::vector<TileId>& tiles) {
  TileRates rates;
  rates.engines = make_compute_model(machine);
  rates.format = to_string(precision);
  rates.sum_bytes = static_cast<int>(machine.matrix.accumulator);
  rates.dram = stream_rates(machine, machine.dram, tiles);
  rates.host = stream_rates(machine, machine.host, tiles);
  return rates;
}

double matrix_seconds(const Kernel& kernel, const TileRates& rates) {
  if (!kernel.matrix) return 0;
  const Gemm& g = kernel.gemm;
  return rates.engines->matrix_seconds({g.batch, g.m, g.n, g.k, g.flop()}, rates.format);
}

double kernel_seconds(const Kernel& kernel, const KernelCost& cost, const TileRates& rates) {
  const double engines = engine_seconds(kernel, rates);
  const double seconds = streamed_seconds(dram_stream(cost, engines), rates.dram);
  if (cost.host_load + cost.host_store == 0) return seconds;
  // The memories work side by side.
  const std::int64_t steps = cost.pipelining.steps;
  const SramBytes sram = cost.sram + cost.beside;
  return std::max(
      seconds,
      streamed_seconds(
          {engines, cost.host_load, cost.host_store, sram, {steps, cost.host_load / steps}},
          rates.host));
}

}  // namespace tilewright
