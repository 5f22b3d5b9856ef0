// The checker is silent about every legal way through the protocol and names the rule that is
// broken in every illegal one.
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tilewright/cosim/protocol_checker.h>
#include <tilewright/hardware/process.h>

namespace tilewright::test {
namespace {

using sc_core::sc_time;
using tlm::tlm_phase;
using tlm::tlm_sync_enum;
using Payload = tlm::tlm_generic_payload;

struct Answer {
  tlm_sync_enum sync = tlm::TLM_ACCEPTED;
  tlm_phase phase = tlm::UNINITIALIZED_PHASE;  // of TLM_UPDATED
  double delay_ns = 0;
};

sc_time ns(double t) { return {t, sc_core::SC_NS}; }

Answer reply(const Answer& answer, tlm_phase& phase, sc_time& delay) {
  if (answer.sync == tlm::TLM_UPDATED) phase = answer.phase;
  if (answer.sync != tlm::TLM_ACCEPTED) delay = ns(answer.delay_ns);
  return answer;
}

template <unsigned Width = 32>
class Initiator : public sc_core::sc_module, public tlm::tlm_bw_transport_if<> {
 public:
  explicit Initiator(const sc_core::sc_module_name& name) : sc_core::sc_module(name), out("out") {
    out.bind(*this);
  }
  tlm::tlm_initiator_socket<Width> out;
  Answer answer;
  std::function<void(Payload&)> before_answer;
  tlm_sync_enum nb_transport_bw(Payload& payload, tlm_phase& phase, sc_time& delay) override {
    if (before_answer) before_answer(payload);
    return reply(answer, phase, delay).sync;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
};

class Target : public sc_core::sc_module, public tlm::tlm_fw_transport_if<> {
 public:
  explicit Target(const sc_core::sc_module_name& name) : sc_core::sc_module(name), in("in") {
    in.bind(*this);
  }
  tlm::tlm_target_socket<32> in;
  Answer answer;
  std::function<void(Payload&)> before_answer;
  std::function<void(sc_time&)> blocking;
  unsigned moved = 0;
  tlm_sync_enum nb_transport_fw(Payload& payload, tlm_phase& phase, sc_time& delay) override {
    if (before_answer) before_answer(payload);
    return reply(answer, phase, delay).sync;
  }
  void b_transport(Payload& payload, sc_time& delay) override {
    if (before_answer) before_answer(payload);
    if (blocking) blocking(delay);
  }
  bool get_direct_mem_ptr(Payload&, tlm::tlm_dmi& region) override {
    region.set_start_address(100);
    region.set_end_address(99);
    return true;
  }
  unsigned transport_dbg(Payload&) override { return moved; }
};

class Manager : public tlm::tlm_mm_interface {
 public:
  void free(Payload* payload) override { payload->reset(); }
};

/// A checker between two ends that do what the test says.
struct Bench {
  explicit Bench(ProtocolCheckerConfig config = {})
      : checker("checker", report_to(std::move(config), seen)) {
    initiator.out.bind(checker.in);
    checker.out.bind(target.in);
    sc_core::sc_start(sc_core::SC_ZERO_TIME);
  }
  static ProtocolCheckerConfig report_to(ProtocolCheckerConfig config,
                                         std::vector<ProtocolViolation>& seen) {
    config.report = [&seen](const ProtocolViolation& v) { seen.push_back(v); };
    return config;
  }

