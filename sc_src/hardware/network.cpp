#include <tilewright/hardware/flit_network.h>
#include <tilewright/hardware/message_network.h>
#include <tilewright/hardware/network.h>

namespace tilewright {

std::vector<LinkPlace> Network::places() const {
  std::vector<LinkPlace> result;
  for (std::uint32_t i = 0; i < topology_.links(); ++i) {
    if (!topology_.link(i).works) continue;
    result.push_back(
        {i, static_cast<TileId>(topology_.from(i)), static_cast<TileId>(topology_.link(i).to)});
  }
  return result;
}

std::unique_ptr<Network> make_network(Fidelity fidelity, const MachineConfig& machine,
                                      EventQueue& queue, std::uint32_t agent) {
  if (fidelity == Fidelity::message) return std::make_unique<MessageNetwork>(machine, queue);
  return std::make_unique<FlitNetwork>(machine, queue, agent);
}

}  // namespace tilewright
