// How tiles reach their memories: the ports at the controllers' sites, and the bookkeeping of loads
// and stores.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <systemc>
#include <tlm>

#include <tilewright/hardware/event_queue.h>
#include <tilewright/hardware/latency_histogram.h>
#include <tilewright/hardware/memory.h>
#include <tilewright/hardware/network.h>
#include <tilewright/hardware/statistics.h>
#include <tilewright/machine/machine.h>

namespace tilewright {

class DramModel;
class MemorySystem;

/// Is told when a load or store is complete.
class MemoryClient {
 public:
  virtual ~MemoryClient() = default;
  virtual void memory_done(Picoseconds now, std::uint32_t tile, std::uint32_t token) = 0;
  /// The head of a load has arrived; always before it is done.
  virtual void memory_head(Picoseconds now, std::uint32_t tile, std::uint32_t token) = 0;
};

/// A load or store of a tile.
struct MemoryRequest {
  std::uint32_t tile = 0;
  std::uint32_t token = 0;  ///< what the client hears
  std::uint64_t bytes = 0;  ///< above zero
  std::uint64_t head = 0;   ///< of a load: the first bytes, fewer than all, that are told of apart
  bool write = false;
  bool background = false;    ///< shares bandwidth like the request of another tile
  Space space = Space::dram;  ///< or host
  std::uint32_t sharers =
      kNone;  ///< of a load that several tiles make: MemorySystem::add_sharers()
};

/// A piece of a transaction that a module of somebody else's has begun: which bytes of it go where.
struct AccessPiece {
  std::uint32_t dram = 0;     ///< DramId
  std::uint64_t address = 0;  ///< at that controller
  std::uint64_t offset = 0;   ///< of its first byte in the transaction
  std::uint64_t bytes = 0;
};

struct DramPortConfig {
  MemorySystem& memory;
  std::uint32_t id = 0;    ///< of the controller: MemorySystem::controllers()
  std::uint32_t site = 0;  ///< tile
};

/// Joins the network and one controller, at the controller's site. Speaks the four-phase base
/// protocol as initiator: one request until END_REQ, responses ended at once. Data read is injected
/// at the site's router when the response begins, with the lead it has gained while the controller
/// worked; a controller that is not ours and does not report when its first byte moved is taken to
/// deliver all at once. One payload asks for all that a tile loads or stores; its data pointer is
/// null unless a foreign initiator gave one. Memories that want more go behind a MemoryBridge
/// (cosim/memory_bridge.h).
class DramPort : public sc_core::sc_module, public tlm::tlm_bw_transport_if<> {
 public:
  DramPort(const sc_core::sc_module_name& name, const DramPortConfig& config);

  tlm::tlm_initiator_socket<32> out;

  /// Issues a part of a load or store to the controller.
  void request(std::uint32_t part);
  std::uint32_t site() const { return config_.site; }
  /// Time with at least one request outstanding.
  Picoseconds busy() const { return busy_; }
  std::uint32_t outstanding() const { return outstanding_; }

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

 private:
  tlm::tlm_generic_payload& payload_of(std::uint32_t part);
  void issue();
  void response(tlm::tlm_generic_payload& payload, const sc_core::sc_time& delay);

  DramPortConfig config_;
  PayloadPool pool_;
  std::deque<std::uint32_t> waiting_;         // parts not yet requested
  tlm::tlm_generic_payload* open_ = nullptr;  // BEGIN_REQ sent, END_REQ not seen
  std::uint64_t address_ = 0;
  std::uint32_t outstanding_ = 0;
  Picoseconds busy_since_ = 0, busy_end_ = 0, busy_ = 0;
};

/// Loads, stores and allocation in the DRAM and the host memory, for all tiles. A tile's traffic is
/// divided evenly over the controllers that assign_controllers() gives it, and takes the nearest
/// port of each. Controllers are numbered through, those of the DRAM first.
///
///  - A load's request reaches the site after the sum of the hop latencies (requests are small and
///    do not contend). The data comes back as a packet. A load with a head is two requests to the
///    controller, one behind the other; the head's data arrives at zero-load speed, and its bytes
///    take the links with the packet of the rest.
///  - A store's data travels as a packet; the controller starts when its head arrives and is done
///    no earlier than its tail; the acknowledgement takes the sum of the hop latencies back.
///  - Where the network wants bursts (Network::burst(), at flit fidelity) a load or store is cut
///    into them: each is a request and a packet of its own, and goes on when all of it is there.
///  - A load that tiles share is a request of each of them. When the last one has reached the site
///    the controller reads once, in the name of the first tile of the set, so that the loads of a
///    set are served in order, and one packet carries the data to all (Network::inject(), copies).
///    Every tile's load is done when its own tail, and before that its head, is there.
///  - A tile that is itself the site uses no link.
class MemorySystem : public EventHandler {
 public:
  MemorySystem(const MachineConfig& machine, EventQueue& queue, Network& network);

