/// What work costs on one core: kinds of work, counted, and tables of measured figures.
///
/// For: the choice among kernels at load (runtime/host/kernel_costs.h), and between kernels and a delegate at lowering
///      (delegation/weigh_parts.h). Both read the same tables, which benchmarks/operator_costs.py measures: one of our
///      kernels here, one of a library in its backend. Not for: a forecast of a model's time. Costs are for comparison:
///      what both sides have in common, views, clamps and conversions of integers, costs nothing.
///
/// A unit is a multiplication of a product or a convolution, and a result's element of anything else.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>

#include "base/span.h"
#include "ops/work.h"

namespace et::ops {

/// What a product multiplies. Dynamic: floats that become integers at the call, by a weight of integers.
enum class WorkNumbers : uint8_t { floating, int8, dynamic };

struct Work {
  WorkKind kind;
  WorkNumbers numbers = WorkNumbers::floating;
  double units = 0;  ///< of dynamic sizes the largest
  /// Of a dense product: results, as a matrix; columns of one group. 0: of no such product.
  double rows = 0, columns = 0;
};

/// What decides about the work of a convolution.
struct ConvolutionForm {
  Span<const int64_t> weight;  ///< [out, in / groups, …], or [in, out / groups, …] when transposed; 3 to 5 dims
  int64_t groups;
  bool is_transposed;
  bool has_unit_steps;     ///< strides and dilations of 1
  bool overlaps;           ///< windows_overlap()
  double inputs, results;  ///< elements of the images
};
/// True where a kernel is longer than its stride, of which there is one, or one for each dimension.
bool windows_overlap(Span<const int64_t> weight, Span<const int64_t> stride);
Work work_of(const ConvolutionForm& convolution);
/// Of rows of `depth` numbers and a constant matrix.
Work work_of_product(double rows, double columns, double depth);
/// Of two computed matrices, [rows, depth] and [depth, columns], so many times.
struct MatmulForm {
  double batch, rows, columns, depth;
};
Work work_of_matmul(const MatmulForm& matmul);

/// Processors that differ in what is fast: the columns of the tables.
enum class TargetIsa : uint8_t { kSse41, kAvx2, kAvxVnni, kAvx512, kAmx, kArm };
/// Those that a file must do well on when it names none.
inline constexpr TargetIsa kUsualIsas[] = {TargetIsa::kAvx2, TargetIsa::kAvx512, TargetIsa::kAmx};
inline constexpr std::string_view kIsaNames[] = {"sse4.1", "avx2", "avxvnni", "avx512", "amx", "arm"};
constexpr std::string_view name_of(TargetIsa isa) { return kIsaNames[static_cast<size_t>(isa)]; }

/// A row of a table: what work of a kind costs.
struct WorkCost {
  WorkNumbers numbers;
  WorkKind kind;
  struct {
    float call_ns, unit_ps;
  } on[std::size(kIsaNames)];
};

/// The costs of one side.
struct WorkCosts {
  Span<const WorkCost> table{};
  /// Dense products are computed in tiles of so many results, and tiles at the edges whole. Four bytes of the depth are
  /// one number of a tile of integers.
  struct Tile {
    double rows = 1, columns = 1, integer_columns = 1;
  } tiles[std::size(kIsaNames)];
  /// Whether it does some work as a kernel, too, without a delegate; null: none.
  bool (*has_kernel)(const Work& work) = nullptr;
  /// A constant matrix of more numbers is read anew for each row, which takes as long as to multiply it.
  double numbers_read_once = std::numeric_limits<double>::infinity();
  /// Of a product of floats with a matrix of `whole` numbers and more, a row takes `of_a_row` multiplications more for
  /// each number. Between `from` and `whole` it takes a part of them.
  struct Rereading {
    double from = std::numeric_limits<double>::infinity(), whole = from, of_a_row = 0;
  } rereading[std::size(kIsaNames)]{};
};

/// Ours, whatever library may be beside them.
extern const WorkCosts kKernelCosts;

/// In nanoseconds. Other numbers without a row of their own cost what floats do; nothing: the table has no such work.
std::optional<double> cost_of(const Work& work, TargetIsa isa, const WorkCosts& costs);

/// Multiplications that take as long as to read one number of a constant matrix once: fewer where the second cache
/// holds it.
constexpr double cost_of_reading(double numbers) { return numbers > (1 << 18) ? 13 : 3; }

}  // namespace et::ops

/// Rows of a generated table: include it between the braces of an array of WorkCost.
#define ET_COST(NUMBERS, KIND, NS0, PS0, NS1, PS1, NS2, PS2, NS3, PS3, NS4, PS4, NS5, PS5) \
  {::et::ops::WorkNumbers::NUMBERS,                                                        \
   ::et::ops::WorkKind::KIND,                                                              \
   {{NS0, PS0}, {NS1, PS1}, {NS2, PS2}, {NS3, PS3}, {NS4, PS4}, {NS5, PS5}}},
