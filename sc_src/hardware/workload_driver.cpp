#include <algorithm>
#include <exception>
#include <string>

#include <tilewright/hardware/process.h>
#include <tilewright/hardware/workload_driver.h>

namespace tilewright {

WorkloadDriver::WorkloadDriver(const sc_core::sc_module_name& name,
                               const WorkloadDriverConfig& config)
    : sc_core::sc_module(name),
      config_(config),
      returns_(config.height),
      bound_(config.height, 0),
      clients_(std::size_t{config.width} * config.height),
      more_("more") {
  for (std::uint32_t y = 0; y < config_.height; ++y) {
    rows_.push_back(std::make_unique<Out>(("row" + std::to_string(y)).c_str()));
    returns_[y].driver = this;
    rows_[y]->bind(returns_[y]);
  }
  for (const TileGroup& g : config_.program.groups) {
    for (const TileId t : g.tiles) {
      Client& client = clients_[index(t)];
      for (std::size_t l = 0; l < client.lists.size(); ++l) {
        const std::vector<Call>& calls = *g.call_lists()[l];
        client.lists[l].calls = calls.data();
        client.lists[l].size = static_cast<std::uint32_t>(calls.size());
        total_ += calls.size();
      }
    }
  }
  for (std::uint32_t t = 0; t < clients_.size(); ++t) {
    if (clients_[t].lists[0].size + clients_[t].lists[1].size == 0) continue;
    if (config_.delay.count(static_cast<TileId>(t)) > 0) continue;
    clients_[t].pending = true;
    pending_.push_back(t);
  }
  if (!config_.delay.empty()) config_.queue.attach_agent(config_.agent, *this);
  TILEWRIGHT_HAS_PROCESS(WorkloadDriver);
  SC_METHOD(inject);
  sensitive << more_;
}

void WorkloadDriver::connect(std::uint32_t tile, Tile& module) {
  const std::uint32_t row = tile / config_.width;
  rows_[row]->bind(module.calls_in);
  clients_[tile].position = bound_[row]++;
}

void WorkloadDriver::end_of_elaboration() {
  for (std::uint32_t t = 0; t < clients_.size(); ++t) {
    if (clients_[t].position < 0) continue;
    clients_[t].tile = (*rows_[t / config_.width])[clients_[t].position];
  }
  for (const auto& [tile, delay] : config_.delay) {
    const auto& lists = clients_[index(tile)].lists;
    if (lists[0].size + lists[1].size == 0) continue;
    config_.queue.push(to_picoseconds(delay), EventClass::agent, index(tile), 0, config_.agent);
  }
}

void WorkloadDriver::handle(Picoseconds, EventClass, std::uint32_t tile, const Event*,
                            std::size_t) {
  ready(tile);
}

/// The tile gets calls in the next delta cycle.
void WorkloadDriver::ready(std::uint32_t tile) {
  clients_[tile].pending = true;
  if (pending_.empty()) config_.queue.trigger(more_);
  pending_.push_back(tile);
}

void WorkloadDriver::inject() {
  if (config_.queue.failed()) return;
  try {
    injecting_.swap(pending_);
    std::sort(injecting_.begin(), injecting_.end());
    for (const std::uint32_t t : injecting_) {
      Client& client = clients_[t];
      client.pending = false;
      for (const bool background : {false, true}) {
        while (may_inject(client, background)) {
          CallRequest request{t, client.lists[background].injected++, background};
          CallPhase phase = CallPhase::begin;
          sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
          client.tile->nb_transport_fw(request, phase, delay);
        }
      }
    }
    injecting_.clear();
  } catch (...) {
    config_.queue.fail(std::current_exception());
  }
}

tlm::tlm_sync_enum WorkloadDriver::Return::nb_transport_bw(CallRequest& request, CallPhase&,
                                                           sc_core::sc_time&) {
  driver->retired(request);
  return tlm::TLM_COMPLETED;
}

bool WorkloadDriver::may_inject(const Client& client, bool background) {
  const List &list = client.lists[background], &other = client.lists[!background];
  return list.injected < list.size && list.injected - list.retired < Sequencer::kWindow &&
         list.calls[list.injected].after <= other.retired;
}

void WorkloadDriver::retired(const CallRequest& request) {
  Client& client = clients_[request.tile];
  ++client.lists[request.background].retired;
  ++retired_;
  if (!client.pending && (may_inject(client, false) || may_inject(client, true))) {
    ready(request.tile);
  }
  if (config_.progress && retired_ >= report_at_) {
    config_.progress(static_cast<double>(retired_) / static_cast<double>(total_));
    report_at_ = retired_ + std::max<std::uint64_t>(1, total_ / 200);
  }
  if (retired_ == total_) sc_core::sc_pause();
}

}  // namespace tilewright