  Payload& payload(tlm::tlm_command command = tlm::TLM_READ_COMMAND) {
    payloads.push_back(std::make_unique<Payload>(&manager));
    Payload& p = *payloads.back();
    p.set_command(command);
    p.set_address(0x1000);
    p.set_data_ptr(data);
    p.set_data_length(sizeof data);
    p.set_streaming_width(sizeof data);
    p.acquire();
    return p;
  }
  void forward(Payload& p, tlm_phase phase, Answer answer = {}, double delay_ns = 0) {
    target.answer = answer;
    sc_time delay = ns(delay_ns);
    initiator.out->nb_transport_fw(p, phase, delay);
  }
  void backward(Payload& p, tlm_phase phase, Answer answer = {}, double delay_ns = 0) {
    initiator.answer = answer;
    sc_time delay = ns(delay_ns);
    target.in->nb_transport_bw(p, phase, delay);
  }
  void blocking(Payload& p, double delay_ns = 0) {
    sc_time delay = ns(delay_ns);
    initiator.out->b_transport(p, delay);
  }
  static void ok(Payload& p) { p.set_response_status(tlm::TLM_OK_RESPONSE); }
  /// Up to BEGIN_RESP, answered TLM_ACCEPTED.
  Payload& responding() {
    Payload& p = payload();
    forward(p, tlm::BEGIN_REQ);
    backward(p, tlm::END_REQ);
    ok(p);
    backward(p, tlm::BEGIN_RESP);
    return p;
  }

  std::vector<ProtocolViolation> seen;
  Manager manager;
  unsigned char data[16] = {}, enables[4] = {0xff, 0, 0xff, 0xff};
  std::vector<std::unique_ptr<Payload>> payloads;
  Initiator<> initiator{"initiator"};
  Target target{"target"};
  ProtocolChecker<> checker;
};

struct Case {
  const char* name;
  std::function<void(Bench&)> play;
  std::vector<ProtocolRule> broken = {};
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
std::string name_of(const testing::TestParamInfo<Case>& info) { return info.param.name; }

using Rule = ProtocolRule;
constexpr auto kCompleted = tlm::TLM_COMPLETED;
constexpr auto kUpdated = tlm::TLM_UPDATED;

// --- legal --------------------------------------------------------------------------------------

const std::vector<Case>& legal() {
  static const std::vector<Case> cases{
      {"FourPhases",
       [](Bench& b) {
         Payload& p = b.responding();
         b.forward(p, tlm::END_RESP);
       }},
      {"FourPhasesEndedByTheTarget",
       [](Bench& b) {
         Payload& p = b.responding();
         b.forward(p, tlm::END_RESP, {kCompleted});
       }},
      {"EndReqOnTheReturnPath",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ, {kUpdated, tlm::END_REQ, 2});
         Bench::ok(p);
         b.backward(p, tlm::BEGIN_RESP, {kCompleted, tlm::BEGIN_RESP, 3}, 3);
       }},
      {"BeginRespOnTheReturnPath",
       [](Bench& b) {
         Payload& p = b.payload();
         b.target.before_answer = Bench::ok;
         b.forward(p, tlm::BEGIN_REQ, {kUpdated, tlm::BEGIN_RESP, 5});
         b.target.before_answer = nullptr;
         b.forward(p, tlm::END_RESP, {}, 5);
       }},
      {"BeginRespImpliesEndReq",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ);
         Bench::ok(p);
         b.backward(p, tlm::BEGIN_RESP, {kUpdated, tlm::END_RESP, 1});
         Payload& q = b.payload();
         b.forward(q, tlm::BEGIN_REQ);
         Bench::ok(q);
         b.backward(q, tlm::BEGIN_RESP, {kCompleted});
       }},
      {"CompletedAtOnce",
       [](Bench& b) {
         for (int i = 0; i < 3; ++i) {
           b.target.before_answer = Bench::ok;
           b.forward(b.payload(), tlm::BEGIN_REQ, {kCompleted, tlm::BEGIN_REQ, 7});
         }
       }},
      {"OnePayloadAgain",
       [](Bench& b) {
         Payload& p = b.responding();
         b.forward(p, tlm::END_RESP);
         p.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
         b.target.before_answer = Bench::ok;
         b.forward(p, tlm::BEGIN_REQ, {kCompleted});
       }},
      {"RequestsAndResponsesOverlap",
       [](Bench& b) {
         Payload& p = b.responding();
         Payload& q = b.payload();
         b.forward(q, tlm::BEGIN_REQ, {kUpdated, tlm::END_REQ});
         b.forward(p, tlm::END_RESP);
         Bench::ok(q);
         b.backward(q, tlm::BEGIN_RESP, {kCompleted});
       }},
      {"ResponsesOutOfOrder",
       [](Bench& b) {
         Payload& p = b.payload();
         Payload& q = b.payload(tlm::TLM_WRITE_COMMAND);
         b.forward(p, tlm::BEGIN_REQ, {kUpdated, tlm::END_REQ});
         b.forward(q, tlm::BEGIN_REQ, {kUpdated, tlm::END_REQ});
         for (Payload* one : {&q, &p}) {
           Bench::ok(*one);
           b.backward(*one, tlm::BEGIN_RESP, {kCompleted});
         }
       }},
      {"TheLastReferenceGoesWithTheResponse",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ, {kUpdated, tlm::END_REQ});
         Bench::ok(p);
         b.initiator.before_answer = [](Payload& dropped) { dropped.release(); };
         b.backward(p, tlm::BEGIN_RESP, {kCompleted});
       }},
      {"ErrorResponse",
       [](Bench& b) {
         b.target.before_answer = [](Payload& p) {
           p.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
         };
         b.forward(b.payload(), tlm::BEGIN_REQ, {kCompleted});
       }},
      {"ByteEnables",
       [](Bench& b) {
         Payload& p = b.payload(tlm::TLM_WRITE_COMMAND);
         p.set_byte_enable_ptr(b.enables);
         p.set_byte_enable_length(sizeof b.enables);
         b.target.before_answer = Bench::ok;
         b.forward(p, tlm::BEGIN_REQ, {kCompleted});
       }},
      {"ReadDataAndDmiHintAreTheTargets",
       [](Bench& b) {
         b.target.before_answer = [](Payload& p) {
           p.get_data_ptr()[0] = 1;
           p.set_dmi_allowed(true);
           Bench::ok(p);
         };
         b.forward(b.payload(), tlm::BEGIN_REQ, {kCompleted});
       }},
      {"IgnoreNeedsNoAttributes",
       [](Bench& b) {
         Payload& p = b.payload(tlm::TLM_IGNORE_COMMAND);
         p.set_data_ptr(nullptr);
         p.set_data_length(0);
         p.set_streaming_width(0);
         b.target.before_answer = Bench::ok;
         b.forward(p, tlm::BEGIN_REQ, {kCompleted});
       }},
      {"BlockingWithoutMemoryManager",
       [](Bench& b) {
         Payload p;
         p.set_command(tlm::TLM_WRITE_COMMAND);
         p.set_data_ptr(b.data);
         p.set_data_length(4);
         p.set_streaming_width(4);
         b.target.before_answer = Bench::ok;
         b.target.blocking = [](sc_time& delay) { delay += ns(3); };
         b.blocking(p, 5);
       }},
      {"Debug",
       [](Bench& b) {
         b.target.moved = 16;
         b.initiator.out->transport_dbg(b.payload());
       }},
  };
  return cases;
}

