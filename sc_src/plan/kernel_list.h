// A list of kernels under construction, and which tensors pass between them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <tilewright/plan/kernels.h>

namespace tilewright {

class KernelList {
 public:
  std::vector<Kernel> kernels;

  Kernel& open(const std::string& name, Phase phase);
  void collective(const std::string& name, Phase phase, const Collective& collective,
                  const Access& from, const Access& to);

  /// True when the newest kernel makes `tensor` and has engines to take a pointwise operator along.
  bool can_extend(const std::string& tensor) const;

  /// Adds a streamed input of the newest kernel unless the kernel made it itself or has it already.
  void read(const Access& access);
  void produce(const Access& access);

  /// Drops the writes that nobody needs: neither read by a later kernel nor in `kept`.
  void drop_internal(const std::set<std::string>& kept);

  /// Puts every weight gradient behind the input gradient that follows it and the collectives that
  /// sum that: whoever waits for the sum waits less, and what is moved meanwhile is beside a GEMM.
  /// When the list is complete.
  void put_off_weight_gradients();

  /// Peak bytes of temporaries alive between kernels: from the kernel that writes one to the last
  /// that reads it (or the end, when `kept`).
  /// `sharers` keep what is common together.
  std::int64_t temporaries(const std::set<std::string>& kept, int sharers = 1) const;

 private:
  static bool reads(const Kernel& k, const std::string& tensor);

  std::vector<std::set<std::string>> produced_;  // per kernel
};

}  // namespace tilewright