  void set_client(MemoryClient& client) { client_ = &client; }
  /// Counts how long the tiles' loads and stores take, in picoseconds: of the DRAM as
  /// Cause::memory, of the host memory as Cause::offload. `by_cause` has kCauses elements.
  void count_latencies(std::vector<LatencyHistogram>& by_cause) { latencies_ = &by_cause; }
  void add_port(std::uint32_t id, DramPort& port) { ports_[id] = &port; }
  bool has_port(std::uint32_t id) const { return ports_[id] != nullptr; }
  std::size_t controllers() const { return ports_.size(); }
  bool reachable(std::uint32_t tile, Space space) const {
    return targets(tier(space), tile).size() > 0;
  }

  /// A set of at least two tiles that load together; the number for MemoryRequest::sharers. Throws
  /// InputError when the network copies no packets, or the tiles' traffic in `space` does not go to
  /// the same controllers.
  std::uint32_t add_sharers(std::vector<std::uint32_t> tiles, Space space);
  /// The tiles of a set that others wait for: they have not made the oldest load that is not begun.
  std::vector<std::uint32_t> missing(std::uint32_t sharers) const;

  /// Begins a load or store; the client hears its token when all parts are done, in a later event,
  /// and before that when the head is there. A shared load begins when all its sharers have made
  /// it; throws InputError when they differ in bytes.
  void start(Picoseconds now, const MemoryRequest& request);
  /// Begins `pieces` of `payload` on behalf of a module at `tile`; `client` hears `token` when all
  /// are done. `enables` is null or has one byte for every byte of the transaction. An error of a
  /// memory becomes the payload's response status.
  void access(Picoseconds now, std::uint32_t tile, tlm::tlm_generic_payload& payload,
              const unsigned char* enables, const std::vector<AccessPiece>& pieces,
              MemoryClient& client, std::uint32_t token);
  /// The same by transport_dbg, without time. Returns the bytes moved.
  std::uint64_t debug_access(tlm::tlm_generic_payload& payload,
                             const std::vector<AccessPiece>& pieces);
  double capacity() const { return tiers_[0].capacity; }  ///< bytes of one DRAM controller

  /// A packet with data read by `part` has reached its tile.
  void part_done(Picoseconds now, std::uint32_t part);

  /// Takes `bytes` for `tile`, in equal parts from its controllers. On failure nothing is taken,
  /// and the text says what was asked and free; empty on success.
  std::string allocate(std::uint32_t tile, Space space, std::uint64_t bytes);
  std::string release(std::uint32_t tile, Space space, std::uint64_t bytes);
  /// High-water mark of the tile's own allocations.
  std::uint64_t tile_peak(std::uint32_t tile, Space space) const { return tier(space).peak[tile]; }
  std::uint64_t tile_used(std::uint32_t tile, Space space) const { return tier(space).used[tile]; }
  /// Loads or stores of `tile` that are not complete.
  std::uint32_t under_way(std::uint32_t tile, bool write) const {
    return under_way_[tile][write ? 1 : 0];
  }

  void handle(Picoseconds now, EventClass type, std::uint32_t tile, const Event* events,
              std::size_t count) override;

  /// The busy time of a controller is this model's; without one it is its port's.
  void set_busy_source(std::uint32_t controller, const DramModel& model) {
    models_[controller] = &model;
  }
  DramStatistics statistics(std::uint32_t controller) const;
  /// `probe` hears of what the controllers move.
  void watch_work(Probe& probe) { work_probes_.push_back(&probe); }

 private:
  friend class DramPort;
  static constexpr std::uint32_t kNoPart = 0xffffffffu;
  static constexpr std::uint32_t kNoOrigin = 0xffffffffu;
  static constexpr std::uint32_t kNoTransfer = 0xffffffffu;
  struct Transfer {
    std::uint32_t tile, token, parts, heads;
    MemoryClient* client;
    Picoseconds started;
    Cause cause;  // to count it under
    bool queued;  // counts among what its tile may have under way
    /// The load of another tile that shares this one, and so on. Its parts are made when a part of
    /// this one comes from the controller.
    std::uint32_t next;
  };
  struct Part {
    std::uint64_t bytes;
    std::uint64_t carried;   // of the head before it, which take the links with it
    Picoseconds first_byte;  // reads: when the controller began, with the head if there is one
    Picoseconds tail;        // writes: when the data has all arrived at the site
    std::uint64_t order;     // of issue: pool slots are reused, so they say nothing about age
    std::uint32_t transfer, tile;
    std::uint32_t origin;  // in origins_: of a foreign transaction's piece
    std::uint32_t target;  // in targets_
    std::uint32_t rest;    // of a head whose bytes travel with the part behind it: that part
    bool write, background;
    bool head;  // of a load
  };
  static_assert(sizeof(Part) == 64, "a part is one cache line");
  struct Leaving {
    Packet* packet;
    Picoseconds lead;
  };
  /// Where a foreign transaction's piece comes from.
  struct Origin {
    tlm::tlm_generic_payload* payload;
    const unsigned char* enables;  // of the whole transaction
    std::uint64_t address, offset;
  };
  std::uint64_t issued_ = 0;
  std::vector<std::uint32_t> arrivals_;  // scratch of handle()

