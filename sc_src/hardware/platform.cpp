#include <map>
#include <string>
#include <vector>

#include <tilewright/base/error.h>
#include <tilewright/hardware/compute_unit.h>
#include <tilewright/hardware/dram_controller.h>
#include <tilewright/hardware/event_queue.h>
#include <tilewright/hardware/memory_system.h>
#include <tilewright/hardware/network.h>
#include <tilewright/hardware/platform.h>
#include <tilewright/hardware/sequencer.h>
#include <tilewright/hardware/tile.h>
#include <tilewright/hardware/workload_driver.h>

namespace tilewright {

// The models' state, in the order in which it is built; then the modules.
struct Platform::Parts {
  Parts(const MachineConfig& machine, const Program& program, const PlatformOptions& options)
      : drams(static_cast<std::uint32_t>(machine.dram.sites.size())),
        queue("events", !options.in_step),
        network(machine, queue),
        memory(machine, queue, network),
        sequencer(machine, program, queue, network, memory),
        driver("driver",
               WorkloadDriverConfig{program, queue, static_cast<std::uint32_t>(machine.width()),
                                    static_cast<std::uint32_t>(machine.height()), options.progress,
                                    machine.defects.delay,
                                    static_cast<std::uint32_t>(machine.dram.sites.size() +
                                                               machine.host.sites.size())}) {
    costs.emplace(1.0, ComputeCosts(machine, program, 1.0));
    for (const auto& [tile, speed] : machine.defects.speed) {
      if (costs.count(speed) == 0) costs.emplace(speed, ComputeCosts(machine, program, speed));
    }
  }

  std::uint32_t drams;  // controllers of the DRAM; those of the host memory follow
  EventQueue queue;
  Network network;
  MemorySystem memory;
  Sequencer sequencer;
  std::map<double, ComputeCosts> costs;  // by the speed of the tile's engines
  WorkloadDriver driver;
  std::vector<std::unique_ptr<Tile>> tiles;
  std::vector<std::unique_ptr<Router>> switches;  // of a fabric
  std::vector<std::unique_ptr<DramController>> controllers;
  std::vector<std::unique_ptr<DramPort>> ports;
  RunStatistics statistics;
  bool has_run = false;

  void build_tile(const MachineConfig& machine, std::uint32_t t) {
    const TileId id = static_cast<TileId>(t);
    const std::string name =
        "t" + std::to_string(machine.x(id)) + "_" + std::to_string(machine.y(id));
    tiles[t] = std::make_unique<Tile>(name.c_str(), TileConfig{t, machine.sram, network, sequencer,
                                                               costs.at(machine.speed(id)), false});
  }

  void build_switch(std::uint32_t node) {
    const std::string name = "switch_" + network.topology().name(node);
    switches[node - tiles.size()] =
        std::make_unique<Router>(name.c_str(), RouterConfig{network, node});
  }

  Router& router(std::uint32_t node) {
    return node < tiles.size() ? tiles[node]->router : *switches[node - tiles.size()];
  }

  void bind(std::uint32_t node) {
    const Topology& topology = network.topology();
    for (unsigned port = 0; port < topology.ports(node); ++port) {
      const Topology::Link& link = topology.link(node, port);
      if (link.works) router(node).connect(port, router(link.to));
    }
    if (node < tiles.size()) driver.connect(node, *tiles[node]);
  }

