// The other ends of memory-side sockets: memories and initiators with rules, stalls and habits of
// their own, written against TLM-2.0 alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <systemc>
#include <tlm>

#include <tilewright/hardware/process.h>

namespace tilewright::test {

inline sc_core::sc_time ns(double t) { return {t, sc_core::SC_NS}; }

/// Times of a peer: uniformly random up to a bound, 0 with probability one in four.
class Stalls {
 public:
  Stalls(unsigned seed, double most_ns) : random_(seed), most_(most_ns) {}
  sc_core::sc_time next() {
    if (most_ == 0 || random_() % 4 == 0) return sc_core::SC_ZERO_TIME;
    return {std::round(std::uniform_real_distribution<double>(0, most_ * 1000)(random_)),
            sc_core::SC_PS};
  }
  unsigned choose(unsigned n) { return static_cast<unsigned>(random_() % n); }

 private:
  std::mt19937 random_;
  double most_;
};

/// What memories of the tests have in common: bytes, and what a strict one asks of a request.
class MemoryRules {
 public:
  std::uint64_t base = 0, size = 1 << 20, block = 64;
  std::uint64_t requests = 0, bytes_read = 0, bytes_written = 0;
  std::vector<unsigned char> store;

  void execute(tlm::tlm_generic_payload& p) {
    ++requests;
    if (store.empty()) store.resize(size);
    const std::uint64_t address = p.get_address(), length = p.get_data_length();
    ASSERT_NE(p.get_data_ptr(), nullptr);
    ASSERT_GT(length, 0u);
    ASSERT_LE(length, block);
    EXPECT_EQ(address / block, (address + length - 1) / block) << "crosses a block";
    EXPECT_GE(p.get_streaming_width(), length);
    if (address < base || address + length > base + size) {
      p.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
      return;
    }
    for (std::uint64_t i = 0; i < length; ++i) {
      const unsigned char* enables = p.get_byte_enable_ptr();
      if (enables != nullptr && enables[i % p.get_byte_enable_length()] != TLM_BYTE_ENABLED) {
        continue;
      }
      unsigned char& byte = store[address - base + i];
      if (p.is_write()) byte = p.get_data_ptr()[i];
      if (p.is_read()) p.get_data_ptr()[i] = byte;
    }
    (p.is_write() ? bytes_written : bytes_read) += length;
    p.set_response_status(tlm::TLM_OK_RESPONSE);
  }
};

/// An approximately timed memory of the strictest kind: every forward call is answered
/// TLM_ACCEPTED and every phase comes back by nb_transport_bw, some time later; END_REQ is held
/// back while `capacity` requests are inside; requests are served side by side, so that responses
/// come out of order, and each must have been ended before the next begins.
class StrictMemory : public sc_core::sc_module,
                     public tlm::tlm_fw_transport_if<>,
                     public MemoryRules {
 public:
  StrictMemory(const sc_core::sc_module_name& name, unsigned seed, double stall_ns,
               std::size_t capacity)
      : sc_core::sc_module(name), in("in"), stalls_(seed, stall_ns), capacity_(capacity) {
    in.bind(*this);
    TILEWRIGHT_HAS_PROCESS(StrictMemory);
    SC_THREAD(accept);
    SC_THREAD(respond);
  }
  tlm::tlm_target_socket<32> in;
  std::size_t fullest = 0;

  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& p, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    EXPECT_FALSE(calling_) << "a call inside a call of ours";
    EXPECT_EQ(delay, sc_core::SC_ZERO_TIME);
    if (phase == tlm::BEGIN_REQ) {
      EXPECT_EQ(request_, nullptr);
      p.acquire();
      request_ = &p;
      addresses_[&p] = p.get_address();
      request_event_.notify(sc_core::SC_ZERO_TIME);
    } else {
      EXPECT_EQ(phase, tlm::END_RESP);
      ended_.notify(sc_core::SC_ZERO_TIME);
    }
    return tlm::TLM_ACCEPTED;
  }
  void b_transport(tlm::tlm_generic_payload&, sc_core::sc_time&) override {
    ADD_FAILURE() << "b_transport to an approximately timed memory";
  }
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
  unsigned transport_dbg(tlm::tlm_generic_payload& p) override {
    execute(p);
    return p.get_data_length();
  }

