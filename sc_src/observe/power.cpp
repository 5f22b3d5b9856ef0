#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/hardware/platform.h>
#include <tilewright/hardware/protocol.h>
#include <tilewright/machine/topology.h>
#include <tilewright/observe/energy.h>
#include <tilewright/observe/power.h>

#include "intervals.h"

namespace tilewright {

namespace {
const MachineConfig& with_energy(const MachineConfig& machine) {
  if (machine.energy) return machine;
  throw InputError("machine '" + machine.name +
                   "' has no energy section, so there is no power to write");
}
}  // namespace

struct Power::Parts {
  Parts(const MachineConfig& machine, const Program& the_program)
      : program(the_program),
        model(with_energy(machine)),
        topology(machine),
        joules(model.categories().size()) {}

  /// Spreads an energy over [start, end); all of it falls on `start` when that is no time at all.
  void add(std::size_t category, Joules energy, Picoseconds start, Picoseconds end) {
    const Picoseconds last = std::max(end, start + 1);
    cover(last);
    std::vector<Joules>& series = joules[category];
    const std::size_t count = intervals.count(last);
    if (series.size() < count) series.resize(count);
    const double per_ps = 1 / static_cast<double>(last - start);
    intervals.split(start, last, [&](std::size_t i, Picoseconds time) {
      series[i] += energy * (static_cast<double>(time) * per_ps);
    });
  }

  void cover(Picoseconds end) {
    intervals.cover(end, [this](auto fold) {
      for (auto& series : joules) fold(series);
    });
  }

  const Program& program;
  EnergyModel model;
  Topology topology;
  Intervals intervals;
  std::vector<std::vector<Joules>> joules;  // by category and interval
};

Power::Power(const MachineConfig& machine, const Program& program, Platform& platform)
    : parts_(std::make_unique<Parts>(machine, program)) {
  platform.watch_links(*this);
  platform.watch_work(*this);
}

Power::~Power() = default;

void Power::computes(std::uint32_t shape, std::uint32_t amount, Picoseconds start,
                     Picoseconds end) {
  const ComputeShape& s = parts_->program.shapes[shape];
  const std::string& format = parts_->program.names[s.format];
  const double part = static_cast<double>(amount) / s.denominator;
  if (s.engine == Engine::matrix) {
    parts_->add(EnergyModel::kMatrix, parts_->model.matrix(format, s.flop * part), start, end);
  } else {
    parts_->add(EnergyModel::kVector, parts_->model.vector(format, s.elements * part), start, end);
  }
  parts_->add(EnergyModel::kSram,
              parts_->model.sram((s.sram_bytes - s.sram_written) * part, s.sram_written * part),
              start, end);
}

// A message to the tile itself takes no link.
void Power::message_sent(Picoseconds now, const Packet& packet, std::uint16_t) {
  if (packet.source != packet.destination) return;
  const auto bytes = static_cast<double>(packet.bytes);
  parts_->add(EnergyModel::kSram, parts_->model.sram(bytes, bytes), now, now);
}

void Power::memory_moved(const MemoryMove& move) {
  const auto bytes = static_cast<double>(move.bytes);
  const double read = move.write ? 0 : bytes, written = move.write ? bytes : 0;
  parts_->add(move.space == Space::host ? EnergyModel::kHost : EnergyModel::kDram,
              parts_->model.memory(move.space, read, written), move.start, move.end);
  if (move.foreign) return;
  // What a memory reads is written into the SRAM of every tile that gets it.
  parts_->add(EnergyModel::kSram, parts_->model.sram(written, read * move.tiles), move.start,
              move.end);
}

void Power::link_claimed(Picoseconds, std::uint32_t link, Picoseconds, Picoseconds start,
                         Picoseconds end, const Packet& packet, std::uint64_t claimed) {
  const Topology::Link& way = parts_->topology.link(link);
  const auto bytes = static_cast<double>(claimed);
  parts_->add(parts_->model.link_category(way.kind), parts_->model.link(way.kind, bytes), start,
              end);
  if (packet.kind != PacketKind::message) return;
  const double read = parts_->topology.from(link) == packet.source ? bytes : 0;
  const double written = way.to == packet.destination ? bytes : 0;
  parts_->add(EnergyModel::kSram, parts_->model.sram(read, written), start, end);
}

void Power::write_csv(std::ostream& out, Picoseconds end) {
  parts_->cover(end);
  const std::vector<std::string>& categories = parts_->model.categories();
  const Intervals& intervals = parts_->intervals;
  out << "from_s,to_s";
  for (const std::string& category : categories) out << ',' << category << "_w";
  out << ",total_w\n";
  const std::size_t count = intervals.count(end);
  for (std::size_t i = 0; i < count; ++i) {
    const Picoseconds begin = intervals.begin(i), length = intervals.length(i, end);
    out << fmt::format("{},{}", to_seconds(begin).value(), to_seconds(begin + length).value());
    Watts total(0);
    for (std::size_t c = 0; c < categories.size(); ++c) {
      const std::vector<Joules>& series = parts_->joules[c];
      Joules energy = i < series.size() ? series[i] : Joules(0);
      // An event in the last instant of the run ends behind it.
      if (i + 1 == count && count < series.size()) energy += series[count];
      const Watts watts = energy / to_seconds(length) + parts_->model.idle()[c];
      total += watts;
      out << fmt::format(",{}", watts.value());
    }
    out << fmt::format(",{}\n", total.value());
  }
}

}  // namespace tilewright