  /// Controller `id`, those of the DRAM first.
  void build_controller(const MachineConfig& machine, std::uint32_t id) {
    const DramConfig& config = id < drams ? machine.dram : machine.host;
    const std::uint32_t own = id < drams ? id : id - drams;
    const std::string name = id < drams ? "dram" : "host", number = std::to_string(own);
    const auto [x, y] = config.sites[own];
    const std::uint32_t site = index(machine.tile(x, y));
    controllers[id] = std::make_unique<DramController>(
        (name + number).c_str(), DramControllerConfig{config, id, site, queue});
    ports[id] = std::make_unique<DramPort>((name + "_port" + number).c_str(),
                                           DramPortConfig{memory, id, site});
    ports[id]->out.bind(controllers[id]->in);
  }
};

Platform::Platform(const sc_core::sc_module_name& name, const MachineConfig& machine,
                   const Program& program, const PlatformOptions& options)
    : sc_core::sc_module(name) {
  if (machine.width() < 1 || machine.height() < 1) throw InputError("the mesh has no tiles");
  if (std::int64_t{machine.width()} * machine.height() > kMaxTiles) {
    throw InputError("the mesh has more than " + std::to_string(kMaxTiles) + " tiles");
  }
  if (sc_core::sc_get_time_resolution() != sc_core::sc_time(1, sc_core::SC_PS)) {
    throw InputError("the simulation's time resolution must be 1 ps");
  }
  parts_ = std::make_unique<Parts>(machine, program, options);
  const auto tiles = static_cast<std::uint32_t>(machine.tiles());
  const auto controllers =
      static_cast<std::uint32_t>(machine.dram.sites.size() + machine.host.sites.size());
  parts_->tiles.resize(tiles);
  parts_->controllers.resize(controllers);
  parts_->ports.resize(controllers);
  const auto place = [&options](std::uint32_t i, std::uint32_t count) {
    return options.reverse_construction ? count - 1 - i : i;
  };
  const Topology& topology = parts_->network.topology();
  parts_->switches.resize(topology.nodes() - tiles);
  const auto each_node = [&](auto act) {
    for (std::uint32_t i = 0; i < topology.nodes(); ++i) {
      const std::uint32_t node = place(i, topology.nodes());
      if (!topology.dead(node)) act(node);
    }
  };
  each_node([&](std::uint32_t node) {
    node < tiles ? parts_->build_tile(machine, node) : parts_->build_switch(node);
  });
  each_node([&](std::uint32_t node) { parts_->bind(node); });
  for (std::uint32_t i = 0; i < controllers; ++i) {
    parts_->build_controller(machine, place(i, controllers));
  }
}

Platform::~Platform() = default;

void Platform::run() {
  Parts& p = *parts_;
  if (p.has_run) throw InternalError("Platform::run() can be called once");
  p.has_run = true;
  p.sequencer.allocate_resident();
  sc_core::sc_start(sc_core::SC_ZERO_TIME);  // ends elaboration, which wires the tiles
  p.queue.rethrow();
  if (p.driver.outstanding() > 0 && sc_core::sc_pending_activity()) sc_core::sc_start();
  p.queue.rethrow();
  if (p.driver.outstanding() > 0) throw DeadlockError(p.sequencer.explain_deadlock());
  // The kernel may lag behind the last event when the queue has run ahead.
  const sc_core::sc_time end = sc_core::sc_time::from_value(p.sequencer.end());
  if (sc_core::sc_time_stamp() < end) sc_core::sc_start(end - sc_core::sc_time_stamp());

  RunStatistics& s = p.statistics;
  s.end = p.sequencer.end();
  s.events = p.queue.events();
  s.message_hops = p.network.hops();
  s.messages = p.sequencer.messages();
  s.bytes_by_cause = p.sequencer.bytes_by_cause();
  s.tiles = p.sequencer.statistics(s.end);
  s.links = p.network.statistics();
  s.dram.clear();
  s.host.clear();
  for (std::uint32_t i = 0; i < p.controllers.size(); ++i) {
    DramStatistics controller = p.memory.statistics(i);
    controller.busy = p.controllers[i]->busy();
    (i < p.drams ? s.dram : s.host).push_back(controller);
  }
}

const RunStatistics& Platform::statistics() const { return parts_->statistics; }

void Platform::watch_tile(TileId tile, Probe& probe) {
  parts_->sequencer.watch(index(tile), probe);
}
void Platform::watch_dram(DramId dram, Probe& probe) {
  parts_->controllers[index(dram)]->watch(probe);
}
void Platform::watch_links(Probe& probe) { parts_->network.watch(probe); }
TileView Platform::view(TileId tile) const { return parts_->sequencer.view(index(tile)); }
std::size_t Platform::dram_queue(DramId dram) const {
  return parts_->controllers[index(dram)]->queued();
}
std::vector<std::unique_ptr<RowReplay>> Platform::dram_rows(DramId dram) const {
  return parts_->controllers[index(dram)]->model().rows();
}
std::vector<LinkPlace> Platform::links() const { return parts_->network.places(); }

}  // namespace tilewright
