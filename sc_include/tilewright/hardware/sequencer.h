// Executes the programs of all tiles: the state behind the Tile modules, in contiguous arrays.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <systemc>
#include <tlm>

#include <tilewright/hardware/event_queue.h>
#include <tilewright/hardware/latency_histogram.h>
#include <tilewright/hardware/memory_system.h>
#include <tilewright/hardware/network.h>
#include <tilewright/hardware/probe.h>
#include <tilewright/hardware/protocol.h>
#include <tilewright/hardware/sram_bank.h>
#include <tilewright/hardware/sram_share.h>
#include <tilewright/hardware/statistics.h>
#include <tilewright/program/program.h>

namespace tilewright {

/// The sequencers of the tiles (program.h says what instructions mean). Each tile holds a window of
/// up to kWindow calls; its engines issue in order, each at its own place in the window. An engine
/// that cannot go on remembers what it waits for and is tried again only when that happens. A tile
/// of a group with background calls has a second such state for them.
///
/// Every picosecond of a tile is attributed to a TileState, event by event. While no engine
/// computes, the oldest blocked instruction of the matrix and vector engines (if they have none,
/// the oldest incomplete one) is followed through its first incomplete dependence to what it really
/// waits for: a transfer in flight or a message. When the calls in hand are complete, and the next
/// waits for background calls or there is none, the background's instructions are followed.
class Sequencer : public EventHandler, public MemoryClient {
 public:
  static constexpr std::uint32_t kWindow = 4;

  /// Throws InputError when the program cannot run on the machine.
  Sequencer(const MachineConfig& machine, const Program& program, EventQueue& queue,
            Network& network, MemorySystem& memory);

  // Wiring, by the Tile modules.
  using CallReturn = tlm::tlm_bw_nonblocking_transport_if<CallRequest, CallPhase>;
  using ComputeInterface = tlm::tlm_fw_nonblocking_transport_if<ComputeRequest, ComputePhase>;
  tlm::tlm_fw_transport_if<CallTypes>& calls_in(std::uint32_t tile) { return call_inputs_[tile]; }
  tlm::tlm_bw_transport_if<ComputeTypes>& compute_return(std::uint32_t tile) {
    return compute_returns_[tile];
  }
  void set_sram(std::uint32_t tile, SramBank& sram) { wires_[tile].sram = &sram; }
  void wire(std::uint32_t tile, CallReturn* driver, ComputeInterface* compute) {
    wires_[tile].driver = driver;
    wires_[tile].compute = compute;
  }

  /// Allocates what the groups keep for the whole iteration. Throws InputError when it does not
  /// fit.
  void allocate_resident();

  // Events.
  void handle(Picoseconds now, EventClass type, std::uint32_t tile, const Event* events,
              std::size_t count) override;
  void memory_done(Picoseconds now, std::uint32_t tile, std::uint32_t token) override;
  void memory_head(Picoseconds now, std::uint32_t tile, std::uint32_t token) override;

  /// `probe` hears of changes of `tile`.
  void watch(std::uint32_t tile, Probe& probe) { cores_[tile].probe = &probe; }
  /// Counts how long messages between tiles take from their injection until they are there, in
  /// picoseconds. `by_cause` has kCauses elements.
  void count_latencies(std::vector<LatencyHistogram>& by_cause) { latencies_ = &by_cause; }
  /// `probe` hears of the work of all tiles.
  void watch_work(Probe& probe) { work_probes_.push_back(&probe); }
  TileView view(std::uint32_t tile) const;

  /// Last completion of any instruction so far.
  Picoseconds end() const;
  /// Per tile, complete up to end(). Call once, when all calls have run.
  IdVector<TileId, TileStatistics> statistics(Picoseconds end);
  std::uint64_t messages() const { return messages_; }
  const std::array<std::uint64_t, kCauses>& bytes_by_cause() const { return bytes_by_cause_; }

  /// Who waits for whom: the text of a DeadlockError.
  std::string explain_deadlock() const;

