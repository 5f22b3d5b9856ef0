// Writes the instructions of one segment: kernels as pipelined load / compute / store streams, ring
// collectives, transfers between stages.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <tilewright/plan/cost.h>
#include <tilewright/plan/kernels.h>
#include <tilewright/program/program.h>

namespace tilewright {

/// Tables of TileGroup::peers, the same in every group that lower() writes.
enum class Peers : std::uint32_t {
  tensor_next,
  tensor_previous,
  stage_next,
  stage_previous,
  replica_next,
  replica_previous,
  tied,  ///< the other holder of the tied embedding table
};
constexpr int kPeerTables = 7;

/// Program::channels of lower().
enum class Channel : std::uint16_t { tensor, forward, backward, data, tied };

/// The ring that a collective runs on.
struct Ring {
  std::string name;
  Phase phase = Phase::forward;
  Cause cause = Cause::tensor;
  Channel channel = Channel::tensor;
  Peers next = Peers::tensor_next, previous = Peers::tensor_previous;
  std::uint32_t parts = 1;
  /// Position on the ring when it is not the rank in the tile group (data rings): -1 = the rank.
  std::int64_t position = -1;
};

class SegmentWriter {
 public:
  /// Instructions may depend on several earlier ones; the writer keeps the latest per engine, which
  /// implies the others since engines complete in order.
  using Waits = std::vector<std::uint32_t>;

  SegmentWriter(Program& program, std::string name, const Residency& residency, DType precision);

  /// Allocations at the start of a call, once all earlier calls are complete.
  void allocate(Space space, std::int64_t bytes);
  /// Releases at the end, once everything written so far has computed.
  void release(Space space, std::int64_t bytes);

  /// Receives `tensor` in messages of the given sizes and puts it where its class lives.
  void receive(const std::string& tensor, TensorClass cls, const std::vector<std::int64_t>& parts,
               Phase phase, Channel channel, Peers from);
  /// Everything written from here on waits for `tensor` (a backward pass starts with its gradient).
  void gate(const std::string& tensor);

  /// A kernel. When `send` is not empty its write `sent` leaves as messages of those sizes (one or
  /// two) to `to` and is not stored.
  void kernel(const Kernel& kernel, const KernelCost& cost, const std::string& sent = "",
              const std::vector<std::int64_t>& send = {}, Channel channel = Channel::forward,
              Peers to = Peers::stage_next);

  /// Converts `from` into `to` (the same tensor for an all-reduce): reduce-scatter and all-gather
  /// are parts-1 steps of one chunk, an all-reduce one after the other; an all-to-all passes on,
  /// step by step, what is not for the rank itself.
  void collective(const Ring& ring, const Collective& what, const Access& from, const Access& to);
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
  std::uint32_t transfer(Opcode op, std::uint16_t name, Phase phase, Cause cause, Share share,
                         const Waits& after);
  std::uint32_t message(Opcode op, std::uint16_t name, Phase phase, Cause cause, Channel channel,
                        Peers peer, Share share, const Waits& after);
  std::uint32_t compute(std::uint16_t name, Phase phase, std::uint32_t shape, Engine engine,
                        std::uint32_t begin, std::uint32_t amount, const Waits& after);
  /// Stores `bytes` that become available from `first` on and are complete after `last`.
  std::uint32_t stream_out(std::uint16_t name, Phase phase, std::int64_t bytes, std::int64_t blocks,
                           const Waits& first, const Waits& last);
  std::uint32_t shape(const Kernel& kernel, const KernelCost& cost, Engine engine,
                      std::uint32_t pieces);
  void append_ready(const std::string& tensor, Waits& to) const;

  Program& program_;
  Segment segment_;
  Residency residency_;
  DType precision_;
  std::map<std::string, Waits> ready_;  // what completes a tensor
  Waits gate_;
  Waits buffers_;         // what frees the working buffers for the next kernel's loads
  bool started_ = false;  // an instruction already waits for the earlier calls
};

}  // namespace tilewright