class Legal : public testing::TestWithParam<Case> {};
TEST_P(Legal, IsPassedInSilence) {
  Bench b;
  GetParam().play(b);
  for (const ProtocolViolation& v : b.seen) ADD_FAILURE() << v.text;
  EXPECT_EQ(b.checker.monitor().in_flight(), 0u);
  EXPECT_EQ(b.checker.monitor().violations(), 0u);
  EXPECT_EQ(b.checker.monitor().completed() > 0, GetParam().name != std::string("Debug"));
}
INSTANTIATE_TEST_SUITE_P(ProtocolChecker, Legal, testing::ValuesIn(legal()), name_of);

// --- illegal ------------------------------------------------------------------------------------

/// A payload that is spoilt before it is sent and accepted at once.
Case spoilt(const char* name, Rule rule, std::function<void(Payload&)> spoil,
            tlm::tlm_command command = tlm::TLM_WRITE_COMMAND) {
  return {name,
          [spoil = std::move(spoil), command](Bench& b) {
            Payload& p = b.payload(command);
            spoil(p);
            b.target.before_answer = Bench::ok;
            b.forward(p, tlm::BEGIN_REQ, {kCompleted});
          },
          {rule}};
}
/// A target that changes a write before it ends the request.
Case changed(const char* name, std::function<void(Bench&, Payload&)> change) {
  return {name,
          [change = std::move(change)](Bench& b) {
            Payload& p = b.payload(tlm::TLM_WRITE_COMMAND);
            p.set_byte_enable_ptr(b.enables);
            p.set_byte_enable_length(sizeof b.enables);
            b.forward(p, tlm::BEGIN_REQ);
            change(b, p);
            b.backward(p, tlm::END_REQ);
          },
          {Rule::changed_attributes}};
}

