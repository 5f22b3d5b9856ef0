#include <string>
#include <vector>

#include <tilewright/hardware/platform.h>

namespace tilewright {

// The models' state; then the modules.
struct Platform::Parts {
  Parts(const MachineConfig& machine, const Program& program, const PlatformOptions& given)
      : options(given),
        backplane(
            machine, program,
            {given.progress, given.in_step || given.external_memory || given.external_compute}) {}

  PlatformOptions options;  // keeps what stands between the sockets
  Backplane backplane;
  std::vector<std::unique_ptr<Tile>> tiles;
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

  void bind_tile(std::uint32_t t) {
    for (unsigned d = 0; d < kDirections; ++d) {
      const Topology::Link& link = backplane.network.topology().link(t, d);
      if (link.works) backplane.connect(*tiles[t], static_cast<Direction>(d), *tiles[link.to]);
    }
    backplane.connect(*tiles[t]);
  }

  void build_dram(std::uint32_t d) {
    const auto id = static_cast<DramId>(d);
    ports[d] = std::make_unique<DramPort>(("dram_port" + std::to_string(d)).c_str(),
                                          backplane.dram_port(id));
    MemoryTarget* memory = options.external_memory ? options.external_memory(id) : nullptr;
    if (memory == nullptr) {
      controllers[d] = std::make_unique<DramController>(("dram" + std::to_string(d)).c_str(),
                                                        backplane.dram_controller(id));
      memory = &controllers[d]->in;
    }
    (options.bind_memory ? options.bind_memory : bind_sockets)(ports[d]->out, *memory);
  }
};

Platform::Platform(const sc_core::sc_module_name& name, const MachineConfig& machine,
                   const Program& program, const PlatformOptions& options)
    : sc_core::sc_module(name) {
  parts_ = std::make_unique<Parts>(machine, program, options);
  const auto tiles = static_cast<std::uint32_t>(machine.tiles());
  const auto drams = static_cast<std::uint32_t>(machine.dram.sites.size());
  parts_->tiles.resize(tiles);
  parts_->controllers.resize(drams);
  parts_->ports.resize(drams);
  const auto place = [&options](std::uint32_t i, std::uint32_t count) {
    return options.reverse_construction ? count - 1 - i : i;
  };
  const auto each_tile = [&](auto act) {
    for (std::uint32_t i = 0; i < tiles; ++i) {
      if (!parts_->backplane.network.topology().dead(place(i, tiles))) act(place(i, tiles));
    }
  };
  each_tile([&](std::uint32_t t) { parts_->build_tile(machine, t); });
  each_tile([&](std::uint32_t t) { parts_->bind_tile(t); });
  for (std::uint32_t i = 0; i < drams; ++i) parts_->build_dram(place(i, drams));
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
TileView Platform::view(TileId tile) const {
  return parts_->backplane.sequencer.view(index(tile));
}
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
