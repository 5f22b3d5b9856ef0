// Named partitions are plans in the vocabulary of axes and cuts: written out, they give the same
// program to the byte.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/lower.h>
#include <tilewright/program/text.h>
#include <tilewright/workload/decoder.h>

#include "support/plain_mesh.h"

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Graph graph() {
  DecoderConfig c;
  c.name = "trunk";
  c.layers = 2;
  c.hidden = 64;
  c.heads = c.kv_heads = 4;
  c.head_dim = 16;
  c.ffn = 256;
  c.vocab = 128;
  c.sequence = c.max_positions = 32;
  return build_graph(c);
}

MachineConfig mesh() { return test::plain_mesh(4, 4); }

PlanConfig read(const std::string& parallelism, const std::string& rest) {
  return read_plan(Document::parse("plan: test\nparallelism: { " + parallelism +
                                       " }\nbatch: { global: 8, micro: 2 }\n" + rest + "\n",
                                   "plan", {}, "p.yaml"));
}

std::string program(const PlanConfig& plan) {
  return program_text(lower(graph(), plan, mesh()).program);
}

TEST(PartitionNames, AreWhatTheyStandFor) {
  const std::string degrees = "tensor: 2, data: 2";
  const struct {
    const char *name, *parallelism, *rest;
  } cases[] = {
      {"megatron", "", ""},
      {"megatron-sp", ", sequence_parallel: true", ""},
      {"deepspeed-zero1", ", zero: 1", "overlap: { bucket: 500 MB }"},
      {"deepspeed-zero2", ", zero: 2", "overlap: { bucket: 500 MB }"},
      {"deepspeed-zero3", ", zero: 3", "overlap: { bucket: 500 MB }"},
      {"fsdp", ", zero: 3", "overlap: { bucket: 1 B }"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(program(read(degrees, std::string("partition: ") + c.name)),
              program(read(degrees + c.parallelism, c.rest)))
        << c.name;
  }
}

TEST(PartitionNames, MegatronAndStreamingWrittenOperatorByOperator) {
  const std::string none = "{ tensor: none }";
  std::string rows = "partition:\n  operators:\n";
  for (const Block& block : graph().blocks) {
    for (const Operator& op : block.operators) {
      rows += "    " + to_string(op.role) + ": { tensor: row }\n";
    }
  }
  EXPECT_EQ(program(read("tensor: 4, zero: 3", rows + "overlap: { bucket: 1 B }")),
            program(read("tensor: 4", "partition: weight-streaming")));
  const std::string sp =
      "partition:\n  operators:\n"
      "    attention_norm: { tensor: row }\n    attention_residual: { tensor: row }\n"
      "    mlp_norm: { tensor: row }\n    mlp_residual: { tensor: row }\n"
      "    final_norm: { tensor: row }\n";
  EXPECT_EQ(program(read("tensor: 4", sp)), program(read("tensor: 4", "partition: megatron-sp")));
}

TEST(PartitionNames, WhatIsWrittenBesideTheNameWins) {
  const PlanConfig p = read("data: 2, zero: 1", "partition: fsdp\noverlap: { bucket: none }");
  EXPECT_EQ(p.zero, 1);
  EXPECT_EQ(p.overlap.bucket, 0);
}

std::string error_of(const std::string& parallelism, const std::string& rest) {
  try {
    lower(graph(), read(parallelism, rest), mesh());
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(PartitionNames, RefusalsNamePlaceAndWhatIsAllowed) {
  EXPECT_THAT(error_of("tensor: 2", "partition: megatron-ps"),
              AllOf(HasSubstr("p.yaml:4: partition"), HasSubstr("megatron-sp")));
  EXPECT_THAT(error_of("tensor: 2", "partition: { operators: { mlp_up: { tensor: expert } } }"),
              AllOf(HasSubstr("p.yaml:4"), HasSubstr("has no dimension 'expert'"),
                    HasSubstr("none, batch, row, col, red")));
  EXPECT_THAT(error_of("tensor: 2", "partition: { operators: { mlp_upp: { tensor: row } } }"),
              HasSubstr("mlp_up"));
  EXPECT_THAT(error_of("tensor: 2", "partition: { operators: { mlp_up: { context_: row } } }"),
              HasSubstr("context"));
  EXPECT_THAT(error_of("tensor: 4, tensor_shape: [2, 3]", ""),
              HasSubstr("parallelism.tensor is 4"));
  EXPECT_THAT(error_of("tensor_shape: [2, 2, 2, 2]", ""), HasSubstr("one to three"));
  EXPECT_THAT(error_of("data: 4, expert: 3", ""), HasSubstr("does not divide the data degree 4"));
  EXPECT_THAT(error_of("data: 2, expert: 2", ""), HasSubstr("has no experts"));
  EXPECT_THAT(error_of("context: 5", ""), AllOf(HasSubstr("5 parts"), HasSubstr("uneven: pad")));
  EXPECT_THAT(error_of("zero: 4", ""), HasSubstr("parallelism.zero"));
  EXPECT_THAT(error_of("data: 3, zero: 3", ""), HasSubstr("as many micro-batches"));
  EXPECT_THAT(error_of("tensor: 2", "placement: { order: [tensor, tensor] }"),
              HasSubstr("listed twice"));
  EXPECT_THAT(error_of("tensor: 2", "placement: { file: nowhere.yaml }"),
              HasSubstr("nowhere.yaml"));
}

TEST(PartitionNames, OrdersOfAxesPlaceTheSameRanksElsewhere) {
  const MachineConfig m = mesh();
  const PlanConfig data_first =
      read("pipeline: 2, tensor: 2, data: 4", "placement: { order: [data, tensor] }");
  const Placement placed = place(data_first, m);
  // The replicas of a rank fill a rectangle of 2 × 2; its tensor peer's lie in the next one.
  for (int stage = 0; stage < 2; ++stage) {
    for (int rank = 0; rank < 2; ++rank) {
      for (int replica = 0; replica < 4; ++replica) {
        EXPECT_LE(m.hops(placed.tile(stage, 0, rank), placed.tile(stage, replica, rank)), 2);
      }
    }
    EXPECT_EQ(m.hops(placed.tile(stage, 0, 0), placed.tile(stage, 0, 1)), 2);
  }
}

}  // namespace
}  // namespace tilewright