const std::vector<Case>& illegal() {
  static unsigned char other[16];
  static const std::vector<Case> cases{
      // memory manager, references
      {"NoMemoryManager",
       [](Bench& b) {
         Payload p;
         p.set_command(tlm::TLM_READ_COMMAND);
         p.set_data_ptr(b.data);
         p.set_data_length(4);
         p.set_streaming_width(4);
         b.target.before_answer = Bench::ok;
         b.forward(p, tlm::BEGIN_REQ, {kCompleted});
       },
       {Rule::memory_manager}},
      spoilt("NoReference", Rule::reference_count, [](Payload& p) { p.release(); }),
      {"FreedUnderWay",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ);
         p.release();
         b.backward(p, tlm::END_REQ);
       },
       {Rule::reference_count}},
      {"BlockingWithoutReference",
       [](Bench& b) {
         Payload& p = b.payload();
         p.release();
         b.target.before_answer = Bench::ok;
         b.blocking(p);
       },
       {Rule::reference_count}},

      // phases
      {"BegunAgainUnderWay",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ, {kUpdated, tlm::END_REQ});
         b.forward(p, tlm::BEGIN_REQ);
       },
       {Rule::phase_order}},
      {"EndRespBeforeBeginResp",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ, {kUpdated, tlm::END_REQ});
         b.forward(p, tlm::END_RESP);
       },
       {Rule::phase_order}},
      {"EndRespTwice",
       [](Bench& b) {
         Payload& p = b.responding();
         b.forward(p, tlm::END_RESP);
         b.forward(p, tlm::END_RESP);
       },
       {Rule::phase_order}},
      {"EndRespAfterEarlyCompletion",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ);
         Bench::ok(p);
         b.backward(p, tlm::BEGIN_RESP, {kCompleted});
         b.forward(p, tlm::END_RESP);
       },
       {Rule::phase_order}},
      {"EndReqOnTheForwardPath",
       [](Bench& b) { b.forward(b.payload(), tlm::END_REQ); },
       {Rule::phase_order}},
      {"UninitializedPhase",
       [](Bench& b) { b.forward(b.payload(), tlm::UNINITIALIZED_PHASE); },
       {Rule::phase_order}},
      {"BeginReqOnTheBackwardPath",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ);
         b.backward(p, tlm::BEGIN_REQ);
       },
       {Rule::phase_order}},
      {"EndReqTwice",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ, {kUpdated, tlm::END_REQ});
         b.backward(p, tlm::END_REQ);
       },
       {Rule::phase_order}},
      {"EndReqAfterBeginResp",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ);
         Bench::ok(p);
         b.backward(p, tlm::BEGIN_RESP);
         b.backward(p, tlm::END_REQ);
       },
       {Rule::phase_order}},
      {"BeginRespTwice",
       [](Bench& b) {
         Payload& p = b.responding();
         b.backward(p, tlm::BEGIN_RESP);
       },
       {Rule::phase_order}},
      {"ResponseToNothing",
       [](Bench& b) {
         Payload& p = b.payload();
         Bench::ok(p);
         b.backward(p, tlm::BEGIN_RESP);
       },
       {Rule::phase_order}},
      {"ResponseAfterCompletion",
       [](Bench& b) {
         Payload& p = b.payload();
         b.target.before_answer = Bench::ok;
         b.forward(p, tlm::BEGIN_REQ, {kCompleted});
         b.backward(p, tlm::BEGIN_RESP);
       },
       {Rule::phase_order}},
      {"UpdatedWithAForwardPhase",
       [](Bench& b) {
         b.forward(b.payload(), tlm::BEGIN_REQ, {kUpdated, tlm::END_RESP});
       },
       {Rule::phase_order}},
      {"UpdatedWithoutANewPhase",
       [](Bench& b) {
         b.forward(b.payload(), tlm::BEGIN_REQ, {kUpdated, tlm::BEGIN_REQ});
       },
       {Rule::phase_order}},
      {"EndRespAnsweredUpdated",
       [](Bench& b) {
         Payload& p = b.responding();
         b.forward(p, tlm::END_RESP, {kUpdated, tlm::BEGIN_RESP});
       },
       {Rule::phase_order}},
      {"EndReqAnsweredCompleted",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ);
         b.backward(p, tlm::END_REQ, {kCompleted});
       },
       {Rule::phase_order}},
      {"EndReqAnsweredUpdated",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ);
         b.backward(p, tlm::END_REQ, {kUpdated, tlm::END_RESP});
       },
       {Rule::phase_order}},
      {"BeginRespAnsweredWithBeginReq",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ);
         Bench::ok(p);
         b.backward(p, tlm::BEGIN_RESP, {kUpdated, tlm::BEGIN_REQ});
       },
       {Rule::phase_order}},
      {"EndReqOnBothPaths",
       [](Bench& b) {
         Payload& p = b.payload();
         b.target.before_answer = [&b](Payload& q) { b.backward(q, tlm::END_REQ); };
         b.forward(p, tlm::BEGIN_REQ, {kUpdated, tlm::END_REQ});
       },
       {Rule::phase_order}},

      // exclusion
      {"SecondRequestBeforeEndReq",
       [](Bench& b) {
         b.forward(b.payload(), tlm::BEGIN_REQ);
         b.forward(b.payload(), tlm::BEGIN_REQ);
       },
       {Rule::request_exclusion}},
      {"SecondResponseBeforeEndResp",
       [](Bench& b) {
         Payload& q = b.payload();
         b.forward(q, tlm::BEGIN_REQ, {kUpdated, tlm::END_REQ});
         b.responding();
         Bench::ok(q);
         b.backward(q, tlm::BEGIN_RESP);
       },
       {Rule::response_exclusion}},
      {"SecondResponseOnTheReturnPath",
       [](Bench& b) {
         b.responding();
         b.target.before_answer = Bench::ok;
         b.forward(b.payload(), tlm::BEGIN_REQ, {kUpdated, tlm::BEGIN_RESP});
       },
       {Rule::response_exclusion}},

      // timing
      {"EndReqBeforeItsRequest",
       [](Bench& b) {
         b.forward(b.payload(), tlm::BEGIN_REQ, {kUpdated, tlm::END_REQ, 4}, 5);
       },
       {Rule::timing}},
      {"ResponseBeforeTheRequestTakesEffect",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ, {}, 5);
         Bench::ok(p);
         b.backward(p, tlm::BEGIN_RESP, {}, 4);
       },
       {Rule::timing}},
      {"EndRespBeforeItsResponse",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ);
         Bench::ok(p);
         b.backward(p, tlm::BEGIN_RESP, {}, 5);
         b.forward(p, tlm::END_RESP, {}, 4);
       },
       {Rule::timing}},
      {"BlockingDelayShortened",
       [](Bench& b) {
         b.target.before_answer = Bench::ok;
         b.target.blocking = [](sc_time& delay) { delay = ns(4); };
         b.blocking(b.payload(), 5);
       },
       {Rule::timing}},

      // blocking and non-blocking
      {"BlockingWhileUnderWay",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ);
         b.target.before_answer = Bench::ok;
         b.blocking(p);
       },
       {Rule::transport}},
      {"NonBlockingWhileBlocked",
       [](Bench& b) {
         Payload& p = b.payload();
         b.target.blocking = [&](sc_time&) {
           b.forward(p, tlm::BEGIN_REQ, {kUpdated, tlm::END_REQ});
           Bench::ok(p);
         };
         b.blocking(p);
       },
       {Rule::transport}},

      // attributes at the start
      spoilt("NoDataPointer", Rule::initial_attributes,
             [](Payload& p) { p.set_data_ptr(nullptr); }),
      spoilt("LengthZero", Rule::initial_attributes, [](Payload& p) { p.set_data_length(0); }),
      spoilt("StreamingWidthZero", Rule::initial_attributes,
             [](Payload& p) { p.set_streaming_width(0); }),
      spoilt("ByteEnablesOfLengthZero", Rule::initial_attributes,
             [](Payload& p) { p.set_byte_enable_ptr(p.get_data_ptr()); }),
      spoilt("ResponseStatusSet", Rule::initial_attributes,
             [](Payload& p) { p.set_response_status(tlm::TLM_OK_RESPONSE); }),
      spoilt("DmiHintSet", Rule::initial_attributes, [](Payload& p) { p.set_dmi_allowed(true); }),
      spoilt("UnknownCommand", Rule::initial_attributes,
             [](Payload& p) { p.set_command(static_cast<tlm::tlm_command>(7)); }),

      // attributes changed
      changed("CommandChanged", [](Bench&, Payload& p) { p.set_read(); }),
      changed("AddressChanged", [](Bench&, Payload& p) { p.set_address(0x2000); }),
      changed("DataPointerChanged", [](Bench&, Payload& p) { p.set_data_ptr(other); }),
      changed("DataLengthChanged", [](Bench&, Payload& p) { p.set_data_length(8); }),
      changed("StreamingWidthChanged", [](Bench&, Payload& p) { p.set_streaming_width(4); }),
      changed("ByteEnablePointerChanged", [](Bench&, Payload& p) { p.set_byte_enable_ptr(other); }),
      changed("ByteEnableLengthChanged", [](Bench&, Payload& p) { p.set_byte_enable_length(2); }),
      changed("WriteDataChanged", [](Bench& b, Payload&) { b.data[3] = 7; }),
      changed("ByteEnablesChanged", [](Bench& b, Payload&) { b.enables[1] = 0xff; }),
      {"AddressChangedWithTheResponse",
       [](Bench& b) {
         Payload& p = b.responding();
         p.set_address(0);
         b.forward(p, tlm::END_RESP);
       },
       {Rule::changed_attributes}},
      {"AddressChangedByABlockingTarget",
       [](Bench& b) {
         b.target.before_answer = [](Payload& p) {
           p.set_address(0);
           Bench::ok(p);
         };
         b.blocking(b.payload());
       },
       {Rule::changed_attributes}},

      // response status
      {"ResponseWithoutStatus",
       [](Bench& b) {
         Payload& p = b.payload();
         b.forward(p, tlm::BEGIN_REQ);
         b.backward(p, tlm::BEGIN_RESP);
       },
       {Rule::response_status}},
      {"CompletedWithoutStatus",
       [](Bench& b) { b.forward(b.payload(), tlm::BEGIN_REQ, {kCompleted}); },
       {Rule::response_status}},
      {"BlockingWithoutStatus", [](Bench& b) { b.blocking(b.payload()); }, {Rule::response_status}},
      {"StatusChangedByTheInitiator",
       [](Bench& b) {
         Payload& p = b.responding();
         p.set_response_status(tlm::TLM_GENERIC_ERROR_RESPONSE);
         b.forward(p, tlm::END_RESP);
       },
       {Rule::response_status}},

      // debug, DMI
      {"DebugMovesTooMuch",
       [](Bench& b) {
         b.target.moved = 17;
         b.initiator.out->transport_dbg(b.payload());
       },
       {Rule::debug}},
      {"DmiRegionEndsBeforeItStarts",
       [](Bench& b) {
         tlm::tlm_dmi region;
         b.initiator.out->get_direct_mem_ptr(b.payload(), region);
       },
       {Rule::debug}},
  };
  return cases;
}

