// Resharding moves exactly the bytes that change owner, whatever the two splits.
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <tilewright/plan/kernels.h>

namespace tilewright {
namespace {

constexpr DimSet kAll(Dim::batch, Dim::row, Dim::col);
constexpr Dim kCuts[] = {Dim::batch, Dim::row, Dim::col};

/// Two pointwise operators: x -> a -> y.
Block two_operators(std::int64_t rows, std::int64_t columns) {
  Block block{"layer", {}};
  const char* names[] = {"x", "a", "y"};
  const OpRole roles[] = {OpRole::activation, OpRole::mlp_residual};
  for (int i = 0; i < 2; ++i) {
    Operator op;
    op.name = to_string(roles[i]);
    op.kind = OpKind::elementwise;
    op.role = roles[i];
    op.extents[Dim::row] = rows;
    op.extents[Dim::col] = columns;
    op.inputs = {Operand{names[i], kAll}};
    op.outputs = {Operand{names[i + 1], kAll}};
    op.forward_passes = 1;
    block.operators.push_back(op);
  }
  return block;
}

/// Bytes that all ranks together receive to turn "a" from the one layout into the other.
std::int64_t moved(const BlockKernels& kernels, const Splits& splits) {
  std::int64_t sum = 0;
  for (const Kernel& k : kernels.forward) {
    if (!k.collective || k.reads.front().tensor[0] != 'a') continue;
    std::int64_t ranks = 1;
    for (std::size_t a = 0; a < splits.axes().size(); ++a) {
      if ((k.collective->axes >> a & 1u) != 0) ranks *= splits.axes()[a].degree;
    }
    const std::int64_t bytes = k.collective->bytes;
    // A ring passes a chunk on ranks - 1 times; in an exchange every pair has its own message.
    sum += splits.ranks() * (k.collective->kind == CollectiveKind::all_gather
                                 ? bytes / ranks * (ranks - 1)
                                 : bytes / ranks / ranks * (ranks - 1));
  }
  return sum;
}

/// The same by counting elements. A dimension is cut digit by digit, one digit for each axis, so
/// that what a rank holds of it does not depend on how other axes cut it.
std::int64_t owner_changes(const std::vector<int>& degrees, const Layouts& from, const Layouts& to,
                           std::int64_t bytes_per_element) {
  const auto dim_of = [](Layout l) {
    return l == Layout::batch ? 0 : l == Layout::token ? 1 : l == Layout::feature ? 2 : -1;
  };
  std::int64_t ranks = 1;
  for (const int d : degrees) ranks *= d;
  const std::int64_t elements = ranks * ranks * ranks;  // one digit per axis in each dimension
  const auto digit = [&](std::int64_t index, std::size_t axis) {
    for (std::size_t a = 0; a < axis; ++a) index /= degrees[a];
    return index % degrees[axis];
  };
  std::int64_t changes = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (std::int64_t e = 0; e < elements; ++e) {
      const std::int64_t index[] = {e % ranks, e / ranks % ranks, e / ranks / ranks};
      const auto holds = [&](const Layouts& layouts) {
        for (std::size_t a = 0; a < degrees.size(); ++a) {
          const int d = dim_of(layouts[a]);
          if (d >= 0 && digit(index[d], a) != digit(rank, a)) return false;
        }
        return true;
      };
      if (holds(to) && !holds(from)) ++changes;
    }
  }
  return changes * bytes_per_element;
}

TEST(Resharding, MovesExactlyTheBytesThatChangeOwner) {
  std::mt19937 random(11);
  int conversions = 0;
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<int> degrees(1 + random() % 3);
    std::vector<GroupAxis> axes;
    int ranks = 1;
    for (int& d : degrees) {
      d = degrees.size() == 3 ? 2 : 2 + static_cast<int>(random() % 3);
      axes.push_back({"axis" + std::to_string(axes.size()), d, Cause::tensor, ranks, false});
      ranks *= d;
    }
    Splits splits(axes);
    for (const OpRole role : {OpRole::activation, OpRole::mlp_residual}) {
      for (std::size_t a = 0; a < axes.size(); ++a) {
        const std::size_t c = random() % 4;
        if (c < 3) splits.set(role, a, kCuts[c]);
      }
    }
    // Extents of which every digit of every axis is a whole number of elements.
    const Block block = two_operators(ranks, ranks);
    KernelOptions o{splits, splits.input_layouts(block.operators[0], block.operators[0].inputs[0])};
    o.samples = ranks;
    o.training = false;
    const BlockKernels k = make_kernels(block, o);
    const Layouts from = splits.output_layouts(block.operators[0], block.operators[0].outputs[0]);
    const Layouts to = splits.input_layouts(block.operators[1], block.operators[1].inputs[0]);
    const std::int64_t expected = owner_changes(degrees, from, to, 2);
    EXPECT_EQ(moved(k, splits), expected) << "trial " << trial << ", " << ranks << " ranks";
    conversions += expected > 0;
  }
  EXPECT_GT(conversions, 200);
}

}  // namespace
}  // namespace tilewright
