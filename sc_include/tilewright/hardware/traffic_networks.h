// Meshes of either fidelity for the traffic driver.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <systemc>

#include <tilewright/hardware/flit_mesh.h>
#include <tilewright/hardware/message_network.h>
#include <tilewright/hardware/router.h>
#include <tilewright/hardware/traffic_driver.h>

namespace tilewright {

class FlitTraffic final : public TrafficNetwork {
 public:
  FlitTraffic(const FlitConfig& config, EventQueue& queue, std::uint32_t agent,
              bool reverse = false)
      : mesh_("mesh", config, queue, agent, reverse) {}

  FlitNetwork& network() override { return mesh_.network; }
  void send(Packet& p) override { network().inject(p, p.injected); }
  Picoseconds received(const Packet&, Picoseconds now) override { return now; }
  void reset() override { network().reset(); }

 private:
  FlitMesh mesh_;
};

/// The message network on the same mesh: links of one flit per cycle, a hop of as many cycles as
/// the router of `config` needs when it is idle. What the message network leaves unlimited is added
/// here: a tile sends and receives one flit per cycle.
class MessageTraffic final : public TrafficNetwork, public EventHandler {
 public:
  MessageTraffic(const FlitConfig& config, EventQueue& queue, std::uint32_t agent);

  MessageNetwork& network() override { return network_; }
  void send(Packet& p) override;
  Picoseconds received(const Packet& p, Picoseconds now) override;
  void reset() override {}

  void handle(Picoseconds now, EventClass type, std::uint32_t tile, const Event* events,
              std::size_t count) override;

 private:
  Picoseconds serial(const Packet& p) const;

  EventQueue& queue_;
  std::uint32_t agent_;
  FlitConfig config_;
  MessageNetwork network_;
  std::vector<std::unique_ptr<Router>> routers_;
  Picoseconds ends_ = 0;  // at both ends of an idle path, beyond the hops
  std::vector<Picoseconds> source_free_, sink_free_;
  std::vector<std::vector<std::uint32_t>> waiting_;  // at their source, by slot
  std::vector<std::size_t> first_;
};

/// Cycles from creation to arrival on idle routers.
std::uint64_t zero_load_cycles(const FlitConfig& config, std::uint64_t routers,
                               std::uint64_t flits);

}  // namespace tilewright