class Illegal : public testing::TestWithParam<Case> {};
TEST_P(Illegal, IsNamed) {
  Bench b;
  GetParam().play(b);
  std::vector<Rule> rules;
  for (const ProtocolViolation& v : b.seen) {
    rules.push_back(v.rule);
    EXPECT_NE(v.text.find("checker at 0 s: "), std::string::npos) << v.text;
    EXPECT_NE(v.text.find("[" + to_string(v.rule) + "]"), std::string::npos) << v.text;
  }
  EXPECT_EQ(rules, GetParam().broken) << (b.seen.empty() ? "silence" : b.seen[0].text);
  EXPECT_EQ(b.checker.monitor().violations(), rules.size());
}
INSTANTIATE_TEST_SUITE_P(ProtocolChecker, Illegal, testing::ValuesIn(illegal()), name_of);

// --- the rest -----------------------------------------------------------------------------------

TEST(ProtocolChecker, TimeTakesItsPartInTheOrder) {
  Bench b;
  Payload& p = b.payload();
  b.forward(p, tlm::BEGIN_REQ, {}, 5);
  sc_core::sc_start(ns(10));
  Bench::ok(p);
  b.backward(p, tlm::BEGIN_RESP, {kCompleted, tlm::BEGIN_RESP, 0}, 0);  // at 10 ns, after 5
  EXPECT_TRUE(b.seen.empty());
}

