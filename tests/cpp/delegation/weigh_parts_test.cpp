// The side of a part follows from both sides' tables and from the processors that the file is for.
#include "delegation/weigh_parts.h"

#include <gtest/gtest.h>

#include <iterator>

#include "ir/parser.h"

namespace et::delegation {
namespace {

using ops::TargetIsa;
using ops::WorkCost;
using ops::WorkCosts;
using ops::WorkKind;

/// Picoseconds in the backend.
struct UnitCosts {
  float avx2, avx512, amx = 0;
};

/// A product whose unit costs so much on each processor, in tiles of one result.
Verdict verdict(UnitCosts unit, const std::vector<TargetIsa>& isas, WorkCosts::Tile tile = {1, 1}) {
  ir::ParseError error;
  const Result<std::unique_ptr<ir::Program>> parsed = ir::parse(R"(
constant @w : f32[320, 1024]
method @m(%x: f32[35, 1024]) {
  %w = constant @w : f32[320, 1024]
  %a = aten::linear(%x, %w, none) : f32[35, 320] tag("t")
  return %a
})",
                                                                &error);
  EXPECT_TRUE(parsed.ok()) << error.to_string();
  const WorkCost rows[] = {
      {ops::WorkNumbers::floating, WorkKind::linear, {{}, {0, unit.avx2}, {}, {0, unit.avx512}, {0, unit.amx}, {}}}};
  const WorkCosts costs = {{rows, 1}, {tile, tile, tile, tile, tile, tile}};
  ir::Node* const part[] = {(*parsed)->methods.at(0)->nodes().back().get()};
  const std::optional<Verdict> found = weigh_part({part, 1}, &costs, isas);
  EXPECT_TRUE(found);
  return found ? *found : Verdict();
}

// The kernels' own table has 15 to 25 ps for it.
constexpr float kFast = 10, kSlow = 40, kVerySlow = 200;
const std::vector<TargetIsa> kBoth = {TargetIsa::kAvx2, TargetIsa::kAvx512};

TEST(CostOf, ALargeMatrixIsReadForEachTileOfRows) {
  const WorkCost rows[] = {{ops::WorkNumbers::floating, WorkKind::linear, {{}, {0, 20}, {}, {0, 20}, {}, {}}}};
  WorkCosts once = {{rows, 1}, {}}, anew = {{rows, 1}, {}};
  anew.numbers_read_once = 3000.0 * 1000.0;
  anew.rereading[static_cast<size_t>(TargetIsa::kAvx2)] = {2100.0 * 1000.0, 2100.0 * 1000.0, 0.2};
  const auto cost = [](double depth, const WorkCosts& costs) {
    return *ops::cost_of(ops::work_of_product(100, 1000, depth), TargetIsa::kAvx2, costs);
  };
  const auto more = [&](double depth) { return (cost(depth, anew) - cost(depth, once)) / (100 * 1000 * depth * 0.02); };
  EXPECT_EQ(cost(2000, anew), cost(2000, once));
  EXPECT_NEAR(more(2200), 0.2, 1e-9);
  EXPECT_DOUBLE_EQ(cost(3001, anew), 2 * 100 * 1000 * 3001 * 0.02);
}

TEST(WeighPart, TheCheaperSideGetsIt) {
  EXPECT_TRUE(verdict({kFast, kFast}, kBoth).is_taken);
  EXPECT_FALSE(verdict({kSlow, kSlow}, kBoth).is_taken);
}

TEST(WeighPart, OnlyProcessorsOfTheFileCount) {
  EXPECT_TRUE(verdict({kFast, kVerySlow}, {TargetIsa::kAvx2}).is_taken);
  EXPECT_FALSE(verdict({kFast, kVerySlow}, {TargetIsa::kAvx512}).is_taken);
}

TEST(WeighPart, TheLargerLossDecides) {
  EXPECT_FALSE(verdict({kFast, kVerySlow}, kBoth).is_taken) << "twice as fast here does not pay for ten times there";
  EXPECT_TRUE(verdict({1, kSlow}, kBoth).is_taken);
}

TEST(WeighPart, EachProcessorOfTheFileHasItsSay) {
  const std::vector<TargetIsa> usual(std::begin(ops::kUsualIsas), std::end(ops::kUsualIsas));
  EXPECT_TRUE(verdict({kFast, kFast, kFast}, usual).is_taken);
  EXPECT_FALSE(verdict({kFast, kFast, kVerySlow}, usual).is_taken);
  EXPECT_FALSE(verdict({kVerySlow, kFast, kFast}, usual).is_taken);
}

TEST(WeighPart, TilesAtTheEdgeCountWhole) {
  EXPECT_TRUE(verdict({kFast, kFast}, kBoth, {35, 320}).is_taken);
  EXPECT_FALSE(verdict({kFast, kFast}, kBoth, {140, 320}).is_taken) << "35 rows are computed as 140";
}

TEST(WeighPart, TheTextHasBothCosts) {
  EXPECT_NE(verdict({kFast, kFast}, {TargetIsa::kAvx2}).text.find("157 us against "), std::string::npos);
}

TEST(WeighPart, ABackendWithoutCostsIsNotWeighed) { EXPECT_FALSE(weigh_part({}, nullptr, kBoth)); }

}  // namespace
}  // namespace et::delegation
