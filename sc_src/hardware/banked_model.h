// The `banked` DRAM model: one BankedChannel per channel, looked ahead of without events of its
// own.
#pragma once

#include <memory>

#include <tilewright/hardware/dram_model.h>

namespace tilewright {

/// `remember_streams`: jump over what a lone stream is known to do between refreshes. Exact; off in
/// tests that compare both.
std::unique_ptr<DramModel> make_banked_model(const MemoryPart& part, bool remember_streams = true);

}  // namespace tilewright
