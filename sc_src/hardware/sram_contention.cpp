// What the engines of a tile and its messages take of the SRAM from each other.
#include <tilewright/hardware/compute_unit.h>
#include <tilewright/hardware/sequencer.h>

namespace tilewright {

/// An operation begins that takes `duration` alone, its operator's loads and stores included.
void Sequencer::contend(Picoseconds now, std::uint32_t tile, const Instruction& ins,
                        Picoseconds duration) {
  const ComputeShape& shape = program_.shapes[ins.operand];
  const double part = static_cast<double>(ins.amount) / shape.denominator;
  const double written = written_to_sram(shape) * part;
  sram_shares_[tile].begin(
      now, static_cast<unsigned>(ins.engine), duration,
      SramShare::port_times(sram_config_, through_sram(shape) * part - written, written));
}

/// Data that the engines did not ask for. A message is read as it leaves; one that arrives was
/// written beside the link's last bytes, and counts from then on, when it is known. Transfers of
/// the background count from their issue.
void Sequencer::pass_sram(Picoseconds now, std::uint32_t tile, std::uint64_t bytes, bool written,
                          double bytes_per_ps) {
  const auto n = static_cast<double>(bytes);
  sram_shares_[tile].pass(now, n / bytes_per_ps,
                          SramShare::port_times(sram_config_, written ? 0 : n, written ? n : 0));
}

/// Whether what began since the operation did holds it up: it goes on for that. More may begin
/// meanwhile, so it is looked at again then.
bool Sequencer::held_up(Picoseconds now, std::uint32_t tile, unsigned engine) {
  const Picoseconds more = sram_shares_[tile].end(now, engine) - now;
  if (more == 0) return false;
  TileStatistics& stats = stats_[static_cast<TileId>(tile)];
  (engine == 0 ? stats.matrix_busy : stats.vector_busy) += more;
  queue_.push(now + more, EventClass::compute, tile, engine, 0);
  return true;
}

}  // namespace tilewright
