#include <string>
#include <vector>

#include <tilewright/hardware/platform.h>

namespace tilewright {

// The models' state; then the modules.
struct Platform::Parts {
  Parts(const MachineConfig& machine, const Program& program, const PlatformOptions& given)
      : options(given),
        backplane(machine, program,
                  {given.progress, given.in_step || given.external_memory || given.external_compute,
                   given.fidelity}),
        drams(static_cast<std::uint32_t>(machine.dram.sites.size())) {}

  PlatformOptions options;  // keeps what stands between the sockets
  Backplane backplane;
  std::uint32_t drams;  // controllers of the DRAM; those of the host memory follow
  std::vector<std::unique_ptr<Tile>> tiles;
  std::vector<std::unique_ptr<Router>> switches;  // of a fabric
  std::vector<std::unique_ptr<DramController>> controllers;
  std::vector<std::unique_ptr<DramPort>> ports;

  void build_tile(const MachineConfig& machine, std::uint32_t t) {
    const TileId id = static_cast<TileId>(t);
    const std::string name =
        "t" + std::to_string(machine.x(id)) + "_" + std::to_string(machine.y(id));
    ComputeTarget* compute = options.external_compute ? options.external_compute(id) : nullptr;
    TileConfig config = backplane.tile(id);
    config.external_compute = compute != nullptr;
    config.bind_memory = options.bind_memory;
    tiles[t] = std::make_unique<Tile>(name.c_str(), config);
    if (compute != nullptr) tiles[t]->compute_out.bind(*compute);
  }

  void build_switch(std::uint32_t node) {
    const std::string name = "switch_" + backplane.network.topology().name(node);
    switches[node - tiles.size()] =
        std::make_unique<Router>(name.c_str(), RouterConfig{backplane.network, node});
  }

  Router& router(std::uint32_t node) {
    return node < tiles.size() ? tiles[node]->router : *switches[node - tiles.size()];
  }

  void bind(std::uint32_t node) {
    const Topology& topology = backplane.network.topology();
    for (unsigned port = 0; port < topology.ports(node); ++port) {
      const Topology::Link& link = topology.link(node, port);
      if (link.works) router(node).connect(port, router(link.to));
    }
    if (node < tiles.size()) backplane.connect(*tiles[node]);
  }

  /// Controller `id`, those of the DRAM first.
  void build_controller(std::uint32_t id) {
    const bool host = id >= drams;
    const auto own = static_cast<DramId>(host ? id - drams : id);
    const std::string name = host ? "host" : "dram", number = std::to_string(index(own));
    ports[id] =
        std::make_unique<DramPort>((name + "_port" + number).c_str(),
                                   host ? backplane.host_port(own) : backplane.dram_port(own));
    MemoryTarget* memory =
        !host && options.external_memory ? options.external_memory(own) : nullptr;
    if (memory == nullptr) {
      controllers[id] = std::make_unique<DramController>(
          (name + number).c_str(),
          host ? backplane.host_controller(own) : backplane.dram_controller(own));
      memory = &controllers[id]->in;
    }
    (options.bind_memory ? options.bind_memory : bind_sockets)(ports[id]->out, *memory);
  }
};

Platform::Platform(const sc_core::sc_module_name& name, const MachineConfig& machine,
                   const Program& program, const PlatformOptions& options)
    : sc_core::sc_module(name) {
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
  const Topology& topology = parts_->backplane.network.topology();
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
  for (std::uint32_t i = 0; i < controllers; ++i) parts_->build_controller(place(i, controllers));
}

Platform::~Platform() = default;

void Platform::run() { parts_->backplane.run(); }

const RunStatistics& Platform::statistics() const { return parts_->backplane.statistics(); }

Backplane& Platform::backplane() { return parts_->backplane; }

void Platform::watch_tile(TileId tile, Probe& probe) {
  parts_->backplane.sequencer.watch(index(tile), probe);
}
void Platform::watch_dram(DramId dram, Probe& probe) {
  if (parts_->controllers[index(dram)]) parts_->controllers[index(dram)]->watch(probe);
}
void Platform::watch_links(Probe& probe) { parts_->backplane.network.watch(probe); }
void Platform::count_latencies(std::vector<LatencyHistogram>& by_cause) {
  parts_->backplane.sequencer.count_latencies(by_cause);
  parts_->backplane.memory.count_latencies(by_cause);
}
void Platform::watch_work(Probe& probe) {
  parts_->backplane.sequencer.watch_work(probe);
  parts_->backplane.memory.watch_work(probe);
}
TileView Platform::view(TileId tile) const { return parts_->backplane.sequencer.view(index(tile)); }
std::size_t Platform::dram_queue(DramId dram) const {
  const auto& controller = parts_->controllers[index(dram)];
  return controller ? controller->queued() : parts_->ports[index(dram)]->outstanding();
}
std::vector<std::unique_ptr<RowReplay>> Platform::dram_rows(DramId dram) const {
  const auto& controller = parts_->controllers[index(dram)];
  return controller ? controller->model().rows() : std::vector<std::unique_ptr<RowReplay>>{};
}
std::vector<LinkPlace> Platform::links() const { return parts_->backplane.network.places(); }

}  // namespace tilewright
