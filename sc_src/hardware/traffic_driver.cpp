#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include <systemc>

#include <tilewright/base/error.h>
#include <tilewright/hardware/traffic_driver.h>

namespace tilewright {

namespace {

// Ports of the driver's own events, which tell them apart.
constexpr unsigned kCreate = 0, kRecord = 1, kWindow = 2;

std::uint64_t percentile(const std::vector<std::uint64_t>& histogram, std::uint64_t count,
                         double share) {
  const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count)));
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < histogram.size(); ++i) {
    sum += histogram[i];
    if (sum >= rank && sum > 0) return i;
  }
  return 0;
}

}  // namespace

TrafficDriver::TrafficDriver(EventQueue& queue, std::uint32_t agent, TrafficNetwork& network,
                             int width, int height, Picoseconds period, std::uint32_t flit_bytes)
    : queue_(queue),
      agent_(agent),
      network_(network),
      width_(width),
      height_(height),
      period_(period),
      flit_bytes_(flit_bytes) {
  queue.attach_agent(agent, *this);
  queue.attach(EventClass::delivery, *this);
}

void TrafficDriver::prepare(std::uint64_t warmup, std::uint64_t measure, std::uint64_t drain) {
  if (!started_) sc_core::sc_start(sc_core::SC_ZERO_TIME);  // ends elaboration, wires the routers
  started_ = true;
  queue_.rethrow();
  base_ = (queue_.now() / period_ + 1) * period_;
  from_ = base_ + warmup * period_;
  to_ = from_ + measure * period_;
  limit_ = to_ + drain * period_;
  end_ = limit_;
  running_ = true;
  outstanding_ = created_flits_ = received_flits_ = 0;
  histogram_.clear();
  latency_sum_ = latency_count_ = routers_sum_ = 0;
}

LoadResult TrafficDriver::run(const TrafficPattern& pattern, const LoadOptions& options) {
  const double packets = options.offered / options.packet_flits;
  if (!(options.offered > 0) || packets > 1 || options.packet_flits == 0 || options.measure == 0) {
    throw InputError("traffic: a load of " + std::to_string(options.offered) + " with packets of " +
                     std::to_string(options.packet_flits) +
                     " flits is not allowed; allowed: above 0, at most one packet per cycle");
  }
  pattern_ = &pattern;
  trace_ = nullptr;
  options_ = options;
  log_quiet_ = packets < 1 ? std::log1p(-packets) : 0;
  const auto tiles = static_cast<std::uint32_t>(width_ * height_);
  prepare(options.warmup, options.measure, options.drain);
  random_.clear();
  next_.assign(tiles, 0);
  for (std::uint32_t t = 0; t < tiles; ++t) {
    TrafficRandom seeds(options.seed * 0x9e3779b97f4a7c15u + t);
    random_.emplace_back(seeds.next());
    schedule_next(t, gap(random_[t]) - 1);
  }
  LoadResult result = simulate();
  result.offered = options.offered;
  return result;
}

LoadResult TrafficDriver::run(const std::vector<TraceRecord>& trace, std::uint64_t drain) {
  if (trace.empty()) throw InputError("traffic: the trace is empty");
  trace_ = &trace;
  pattern_ = nullptr;
  next_record_ = 0;
  prepare(0, trace.back().cycle + 1, drain);
  queue_.push(base_ + trace.front().cycle * period_, EventClass::agent, 0, kRecord, agent_);
  LoadResult result = simulate();
  result.offered = result.created;
  return result;
}

LoadResult TrafficDriver::simulate() {
  queue_.push(to_, EventClass::agent, 0, kWindow, agent_);
  queue_.push(limit_, EventClass::agent, 0, kWindow, agent_);
  while (running_) {
    sc_core::sc_start();
    queue_.rethrow();
    if (running_ && !sc_core::sc_pending_activity()) {
      throw InternalError("traffic: the simulation ended before the measurement");
    }
  }
  LoadResult r;
  r.cycles = (end_ - base_) / period_;
  const double cycles = static_cast<double>((to_ - from_) / period_);
  const double tiles = static_cast<double>(width_) * height_;
  r.created = static_cast<double>(created_flits_) / cycles / tiles;
  r.accepted = static_cast<double>(received_flits_) /
               (trace_ != nullptr ? static_cast<double>(r.cycles) : cycles) / tiles;
  r.packets = latency_count_;
  r.unfinished = outstanding_;
  if (latency_count_ > 0) {
    const auto count = static_cast<double>(latency_count_);
    r.latency_mean = static_cast<double>(latency_sum_) / count;
    r.routers_mean = static_cast<double>(routers_sum_) / count;
    r.latency_p50 = percentile(histogram_, latency_count_, 0.50);
    r.latency_p95 = percentile(histogram_, latency_count_, 0.95);
    r.latency_p99 = percentile(histogram_, latency_count_, 0.99);
    r.latency_max = histogram_.size() - 1;
    for (std::size_t i = 0; i < histogram_.size(); ++i) {
      if (histogram_[i] > 0) r.latencies.add(i, histogram_[i]);
    }
  }
  // What is left of this measurement must not disturb the next one.
  network_.reset();
  if (sc_core::sc_pending_activity()) sc_core::sc_start();
  queue_.rethrow();
  return r;
}

