// The timing inside a DRAM controller.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tilewright/base/quantity.h>
#include <tilewright/hardware/probe.h>
#include <tilewright/machine/machine.h>

namespace tilewright {

class MixRates;

/// Decides when requests complete. It has no events of its own: its controller calls pop() at the
/// times that next() announces.
class DramModel {
 public:
  struct Completion {
    std::uint32_t token = 0;
    Picoseconds first_byte = 0;  ///< when its data began to move
  };
  virtual ~DramModel() = default;
  /// `token` is not in use by another request. `requester` says whose it is: of a tile's
  /// calls, or of its background calls.
  virtual void add(Picoseconds now, std::uint32_t requester, std::uint64_t address,
                   std::uint64_t bytes, bool write, std::uint32_t token) = 0;
  /// When to call pop() next if nothing is added; all ones when idle.
  virtual Picoseconds next() const = 0;
  /// One request completed by `now`; false when there is none.
  virtual bool pop(Picoseconds now, Completion& completion) = 0;
  /// Time for `bytes` when nothing else is in the controller.
  virtual Picoseconds unloaded(std::uint64_t bytes) const = 0;
  /// Time in which data moved.
  virtual Picoseconds busy() const = 0;
  /// The open rows of every channel, for observers; none for models without banks. They refer to
  /// the model.
  virtual std::vector<std::unique_ptr<RowReplay>> rows() const { return {}; }
};

/// By DramConfig::model:
///  - "bandwidth": every request waits for `latency`, then shares the bandwidth byte-fairly with
///    the other requesters; one requester's requests in order; reads and writes alike;
///  - "banked": channels of banks with open rows under JEDEC timing and an FR-FCFS scheduler
///    (docs/machine.md, "Memory files"); requesters take turns burst by burst, and so do the reads
///    and the writes of one. A read completes with its last data, a write likewise. With averaged
///    streams (DramStreams) every request moves at the mean rate of those under way instead.
/// `rates` may be shared by the models of one memory, which then work each mix out once.
/// Throws InputError naming the known models.
std::unique_ptr<DramModel> make_dram_model(const DramConfig& config,
                                           const std::shared_ptr<MixRates>& rates = nullptr);

}  // namespace tilewright