 private:
  static constexpr std::uint32_t kNil = 0xffffffffu;
  // Core::blocked: the key of an instruction (window slot << 30 | head << 29 | index), or one of
  // these. Towards the memory system its key stands for an instruction, in the background with a
  // further bit.
  static constexpr std::uint32_t kSlotShift = 30;
  static constexpr std::uint32_t kHeadBit = 1u << 29;
  static constexpr std::uint32_t kBackgroundBit = 1u << 28;
  static constexpr std::uint32_t kIndexMask = kBackgroundBit - 1;
  static constexpr std::uint32_t kReady = 0xffffffffu;     // not blocked
  static constexpr std::uint32_t kNoCall = 0xfffffffeu;    // beyond the window
  static constexpr std::uint32_t kBusy = 0xfffffffdu;      // the engine computes
  static constexpr std::uint32_t kPrevious = 0xfffffffcu;  // earlier calls are not complete
  static constexpr std::uint32_t kMessage = 0xfffffffbu;   // receiving: the message is not here
  // Core::state: a TileState, or one of these.
  static constexpr std::uint8_t kRunning = 16;   // + engine: split at stall_from
  static constexpr std::uint8_t kPipeline = 18;  // split at the message's injection
  static constexpr std::uint8_t kInactive = 19;  // nothing to run, or no longer

  struct alignas(64) Core {
    Picoseconds since = 0;  // attributed up to here
    const TileGroup* group = nullptr;
    Probe* probe = nullptr;
    // Bits of completed instructions, kWindow × words; behind them as many for loads whose head is
    // there and for stores and computations that only wait for what they stream beside.
    std::uint64_t* done = nullptr;
    std::uint32_t words = 0;
    std::uint32_t rank = 0;
    std::uint32_t calls = 0, injected = 0, oldest = 0;  // of the list; accepted; incomplete
    std::uint8_t state = kInactive;
    std::uint8_t busy = 0;   // engines that compute, by bit
    std::uint8_t ready = 0;  // engines to try
    std::uint8_t recompute = 0;
    std::uint16_t channel = 0;  // that net_recv waits on
    bool started = false;
    bool background = false;
    bool awaits_message = false;  // of the last judgement, as is `awaited`
    std::array<std::uint32_t, kEngines> blocked{kNoCall, kNoCall, kNoCall,
                                                kNoCall, kNoCall, kNoCall};
    std::array<std::uint32_t, kEngines> call{};      // of the next instruction
    std::array<std::uint32_t, kEngines> position{};  // of it in its stream
    std::array<std::uint32_t, kWindow> remaining{};  // incomplete instructions
    std::array<const Segment*, kWindow> window{};
    Picoseconds finish = 0, first_start = 0;
    std::uint64_t sent = 0, received = 0;
    std::uint64_t waiting = 0, waiting_peak = 0;  // messages that are there, of the tile
    std::array<std::uint32_t, 2> running{};       // key of the instruction on matrix, vector
    std::array<Picoseconds, 2> started_at{}, stall_from{};
    std::uint32_t awaited = 0;
    std::uint32_t beside = kNil;  // the background of the same tile, in background_
  };
  struct Mailbox {  // messages that wait for their receive, oldest first
    std::uint32_t head = kNil, tail = kNil;
  };
  // What is on its way to a tile on behalf of one cause. Counts fall at settled times only.
  struct Transit {
    std::uint32_t count = 0;    // messages, and transfers with Cause::offload
    Picoseconds since = 0;      // when it was last 0
    Picoseconds under_way = 0;  // time above 0
    Picoseconds overdue = 0;    // time at 0 that the tile waited for the cause
  };
  // What background calls take of a tile's engines; times count while one of their receives waits.
  struct Sharing {
    Picoseconds since = kNever;             // when the receive began to wait; kNever: none does
    Picoseconds ended = 0;                  // time of the receives before it
    std::array<Picoseconds, 2> begun{};     // by engine: time when its computation began
    std::array<Picoseconds, 2> extended{};  // by engine: what its computation was extended by
    Picoseconds time(Picoseconds now) const { return ended + (since == kNever ? 0 : now - since); }
  };
  struct Wires {
    CallReturn* driver = nullptr;
    ComputeInterface* compute = nullptr;
    SramBank* sram = nullptr;
  };
  class CallInput : public NonblockingTarget<CallTypes> {
   public:
    tlm::tlm_sync_enum nb_transport_fw(CallRequest& request, CallPhase& phase,
                                       sc_core::sc_time& delay) override;
    Sequencer* sequencer = nullptr;
  };
  class ComputeReturn : public NonblockingInitiator<ComputeTypes> {
   public:
    tlm::tlm_sync_enum nb_transport_bw(ComputeRequest& request, ComputePhase& phase,
                                       sc_core::sc_time& delay) override;
    Sequencer* sequencer = nullptr;
  };
  // What a tile ultimately waits for: an instruction in flight, or the message of a receive. It
  // stays so until `awaited` is complete, as long as the receives before it have the same cause.
  struct Blame {
    std::uint32_t call, index;  // of the instruction
    std::uint32_t awaited;      // key
    bool message;
  };

