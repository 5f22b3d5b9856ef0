#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <tilewright/observe/result.h>
#include <tilewright/observe/version.h>

namespace tilewright {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t at(TileState s) { return static_cast<std::size_t>(s); }

Result example(int stages = 2) {
  Result r;
  r.machine = "wafer";
  r.model = "small";
  r.plan = "two-stages";
  r.iteration_time = Seconds(2);
  r.samples = 16;
  r.tokens = 16 * 2048;
  r.flops_model = Flop(3e15);
  r.flops_hardware = Flop(4e15);
  r.flops_convention = "full attention scores";
  r.mfu = 0.375;
  r.hfu = 0.5;
  r.bubble_fraction = 0.2;
  r.breakdown[at(TileState::matrix)] = Seconds(0.9);
  r.breakdown[at(TileState::recomputation)] = Seconds(0.3);
  r.breakdown[at(TileState::tensor_wait)] = Seconds(0.3);
  r.breakdown[at(TileState::bubble)] = Seconds(0.4);
  r.breakdown[at(TileState::vector)] = Seconds(0.1);
  for (int i = 0; i < stages; ++i) {
    StageResult s;
    s.stage = i;
    s.first_layer = 4 * i;
    s.layers = 4;
    s.embedding = i == 0;
    s.head = i == stages - 1;
    s.tiles = 8;
    s.parameters = 123'456'789;
    s.busy = Seconds(1.3);
    s.peak_sram = Bytes(3 << 20);
    s.peak_dram = Bytes(5e9);
    s.micro_batches_in_flight = stages - i;
    s.time = r.breakdown;
    r.stages.push_back(s);
  }
  r.links = {0.1, 0.9, "link (3,0)->(4,0) die-to-die"};
  r.dram = {0.2, 0.3, "dram 1 at (0,1)"};
  r.bounds = {Seconds(1.2), Seconds(0.4), Seconds(0.1), Seconds(1.6)};
  r.memory = {Bytes(3 << 20),    Bytes(4 << 20), "tile (0,0)", Bytes(5e9), Bytes(1e10),
              "dram 0 at (0,0)", Bytes(0),       Bytes(0),     ""};
  r.tiles_total = 20;
  r.tiles_used = 16;
  r.tiles_spare = 1;
  r.parameters = 246'913'578;
  r.events = 12345;
  r.notes = {"vocabulary padded to 51200 so that the tensor degree divides it"};
  return r;
}

TEST(JsonReport, HoldsEveryDocumentedKey) {
  const auto j = nlohmann::json::parse(json_report(example()));
  for (const char* path : {"/tilewright",
                           "/machine",
                           "/model",
                           "/plan",
                           "/fidelity",
                           "/parameters",
                           "/iteration_time_s",
                           "/throughput/samples_per_s",
                           "/throughput/tokens_per_s",
                           "/flops/model",
                           "/flops/hardware",
                           "/flops/mfu",
                           "/flops/hfu",
                           "/flops/convention",
                           "/bubble_fraction",
                           "/breakdown_s/matrix",
                           "/breakdown_s/idle",
                           "/breakdown_s/context_wait",
                           "/breakdown_s/expert_wait",
                           "/breakdown_s/resharding_wait",
                           "/breakdown_s/offload_wait",
                           "/communication_s/tensor/active",
                           "/communication_s/data/exposed",
                           "/communication_s/pipeline/hidden",
                           "/communication_s/context/hidden",
                           "/communication_s/expert/hidden",
                           "/communication_s/resharding/hidden",
                           "/communication_s/offload/hidden",
                           "/bounds_s/compute",
                           "/bounds_s/dram",
                           "/bounds_s/bisection",
                           "/bounds_s/pipeline",
                           "/stages/1/stage",
                           "/stages/1/first_layer",
                           "/stages/1/layers",
                           "/stages/1/embedding",
                           "/stages/1/head",
                           "/stages/1/tiles",
                           "/stages/1/parameters",
                           "/stages/1/busy_s",
                           "/stages/1/peak_sram_bytes",
                           "/stages/1/peak_dram_bytes",
                           "/stages/1/micro_batches_in_flight",
                           "/stages/1/breakdown_s/bubble",
                           "/links/mean",
                           "/links/max",
                           "/links/busiest",
                           "/dram/mean",
                           "/dram/max",
                           "/dram/busiest",
                           "/dram/read_bytes",
                           "/dram/written_bytes",
                           "/memory/sram_peak_bytes",
                           "/memory/dram_capacity_bytes",
                           "/stages/1/peak_host_bytes",
                           "/bounds_s/host",
                           "/host/mean",
                           "/host/max",
                           "/host/busiest",
                           "/host/read_bytes",
                           "/host/written_bytes",
                           "/memory/host_peak_bytes",
                           "/memory/host_capacity_bytes",
                           "/memory/host_fullest",
                           "/memory/messages_waiting_peak_bytes",
                           "/memory/messages_waiting_fullest",
                           "/traffic_bytes/memory",
                           "/traffic_bytes/tensor",
                           "/traffic_bytes/data",
                           "/traffic_bytes/pipeline",
                           "/traffic_bytes/context",
                           "/traffic_bytes/expert",
                           "/traffic_bytes/resharding",
                           "/traffic_bytes/offload",
                           "/tiles/total",
                           "/tiles/used",
                           "/tiles/spare",
                           "/tiles/idle",
                           "/simulation/events",
                           "/simulation/messages",
                           "/simulation/message_hops",
                           "/notes/0"}) {
    EXPECT_TRUE(j.contains(nlohmann::json::json_pointer(path))) << path;
  }
  EXPECT_EQ(j["throughput"]["samples_per_s"], 8.0);
  EXPECT_EQ(j["throughput"]["tokens_per_s"], 16384.0);
  EXPECT_EQ(j["tiles"]["idle"], 3);
  EXPECT_EQ(j["stages"][0]["peak_sram_bytes"], 3145728);
  EXPECT_TRUE(j["stages"][0]["peak_sram_bytes"].is_number_unsigned());
  double sum = 0;
  for (const auto& v : j["breakdown_s"]) sum += v.get<double>();
  EXPECT_DOUBLE_EQ(sum, 2.0);
}

TEST(JsonReport, IsTheSameBytesForTheSameResult) {
  EXPECT_EQ(json_report(example()), json_report(example()));
  EXPECT_EQ(json_report(example()).back(), '\n');
}

TEST(JsonReport, SurvivesNamesThatAreNotUtf8) {
  Result r = example();
  r.model = "caf\xe9";
  EXPECT_NO_THROW(nlohmann::json::parse(json_report(r)));
}

TEST(JsonReport, UnlimitedIsNull) {
  Result r = example();
  r.memory.sram_capacity = Bytes::unlimited();
  EXPECT_TRUE(nlohmann::json::parse(json_report(r))["memory"]["sram_capacity_bytes"].is_null());
}

TEST(TextReport, SaysWhatAReaderLooksFor) {
  const std::string text = text_report(example());
  EXPECT_THAT(text, HasSubstr("small with plan two-stages on wafer"));
  EXPECT_THAT(text, HasSubstr("8 samples/s, 16.38 k tokens/s"));
  EXPECT_THAT(text, HasSubstr("MFU 37.5 %"));
  EXPECT_THAT(text, HasSubstr("16   of 20 used, 1 spare, 3 idle"));
  EXPECT_THAT(text, HasSubstr("45.0 %  #######"));
  EXPECT_THAT(text, HasSubstr("link (3,0)->(4,0) die-to-die"));
  EXPECT_THAT(text, HasSubstr("E 0-3"));
  EXPECT_THAT(text, HasSubstr("4-7 H"));
  EXPECT_THAT(text, HasSubstr("(75.0 %): tile (0,0)"));
  EXPECT_THAT(text, HasSubstr("vocabulary padded"));
  EXPECT_THAT(text, Not(HasSubstr("host")));  // the machine has no host memory
}

TEST(TextReport, SaysHowMuchOfTheCommunicationIsHidden) {
  Result r = example();
  EXPECT_THAT(text_report(r), Not(HasSubstr("Communication")));  // there is none
  r.communication[static_cast<std::size_t>(Cause::tensor)] = {Seconds(0.3), Seconds(0.3),
                                                              Seconds(0)};
  r.communication[static_cast<std::size_t>(Cause::data)] = {Seconds(0.8), Seconds(0.2),
                                                            Seconds(0.6)};
  EXPECT_THAT(text_report(r),
              HasSubstr("\nCommunication (mean over the tiles used)\n"
                        "                   under way    waited for        hidden\n"
                        "  tensor            300.0 ms      300.0 ms           0 s    0.0 %\n"
                        "  data              800.0 ms      200.0 ms      600.0 ms   75.0 %\n\n"));
}

// What few plans have is shown when there is some of it; what every plan has, always.
TEST(TextReport, LeavesOutRareStatesAndCausesThatAreZero) {
  Result r = example();
  const std::string without = text_report(r);
  for (const Cause c : {Cause::context, Cause::expert, Cause::resharding, Cause::offload}) {
    EXPECT_THAT(without, Not(HasSubstr(to_string(c))));
    Result with = r;
    with.breakdown[at(wait_for(c))] = Seconds(0.25);
    with.breakdown[at(TileState::bubble)] = Seconds(0.15);
    with.traffic[static_cast<std::size_t>(c)] = Bytes(5 << 20);
    const std::string text = text_report(with);
    EXPECT_THAT(text, HasSubstr("  " + to_string(wait_for(c)) + "  "));
    EXPECT_THAT(text, HasSubstr(", " + to_string(c) + " 5.000 MiB"));
  }
  EXPECT_THAT(without, HasSubstr("  data_wait              0 s    0.0 %\n"));
  EXPECT_THAT(without, HasSubstr("data 0 B, pipeline 0 B; DRAM read"));
  r.breakdown[at(TileState::resharding_wait)] = Seconds(0.25);
  EXPECT_THAT(text_report(r), HasSubstr("  resharding_wait   250.0 ms   12.5 %  ######\n"));
}

TEST(TextReport, NamesTheClosestBoundAndTheTwoLargestLosses) {
  const std::string text = text_report(example());
  EXPECT_THAT(text, HasSubstr("Closest: the pipeline schedule"));
  EXPECT_THAT(text, HasSubstr("1.25 x <-"));
  // bubble 0.4 s first, then tensor-parallel waiting 0.3 s; recomputation is matrix work.
  const std::size_t bubble = text.find("Most of it is pipeline bubble");
  const std::size_t tensor = text.find("waiting for tensor-parallel");
  ASSERT_NE(bubble, std::string::npos);
  ASSERT_NE(tensor, std::string::npos);
  EXPECT_LT(bubble, tensor);
  EXPECT_THAT(text, Not(HasSubstr("No bound explains")));
}

TEST(TextReport, AdmitsWhenNoBoundIsNear) {
  Result r = example();
  r.bounds = {Seconds(0.1), Seconds(0.4), Seconds(0.1), Seconds(0.2)};
  EXPECT_THAT(text_report(r), HasSubstr("Closest: DRAM bandwidth. No bound explains"));
}

TEST(TextReport, NamesTheStageThatPacesThePipeline) {
  Result r = example(4);
  EXPECT_THAT(text_report(r), Not(HasSubstr("paces the pipeline")));
  // The last stage waits 0.4 s longer for DRAM, the others have that as bubble.
  r.stages[3].time[at(TileState::bubble)] = Seconds(0);
  r.stages[3].time[at(TileState::dram_wait)] = Seconds(0.4);
  EXPECT_THAT(text_report(r),
              HasSubstr("Stage 3 paces the pipeline: its own operators take 100.0 %"));
  EXPECT_THAT(text_report(r), HasSubstr("(400.0 ms) is waiting for DRAM loads and stores."));
  r.stages[3].time[at(TileState::expert_wait)] = Seconds(0.4);
  r.stages[3].time[at(TileState::dram_wait)] = Seconds(0);
  EXPECT_THAT(text_report(r), HasSubstr("(400.0 ms) is waiting for the all-to-alls of\n"));
  r.stages[3].time[at(TileState::expert_wait)] = Seconds(0);
  // Waiting for gradients at the end holds nobody up.
  r.stages[3].time[at(TileState::data_wait)] = Seconds(0.4);
  r.stages[3].time[at(TileState::dram_wait)] = Seconds(0);
  EXPECT_THAT(text_report(r), Not(HasSubstr("paces the pipeline")));
}

TEST(TextReport, FitsHundredColumnsAndKeepsEveryStage) {
  Result r = example(64);
  r.parameters = 530'000'000'000;
  r.notes.push_back(std::string(300, 'x'));
  r.notes.push_back("a note of many words " + std::string(60, 'y') + " " + std::string(60, 'z'));
  std::istringstream lines(text_report(r));
  std::string line;
  int rows = 0;
  while (std::getline(lines, line)) {
    if (line.find("xxx") == std::string::npos) {  // a single word is never cut
      EXPECT_LE(line.size(), 100u) << line;
    }
    rows += line.find("123.5 M") != std::string::npos;
    EXPECT_TRUE(line.empty() || line.back() != ' ') << '"' << line << '"';
  }
  EXPECT_EQ(rows, 64);
  EXPECT_EQ(text_report(r).back(), '\n');
}

TEST(TextReport, AnEmptyResultPrints) { EXPECT_NO_THROW(text_report(Result{})); }

TEST(Version, IsTheProjects) {
  std::ifstream file(TILEWRIGHT_SOURCE_DIR "/CMakeLists.txt");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr(std::string("VERSION ") + kVersion + " "));
}

}  // namespace
}  // namespace tilewright