std::uint64_t TrafficDriver::gap(TrafficRandom& random) const {
  if (log_quiet_ == 0) return 1;
  const double g = std::floor(std::log1p(-random.uniform()) / log_quiet_);
  return g < 1e15 ? static_cast<std::uint64_t>(g) + 1 : std::uint64_t{1000000000000000};
}

void TrafficDriver::schedule_next(std::uint32_t tile, std::uint64_t cycle) {
  next_[tile] = cycle;
  const Picoseconds time = base_ + cycle * period_;
  if (time < limit_) queue_.push(time, EventClass::agent, tile, kCreate, agent_);
}

void TrafficDriver::create(std::uint32_t tile, Picoseconds now) {
  TrafficRandom& random = random_[tile];
  send(tile, pattern_->destination(tile, random), options_.packet_flits, now);
  schedule_next(tile, next_[tile] + gap(random));
}

void TrafficDriver::create_recorded(Picoseconds now) {
  const std::uint64_t cycle = (now - base_) / period_;
  for (; next_record_ < trace_->size() && (*trace_)[next_record_].cycle == cycle; ++next_record_) {
    const TraceRecord& record = (*trace_)[next_record_];
    send(record.source, record.destination, record.flits, now);
  }
  if (next_record_ < trace_->size()) {
    queue_.push(base_ + (*trace_)[next_record_].cycle * period_, EventClass::agent, 0, kRecord,
                agent_);
  }
}

void TrafficDriver::send(std::uint32_t source, std::uint32_t destination, std::uint32_t flits,
                         Picoseconds now) {
  Packet& p = network_.network().allocate();
  p.bytes = std::uint64_t{flits} * flit_bytes_;
  p.source = source;
  p.destination = destination;
  p.injected = now;
  p.kind = PacketKind::message;
  p.link = now >= from_ && now < to_ ? 1 : 0;  // counts
  if (p.link != 0) {
    ++outstanding_;
    created_flits_ += flits;
  }
  network_.send(p);
}

void TrafficDriver::deliver(Packet& p, Picoseconds now) {
  if (running_) {
    const Picoseconds received = network_.received(p, now);
    if (received >= from_ && (trace_ != nullptr || received < to_))
      received_flits_ += p.bytes / flit_bytes_;
    if (p.link != 0) {
      const std::uint64_t latency = (received - p.injected) / period_;
      if (latency >= histogram_.size()) histogram_.resize(latency + 1, 0);
      ++histogram_[latency];
      latency_sum_ += latency;
      ++latency_count_;
      const auto [dx, dy] = network_.network().topology().hops(p.source, p.destination);
      routers_sum_ += static_cast<std::uint64_t>(std::abs(dx) + std::abs(dy) + 1);
      --outstanding_;
    }
  }
  network_.network().free(p);
  finish_if_done(now);
}

void TrafficDriver::finish_if_done(Picoseconds now) {
  if (!running_ || now < to_ || (outstanding_ > 0 && now < limit_)) return;
  running_ = false;
  end_ = now;
  sc_core::sc_pause();
}

void TrafficDriver::handle(Picoseconds now, EventClass type, std::uint32_t tile,
                           const Event* events, std::size_t count) {
  if (type == EventClass::delivery) {
    for (std::size_t i = 0; i < count; ++i) {
      deliver(network_.network().packet(static_cast<std::uint32_t>(events[i].slot())), now);
    }
    return;
  }
  if (!running_) return;
  switch (events->port()) {
    case kCreate:
      create(tile, now);
      break;
    case kRecord:
      create_recorded(now);
      break;
    default:
      finish_if_done(now);
      break;
  }
}

}  // namespace tilewright
