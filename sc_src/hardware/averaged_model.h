// The `banked` DRAM model with averaged streams: rates instead of bursts.
#pragma once

#include <memory>

#include <tilewright/hardware/dram_model.h>
#include <tilewright/hardware/mix_rates.h>

namespace tilewright {

/// Every request waits for the part's latency, and moves then at the rate of the mix of readers and
/// writers that are under way (MixRates), which changes when one begins or ends. Requests of one
/// requester and direction go in order. Cost: O(log n) per request, however long.
std::unique_ptr<DramModel> make_averaged_model(const MemoryPart& part,
                                               std::shared_ptr<MixRates> rates);

}  // namespace tilewright
