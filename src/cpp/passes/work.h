/// What nodes have to do, counted, and tables of what that costs.
///
/// For: the choice between a backend and the runtime's kernels (delegation/weigh_parts.h). Both sides price the same
///      work from tables that benchmarks/operator_costs.py measures. Not for: a forecast of a model's time. Costs are
///      for comparison: what both sides have in common, views, clamps and conversions of integers, costs nothing.
///
/// A unit is a multiplication of a product or a convolution, and a result's element of anything else.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "base/span.h"
#include "ir/graph.h"

namespace et::passes {

enum class WorkKind : uint8_t {
#define ET_WORK(NAME) NAME,
#include "passes/work.def"
#undef ET_WORK
};

struct Work {
  WorkKind kind;
  bool is_integer = false;  ///< a product of integers
  double units = 0;         ///< of dynamic sizes the largest
  /// Of a dense product of floats: results, as a matrix. 0: of no such product.
  double rows = 0, columns = 0;
};

/// The work of an Edge node; nothing for what costs nothing.
std::optional<Work> work_of(const ir::Node& node);

/// What a file may be made for: the columns of the tables.
enum class TargetIsa : uint8_t { kAvx2, kAvx512 };
inline constexpr TargetIsa kTargetIsas[] = {TargetIsa::kAvx2, TargetIsa::kAvx512};
constexpr std::string_view name_of(TargetIsa isa) { return isa == TargetIsa::kAvx2 ? "avx2" : "avx512"; }

/// A row of a table: what work of a kind costs on one core.
struct WorkCost {
  enum Numbers : uint8_t { floating, int8 } numbers;
  WorkKind kind;
  struct {
    float call_ns, unit_ps;
  } on[std::size(kTargetIsas)];
};

/// The costs of one side.
struct WorkCosts {
  Span<const WorkCost> table{};
  /// Dense products of floats are computed in tiles of so many results, and tiles at the edges whole.
  struct Tile {
    double rows = 1, columns = 1;
  } tiles[std::size(kTargetIsas)];
};

/// In nanoseconds. Integers without a row of their own cost what floats do.
double cost_of(const Work& work, TargetIsa isa, const WorkCosts& costs);

}  // namespace et::passes

/// Rows of a generated table: include it between the braces of an array of WorkCost.
#define ET_COST(NUMBERS, KIND, AVX2_NS, AVX2_PS, AVX512_NS, AVX512_PS) \
  {::et::passes::WorkCost::NUMBERS, ::et::passes::WorkKind::KIND, {{AVX2_NS, AVX2_PS}, {AVX512_NS, AVX512_PS}}},
