#include "passes/clamps.h"

#include <gtest/gtest.h>

#include "ops/names.h"
#include "ops/op_table.h"

namespace et::passes {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// min and max of the clamp that an operator is with these arguments behind its tensor.
std::optional<std::pair<double, double>> range(std::string_view op, std::vector<ir::Argument> bounds) {
  ir::Graph graph("clamps");
  ir::Value* x = graph.add_input("x", ir::Type::of(ir::TensorType::contiguous(ScalarType::Float, {2})));
  bounds.insert(bounds.begin(), ir::Argument{x});
  const std::optional<Clamp> found = clamp_of(*graph.create_node(op, std::move(bounds)));
  return found ? std::optional(std::pair(found->min, found->max)) : std::nullopt;
}

TEST(Clamps, SayTheirRanges) {
  EXPECT_EQ(range(op::relu, {}), std::pair(0.0, kInfinity));
  EXPECT_EQ(range(op::hardtanh, {{int64_t{-1}}, {1.5}}), std::pair(-1.0, 1.5));
  EXPECT_EQ(range(op::clamp, {{}, {6.0}}), std::pair(-kInfinity, 6.0));
  EXPECT_EQ(range(op::clamp_min, {{2.0}}), std::pair(2.0, kInfinity));
  EXPECT_EQ(range(op::clamp_max, {{2.0}}), std::pair(-kInfinity, 2.0));
  EXPECT_EQ(range(op::clamp, {{6.0}, {0.0}}), std::nullopt);
  EXPECT_EQ(range(op::clamp, {{std::string("computed")}, {0.0}}), std::nullopt);
  EXPECT_EQ(range(op::abs, {}), std::nullopt);
}

TEST(Clamps, OfTheTableHaveBoundsBehindTheirTensor) {
  size_t count = 0;
  for (const ops::OpInfo& op : ops::all_ops()) {
    count += op.has_tag(ops::kClamps);
    for (size_t i = 1; op.has_tag(ops::kClamps) && i < op.arguments.size(); ++i) {
      const std::string_view word = op.arguments[i].name.substr(0, 3);
      EXPECT_TRUE(word == "min" || word == "max") << op.schema;
    }
  }
  EXPECT_EQ(count, 5u);
}

TEST(Clamps, OneBehindAnotherIsOne) {
  const auto then = [](Clamp first, Clamp next) {
    const Clamp both = first.then(next);
    return std::pair(both.min, both.max);
  };
  EXPECT_EQ(then({0, kInfinity}, {-1, 6}), std::pair(0.0, 6.0));
  EXPECT_EQ(then({0, 1}, {2, 3}), std::pair(2.0, 2.0));
  EXPECT_EQ(then({}, {2, 3}), std::pair(2.0, 3.0));
}

}  // namespace
}  // namespace et::passes
