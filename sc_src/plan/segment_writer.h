// Writes the instructions of one segment: kernels as pipelined load / compute / store streams, ring
// collectives, transfers between stages.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tilewright/plan/cost.h>
#include <tilewright/plan/kernels.h>
#include <tilewright/program/program.h>

#include "peers.h"

namespace tilewright {

/// A collective as a segment runs it.
struct CollectiveRun {
  std::string name;
  Phase phase = Phase::forward;
  bool background = false;  ///< in a background call
  Cause cause = Cause::tensor;
};

class SegmentWriter {
 public:
  /// Instructions may depend on several earlier ones; the writer keeps the latest per engine, which
  /// implies the others since engines complete in order.
  using Waits = std::vector<std::uint32_t>;

  SegmentWriter(Program& program, std::string name, const Residency& residency, DType precision,
                const std::vector<GroupAxis>& axes, PeerTables& peers);

  /// Allocations at the start of a call, once all earlier calls are complete.
  void allocate(Space space, std::int64_t bytes);
  /// Releases at the end, once everything written so far has computed and, of what moves data
  /// alone, `after`.
  void release(Space space, std::int64_t bytes, const Waits& after = {});
  /// Copies `bytes` from one memory into another, block by block, in a segment of its own; returns
  /// what completes the copy.
  Waits copy(const std::string& name, Phase phase, Space from, Space to, std::int64_t bytes);

  /// From here on the ranks of an axis, all of which hold what passes between stages, send a part
  /// of it each, and gather the parts where they arrive.
  void scatter_stages(std::size_t axis) { scattered_ = axis; }

  /// Receives `tensor` in messages of the given sizes and puts it where its class lives. `common`:
  /// Access::common.
  void receive(const std::string& tensor, TensorClass cls, bool common,
               const std::vector<std::int64_t>& parts, Phase phase, Channel channel, Peers from);
  /// Everything written from here on waits for `tensor` (a backward pass starts with its gradient).
  void gate(const std::string& tensor);

  /// From here on `name` stands for all of these tensors together.
  void join(const std::string& name, const std::vector<std::string>& tensors);

  /// A kernel. When `send` is not empty its write `sent` leaves as messages of those sizes (one or
  /// two) to `to` and is not stored.
  void kernel(const Kernel& kernel, const KernelCost& cost, const std::string& sent = "",
              const std::vector<std::int64_t>& send = {}, Channel channel = Channel::forward,
              Peers to = Peers::stage_next);

  /// Converts `from` into `to` (the same tensor for an all-reduce), by the algorithm that the plan
  /// chooses. What adds up to `from` in a ring_step must have been join()ed.
  void collective(const CollectiveRun& run, const Collective& what, const Access& from,
                  const Access& to);
  /// Sends a tensor that is complete.
  void send(const std::string& tensor, const std::vector<std::int64_t>& parts, Phase phase,
            Channel channel, Peers to);
  /// Exchanges `tensor` with one peer and adds what comes.
  void exchange(const std::string& name, const std::string& tensor, TensorClass cls,
                std::int64_t bytes, Channel channel, Peers peer);

  /// Appends the segment to the program and returns its index.
  std::uint32_t finish();

  /// Sizes of the messages in which a kernel of `blocks` blocks hands over `bytes`: all but the
  /// last block as soon as it streams, then the last.
  static std::vector<std::int64_t> message_parts(std::int64_t bytes, std::int64_t blocks);

 private:
  std::uint32_t add(Instruction i, const Waits& after);
  std::uint32_t transfer(Opcode op, std::uint16_t name, Phase phase, Space space, Share share,
                         const Waits& after);
  /// A load that the ranks which keep what it reads together make together.
  std::uint32_t shared_load(std::uint16_t name, Phase phase, std::int64_t bytes,
                            const Waits& after);
  std::uint32_t message(Opcode op, std::uint16_t name, Phase phase, Cause cause,
                        std::uint16_t channel, std::uint32_t peer, Share share, const Waits& after);
  std::uint32_t stage_message(Opcode op, Phase phase, Channel channel, Peers peer,
                              std::int64_t bytes, const Waits& after);
  /// The messages of a collective. Takes what the first message and what the whole waits for;
  /// returns what the first of the result and all of it wait for.
  std::pair<Waits, Waits> exchange(const CollectiveRun& run, const Collective& what,
                                   const Waits& first, const Waits& all);
  /// The same of a halo or halo_sum: part by part along the axis, or back.
  std::pair<Waits, Waits> neighbours(const CollectiveRun& run, const Collective& what,
                                     const Waits& first, const Waits& all);
  std::uint32_t compute(std::uint16_t name, Phase phase, std::uint32_t shape, Engine engine,
                        std::uint32_t begin, std::uint32_t amount, const Waits& after);
  /// Stores `bytes` that become available from `first` on and are complete after `last`: all but
  /// the last block, and the last.
  std::uint32_t store_parts(std::uint16_t name, Phase phase, Space space, std::int64_t bytes,
                            std::int64_t blocks, const Waits& first, const Waits& last);
  /// The same, of many blocks in one; nothing else may end with the last of `last`.
  std::uint32_t stream_out(std::uint16_t name, Phase phase, Space space, std::int64_t bytes,
                           std::int64_t blocks, const Waits& first, const Waits& last);
  /// Stores `bytes` after `after`, slice by slice as `before` bytes that they are added to come.
  Waits replace(std::uint16_t name, Phase phase, std::int64_t before, std::int64_t bytes,
                const Waits& after);
  std::uint32_t shape(const Kernel& kernel, const KernelCost& cost, Engine engine,
                      std::uint32_t pieces);
  void append_ready(const std::string& tensor, Waits& to) const;

  Program& program_;
  Segment segment_;
  Residency residency_;
  DType precision_;
  const std::vector<GroupAxis>& axes_;
  PeerTables& peers_;
  std::map<std::string, Waits> ready_;  // what completes a tensor
  Waits gate_;
  std::optional<std::size_t> scattered_;  // axis over which stage messages are cut
  Waits buffers_;         // what frees the working buffers for the next kernel's loads
  bool started_ = false;  // an instruction already waits for the earlier calls
};

}  // namespace tilewright
