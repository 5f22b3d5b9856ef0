// Meshes of either fidelity for the traffic driver.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <systemc>

#include <tilewright/hardware/flit_mesh.h>
#include <tilewright/hardware/network.h>
#include <tilewright/hardware/router.h>
#include <tilewright/hardware/traffic_driver.h>

namespace tilewright {

class FlitTraffic final : public TrafficNetwork {
 public:
  FlitTraffic(const FlitConfig& config, EventQueue& queue, std::uint32_t agent,
              bool reverse = false)
      : mesh_("mesh", config, queue, agent, reverse) {}

  const Topology& topology() const override { return mesh_.network.topology(); }
  Packet& packet(std::uint32_t slot) override { return network().packet(slot); }
  Packet& allocate() override { return network().allocate(); }
  void free(Packet& p) override { network().free(p); }
  void send(Packet& p) override { network().inject(p, p.injected); }
  Picoseconds received(const Packet&, Picoseconds now) override { return now; }
  void reset() override { network().reset(); }

  FlitNetwork& network() { return mesh_.network; }

 private:
  FlitMesh mesh_;
};

/// The message network on the same mesh: links of one flit per cycle, a hop of as many cycles as
/// the router of `config` needs when it is idle. What the message network leaves unlimited is added
/// here: a tile sends and receives one flit per cycle.
class MessageTraffic final : public TrafficNetwork, public EventHandler {
 public:
  MessageTraffic(const FlitConfig& config, EventQueue& queue, std::uint32_t agent);

  const Topology& topology() const override { return network_.topology(); }
  Packet& packet(std::uint32_t slot) override { return network_.packet(slot); }
  Packet& allocate() override { return network_.allocate(); }
  void free(Packet& p) override { network_.free(p); }
  void send(Packet& p) override;
  Picoseconds received(const Packet& p, Picoseconds now) override;
  void reset() override {}

  void handle(Picoseconds now, EventClass type, std::uint32_t tile, const Event* events,
              std::size_t count) override;

  Network& network() { return network_; }

 private:
  Picoseconds serial(const Packet& p) const;

  EventQueue& queue_;
  std::uint32_t agent_;
  FlitConfig config_;
  Network network_;
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