  // sequencer.cpp
  void check(const MachineConfig& machine) const;
  void build_cores();
  void join_sharers();
  std::uint32_t sharers_of(std::uint32_t tile, const Instruction& load) const;
  void accept(const CallRequest& request);
  Core& core_of(std::uint32_t tile, std::uint32_t token) {
    Core& c = cores_[tile];
    return token & kBackgroundBit ? background_[c.beside] : c;
  }
  void run(Picoseconds now, std::uint32_t tile, Core& c);
  void advance(Picoseconds now, std::uint32_t tile, Core& c, unsigned engine);
  void complete(Picoseconds now, std::uint32_t tile, Core& c, std::uint32_t slot,
                std::uint32_t index);
  void finish(Picoseconds now, std::uint32_t tile, Core& c, std::uint32_t slot,
              std::uint32_t index);
  static void wake(Core& c, std::uint32_t key);
  void retire(std::uint32_t tile, Core& c);
  bool compute(Picoseconds now, std::uint32_t tile, Core& c, const Instruction& ins,
               std::uint32_t key);
  void compute_done(Picoseconds now, std::uint32_t tile, unsigned engine);
  void note_receive(Picoseconds now, std::uint32_t tile, const Core& c);
  bool extend(Picoseconds now, std::uint32_t tile, Core& c, unsigned engine);
  void contend(Picoseconds now, std::uint32_t tile, const Instruction& ins, Picoseconds duration);
  void pass_sram(Picoseconds now, std::uint32_t tile, std::uint64_t bytes, bool written,
                 double bytes_per_ps);
  bool held_up(Picoseconds now, std::uint32_t tile, unsigned engine);
  void send(Picoseconds now, std::uint32_t tile, Core& c, const Instruction& ins);
  bool receive(std::uint32_t tile, Core& c, const Segment& segment, const Instruction& ins);
  bool deliver(std::uint32_t tile, Core& c, Packet& p);
  void allocate(std::uint32_t tile, const Core& c, const Segment& segment, const Instruction& ins);
  void append(Mailbox& box, Packet& p);
  Mailbox& mailbox(std::uint32_t tile, std::uint32_t channel) {
    return mailboxes_[std::size_t{tile} * channels_ + channel];
  }
  const Mailbox& mailbox(std::uint32_t tile, std::uint32_t channel) const {
    return mailboxes_[std::size_t{tile} * channels_ + channel];
  }
  Transit& transit(std::uint32_t tile, Cause cause) {
    return transits_[std::size_t{tile} * kCauses + static_cast<std::size_t>(cause)];
  }
  void depart(Picoseconds now, std::uint32_t tile, Cause cause) {
    Transit& t = transit(tile, cause);
    if (t.count++ == 0) t.since = now;
  }
  void arrive(Picoseconds now, std::uint32_t tile, Cause cause) {
    Transit& t = transit(tile, cause);
    if (--t.count == 0) t.under_way += now - t.since;
  }
  static bool is_done(const Core& c, std::uint32_t slot, std::uint32_t index) {
    return (c.done[slot * c.words + index / 64] >> (index % 64)) & 1u;
  }
  /// The other end of a send or recv.
  static std::uint32_t peer(const Core& c, const Instruction& ins) {
    return index(c.group->peers[ins.operand][c.rank - c.group->first_rank]);
  }
  static std::uint64_t* half_done(const Core& c, std::uint32_t slot) {
    return c.done + (kWindow + slot) * c.words;
  }

