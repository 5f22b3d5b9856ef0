#include <algorithm>

#include <tilewright/plan/activation_memory.h>

namespace tilewright {
namespace {

std::int64_t& of(KeptBytes& kept, Kept kind) { return kept[static_cast<std::size_t>(kind)]; }
std::int64_t of(const KeptBytes& kept, Kept kind) { return kept[static_cast<std::size_t>(kind)]; }

std::int64_t total(const std::vector<SizedTensor>& tensors) {
  std::int64_t sum = 0;
  for (const SizedTensor& t : tensors) sum += t.bytes;
  return sum;
}

bool has(const std::vector<SizedTensor>& tensors, const std::string& name) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const SizedTensor& t) { return t.name == name; });
}

CallMemory forward(const BlockKernels& k, bool training, Handover below, Handover above) {
  CallMemory m;
  // The activation that enters is part of the stash, and taken with it, unless it was parked.
  const std::int64_t in = below == Handover::parked ? k.input_bytes : 0;
  const std::int64_t out = above == Handover::parked ? k.output_bytes : 0;
  if (training) {
    of(m.taken, Kept::stash) = k.stash_bytes() - in + out;
  } else {
    of(m.taken, Kept::parked) = out;
    of(m.given, Kept::parked) = in;
  }
  return m;
}

CallMemory backward(const BlockKernels& k, Handover below, Handover above) {
  CallMemory m;
  of(m.taken, Kept::rebuilt) = of(m.given, Kept::rebuilt) = k.rebuilt_bytes();
  of(m.given, Kept::stash) = k.stash_bytes();
  of(m.taken, Kept::parked) = below == Handover::parked ? k.input_bytes : 0;
  of(m.given, Kept::parked) = above == Handover::parked ? k.output_bytes : 0;
  return m;
}

/// What is kept for the weight slot, and whether the gradient that came in is among it.
struct Held {
  KeptBytes bytes{};
  bool incoming = false;
};

Held held(const BlockKernels& k) {
  Held h;
  for (const SizedTensor& t : k.held_activations) {
    of(h.bytes, has(k.rebuilt, t.name) ? Kept::rebuilt : Kept::stash) += t.bytes;
  }
  of(h.bytes, Kept::gradient) = total(k.held_gradients);
  h.incoming = has(k.held_gradients, k.output_gradient);
  return h;
}

/// Who makes a gradient takes its memory, or who receives it; who reads it last gives it back.
CallMemory input_gradients(const BlockKernels& k, Handover below, Handover above) {
  CallMemory m;
  const Held h = held(k);
  const std::int64_t in = k.output_gradient.empty() ? 0 : k.output_bytes;
  const std::int64_t out = k.input_gradient.empty() ? 0 : k.input_bytes;
  of(m.taken, Kept::rebuilt) = k.rebuilt_bytes();
  of(m.taken, Kept::gradient) = of(h.bytes, Kept::gradient) - (h.incoming ? in : 0) +
                                (above == Handover::message || above == Handover::none ? in : 0) +
                                (below == Handover::message ? 0 : out);
  of(m.given, Kept::stash) = k.stash_bytes() - of(h.bytes, Kept::stash);
  of(m.given, Kept::rebuilt) = k.rebuilt_bytes() - of(h.bytes, Kept::rebuilt);
  of(m.given, Kept::gradient) = (h.incoming ? 0 : in) + (below == Handover::none ? out : 0);
  return m;
}

CallMemory weight_gradients(const BlockKernels& k) {
  CallMemory m;
  m.given = held(k).bytes;
  return m;
}

}  // namespace

Handover handover(const Schedule& schedule, int v) {
  if (v < 0 || v + 1 >= schedule.virtual_stages()) return Handover::none;
  return schedule.stage_of(v) == schedule.stage_of(v + 1) ? Handover::parked : Handover::message;
}

std::int64_t saved_bytes(const KeptBytes& kept) {
  return of(kept, Kept::stash) + of(kept, Kept::rebuilt) + of(kept, Kept::gradient);
}

std::int64_t parked_bytes(const KeptBytes& kept) { return of(kept, Kept::parked); }

CallMemory call_memory(const BlockKernels& kernels, const Schedule& schedule, SlotPhase phase,
                       Handover below, Handover above) {
  switch (phase) {
    case SlotPhase::forward:
      return forward(kernels, schedule.backward, below, above);
    case SlotPhase::backward:
      return schedule.split_backward ? input_gradients(kernels, below, above)
                                     : backward(kernels, below, above);
    case SlotPhase::weight:
      return weight_gradients(kernels);
  }
  return {};
}

SlotMemory::SlotMemory(std::vector<CallMemory> of_calls) : calls(std::move(of_calls)) {
  for (const CallMemory& call : calls) {
    highest_saved = std::max(highest_saved, saved_bytes(net) + saved_bytes(call.taken));
    highest_parked = std::max(highest_parked, of(net, Kept::parked) + of(call.taken, Kept::parked));
    for (std::size_t i = 0; i < net.size(); ++i) net[i] += call.taken[i] - call.given[i];
  }
}

KeptBytes peak_kept(const StageOrder& order,
                    const std::function<const SlotMemory&(const Slot&)>& slot_memory) {
  KeptBytes kept{}, peak{};
  std::int64_t parked = 0;
  for (const Slot& slot : order) {
    const SlotMemory& memory = slot_memory(slot);
    const KeptBytes before = kept;
    parked = std::max(parked, of(kept, Kept::parked) + memory.highest_parked);
    if (saved_bytes(kept) + memory.highest_saved > saved_bytes(peak)) {
      for (const CallMemory& call : memory.calls) {
        for (std::size_t i = 0; i < kept.size(); ++i) kept[i] += call.taken[i];
        if (saved_bytes(kept) > saved_bytes(peak)) peak = kept;
        for (std::size_t i = 0; i < kept.size(); ++i) kept[i] -= call.given[i];
      }
    }
    kept = before;
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] += memory.net[i];
  }
  of(peak, Kept::parked) = parked;
  return peak;
}

std::int64_t peak_kept_and_waiting(const StageOrder& order,
                                   const std::function<const SlotMemory&(const Slot&)>& slot_memory,
                                   const std::vector<std::int64_t>& waiting) {
  std::int64_t kept = 0, peak = waiting.front();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const SlotMemory& memory = slot_memory(order[i]);
    peak = std::max(peak, kept + memory.highest_saved + waiting[i + 1]);
    kept += saved_bytes(memory.net);
  }
  return peak;
}

}  // namespace tilewright
