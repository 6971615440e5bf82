#include "ops/costs.h"

#include <algorithm>
#include <cmath>

namespace et::ops {
namespace {

constexpr WorkCost kTable[] = {
#include "ops/kernel_costs.def"
};

bool is_floating(const Work& work) { return work.numbers == WorkNumbers::floating; }

double up_to(double count, double step) { return step * std::ceil(count / step); }

WorkKind kind_of(const ConvolutionForm& c) {
  const Span<const int64_t> weight = c.weight;
  const int64_t longest = *std::max_element(weight.begin() + 2, weight.end());
  const bool is_line = weight.size() == 3;
  if (c.is_transposed) {
    return c.overlaps ? WorkKind::transposed_overlap : WorkKind::convolution;
  }
  if (c.groups > 1 && weight[1] == 1) {
    constexpr int64_t kLongLine = 25;  // taps of the library's longest depthwise kernel
    const bool is_large = longest > (is_line ? kLongLine : 5);
    return is_large ? WorkKind::depthwise_large : is_line ? WorkKind::line_depthwise : WorkKind::depthwise_small;
  }
  if (longest == 1 && c.groups == 1) {
    return is_line ? WorkKind::line_1x1 : WorkKind::convolution_1x1;
  }
  const bool is_3x3 = weight.size() == 4 && weight[2] == 3 && weight[3] == 3 && c.groups == 1 && c.has_unit_steps;
  return is_3x3 ? WorkKind::convolution_3x3 : WorkKind::convolution;
}

/// What reading a constant matrix takes, in multiplications for each of its numbers.
double reading_of(const Work& work, double numbers, TargetIsa isa, const WorkCosts& costs) {
  const double once = cost_of_reading(numbers);
  const auto& [from, whole, of_a_row] = costs.rereading[static_cast<size_t>(isa)];
  const double part = numbers > whole ? 1 : numbers > from ? (numbers - from) / (whole - from) : 0;
  const double again =
      is_floating(work) ? part * of_a_row * up_to(work.rows, costs.tiles[static_cast<size_t>(isa)].rows) : 0;
  return numbers > costs.numbers_read_once ? std::max({once, work.rows, again}) : once + again;
}

}  // namespace

const WorkCosts kKernelCosts = {kTable, {{1, 2, 4}, {1, 4, 8}, {1, 4, 8}, {1, 8, 16}, {1, 8, 16}, {1, 2, 4}}};

bool windows_overlap(Span<const int64_t> weight, Span<const int64_t> stride) {
  for (size_t d = 2; d < weight.size() && !stride.empty(); ++d) {
    if (weight[d] > stride[std::min(d - 2, stride.size() - 1)]) {
      return true;
    }
  }
  return false;
}

Work work_of(const ConvolutionForm& c) {
  double numbers = 1;
  for (const int64_t size : c.weight) {
    numbers *= static_cast<double>(size);
  }
  const auto first = static_cast<double>(c.weight[0]);
  // Each result, or of a transposed one each input, meets the filter's numbers for its channel.
  Work work{kind_of(c), WorkNumbers::floating, (c.is_transposed ? c.inputs : c.results) * numbers / first};
  if (!c.is_transposed && c.weight[1] > 1) {
    work.columns = first / static_cast<double>(c.groups);
    work.rows = c.results / first;
  } else if (work.kind == WorkKind::transposed_overlap) {
    work.columns = static_cast<double>(c.weight[1]);
    work.rows = c.results / work.columns;
  }
  return work;
}

Work work_of_product(double rows, double columns, double depth) {
  const double units = rows * columns * depth;
  return rows == 1 ? Work{WorkKind::linear_row, WorkNumbers::floating, units}
                   : Work{WorkKind::linear, WorkNumbers::floating, units, rows, columns};
}

Work work_of_matmul(const MatmulForm& m) {
  const double units = m.batch * m.rows * m.columns * m.depth;
  return m.rows == 1 || m.columns == 1 ? Work{WorkKind::matmul_line, WorkNumbers::floating, units}
                                       : Work{WorkKind::matmul, WorkNumbers::floating, units, m.rows, m.columns};
}

std::optional<double> cost_of(const Work& work, TargetIsa isa, const WorkCosts& costs) {
  const WorkCost* found = nullptr;
  for (const WorkCost& row : costs.table) {
    const bool fits = row.kind == work.kind && (row.numbers == WorkNumbers::floating || row.numbers == work.numbers);
    found = fits ? &row : found;  // those of floats stand first
  }
  if (found == nullptr) {
    return std::nullopt;
  }
  const double numbers = work.rows > 0 ? work.units / work.rows : 0;
  double units = work.units;
  if (work.rows > 0 && work.columns > 0) {
    const WorkCosts::Tile& tile = costs.tiles[static_cast<size_t>(isa)];
    units += work.kind == WorkKind::matmul ? 0 : numbers * reading_of(work, numbers, isa, costs);
    // Tiles of rows of integers are low but for those of VNNI.
    const bool has_high_tiles = is_floating(work) || isa == TargetIsa::kAvx512 || isa == TargetIsa::kAvxVnni;
    units *= up_to(work.rows, has_high_tiles ? tile.rows : 1) / work.rows;
    units *= up_to(work.columns, is_floating(work) ? tile.columns : tile.integer_columns) / work.columns;
  }
  if (work.kind == WorkKind::matmul) {
    constexpr double kOfPacking = 8;  // both sides pack the right matrix in each call
    units += kOfPacking * numbers;
  }
  const auto& cost = found->on[static_cast<size_t>(isa)];
  return cost.call_ns + units * cost.unit_ps * 1e-3;
}

}  // namespace et::ops
