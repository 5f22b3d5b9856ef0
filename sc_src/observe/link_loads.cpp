#include <algorithm>
#include <iterator>
#include <ostream>

#include <fmt/format.h>

#include <tilewright/hardware/platform.h>
#include <tilewright/hardware/protocol.h>
#include <tilewright/observe/link_loads.h>

#include "intervals.h"

namespace tilewright {

namespace {
double share(Picoseconds part, Picoseconds whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}
}  // namespace

LinkLoads::LinkLoads(const MachineConfig& machine, const Program& program, Platform& platform)
    : machine_(machine),
      program_(program),
      platform_(platform),
      intervals_(std::make_unique<Intervals>()) {
  for (const LinkPlace& link : platform.links()) {
    if (link.number >= loads_.size()) loads_.resize(link.number + 1);
  }
  platform.watch_links(*this);
  platform.watch_work(*this);
}

void LinkLoads::message_sent(Picoseconds, const Packet& packet, std::uint16_t name) {
  if (packet.slot >= names_.size()) names_.resize(packet.slot + 1, kNoName);
  names_[packet.slot] = name;
}

LinkLoads::~LinkLoads() = default;

void LinkLoads::link_claimed(Picoseconds, std::uint32_t link, Picoseconds, Picoseconds start,
                             Picoseconds end, const Packet& packet, std::uint64_t bytes) {
  Load& load = loads_[link];
  load.bytes += bytes;
  load.busy += end - start;
  const std::uint16_t name = packet.kind == PacketKind::message ? names_[packet.slot] : kNoName;
  load.flows[{packet.source, packet.destination, packet.cause, name}] += bytes;
  if (start == end) return;
  cover(end);
  const std::size_t bins = intervals_->count(end);
  if (load.bins.size() < bins) load.bins.resize(bins);
  intervals_->split(start, end,
                    [&load](std::size_t bin, Picoseconds time) { load.bins[bin] += time; });
}

void LinkLoads::cover(Picoseconds end) {
  intervals_->cover(end, [this](auto fold) {
    for (Load& load : loads_) fold(load.bins);
  });
}

void LinkLoads::write_csv(std::ostream& out, Picoseconds end) {
  cover(end);
  const std::vector<NamedLinkConfig> kinds = machine_.link_kinds();
  const std::size_t bins = intervals_->count(end);
  out << "from,to,kind,bytes,busy";
  for (std::size_t i = 0; i < bins; ++i) {
    out << fmt::format(",{:.9g}", static_cast<double>(intervals_->begin(i)) * 1e-12);
  }
  out << '\n';
  const RunStatistics& run = platform_.statistics();
  std::size_t number = 0;
  for (const LinkPlace& place : platform_.links()) {
    const LinkKind kind = run.links[static_cast<LinkId>(number++)].kind;
    const Load& load = loads_[place.number];
    if (load.bytes == 0) continue;
    // Commas inside "(3,1)" would end the field.
    out << fmt::format("\"{}\",\"{}\",{},{},{:.6g}", machine_.node_name(place.from),
                       machine_.node_name(place.to), kinds[static_cast<std::size_t>(kind)].name,
                       load.bytes, share(load.busy, end));
    for (std::size_t i = 0; i < bins; ++i) {
      const Picoseconds busy = i < load.bins.size() ? load.bins[i] : 0;
      out << fmt::format(",{:.4g}", share(busy, intervals_->length(i, end)));
    }
    out << '\n';
  }
}

HottestLink LinkLoads::hottest(Picoseconds end) const {
  constexpr std::size_t kMostFlows = 5;
  HottestLink result;
  const LinkPlace* place = nullptr;
  const std::vector<LinkPlace> places = platform_.links();
  for (const LinkPlace& candidate : places) {
    const Picoseconds busy = loads_[candidate.number].busy;
    if (busy > 0 && (place == nullptr || busy > loads_[place->number].busy)) place = &candidate;
  }
  if (place == nullptr) return result;
  const Load& load = loads_[place->number];
  result.from = machine_.node_name(place->from);
  result.to = machine_.node_name(place->to);
  result.busy = share(load.busy, end);
  for (const auto& [flow, bytes] : load.flows) {
    const auto& [from, to, cause, name] = flow;
    result.by_cause[static_cast<std::size_t>(cause)] += Bytes(static_cast<double>(bytes));
    result.flows.push_back({machine_.node_name(static_cast<TileId>(from)),
                            machine_.node_name(static_cast<TileId>(to)), cause,
                            name < program_.names.size() ? program_.names[name] : "",
                            Bytes(static_cast<double>(bytes))});
  }
  std::stable_sort(result.flows.begin(), result.flows.end(),
                   [](const LinkFlow& a, const LinkFlow& b) { return b.bytes < a.bytes; });
  result.all_flows = result.flows.size();
  if (result.flows.size() > kMostFlows) result.flows.resize(kMostFlows);
  return result;
}

}  // namespace tilewright
