#include "kernel_list.h"

#include <algorithm>

namespace tilewright {

Kernel& KernelList::open(const std::string& name, Phase phase) {
  kernels.emplace_back();
  kernels.back().name = name;
  kernels.back().phase = phase;
  produced_.emplace_back();
  return kernels.back();
}

void KernelList::collective(const std::string& name, Phase phase, const Collective& collective,
                            const Access& from, const Access& to) {
  Kernel& k = open(name, phase);
  k.collective = collective;
  k.reads = {from};
  k.writes = {to};
}

bool KernelList::can_extend(const std::string& tensor) const {
  return !kernels.empty() && !kernels.back().collective && produced_.back().count(tensor) > 0;
}

void KernelList::read(const Access& access) {
  if (access.tensor.empty() || produced_.back().count(access.tensor) > 0) return;
  Kernel& k = kernels.back();
  if (k.a.tensor == access.tensor || k.b.tensor == access.tensor) return;
  for (const Access& r : k.reads) {
    if (r.tensor == access.tensor) return;
  }
  k.reads.push_back(access);
}

void KernelList::produce(const Access& access) {
  produced_.back().insert(access.tensor);
  kernels.back().writes.push_back(access);
}

void KernelList::drop_internal(const std::set<std::string>& kept) {
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const auto dead = [&](const Access& w) {
      if (kept.count(w.tensor) > 0 || w.cls == TensorClass::gradient) return false;
      return std::none_of(kernels.begin() + static_cast<std::ptrdiff_t>(i) + 1, kernels.end(),
                          [&](const Kernel& later) { return reads(later, w.tensor); });
    };
    auto& writes = kernels[i].writes;
    writes.erase(std::remove_if(writes.begin(), writes.end(), dead), writes.end());
  }
}

void KernelList::put_off_weight_gradients() {
  const auto is_weight_gradient = [](const Kernel& k) {
    return k.matrix && !k.writes.empty() && k.writes.front().cls == TensorClass::gradient;
  };
  for (std::size_t i = 0; i + 1 < kernels.size(); ++i) {
    std::size_t end = i + 1;
    if (!is_weight_gradient(kernels[i]) || !kernels[end].matrix ||
        is_weight_gradient(kernels[end])) {
      continue;
    }
    const auto sums = [&](const Kernel& k) {
      const auto& made = kernels[end].writes;
      return k.collective && std::any_of(made.begin(), made.end(),
                                         [&](const Access& w) { return reads(k, w.tensor); });
    };
    while (end + 1 < kernels.size() && sums(kernels[end + 1])) ++end;
    const auto at = [&](std::size_t n) { return kernels.begin() + static_cast<std::ptrdiff_t>(n); };
    std::rotate(at(i), at(i + 1), at(end + 1));
    i = end;
  }
}

std::int64_t KernelList::temporaries(const std::set<std::string>& kept, int sharers) const {
  std::vector<std::int64_t> alive(kernels.size(), 0);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    for (const Access& w : kernels[i].writes) {
      if (w.cls != TensorClass::temporary) continue;
      // An all-reduce works in place, and so does what is added to a tensor.
      const auto& c = kernels[i].collective;
      if (c && (c->accumulate || kernels[i].reads.front().tensor == w.tensor)) continue;
      std::size_t last = kept.count(w.tensor) > 0 ? kernels.size() - 1 : i;
      for (std::size_t j = i + 1; j < kernels.size(); ++j) {
        if (reads(kernels[j], w.tensor)) last = std::max(last, j);
      }
      const std::int64_t bytes = w.common ? kept_part(w.bytes, sharers) : w.bytes;
      for (std::size_t j = i; j <= last; ++j) alive[j] += bytes;
    }
  }
  return alive.empty() ? 0 : *std::max_element(alive.begin(), alive.end());
}

bool KernelList::reads(const Kernel& k, const std::string& tensor) {
  return k.a.tensor == tensor || k.b.tensor == tensor ||
         std::any_of(k.reads.begin(), k.reads.end(),
                     [&](const Access& r) { return r.tensor == tensor; });
}

}  // namespace tilewright