  template <class T>
  struct Pool {
    std::vector<T> all;
    std::vector<std::uint32_t> free;
    std::uint32_t allocate() {
      if (free.empty()) {
        all.emplace_back();
        return static_cast<std::uint32_t>(all.size() - 1);
      }
      const std::uint32_t i = free.back();
      free.pop_back();
      return i;
    }
  };

  void responded(Picoseconds now, std::uint32_t part);
  std::uint32_t add_transfer(Picoseconds now, const MemoryRequest& request);
  /// Begins a transfer, or has it wait for its turn.
  void enqueue(Picoseconds now, const MemoryRequest& request, std::uint32_t transfer);
  /// Sends the parts of a tile's load or store on their way.
  void begin(Picoseconds now, const MemoryRequest& request, std::uint32_t transfer);
  /// A load or store of the tile is complete: the next that waits may begin.
  void begin_next(Picoseconds now, std::uint32_t tile);

  /// The DMA engine of a tile that may not have more than so many requests under way.
  struct Queue {
    std::int64_t active = 0;
    std::deque<std::pair<MemoryRequest, std::uint32_t>> waiting;  // and their transfers
  };

  /// A load that not all of its sharers have made.
  struct Meeting {
    MemoryRequest request;   // of the first tile, until it comes of another one
    std::size_t came;        // tiles
    std::uint32_t transfer;  // of the same tile; it leads to the others
  };
  struct Sharers {
    std::vector<std::uint32_t> tiles;  // ascending
    std::vector<std::uint64_t> came;   // by tile: loads it has made
    std::uint64_t begun = 0;           // loads that all have made
    std::deque<Meeting> meetings;      // oldest first
  };
  void meet(Picoseconds now, const MemoryRequest& request);
  /// When the requests of all that share a load, for the i-th controller, have reached its site.
  Picoseconds last_request(Picoseconds now, const MemoryRequest& request, std::uint32_t transfer,
                           std::uint32_t i) const;
  /// Passes on to its tile what a part has read: returns the packet to be sent, with its lead, or
  /// null when it needs none.
  Packet* pack(Picoseconds now, std::uint32_t part, Picoseconds& lead);
  void share_out(Picoseconds now, std::uint32_t part);
  /// Of a transfer and those that share it.
  std::uint32_t count_tiles(std::uint32_t transfer) const;

  /// A controller as one tile sees it.
  struct Target {
    std::uint32_t controller, site;
    Path there, back;
  };
  /// One memory.
  struct Tier {
    std::string name;  // for messages
    std::uint32_t first_controller = 0;
    double capacity = 0;                      // of a controller
    std::vector<std::uint32_t> first_target;  // by tile, and the end: in targets_
    std::vector<std::uint64_t> used, peak;    // by tile: its own allocations
  };
  struct TargetRange {
    std::uint32_t first, last;  // in targets_
    std::uint32_t size() const { return last - first; }
  };
  void add_tier(Tier& tier, const std::string& name, const MachineConfig& machine,
                const DramConfig& config);
  Tier& tier(Space space) { return tiers_[space == Space::host ? 1 : 0]; }
  const Tier& tier(Space space) const { return tiers_[space == Space::host ? 1 : 0]; }
  /// What a tile's traffic with a memory is divided over.
  static TargetRange targets(const Tier& tier, std::uint32_t tile) {
    return {tier.first_target[tile], tier.first_target[tile + 1]};
  }
  /// What a foreign transaction of a tile with a controller goes by.
  std::uint32_t foreign_target(std::uint32_t tile, std::uint32_t controller);
  std::uint32_t add_target(std::uint32_t tile, std::uint32_t controller);
  std::uint32_t controller(const Part& p) const { return targets_[p.target].controller; }
  void send(Picoseconds now, std::uint32_t part);

  EventQueue& queue_;
  Network& network_;
  MemoryClient* client_ = nullptr;
  std::vector<LatencyHistogram>* latencies_ = nullptr;  // by cause
  std::vector<Probe*> work_probes_;
  std::array<Tier, 2> tiers_;    // the DRAM, the host memory
  std::vector<Target> targets_;  // of all tiles in both, in order of assign_controllers(); foreign
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t>
      foreign_targets_;                            // by tile and controller
  std::vector<std::vector<std::uint32_t>> sites_;  // by controller: the tiles it attaches to
  std::vector<DramPort*> ports_;                   // by controller
  std::vector<std::uint64_t> used_;                // by controller
  std::vector<DramStatistics> stats_;              // by controller
  std::vector<const DramModel*> models_;           // by controller; null: a memory that is not ours
  Pool<Transfer> transfers_;
  Pool<Part> parts_;
  Pool<Origin> origins_;
  std::vector<std::array<std::uint32_t, 2>> under_way_;  // by tile: loads, stores
  std::int64_t outstanding_;                             // of a tile at most; 0: no limit
  std::vector<Queue> queues_;                            // by tile; none without a limit
  std::vector<Sharers> sharers_;
  std::vector<Leaving> leaving_;  // scratch of share_out()
  std::vector<Packet*> copies_;   // scratch of share_out()
};

}  // namespace tilewright