  // attribution.cpp
  /// Whose instructions a tile that does not compute waits for.
  Core& in_hand(Core& c) {
    return c.oldest == c.injected && c.beside != kNil ? background_[c.beside] : c;
  }
  const Core& in_hand(const Core& c) const {
    return c.oldest == c.injected && c.beside != kNil ? background_[c.beside] : c;
  }
  void settle(Picoseconds now, std::uint32_t tile, Core& c) {
    if (c.probe != nullptr) c.probe->tile_changes(now, tile);
    attribute(now, tile, c);
  }
  void attribute(Picoseconds now, std::uint32_t tile, Core& c);
  static TileState computing(const Core& c, unsigned engine);
  void judge(Core& c);
  Blame blame(const Core& c) const;
  static std::uint32_t oldest_incomplete(const Core& c);

  // tile_view.cpp
  struct Issued {
    TileView::Work work;
    bool under_way = false;
  };
  TileState state(const Core& c, std::uint32_t tile) const;
  static const std::vector<Call>& calls_of(const Core& c);
  static TileView::Work work(const Core& c, std::uint32_t call, std::uint32_t index);
  static TileView::Work awaited_message(const Core& c);
  static Issued last_issued(const Core& c, Engine engine);

  // deadlock.cpp
  std::string name_tile(std::uint32_t tile) const;
  std::string name_place(const Segment& segment, const Instruction& ins) const;
  bool sends_in_background(const TileGroup& group, std::uint16_t channel) const;
  /// What a list of calls that is not complete waits for; `on` becomes whose turn it is: a tile's,
  /// or behind all tiles a background's.
  std::string explain_wait(std::uint32_t tile, const Core& c, std::uint32_t& on) const;
  bool loads_in_background(const TileGroup& group, std::uint32_t table) const;

  const Program& program_;
  EventQueue& queue_;
  Network& network_;
  std::vector<LatencyHistogram>* latencies_ = nullptr;  // by cause
  MemorySystem& memory_;
  std::uint32_t width_;
  std::uint32_t channels_;
  std::vector<Core> cores_;       // by tile; also what is attributed, whoever caused it
  std::vector<Core> background_;  // of the tiles that have background calls
  std::vector<std::uint64_t> done_bits_;
  std::vector<Mailbox> mailboxes_;       // tile × channel
  std::vector<std::uint8_t> announced_;  // by channel: messages enter the mailbox when injected
  std::vector<Transit> transits_;        // tile × cause
  double share_;                         // of the engines, MachineConfig::collective_share
  std::vector<Sharing> sharing_;         // by tile; empty when they share nothing
  SramConfig sram_config_;
  // Bytes a picosecond at which data passes the SRAM: of the fastest link, of a controller by
  // space.
  double link_rate_ = 0;
  std::array<double, 3> memory_rate_{};
  std::vector<SramShare> sram_shares_;  // by tile; empty without SramConfig::contention
  std::vector<Wires> wires_;
  std::vector<ComputeRequest> requests_;  // tile × 2
  std::vector<CallInput> call_inputs_;
  std::vector<ComputeReturn> compute_returns_;
  IdVector<TileId, TileStatistics> stats_;
  std::vector<Packet*> delivered_;  // scratch
  Packet* incoming_ = nullptr;      // just delivered to the receive that waits for it
  std::vector<Probe*> work_probes_;
  // Of tiles that share loads, by tile, peer table and memory: MemorySystem::add_sharers().
  std::map<std::tuple<std::uint32_t, std::uint32_t, Space>, std::uint32_t> sharers_;
  std::uint64_t messages_ = 0;
  std::array<std::uint64_t, kCauses> bytes_by_cause_{};
};

}  // namespace tilewright
