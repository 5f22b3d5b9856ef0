// A cluster of GPU nodes, elaborated by hand with a module for every node: its devices, their
// memories and the switch that joins them. A further switch joins the devices of all nodes.
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <systemc>
#include <unistd.h>

#include <tilewright/base/config.h>
#include <tilewright/base/error.h>
#include <tilewright/hardware/backplane.h>
#include <tilewright/plan/lower.h>
#include <tilewright/workload/model.h>

using namespace tilewright;

namespace {

// A device has a port to the switch of its node, and one to the network.
constexpr unsigned kNodePort = 0, kNetworkPort = 1;

/// A device with the memory beside it.
class Device : public sc_core::sc_module {
 public:
  Device(const sc_core::sc_module_name& name, Backplane& backplane, TileId id)
      : sc_core::sc_module(name),
        tile("tile", backplane.tile(id)),
        port("dram_port", backplane.dram_port(DramId{index(id)})),
        dram("dram", backplane.dram_controller(DramId{index(id)})) {
    port.out.bind(dram.in);
    backplane.connect(tile);
  }

  Tile tile;
  DramPort port;
  DramController dram;
};

/// The devices of a node around their switch.
class Node : public sc_core::sc_module {
 public:
  Node(const sc_core::sc_module_name& name, Backplane& backplane, const MachineConfig& machine,
       int number)
      : sc_core::sc_module(name),
        node_switch_("switch",
                     {backplane.network, static_cast<std::uint32_t>(machine.tiles() + number)}) {
    for (int d = 0; d < machine.tiles_x; ++d) {
      const std::string device = "device" + std::to_string(d);
      devices_.push_back(
          std::make_unique<Device>(device.c_str(), backplane, machine.tile(d, number)));
      devices_.back()->tile.router.connect(kNodePort, node_switch_);
      node_switch_.connect(static_cast<unsigned>(d), devices_.back()->tile.router);
    }
  }

  /// Joins the devices to a switch outside, from its port `first` on.
  void join(Router& network, unsigned first) {
    for (const auto& device : devices_) {
      device->tile.router.connect(kNetworkPort, network);
      network.connect(first++, device->tile.router);
    }
  }

 private:
  Router node_switch_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace

int sc_main(int argc, char** argv) try {
  if (argc != 4) {
    throw InputError("usage: cluster PLATFORM MODEL PLAN (files as for `tilewright run`)");
  }
  const MachineConfig machine = read_machine(Document::load(argv[1], "platform"));
  const auto nodes = static_cast<std::size_t>(machine.dies_y);
  const bool several = nodes > 1;
  if (!machine.fabric || machine.fabric->switches.size() != nodes + (several ? 1 : 0) ||
      machine.dram.sites.size() != static_cast<std::size_t>(machine.tiles()) ||
      !machine.host.sites.empty()) {
    throw InputError(std::string(argv[1]) +
                     ": wanted: a cluster without taper, with dram.per_tile and without host");
  }
  const PlanConfig plan = read_plan(Document::load(argv[3], "plan"));
  const ModelConfig model = read_model(Document::load(argv[2], "model"), plan.sequence);
  const LoweredPlan lowered = lower(build_graph(model), plan, machine);

  Backplane backplane(machine, lowered.program);
  std::vector<std::unique_ptr<Node>> cluster;
  for (std::size_t n = 0; n < nodes; ++n) {
    const std::string name = "node" + std::to_string(n);
    cluster.push_back(
        std::make_unique<Node>(name.c_str(), backplane, machine, static_cast<int>(n)));
  }
  std::unique_ptr<Router> network;
  if (several) {
    const auto number =
        static_cast<std::uint32_t>(machine.tiles()) + static_cast<std::uint32_t>(nodes);
    network = std::make_unique<Router>("network", RouterConfig{backplane.network, number});
    for (std::size_t n = 0; n < nodes; ++n) {
      cluster[n]->join(*network, static_cast<unsigned>(n) * static_cast<unsigned>(machine.tiles_x));
    }
  }

  backplane.run();
  const RunStatistics& s = backplane.statistics();
  std::printf("%zu nodes of %d devices\n", nodes, machine.tiles_x);
  std::printf("iteration %.12g s, %llu messages\n", static_cast<double>(s.end) * 1e-12,
              static_cast<unsigned long long>(s.messages));
  std::fflush(stdout);
  _exit(0);  // the kernel takes quadratic time to take this many modules down
} catch (const std::exception& error) {
  std::fprintf(stderr, "cluster: %s\n", error.what());
  return exit_code(error);
}
