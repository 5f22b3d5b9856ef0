// From what the tiles did, what moved and how long it took to joules.
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/observe/energy.h>
#include <tilewright/observe/result.h>
#include <tilewright/program/work.h>

namespace tilewright {
namespace {

Joules sum(const std::vector<Joules>& parts) {
  return std::accumulate(parts.begin(), parts.end(), Joules(0));
}

/// Of a memory, whole bytes.
struct Traffic {
  std::uint64_t read = 0, written = 0;
};

Traffic traffic(const IdVector<DramId, DramStatistics>& controllers) {
  Traffic sum;
  for (const DramStatistics& c : controllers) {
    sum.read += c.bytes_read;
    sum.written += c.bytes_written;
  }
  return sum;
}

/// Notes what is done and has no energy: "in fp16 on the matrix engine (324.8 PFLOP)".
class Unknown {
 public:
  explicit Unknown(Result& result) : result_(result) {}
  template <class Amount>
  void check(Amount amount, bool has_energy, const std::string& what, const std::string& key) {
    if (!(amount > Amount(0)) || has_energy) return;
    result_.notes.push_back(
        fmt::format("energy: {} ({}) counts as 0 J: energy.{} is zero or not "
                    "given",
                    what, to_string(amount), key));
  }

 private:
  Result& result_;
};

struct MemoryTraffic {
  std::string name;
  double read, written;
  const MemoryEnergy& energy;
};

/// Sums over all tiles.
TileWork all_work(const ProgramWork& work) {
  TileWork all;
  all.flop.resize(work.formats.size());
  all.elements.resize(work.formats.size());
  for (const TileWork& t : work.tiles) {
    for (std::size_t f = 0; f < t.flop.size(); ++f) {
      all.flop[f] += t.flop[f];
      all.elements[f] += t.elements[f];
    }
    all.engines_read += t.sram_read();
    all.engines_wrote += t.sram_written();
  }
  return all;
}

void note_unknown(const MachineConfig& machine, const ProgramWork& work, const RunStatistics& run,
                  Result& result) {
  const EnergyConfig& e = *machine.energy;
  Unknown unknown(result);
  const TileWork all = all_work(work);
  for (std::size_t f = 0; f < work.formats.size(); ++f) {
    const std::string& format = work.formats[f];
    unknown.check(Flop(all.flop[f]), e.matrix_flop(format) > EnergyPerFlop(0),
                  "matrix work in " + format, "matrix." + format);
    if (all.elements[f] > 0 && !(e.vector_element(format) > Joules(0))) {
      result.notes.push_back(
          fmt::format("energy: vector work in {0} ({1:.4g} element passes) "
                      "counts as 0 J: energy.vector.{0} is zero or not given",
                      format, all.elements[f]));
    }
  }
  const auto memory = [](const char* name, const Traffic& t, const MemoryEnergy& energy) {
    return MemoryTraffic{name, static_cast<double>(t.read), static_cast<double>(t.written), energy};
  };
  for (const MemoryTraffic& t :
       {MemoryTraffic{"sram", all.engines_read, all.engines_wrote, e.sram},
        memory("dram", traffic(run.dram), e.dram), memory("host", traffic(run.host), e.host)}) {
    unknown.check(Bytes(t.read), t.energy.read > EnergyPerByte(0), "reading " + t.name,
                  t.name + ".read");
    unknown.check(Bytes(t.written), t.energy.write > EnergyPerByte(0), "writing " + t.name,
                  t.name + ".write");
  }
  const std::vector<NamedLinkConfig> kinds = machine.link_kinds();
  std::vector<Bytes> carried(kinds.size());
  for (const LinkStatistics& l : run.links) {
    carried[static_cast<std::size_t>(l.kind)] += Bytes(static_cast<double>(l.bytes));
  }
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    unknown.check(carried[k], e.links[k].wire + e.links[k].router > EnergyPerByte(0),
                  "traffic on " + kinds[k].name + " links", "links." + kinds[k].name);
  }
}

/// Adds what a tile has done and drawn.
void add_tile(const EnergyModel& model, const MachineConfig& machine,
              const std::vector<std::string>& formats, const TileWork& t, Seconds time,
              std::vector<Joules>& to) {
  for (std::size_t f = 0; f < t.flop.size(); ++f) {
    to[EnergyModel::kMatrix] += model.matrix(formats[f], t.flop[f]);
    to[EnergyModel::kVector] += model.vector(formats[f], t.elements[f]);
  }
  to[EnergyModel::kSram] += model.sram(t.sram_read(), t.sram_written());
  to[EnergyModel::kDram] +=
      model.memory(Space::dram, static_cast<double>(t.dram_read - t.dram_shared),
                   static_cast<double>(t.dram_written));
  to[EnergyModel::kHost] +=
      model.memory(Space::host, static_cast<double>(t.host_read - t.host_shared),
                   static_cast<double>(t.host_written));
  to[model.idle_tiles()] += machine.energy->idle.tile * time;
}

/// What the controllers moved that no tile asked for.
Joules foreign_memory(const EnergyModel& model, Space space, const ProgramWork& work,
                      const IdVector<DramId, DramStatistics>& controllers) {
  Traffic rest = traffic(controllers);
  for (const TileWork& t : work.tiles) {
    rest.read -= space == Space::host ? t.host_read - t.host_shared : t.dram_read - t.dram_shared;
    rest.written -= space == Space::host ? t.host_written : t.dram_written;
  }
  return model.memory(space, static_cast<double>(rest.read), static_cast<double>(rest.written));
}

}  // namespace

