// Convolutional networks under a plan: kernels, what moves, what is kept, what is refused.
#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/sent.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/kernels.h>
#include <tilewright/plan/lower.h>
#include <tilewright/workload/convnet.h>

#include "support/plain_mesh.h"

namespace tilewright {
namespace {

using test::sent;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Two stages of bottlenecks, the second on a quarter of the pixels.
ConvnetConfig net(std::int64_t groups = 1) {
  ConvnetConfig c;
  c.name = "net";
  c.height = c.width = 32;
  c.classes = 16;
  c.stem = {16, 3, 1, 3, 2};
  c.stages = {{2, 64, 16, 1, groups}, {2, 128, 32, 2, groups}};
  return c;
}

ConvnetConfig basic_net() {
  ConvnetConfig c = net();
  c.block = ConvBlock::basic;
  for (ConvStage& s : c.stages) s.inner = 0;
  return c;
}

MachineConfig mesh() { return test::plain_mesh(4, 4); }

PlanConfig plan(int pipeline = 1, int tensor = 1, int data = 1) {
  PlanConfig p;
  p.name = "test";
  p.pipeline = pipeline;
  p.tensor = tensor;
  p.data = data;
  p.micro_batch = 2;
  p.global_batch = 2 * 3 * data;
  return p;
}

KernelOptions options(const Graph& g, const PlanConfig& p) {
  const Splits splits = make_splits(p, g);
  KernelOptions o{splits, boundary_layouts(g, splits)};
  o.samples = 2;
  o.training = p.mode == Mode::training;
  return o;
}

double flop(const std::vector<Kernel>& kernels) {
  double sum = 0;
  for (const Kernel& k : kernels) sum += k.matrix ? k.gemm.flop() : 0;
  return sum;
}

std::vector<std::string> names(const std::vector<Kernel>& kernels) {
  std::vector<std::string> result;
  for (const Kernel& k : kernels) result.push_back(k.name);
  return result;
}

TEST(ConvnetKernels, FlopsDoNotDependOnTheSplit) {
  for (const ConvnetConfig& c : {net(), net(8), basic_net()}) {
    const Graph g = build_graph(c);
    for (const int tensor : {1, 2, 4}) {
      for (const Block& block : g.blocks) {
        const BlockKernels k = make_kernels(block, options(g, plan(1, tensor)));
        EXPECT_DOUBLE_EQ(tensor * flop(k.forward), 2 * block.forward_flop().value())
            << block.name << " over " << tensor;
        EXPECT_DOUBLE_EQ(tensor * flop(k.backward), 2 * block.backward_flop().value())
            << block.name << " over " << tensor;
      }
    }
  }
}

TEST(ConvnetKernels, TrainingNormsWaitForTheirStatisticsAndInferenceFoldsThemIn) {
  const Graph g = build_graph(net());
  const Block& block = g.blocks[2];
  PlanConfig p = plan();
  const BlockKernels training = make_kernels(block, options(g, p));
  EXPECT_THAT(names(training.forward),
              ::testing::ElementsAre("conv1+norm1.statistics", "norm1+act1",
                                     "conv2+norm2.statistics", "norm2+act2",
                                     "conv3+norm3.statistics", "norm3+residual+residual_act"));
  EXPECT_THAT(
      names(training.backward),
      ::testing::ElementsAre("residual_act.grad+norm3.grad.statistics", "norm3.grad", "conv3.wgrad",
                             "conv3.dgrad+act2.grad+norm2.grad.statistics", "norm2.grad",
                             "conv2.wgrad", "conv2.dgrad+act1.grad+norm1.grad.statistics",
                             "norm1.grad", "conv1.wgrad", "conv1.dgrad"));
  // 256 pixels of two samples and 16 channels: two sums with the convolution, one multiply-add and
  // the activation behind it.
  EXPECT_EQ(training.forward[0].vector_elements, 2 * 256 * 16 * 2);
  EXPECT_EQ(training.forward[1].vector_elements, 2 * 256 * 16 * 2);
  p.mode = Mode::inference;
  const BlockKernels inference = make_kernels(block, options(g, p));
  EXPECT_THAT(names(inference.forward),
              ::testing::ElementsAre("conv1+norm1+act1", "conv2+norm2+act2",
                                     "conv3+norm3+residual+residual_act"));
  EXPECT_EQ(inference.forward[0].vector_elements, 2 * 256 * 16 * 2);
}

TEST(ConvnetKernels, TheStemHasNoInputGradientAndKeepsTheImage) {
  const Graph g = build_graph(net());
  const BlockKernels k = make_kernels(g.blocks[0], options(g, plan()));
  EXPECT_EQ(k.input, "");
  for (const Kernel& kernel : k.backward) {
    EXPECT_EQ(kernel.name.find("stem.dgrad"), std::string::npos);
  }
  // The image, the convolution's result and the activation's, and a byte for the place of each
  // largest.
  EXPECT_EQ(k.stash_bytes(), 2 * (32 * 32 * 3 * 2 + 2 * 32 * 32 * 16 * 2 + 16 * 16 * 16));
}

TEST(ConvnetKernels, ConvolutionsOfOnePixelAreGemms) {
  const Graph g = build_graph(net());
  const BlockKernels k = make_kernels(g.blocks[3], options(g, plan()));
  ASSERT_EQ(g.blocks[3].name, "stage2.first");
  for (const Kernel& kernel : k.forward) {
    const bool strided =
        kernel.name.rfind("conv2", 0) == 0 || kernel.name.rfind("shortcut", 0) == 0;
    if (kernel.matrix) {
      EXPECT_EQ(kernel.convolution.has_value(), strided) << kernel.name;
    }
  }
}

TEST(ConvnetKernels, DroppedActivationsAreMadeAgainFromTheNormsInput) {
  const Graph g = build_graph(net());
  KernelOptions o = options(g, plan());
  const BlockKernels all = make_kernels(g.blocks[2], o);
  for (const OpRole role : {OpRole::act1, OpRole::act2}) {
    o.dropped.roles.set(static_cast<std::size_t>(role));
  }
  const BlockKernels fewer = make_kernels(g.blocks[2], o);
  EXPECT_EQ(flop(fewer.recompute), 0);
  EXPECT_EQ(all.stash_bytes() - fewer.stash_bytes(), 2 * 2 * 256 * 16 * 2);
  o.dropped = {true, {}};
  const BlockKernels none = make_kernels(g.blocks[2], o);
  EXPECT_DOUBLE_EQ(flop(none.recompute), flop(all.forward));
  EXPECT_EQ(none.stash_bytes(), 2 * 256 * 64 * 2);
  // The stem is no layer, and keeps the places of the largest pixels, which nobody can draw again.
  EXPECT_EQ(make_kernels(g.blocks[0], o).stash_bytes(),
            make_kernels(g.blocks[0], options(g, plan())).stash_bytes());
}

TEST(ConvnetVolume, TensorRanksReduceAndGatherOncePerPairOfConvolutions) {
  // Forward, per identity block: the second and third convolutions' partial sums are scattered by
  // channel, and the result is gathered. Over t ranks each moves (t - 1) times the tensor.
  for (const int t : {2, 4}) {
    const Graph g = build_graph(net());
    PlanConfig p = plan(1, t);
    p.mode = Mode::inference;
    const BlockKernels k = make_kernels(g.blocks[2], options(g, p));
    std::int64_t bytes = 0;
    std::vector<CollectiveKind> kinds;
    for (const Kernel& kernel : k.forward) {
      if (!kernel.collective) continue;
      kinds.push_back(kernel.collective->kind);
      bytes += kernel.collective->bytes;
    }
    EXPECT_THAT(kinds,
                ::testing::ElementsAre(CollectiveKind::reduce_scatter,
                                       CollectiveKind::reduce_scatter, CollectiveKind::all_gather));
    EXPECT_EQ(bytes, 2 * 256 * 2 * (16 + 64 + 64));
  }
}

TEST(ConvnetVolume, GroupsAreDividedWithoutASum) {
  const Graph g = build_graph(net(8));
  const BlockKernels k = make_kernels(g.blocks[2], options(g, plan(1, 4)));
  int sums = 0;
  for (const Kernel& kernel : k.forward) {
    sums += kernel.collective && kernel.collective->kind == CollectiveKind::reduce_scatter ? 1 : 0;
  }
  EXPECT_EQ(sums, 1);  // of the third convolution
}

/// Bytes beside their own rows that ranks pass on, by kind.
std::int64_t edges(const std::vector<Kernel>& kernels, CollectiveKind kind) {
  std::int64_t bytes = 0;
  for (const Kernel& k : kernels) {
    if (k.collective && k.collective->kind == kind) bytes += k.collective->halo;
  }
  return bytes;
}

TEST(ConvnetVolume, RanksThatShareAnImagePassOnTheRowsThatWindowsReach) {
  for (const int c : {2, 4}) {
    const Graph g = build_graph(net());
    PlanConfig p = plan();
    p.context = c;
    // 3 x 3 windows: two rows of 16 pixels and 16 channels, of two samples, for the convolution and
    // again for its weight gradient; the gradient of as many comes back.
    constexpr std::int64_t kRows = 2 * 2 * 16 * 16 * 2;
    const BlockKernels same = make_kernels(g.blocks[2], options(g, p));
    EXPECT_EQ(edges(same.forward, CollectiveKind::halo), kRows);
    EXPECT_EQ(edges(same.backward, CollectiveKind::halo), kRows);
    EXPECT_EQ(edges(same.backward, CollectiveKind::halo_sum), kRows);
    // With a stride of two one row of 16 pixels and 32 channels; the 1 x 1 convolutions reach none.
    const BlockKernels first = make_kernels(g.blocks[3], options(g, p));
    EXPECT_EQ(edges(first.forward, CollectiveKind::halo), 2 * 16 * 32 * 2);
    // Images are read where they are, with the rows beside; the pooling's windows reach one row.
    const BlockKernels stem = make_kernels(g.blocks[0], options(g, p));
    EXPECT_EQ(edges(stem.forward, CollectiveKind::halo), 2 * 32 * 16 * 2);
    EXPECT_EQ(edges(stem.backward, CollectiveKind::halo_sum), 2 * 32 * 16 * 2);
    // Only rows are held twice, while a kernel needs them.
    EXPECT_EQ(c * same.stash_bytes(), make_kernels(g.blocks[2], options(g, plan())).stash_bytes());
    for (const Block& block : g.blocks) {
      const BlockKernels k = make_kernels(block, options(g, p));
      const double parts = block.name == "head" ? 1 : c;  // a class has no rows
      EXPECT_DOUBLE_EQ(parts * flop(k.forward), 2 * block.forward_flop().value()) << block.name;
      EXPECT_DOUBLE_EQ(parts * flop(k.backward), 2 * block.backward_flop().value()) << block.name;
    }
  }
}

TEST(ConvnetVolume, ABlockThatEndsWithAnEdgeHandsItsGradientOverOnce) {
  // The first convolution of a basic block has 3 x 3 windows, so that its input's gradient is
  // complete when edges have come back.
  const Graph g = build_graph(basic_net());
  PlanConfig p = plan(2);
  p.stage_layers = {1, 3};
  const std::int64_t whole = sent(lower(g, p, mesh()), "pipeline");
  for (const ScheduleKind schedule : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1}) {
    p.schedule = schedule;
    p.context = 2;
    EXPECT_EQ(sent(lower(g, p, mesh()), "pipeline"), whole);
  }
}

TEST(ConvnetVolume, DataParallelRanksSumEveryGradientOnce) {
  const Graph g = build_graph(net());
  for (const int d : {2, 4}) {
    const LoweredPlan l = lower(g, plan(1, 1, d), mesh());
    // A ring: every rank sends 2(d - 1)/d of the gradients. Batch norms keep statistics of their
    // own.
    EXPECT_NEAR(static_cast<double>(sent(l, "data")),
                static_cast<double>(2 * (d - 1) * g.parameters() * 2), 2 * d * d);
  }
}

TEST(ConvnetVolume, StagesHandOverWhatTheirLastBlockMakes) {
  const Graph g = build_graph(net());
  PlanConfig p = plan(3);
  p.stage_layers = {1, 1, 2};
  const LoweredPlan l = lower(g, p, mesh());
  // Two samples of 16 x 16 pixels of 64 channels over both boundaries, there and back, three times.
  EXPECT_EQ(sent(l, "pipeline"), 3 * 2 * (2 * 2 * 256 * 64 * 2));
  p.stage_layers = {1, 2, 1};
  // The second boundary: 8 x 8 pixels of 128 channels.
  EXPECT_EQ(sent(lower(g, p, mesh()), "pipeline"), 3 * 2 * (2 * 256 * 64 * 2 + 2 * 64 * 128 * 2));
}

TEST(ConvnetPlan, EveryPipelineDegreeFindsStages) {
  const Graph g = build_graph(net());
  for (const int p : {1, 2, 3, 4}) {
    const LoweredPlan l = lower(g, plan(p), mesh());
    EXPECT_EQ(l.stages.size(), static_cast<std::size_t>(p));
    EXPECT_TRUE(l.stages.back().head);
    std::int64_t parameters = 0;
    for (const StagePlan& s : l.stages) parameters += s.parameters;
    EXPECT_EQ(parameters, g.parameters());
  }
}

std::string refusal(const PlanConfig& p, const ConvnetConfig& c = net()) {
  try {
    check_plan(p, build_graph(c), mesh());
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(ConvnetPlan, WhatIsAboutTokensIsRefused) {
  PlanConfig p = plan();
  EXPECT_EQ(refusal(p), "");
  p.sequence = 128;
  EXPECT_THAT(refusal(p), AllOf(HasSubstr("of images"), HasSubstr("no tokens")));
  p = plan();
  p = plan(1, 2);
  p.sequence_parallel = true;
  EXPECT_THAT(refusal(p), HasSubstr("sequence_parallel"));
  p = plan(1, 1, 2);
  p.expert = 2;
  EXPECT_THAT(refusal(p), HasSubstr("no experts"));
  p = plan();
  p.fuse_attention = true;
  EXPECT_THAT(refusal(p), HasSubstr("no attention"));
  p.overlap.ring_attention = true;
  p.fuse_attention = false;
  EXPECT_THAT(refusal(p), AllOf(HasSubstr("ring_attention"), HasSubstr("wanted: false")));
  p = plan();
  p.fuse_norm = true;
  EXPECT_THAT(refusal(p), AllOf(HasSubstr("fusion"), HasSubstr("allowed: pointwise, none")));
  p = plan(1, 4);
  p.tensor_shape = {2, 2};
  EXPECT_THAT(refusal(p), HasSubstr("one tensor axis"));
  p = plan(1, 2);
  p.partition = PartitionPreset::accpar;
  EXPECT_THAT(refusal(p), AllOf(HasSubstr("partition"), HasSubstr("megatron")));
  p = plan();
  p.recomputation = Recomputation::selective;
  EXPECT_THAT(refusal(p), HasSubstr("no operator 'scores'"));
}

TEST(ConvnetPlan, AnSramThatHoldsNoWindowIsRefused) {
  MachineConfig m = mesh();
  m.sram.capacity = Bytes(1000);
  m.dram.sites = {{0, 0}};
  m.dram.bandwidth = Bandwidth(1e11);
  m.dram.capacity = Bytes(1e9);
  try {
    lower(build_graph(net()), plan(), m);
    FAIL() << "nothing was refused";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(),
                AllOf(HasSubstr("tile.sram.capacity"), HasSubstr("every pixel of its window")));
  }
}

TEST(ConvnetPlan, CutsThatNoConvolutionCanHaveAreRefused) {
  const auto with_cut = [](OpRole role, Dim dim) {
    PlanConfig p = plan(1, 3);
    p.cuts = {{role, "tensor", dim, "p.yaml:3: partition.operators.conv1"}};
    p.uneven = Uneven::pad;
    return p;
  };
  EXPECT_THAT(refusal(with_cut(OpRole::conv2, Dim::row)),
              AllOf(HasSubstr("images of 16 rows"), HasSubstr("3 ranks do not divide")));
  PlanConfig both = with_cut(OpRole::conv2, Dim::row);
  both.tensor = both.context = 2;
  EXPECT_THAT(refusal(both), HasSubstr("over two axes"));
  PlanConfig shared = plan();
  shared.context = 2;
  shared.multicast = true;
  EXPECT_THAT(refusal(shared), AllOf(HasSubstr("multicast"), HasSubstr("wanted: false")));
  EXPECT_THAT(refusal(with_cut(OpRole::conv2, Dim::head)), HasSubstr("no groups"));
  EXPECT_THAT(refusal(with_cut(OpRole::conv2, Dim::col), net(8)),
              AllOf(HasSubstr("8 groups"), HasSubstr("wanted: head")));
  // Three taps of a 3 x 3 kernel are no third of the channels.
  EXPECT_THAT(refusal(plan(1, 3)), HasSubstr("do not divide"));
}

}  // namespace
}  // namespace tilewright
