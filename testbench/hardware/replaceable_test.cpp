// Parts that users may replace: other modules behind the sockets of a tile and of a DRAM port.
#include <deque>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <support/script.h>

#include <tilewright/hardware/dram_controller.h>
#include <tilewright/hardware/message_network.h>
#include <tilewright/hardware/process.h>
#include <tilewright/hardware/tile.h>
#include <tilewright/hardware/workload_driver.h>

namespace tilewright::test {
namespace {

using sc_core::sc_time;

// --- A compute unit with a process of its own, as a bridge to RTL has
// -------------------------------

class SlowUnit : public sc_core::sc_module, public NonblockingTarget<ComputeTypes> {
 public:
  explicit SlowUnit(const sc_core::sc_module_name& name) : sc_core::sc_module(name), in("in") {
    in.bind(*this);
    TILEWRIGHT_HAS_PROCESS(SlowUnit);
    SC_METHOD(finish);
    sensitive << done_;
    dont_initialize();
  }
  tlm::tlm_target_socket<32, ComputeTypes> in;  // the standard socket

  tlm::tlm_sync_enum nb_transport_fw(ComputeRequest& request, ComputePhase&, sc_time&) override {
    request_ = &request;
    done_.notify(sc_time(700 * request.amount, sc_core::SC_PS));
    return tlm::TLM_ACCEPTED;
  }

 private:
  void finish() {
    ComputePhase phase = ComputePhase::end;
    sc_time delay(50, sc_core::SC_PS);  // annotated: the result is there a little later
    request_->stall = 100;
    in->nb_transport_bw(*request_, phase, delay);
  }
  ComputeRequest* request_ = nullptr;
  sc_core::sc_event done_;
};

TEST(Replaceable, ComputeUnit) {
  const MachineConfig machine = mesh(1, 1);
  Script s;
  const auto shape = s.matrix_shape(1000, 0, 4);
  const auto segment = s.segment("ops", [&](Code& c) {
    c.compute(Engine::matrix, shape, 1);
    c.compute(Engine::matrix, shape, 3);
  });
  s.group("A", {TileId{0}}, segment, 2);
  s.streams();

  EventQueue queue("events");
  MessageNetwork network(machine, queue);
  MemorySystem memory(machine, queue, network);
  Sequencer sequencer(machine, s.program, queue, network, memory);
  ComputeCosts costs(machine, s.program);
  WorkloadDriver driver("driver", {s.program, queue, 1, 1, {}});
  Tile tile("tile", {0, machine.sram, network, sequencer, costs, true, {}});
  SlowUnit unit("unit");
  tile.compute_out.bind(unit.in);
  driver.connect(0, tile);

  sc_core::sc_start();
  queue.rethrow();
  EXPECT_EQ(driver.outstanding(), 0u);
  EXPECT_EQ(sequencer.end(), 2u * (700 + 50 + 2100 + 50));
  const auto stats = sequencer.statistics(sequencer.end());
  EXPECT_EQ(stats[TileId{0}].matrix_busy, sequencer.end());
  EXPECT_EQ(stats[TileId{0}].flop, 2000);
  Picoseconds sum = 0;
  for (const Picoseconds t : stats[TileId{0}].time) sum += t;
  EXPECT_EQ(sum, sequencer.end());
}

// The same in a whole machine: tile 1 has the slow unit, tile 0 a built-in one.
TEST(Replaceable, ComputeUnitOfAPlatform) {
  Script s;
  const auto shape = s.matrix_shape(1000);
  const auto segment = s.segment("op", [&](Code& c) { c.compute(Engine::matrix, shape); });
  s.group("A", {TileId{0}, TileId{1}}, segment);
  s.streams();
  SlowUnit unit("unit");
  PlatformOptions options;
  options.in_step = false;  // which the other unit overrules
  options.external_compute = [&](TileId id) { return id == TileId{1} ? &unit.in : nullptr; };
  Platform platform("machine", mesh(2, 1), s.program, options);
  platform.run();
  EXPECT_EQ(platform.statistics().tiles[TileId{0}].finish, 1000u);
  EXPECT_EQ(platform.statistics().tiles[TileId{1}].finish, 750u);
}

// --- A memory that takes its time over every phase
// -------------------------------------------------

class SlowMemory : public sc_core::sc_module, public tlm::tlm_fw_transport_if<> {
 public:
  explicit SlowMemory(const sc_core::sc_module_name& name) : sc_core::sc_module(name), in("in") {
    in.bind(*this);
    TILEWRIGHT_HAS_PROCESS(SlowMemory);
    SC_METHOD(end_request);
    sensitive << accept_;
    dont_initialize();
    SC_METHOD(respond);
    sensitive << finish_;
    dont_initialize();
  }
  tlm::tlm_target_socket<32> in;
  unsigned requests = 0;

  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_time&) override {
    EXPECT_EQ(phase, tlm::BEGIN_REQ);
    EXPECT_EQ(request_, nullptr) << "a request before the last one was ended";
    EXPECT_EQ(payload.get_data_length(), 1000u);
    EXPECT_EQ(payload.get_data_ptr(), nullptr);
    ++requests;
    request_ = &payload;
    payload.acquire();
    accept_.notify(sc_time(10, sc_core::SC_NS));
    return tlm::TLM_ACCEPTED;
  }
  void b_transport(tlm::tlm_generic_payload&, sc_time&) override {}
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
  unsigned transport_dbg(tlm::tlm_generic_payload&) override { return 0; }