EnergyModel::EnergyModel(const MachineConfig& machine)
    : energy_(*machine.energy),
      matrix_(machine.matrix),
      categories_{"matrix", "vector", "sram", "dram", "host"} {
  for (const NamedLinkConfig& kind : machine.link_kinds()) {
    categories_.push_back("links " + kind.name);
  }
  for (const char* part : {"tiles", "dram", "host", "switches"}) {
    categories_.push_back(std::string("static ") + part);
  }
  idle_.resize(categories_.size());
  const auto count = [](std::size_t n) { return static_cast<double>(n); };
  const std::size_t first = idle_tiles();
  idle_[first] = energy_.idle.tile * (machine.tiles() - count(machine.defects.dead_tiles.size()));
  idle_[first + 1] = energy_.idle.dram * count(machine.dram.sites.size());
  idle_[first + 2] = energy_.idle.host * count(machine.host.sites.size());
  if (machine.fabric) {
    idle_[first + 3] = energy_.idle.switches * count(machine.fabric->switches.size());
  }
}

Joules EnergyModel::matrix(const std::string& format, double flop) const {
  return energy_.matrix_flop(format) * Flop(flop / matrix_.sparsity_of(format));
}

Joules EnergyModel::vector(const std::string& format, double elements) const {
  return energy_.vector_element(format) * elements;
}

Joules EnergyModel::sram(double read, double written) const {
  return energy_.sram.read * Bytes(read) + energy_.sram.write * Bytes(written);
}

Joules EnergyModel::memory(Space space, double read, double written) const {
  const MemoryEnergy& memory = space == Space::host ? energy_.host : energy_.dram;
  return memory.read * Bytes(read) + memory.write * Bytes(written);
}

Joules EnergyModel::link(LinkKind kind, double bytes) const {
  const LinkEnergy& link = energy_.links[static_cast<std::size_t>(kind)];
  return (link.wire + link.router) * Bytes(bytes);
}

Joules StageEnergy::total() const { return sum(joules); }

void summarise_energy(const MachineConfig& machine, const Program& program,
                      const RunStatistics& run, Result& result) {
  if (!machine.energy) return;
  const EnergyModel model(machine);
  const ProgramWork work = count_work(program);
  const Seconds time = to_seconds(run.end);
  EnergyResult energy;
  energy.categories = model.categories();
  const std::vector<Joules> nothing(energy.categories.size());
  energy.joules = energy.shared = nothing;

  std::map<std::uint32_t, std::vector<Joules>> stages;
  std::size_t in_stages = 0;
  for (const TileGroup& group : program.groups) {
    std::vector<Joules>& stage = stages.emplace(group.stage, nothing).first->second;
    for (const TileId t : group.tiles) {
      add_tile(model, machine, work.formats, work.tiles[t], time, stage);
    }
    in_stages += group.tiles.size();
  }
  for (const auto& [stage, joules] : stages) {
    energy.stages.push_back({static_cast<int>(stage), joules});
  }

  energy.shared[EnergyModel::kDram] = foreign_memory(model, Space::dram, work, run.dram);
  energy.shared[EnergyModel::kHost] = foreign_memory(model, Space::host, work, run.host);
  for (const LinkStatistics& l : run.links) {
    energy.shared[model.link_category(l.kind)] += model.link(l.kind, static_cast<double>(l.bytes));
  }
  for (std::size_t c = model.idle_tiles(); c < nothing.size(); ++c) {
    energy.shared[c] = model.idle()[c] * time;
  }
  const double others = machine.tiles() - static_cast<double>(machine.defects.dead_tiles.size()) -
                        static_cast<double>(in_stages);
  energy.shared[model.idle_tiles()] = machine.energy->idle.tile * others * time;

  for (std::size_t c = 0; c < nothing.size(); ++c) {
    for (const StageEnergy& s : energy.stages) energy.joules[c] += s.joules[c];
    energy.joules[c] += energy.shared[c];
  }
  energy.total = sum(energy.joules);
  note_unknown(machine, work, run, result);
  result.energy = energy;
}

}  // namespace tilewright
