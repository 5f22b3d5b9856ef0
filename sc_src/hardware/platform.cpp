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
      : queue("events"),
        network(machine, queue),
        memory(machine, queue, network),
        sequencer(machine, program, queue, network, memory),
        costs(machine, program),
        driver("driver", WorkloadDriverConfig{
                             program, queue, static_cast<std::uint32_t>(machine.width()),
                             static_cast<std::uint32_t>(machine.height()), options.progress}) {}

  EventQueue queue;
  Network network;
  MemorySystem memory;
  Sequencer sequencer;
  ComputeCosts costs;
  WorkloadDriver driver;
  std::vector<std::unique_ptr<Tile>> tiles;
  std::vector<std::unique_ptr<DramController>> controllers;
  std::vector<std::unique_ptr<DramPort>> ports;
  RunStatistics statistics;
  bool has_run = false;

  void build_tile(const MachineConfig& machine, std::uint32_t t) {
    const TileId id = static_cast<TileId>(t);
    const std::string name =
        "t" + std::to_string(machine.x(id)) + "_" + std::to_string(machine.y(id));
    tiles[t] = std::make_unique<Tile>(
        name.c_str(), TileConfig{t, machine.sram, network, sequencer, costs, false});
  }

  void bind_tile(const MachineConfig& machine, std::uint32_t t) {
    const auto width = static_cast<std::uint32_t>(machine.width());
    const auto height = static_cast<std::uint32_t>(machine.height());
    Router& router = tiles[t]->router;
    if (t % width + 1 < width) router.connect(Direction::east, tiles[t + 1]->router);
    if (t % width > 0) router.connect(Direction::west, tiles[t - 1]->router);
    if (t / width + 1 < height) router.connect(Direction::south, tiles[t + width]->router);
    if (t / width > 0) router.connect(Direction::north, tiles[t - width]->router);
    driver.connect(t, *tiles[t]);
  }

  void build_dram(const MachineConfig& machine, std::uint32_t d) {
    const auto [x, y] = machine.dram.sites[d];
    const std::uint32_t site = index(machine.tile(x, y));
    controllers[d] = std::make_unique<DramController>(
        ("dram" + std::to_string(d)).c_str(), DramControllerConfig{machine.dram, d, site, queue});
    ports[d] = std::make_unique<DramPort>(("dram_port" + std::to_string(d)).c_str(),
                                          DramPortConfig{memory, d, site});
    ports[d]->out.bind(controllers[d]->in);
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
  const auto drams = static_cast<std::uint32_t>(machine.dram.sites.size());
  parts_->tiles.resize(tiles);
  parts_->controllers.resize(drams);
  parts_->ports.resize(drams);
  const auto place = [&options](std::uint32_t i, std::uint32_t count) {
    return options.reverse_construction ? count - 1 - i : i;
  };
  for (std::uint32_t i = 0; i < tiles; ++i) parts_->build_tile(machine, place(i, tiles));
  for (std::uint32_t i = 0; i < tiles; ++i) parts_->bind_tile(machine, place(i, tiles));
  for (std::uint32_t i = 0; i < drams; ++i) parts_->build_dram(machine, place(i, drams));
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

  RunStatistics& s = p.statistics;
  s.end = p.sequencer.end();
  s.events = p.queue.events();
  s.message_hops = p.network.hops();
  s.messages = p.sequencer.messages();
  s.bytes_by_cause = p.sequencer.bytes_by_cause();
  s.tiles = p.sequencer.statistics(s.end);
  s.links = p.network.statistics();
  s.dram.clear();
  for (std::uint32_t d = 0; d < p.controllers.size(); ++d) {
    s.dram.push_back(p.memory.statistics(d));
    s.dram[static_cast<DramId>(d)].busy = p.controllers[d]->busy();
  }
}

const RunStatistics& Platform::statistics() const { return parts_->statistics; }

}  // namespace tilewright