TEST(ProtocolChecker, BlockingFromAMethod) {
  struct Caller : sc_core::sc_module {
    explicit Caller(const sc_core::sc_module_name& name, Bench*& bench)
        : sc_core::sc_module(name), bench_(bench) {
      TILEWRIGHT_HAS_PROCESS(Caller);
      SC_METHOD(call);
      sensitive << go;
      dont_initialize();
    }
    void call() { bench_->blocking(bench_->payload()); }
    Bench*& bench_;
    sc_core::sc_event go;
  };
  Bench* bench = nullptr;
  Caller caller("caller", bench);
  Bench b;
  bench = &b;
  b.target.before_answer = Bench::ok;
  caller.go.notify(ns(1));
  sc_core::sc_start(ns(2));
  ASSERT_EQ(b.seen.size(), 1u);
  EXPECT_EQ(b.seen[0].rule, Rule::transport);
}

TEST(ProtocolChecker, Relaxations) {
  ProtocolCheckerConfig config;
  config.data_pointer = false;
  config.address_may_change = true;
  Bench b(config);
  Payload& p = b.payload();
  p.set_data_ptr(nullptr);
  b.target.before_answer = [](Payload& q) {
    q.set_address(0);
    Bench::ok(q);
  };
  b.forward(p, tlm::BEGIN_REQ, {kCompleted});
  EXPECT_TRUE(b.seen.empty());
}

TEST(ProtocolChecker, CountsWhatIsUnderWay) {
  Bench b;
  b.responding();
  b.forward(b.payload(), tlm::BEGIN_REQ);
  EXPECT_EQ(b.checker.monitor().in_flight(), 2u);
  EXPECT_EQ(b.checker.monitor().completed(), 0u);
}

// Without a report function a violation is a SystemC error, which throws unless told otherwise.
// The checker also joins sockets of different widths.
TEST(ProtocolChecker, ReportsToSystemC) {
  Initiator<64> initiator("initiator");
  Target target("target");
  ProtocolChecker<64, 32> checker("checker");
  initiator.out.bind(checker.in);
  checker.out.bind(target.in);
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  Manager manager;
  Payload p(&manager);
  tlm_phase phase = tlm::BEGIN_REQ;
  sc_time delay = sc_core::SC_ZERO_TIME;
  try {
    initiator.out->nb_transport_fw(p, phase, delay);
    ADD_FAILURE() << "no error";
  } catch (const sc_core::sc_report& report) {
    EXPECT_STREQ(report.get_msg_type(), "/tilewright/protocol");
    EXPECT_NE(std::string(report.get_msg()).find("without references"), std::string::npos);
  }
}

}  // namespace
}  // namespace tilewright::test
