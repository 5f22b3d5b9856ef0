#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/hardware/backplane.h>
#include <tilewright/hardware/mix_rates.h>

namespace tilewright {

namespace {

const MachineConfig& checked(const MachineConfig& machine) {
  if (machine.width() < 1 || machine.height() < 1) throw InputError("the mesh has no tiles");
  if (std::int64_t{machine.width()} * machine.height() > kMaxTiles) {
    throw InputError("the mesh has more than " + std::to_string(kMaxTiles) + " tiles");
  }
  if (sc_core::sc_get_time_resolution() != sc_core::sc_time(1, sc_core::SC_PS)) {
    throw InputError("the simulation's time resolution must be 1 ps");
  }
  return machine;
}

/// Agents of the event queue: the controllers, the driver, the network.
std::uint32_t controllers(const MachineConfig& machine) {
  return static_cast<std::uint32_t>(machine.dram.sites.size() + machine.host.sites.size());
}

}  // namespace

Backplane::Backplane(const MachineConfig& machine, const Program& program,
                     const BackplaneOptions& options)
    : queue("events", !options.in_step),
      network_(make_network(options.fidelity, checked(machine), queue, controllers(machine) + 1)),
      network(*network_),
      memory(machine, queue, network),
      sequencer(machine, program, queue, network, memory),
      driver("driver",
             WorkloadDriverConfig{program, queue, static_cast<std::uint32_t>(machine.width()),
                                  static_cast<std::uint32_t>(machine.height()), options.progress,
                                  machine.defects.delay, controllers(machine)}),
      machine_(machine),
      mix_rates_(std::make_shared<MixRates>(machine.dram.part)) {
  costs_.try_emplace(1.0, machine, program, 1.0);
  for (const auto& [tile, speed] : machine.defects.speed) {
    costs_.try_emplace(speed, machine, program, speed);
  }
}

TileConfig Backplane::tile(TileId id) {
  return {index(id), machine_.sram, network, sequencer, costs(id), false, {}};
}

ComputeCosts& Backplane::costs(TileId id) { return costs_.at(machine_.speed(id)); }

DramControllerConfig Backplane::dram_controller(DramId id) {
  return {machine_.dram, index(id), dram_port(id).site, queue, &memory, mix_rates_};
}

DramPortConfig Backplane::dram_port(DramId id) {
  return {memory, index(id), site(machine_.dram, id)};
}

DramControllerConfig Backplane::host_controller(DramId id) {
  const DramPortConfig port = host_port(id);
  return {machine_.host, port.id, port.site, queue, &memory};
}

DramPortConfig Backplane::host_port(DramId id) {
  const auto drams = static_cast<std::uint32_t>(machine_.dram.sites.size());
  return {memory, drams + index(id), site(machine_.host, id)};
}

std::uint32_t Backplane::site(const DramConfig& memory, DramId id) const {
  const auto [x, y] = memory.sites.at(index(id));
  return index(machine_.tile(x, y));
}

void Backplane::check_complete() const {
  const Topology& topology = network.topology();
  for (std::uint32_t tile = 0; tile < topology.tiles(); ++tile) {
    if (topology.dead(tile) || driver.connected(tile)) continue;
    throw InputError(fmt::format("the platform lacks tile {}: make a Tile and call connect(tile)",
                                 topology.name(tile)));
  }
  for (std::uint32_t i = 0; i < memory.controllers(); ++i) {
    if (memory.has_port(i)) continue;
    const auto drams = static_cast<std::uint32_t>(machine_.dram.sites.size());
    throw InputError(fmt::format("the platform lacks controller {} of the {}: make a DramPort",
                                 i < drams ? i : i - drams, i < drams ? "DRAM" : "host memory"));
  }
  for (const LinkPlace& place : network.places()) {
    if (network.joined(place.number)) continue;
    throw InputError(fmt::format("the platform lacks the link from {} to {}: connect their routers",
                                 topology.name(index(place.from)), topology.name(index(place.to))));
  }
}

void Backplane::run() {
  if (has_run_) throw InternalError("a platform can run once");
  has_run_ = true;
  check_complete();
  sequencer.allocate_resident();
  sc_core::sc_start(sc_core::SC_ZERO_TIME);  // ends elaboration, which wires the tiles
  queue.rethrow();
  if (driver.outstanding() > 0 && sc_core::sc_pending_activity()) sc_core::sc_start();
  queue.rethrow();
  if (driver.outstanding() > 0) throw DeadlockError(sequencer.explain_deadlock());
  // The kernel may lag behind the last event when the queue has run ahead.
  const sc_core::sc_time end = sc_core::sc_time::from_value(sequencer.end());
  if (sc_core::sc_time_stamp() < end) sc_core::sc_start(end - sc_core::sc_time_stamp());

  RunStatistics& s = statistics_;
  s.end = sequencer.end();
  s.events = queue.events();
  s.message_hops = network.hops();
  s.messages = sequencer.messages();
  s.bytes_by_cause = sequencer.bytes_by_cause();
  s.tiles = sequencer.statistics(s.end);
  s.links = network.statistics();
  const std::size_t drams = machine_.dram.sites.size();
  for (std::uint32_t i = 0; i < drams + machine_.host.sites.size(); ++i) {
    (i < drams ? s.dram : s.host).push_back(memory.statistics(i));
  }
}

}  // namespace tilewright