 private:
  void accept() {
    for (;;) {
      if (request_ == nullptr) wait(request_event_);
      wait(stalls_.next());
      while (inside_ == capacity_) wait(left_);
      fullest = std::max(fullest, ++inside_);
      tlm::tlm_generic_payload* p = request_;
      request_ = nullptr;
      ready_.emplace(sc_core::sc_time_stamp() + stalls_.next(), p);
      ready_event_.notify(sc_core::SC_ZERO_TIME);
      call(*p, tlm::END_REQ, sc_core::SC_ZERO_TIME);
    }
  }
  void respond() {
    for (;;) {
      while (ready_.empty()) wait(ready_event_);
      const sc_core::sc_time now = sc_core::sc_time_stamp();
      if (ready_.begin()->first > now) {
        wait(ready_.begin()->first - now, ready_event_);
        continue;
      }
      tlm::tlm_generic_payload* p = ready_.begin()->second;
      ready_.erase(ready_.begin());
      EXPECT_EQ(p->get_address(), addresses_[p]) << "the address is not as it was given";
      execute(*p);
      call(*p, tlm::BEGIN_RESP, stalls_.next());
      wait(ended_);
      --inside_;
      left_.notify(sc_core::SC_ZERO_TIME);
      p->release();
      wait(sc_core::SC_ZERO_TIME);
    }
  }
  void call(tlm::tlm_generic_payload& p, tlm::tlm_phase phase, sc_core::sc_time delay) {
    calling_ = true;
    EXPECT_EQ(in->nb_transport_bw(p, phase, delay), tlm::TLM_ACCEPTED);
    calling_ = false;
  }

  Stalls stalls_;
  std::size_t capacity_, inside_ = 0;
  bool calling_ = false;
  tlm::tlm_generic_payload* request_ = nullptr;
  std::map<tlm::tlm_generic_payload*, std::uint64_t> addresses_;
  std::multimap<sc_core::sc_time, tlm::tlm_generic_payload*> ready_;
  sc_core::sc_event request_event_, ready_event_, ended_, left_;
};

/// An approximately timed memory that takes every short cut the protocol has, at random: completes
/// at once, ends the request or begins the response on the return path, leaves END_REQ out.
class CasualMemory : public sc_core::sc_module,
                     public tlm::tlm_fw_transport_if<>,
                     public MemoryRules {
 public:
  CasualMemory(const sc_core::sc_module_name& name, unsigned seed, double stall_ns)
      : sc_core::sc_module(name), in("in"), stalls_(seed, stall_ns) {
    in.bind(*this);
    TILEWRIGHT_HAS_PROCESS(CasualMemory);
    SC_THREAD(respond);
  }
  tlm::tlm_target_socket<32> in;

  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& p, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    if (phase == tlm::END_RESP) {
      open_ = false;
      ended_.notify(sc_core::SC_ZERO_TIME);
      return tlm::TLM_COMPLETED;
    }
    p.acquire();
    switch (stalls_.choose(open_ ? 3 : 4)) {
      case 0:  // complete
        execute(p);
        delay += stalls_.next();
        p.release();
        return tlm::TLM_COMPLETED;
      case 1:  // END_REQ, with a delay
        waiting_.emplace(sc_core::sc_time_stamp() + stalls_.next() + stalls_.next(), &p);
        work_.notify(sc_core::SC_ZERO_TIME);
        phase = tlm::END_REQ;
        return tlm::TLM_UPDATED;
      case 2:  // BEGIN_RESP later, without END_REQ
        waiting_.emplace(sc_core::sc_time_stamp() + stalls_.next(), &p);
        work_.notify(sc_core::SC_ZERO_TIME);
        return tlm::TLM_ACCEPTED;
      default:  // BEGIN_RESP
        execute(p);
        open_ = true;
        phase = tlm::BEGIN_RESP;
        delay += stalls_.next();
        p.release();
        return tlm::TLM_UPDATED;
    }
  }
  void b_transport(tlm::tlm_generic_payload&, sc_core::sc_time&) override {
    ADD_FAILURE() << "b_transport to an approximately timed memory";
  }
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
  unsigned transport_dbg(tlm::tlm_generic_payload&) override { return 0; }

 private:
  void respond() {
    for (;;) {
      while (waiting_.empty()) wait(work_);
      const sc_core::sc_time now = sc_core::sc_time_stamp();
      if (waiting_.begin()->first > now) {
        wait(waiting_.begin()->first - now, work_);
        continue;
      }
      while (open_) wait(ended_);
      tlm::tlm_generic_payload* p = waiting_.begin()->second;
      waiting_.erase(waiting_.begin());
      execute(*p);
      open_ = true;
      tlm::tlm_phase phase = tlm::BEGIN_RESP;
      sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
      if (in->nb_transport_bw(*p, phase, delay) != tlm::TLM_ACCEPTED) open_ = false;
      p->release();
    }
  }
  Stalls stalls_;
  bool open_ = false;
  std::multimap<sc_core::sc_time, tlm::tlm_generic_payload*> waiting_;
  sc_core::sc_event work_, ended_;
};

/// A loosely timed memory without nb_transport: waits, annotates, or both.
class LooseMemory : public sc_core::sc_module,
                    public tlm::tlm_fw_transport_if<>,
                    public MemoryRules {
 public:
  LooseMemory(const sc_core::sc_module_name& name, unsigned seed, double stall_ns)
      : sc_core::sc_module(name), in("in"), stalls_(seed, stall_ns) {
    in.bind(*this);
  }
  tlm::tlm_target_socket<32> in;

  void b_transport(tlm::tlm_generic_payload& p, sc_core::sc_time& delay) override {
    if (stalls_.choose(2) == 0) {
      wait(delay);
      delay = sc_core::SC_ZERO_TIME;
      wait(stalls_.next());
    }
    execute(p);
    delay += stalls_.next();
  }
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload&, tlm::tlm_phase&,
                                     sc_core::sc_time&) override {
    ADD_FAILURE() << "nb_transport to a loosely timed memory";
    return tlm::TLM_COMPLETED;
  }
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
  unsigned transport_dbg(tlm::tlm_generic_payload&) override { return 0; }

 private:
  Stalls stalls_;
};

