// Drives a network with synthetic traffic or a trace, and measures it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <tilewright/hardware/event_queue.h>
#include <tilewright/hardware/latency_histogram.h>
#include <tilewright/hardware/network.h>
#include <tilewright/hardware/traffic.h>

namespace tilewright {

/// A network as the driver sees it, at any fidelity.
class TrafficNetwork {
 public:
  virtual ~TrafficNetwork() = default;
  virtual Network& network() = 0;
  /// Sends `p` (bytes, source, destination and injected set), created at the current time.
  virtual void send(Packet& p) = 0;
  /// When `p`, whose delivery is handled now, was received, in its tile.
  virtual Picoseconds received(const Packet& p, Picoseconds now) = 0;
  /// Drops what it still holds, where it can.
  virtual void reset() = 0;
};

/// One measurement.
struct LoadOptions {
  double offered = 0.1;  ///< flits per cycle and tile
  std::uint32_t packet_flits = 8;
  std::uint64_t warmup = 2000;    ///< cycles before the first packet that counts
  std::uint64_t measure = 10000;  ///< cycles in which packets count
  std::uint64_t drain = 100000;   ///< cycles after which the last packet that counts is given up
  std::uint64_t seed = 1;
};

struct TraceRecord {
  std::uint64_t cycle;
  std::uint32_t source, destination, flits;
};

struct LoadResult {
  double offered = 0;   ///< as asked for, flits per cycle and tile
  double created = 0;   ///< by the tiles while packets counted
  double accepted = 0;  ///< received by the tiles while packets counted; of a trace: in all cycles
  double latency_mean = 0;  ///< cycles from a packet's creation to its last flit's arrival
  std::uint64_t latency_p50 = 0, latency_p95 = 0, latency_p99 = 0, latency_max = 0;
  LatencyHistogram latencies;    ///< cycles
  double routers_mean = 0;       ///< routers passed
  std::uint64_t packets = 0;     ///< that count and have arrived
  std::uint64_t unfinished = 0;  ///< that count and have not arrived within the drain limit
  std::uint64_t cycles = 0;      ///< simulated
};

/// Every tile is a source with a Bernoulli process of its own and an unlimited queue; a packet's
/// latency begins when it is created. The traffic goes on until the last packet that counts has
/// arrived. Each tile has its own random numbers, so a packet's time and destination depend on the
/// seed and its tile alone. Measurements may follow each other in one simulation.
class TrafficDriver : public EventHandler {
 public:
  /// `agent`: number for EventQueue::attach_agent(). Takes the queue's deliveries.
  TrafficDriver(EventQueue& queue, std::uint32_t agent, TrafficNetwork& network, int width,
                int height, Picoseconds period, std::uint32_t flit_bytes);

  LoadResult run(const TrafficPattern& pattern, const LoadOptions& options);
  /// The records must be in order of their cycles; all of them count.
  LoadResult run(const std::vector<TraceRecord>& trace, std::uint64_t drain);

  void handle(Picoseconds now, EventClass type, std::uint32_t tile, const Event* events,
              std::size_t count) override;

 private:
  LoadResult simulate();
  void prepare(std::uint64_t warmup, std::uint64_t measure, std::uint64_t drain);
  void create(std::uint32_t tile, Picoseconds now);
  void create_recorded(Picoseconds now);
  void send(std::uint32_t source, std::uint32_t destination, std::uint32_t flits, Picoseconds now);
  void schedule_next(std::uint32_t tile, std::uint64_t cycle);
  void deliver(Packet& p, Picoseconds now);
  void finish_if_done(Picoseconds now);
  std::uint64_t gap(TrafficRandom& random) const;

  EventQueue& queue_;
  std::uint32_t agent_;
  TrafficNetwork& network_;
  int width_, height_;
  Picoseconds period_;
  std::uint32_t flit_bytes_;

  const TrafficPattern* pattern_ = nullptr;
  LoadOptions options_;
  std::vector<TrafficRandom> random_;
  std::vector<std::uint64_t> next_;  // cycle of the next packet, by tile
  double log_quiet_ = 0;             // log(1 - packets per cycle)
  const std::vector<TraceRecord>* trace_ = nullptr;
  std::size_t next_record_ = 0;

  Picoseconds base_ = 0, from_ = 0, to_ = 0, limit_ = 0, end_ = 0;
  bool running_ = false, started_ = false;
  std::uint64_t outstanding_ = 0, created_flits_ = 0, received_flits_ = 0;
  std::vector<std::uint64_t> histogram_;  // of latency in cycles
  std::uint64_t latency_sum_ = 0, latency_count_ = 0, routers_sum_ = 0;
};

}  // namespace tilewright