 private:
  void end_request() {
    tlm::tlm_phase phase = tlm::END_REQ;
    sc_time delay = sc_core::SC_ZERO_TIME;
    open_.push_back(request_);
    request_ = nullptr;
    in->nb_transport_bw(*open_.back(), phase, delay);
    if (open_.size() == 1) finish_.notify(sc_time(25, sc_core::SC_NS));
  }
  void respond() {
    tlm::tlm_phase phase = tlm::BEGIN_RESP;
    sc_time delay(5, sc_core::SC_NS);
    tlm::tlm_generic_payload* payload = open_.front();
    open_.pop_front();
    payload->set_response_status(tlm::TLM_OK_RESPONSE);
    EXPECT_EQ(in->nb_transport_bw(*payload, phase, delay), tlm::TLM_COMPLETED);
    payload->release();
    if (!open_.empty()) finish_.notify(sc_time(25, sc_core::SC_NS));
  }
  tlm::tlm_generic_payload* request_ = nullptr;
  std::deque<tlm::tlm_generic_payload*> open_;
  sc_core::sc_event accept_, finish_;
};

class Listener : public MemoryClient {
 public:
  void memory_head(Picoseconds, std::uint32_t, std::uint32_t) override {}
  void memory_done(Picoseconds now, std::uint32_t, std::uint32_t token) override {
    done.emplace_back(token, now);
  }
  std::vector<std::pair<std::uint32_t, Picoseconds>> done;
};

TEST(Replaceable, Memory) {
  MachineConfig machine = mesh(1, 1);
  machine.dram.sites = {{0, 0}};
  EventQueue queue("events");
  MessageNetwork network(machine, queue);
  MemorySystem memory(machine, queue, network);
  Listener listener;
  memory.set_client(listener);
  DramPort port("port", {memory, 0, 0});
  SlowMemory foreign("foreign");
  const MemoryBinder bind = checked_sockets();
  bind(port.out, foreign.in);
  for (std::uint32_t i = 0; i < 3; ++i) memory.start(0, {0, i, 1000, 0, i == 1});
  sc_core::sc_start();
  queue.rethrow();
  EXPECT_EQ(foreign.requests, 3u);
  // Requests end at 10, 20 and 30 ns, responses come every 25 ns from 35 ns on, annotated with 5
  // ns.
  const std::vector<std::pair<std::uint32_t, Picoseconds>> expected{
      {0, 40000}, {1, 65000}, {2, 90000}};
  EXPECT_EQ(listener.done, expected);
}

// --- Standard sockets at the memory side
// -----------------------------------------------------------

class Initiator : public sc_core::sc_module, public tlm::tlm_bw_transport_if<> {
 public:
  explicit Initiator(const sc_core::sc_module_name& name) : sc_core::sc_module(name), out("out") {
    out.bind(*this);
  }
  tlm::tlm_initiator_socket<32> out;
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_time&) override {
    EXPECT_EQ(phase, tlm::BEGIN_RESP);
    responses.emplace_back(&payload, sc_core::sc_time_stamp().value());
    return tlm::TLM_ACCEPTED;  // END_RESP follows later
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
  std::vector<std::pair<tlm::tlm_generic_payload*, Picoseconds>> responses;
};

TEST(Replaceable, SramBehindAStandardSocket) {
  SramConfig config;
  config.capacity = Bytes(1000);
  config.bandwidth = Bandwidth(0.5e12);
  SramBank bank("bank", config);
  Initiator initiator("initiator");
  const MemoryBinder bind = checked_sockets();
  bind(initiator.out, bank.in);
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  PayloadPool pool;
  auto& payload = *pool.allocate(tlm::TLM_READ_COMMAND, 0, 5000000000).payload;
  EXPECT_EQ(payload.get_data_length(), 0xffffffffu);
  sc_time delay = sc_core::SC_ZERO_TIME;
  initiator.out->b_transport(payload, delay);
  EXPECT_EQ(delay.value(), 10000000000u);  // the length of the extension
  EXPECT_TRUE(payload.is_response_ok());
  EXPECT_EQ(initiator.out->transport_dbg(payload), 0u);
  EXPECT_EQ(pool.in_use(), 1u);
  payload.release();
  EXPECT_EQ(pool.in_use(), 0u);
  auto& again = *pool.allocate(tlm::TLM_WRITE_COMMAND, 0, 7).payload;
  EXPECT_EQ(&again, &payload);
  EXPECT_EQ(MemoryExtension::length(again), 7u);
  again.release();
  EXPECT_TRUE(bank.allocate(1000));
  EXPECT_FALSE(bank.allocate(1));
  EXPECT_FALSE(bank.release(1001));
}

// Four phases with an initiator that ends responses late: the second response waits.
TEST(Replaceable, DramControllerBehindAStandardSocket) {
  MachineConfig machine = mesh(1, 1);
  EventQueue queue("events");
  DramController controller("dram", {machine.dram, 0, 0, queue});
  Initiator initiator("initiator");
  const MemoryBinder bind = checked_sockets();
  bind(initiator.out, controller.in);
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  PayloadPool pool;
  for (int i = 0; i < 2; ++i) {
    auto& payload = *pool.allocate(tlm::TLM_READ_COMMAND, 0, 1000).payload;
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_time delay(static_cast<double>(i), sc_core::SC_NS);
    EXPECT_EQ(initiator.out->nb_transport_fw(payload, phase, delay), tlm::TLM_UPDATED);
    EXPECT_EQ(phase, tlm::END_REQ);
  }
  sc_core::sc_start(sc_time(200, sc_core::SC_NS));
  ASSERT_EQ(initiator.responses.size(), 1u);
  EXPECT_EQ(initiator.responses[0].second, 102000u);  // 100 ns and 2 ps per byte
  tlm::tlm_phase phase = tlm::END_RESP;
  sc_time delay = sc_core::SC_ZERO_TIME;
  initiator.out->nb_transport_fw(*initiator.responses[0].first, phase, delay);
  ASSERT_EQ(initiator.responses.size(), 2u);
  EXPECT_EQ(initiator.responses[1].second, 200000u);
  initiator.out->b_transport(*pool.allocate(tlm::TLM_READ_COMMAND, 0, 1000).payload, delay);
  EXPECT_EQ(delay.value(), 102000u);
  EXPECT_EQ(controller.busy(), 4000u);
}

}  // namespace
}  // namespace tilewright::test