/// One read or write of an initiator and what became of it.
struct Transaction : tlm::tlm_generic_payload {
  explicit Transaction(tlm::tlm_mm_interface* manager) : tlm::tlm_generic_payload(manager) {}
  std::vector<unsigned char> bytes, enables;
  sc_core::sc_time begun, done;
};

/// Does a list of transactions, several at once where it is approximately timed, with stalls.
class Initiator : public sc_core::sc_module,
                  public tlm::tlm_bw_transport_if<>,
                  public tlm::tlm_mm_interface {
 public:
  enum class Style { blocking, four_phases, early_completion };
  Initiator(const sc_core::sc_module_name& name, Style style, unsigned seed, double stall_ns)
      : sc_core::sc_module(name), out("out"), style_(style), stalls_(seed, stall_ns) {
    out.bind(*this);
    TILEWRIGHT_HAS_PROCESS(Initiator);
    SC_THREAD(run);
    SC_THREAD(end_responses);
  }
  tlm::tlm_initiator_socket<32> out;
  std::vector<std::unique_ptr<Transaction>> list;
  std::size_t freed = 0, completed = 0, most_at_once = 0, held = 0;
  /// Wait for each transaction before the next.
  bool one_by_one = false;

  Transaction& add(tlm::tlm_command command, std::uint64_t address, std::size_t length) {
    list.push_back(std::make_unique<Transaction>(this));
    Transaction& t = *list.back();
    t.bytes.resize(length);
    t.set_command(command);
    t.set_address(address);
    t.set_data_ptr(t.bytes.data());
    t.set_data_length(static_cast<unsigned>(length));
    t.set_streaming_width(static_cast<unsigned>(length));
    t.acquire();
    more_.notify(sc_core::SC_ZERO_TIME);
    return t;
  }
  void free(tlm::tlm_generic_payload*) override { ++freed; }

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& p, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    if (phase == tlm::END_REQ) {
      ++held;
      accepted_.notify(delay);
      return tlm::TLM_ACCEPTED;
    }
    EXPECT_EQ(phase, tlm::BEGIN_RESP);
    return begin_response(p, phase, delay);
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

 private:
  void run() {
    for (;;) {
      while (next_ == list.size()) wait(more_);
      Transaction* t = list[next_++].get();
      wait(stalls_.next());
      t->begun = sc_core::sc_time_stamp();
      sc_core::sc_time delay = stalls_.next();
      if (style_ == Style::blocking) {
        out->b_transport(*t, delay);
        wait(delay);
        finish(*t);
        continue;
      }
      tlm::tlm_phase phase = tlm::BEGIN_REQ;
      ++at_once_;
      most_at_once = std::max(most_at_once, at_once_);
      switch (out->nb_transport_fw(*t, phase, delay)) {
        case tlm::TLM_ACCEPTED:
          wait(accepted_);
          break;
        case tlm::TLM_UPDATED:
          EXPECT_EQ(phase, tlm::END_REQ);
          wait(delay);
          break;
        case tlm::TLM_COMPLETED:
          wait(delay);
          finish(*t);
          break;
      }
      while (one_by_one && at_once_ > 0) wait(finished_);
    }
  }
  tlm::tlm_sync_enum begin_response(tlm::tlm_generic_payload& p, tlm::tlm_phase& phase,
                                    sc_core::sc_time& delay) {
    auto& t = static_cast<Transaction&>(p);
    if (style_ == Style::early_completion) {
      if (stalls_.choose(2) == 0) {
        finish(t);
        return tlm::TLM_COMPLETED;
      }
      phase = tlm::END_RESP;
      finish(t);
      return tlm::TLM_UPDATED;
    }
    EXPECT_EQ(response_, nullptr);
    response_ = &t;
    response_event_.notify(delay);
    return tlm::TLM_ACCEPTED;
  }
  void end_responses() {
    for (;;) {
      wait(response_event_);
      wait(stalls_.next());
      Transaction& t = *response_;
      response_ = nullptr;
      tlm::tlm_phase phase = tlm::END_RESP;
      sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
      t.acquire();
      out->nb_transport_fw(t, phase, delay);
      finish(t);
      t.release();
    }
  }
  void finish(Transaction& t) {
    t.done = sc_core::sc_time_stamp();
    ++completed;
    if (at_once_ > 0) --at_once_;
    finished_.notify(sc_core::SC_ZERO_TIME);
    t.release();
  }

  Style style_;
  Stalls stalls_;
  std::size_t next_ = 0, at_once_ = 0;
  Transaction* response_ = nullptr;
  sc_core::sc_event more_, accepted_, response_event_, finished_;
};

}  // namespace tilewright::test
