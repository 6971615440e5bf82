#include "passes/fold_conv_batch_norm.h"

#include <cmath>

#include "ir/pattern.h"
#include "ops/arguments.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

// Positions of arguments.
using namespace ops::arguments::et_convolution_clamp;

const ir::Pattern kNormalised = R"(
  y = _native_batch_norm_legit_no_training(x, gamma, beta, mean, variance, _, eps)
  x = convolution(_, weight, bias, _, _, _, transposed, _, groups)
)";

/// A constant of a floating dtype as doubles; empty when it is none.
std::vector<double> floats_of(const ir::Constant& constant) {
  return is_floating(constant.type.dtype) ? numbers_of(constant) : std::vector<double>();
}

template <typename T>
ir::Constant write_as(ir::TensorType type, const std::vector<double>& values) {
  T* data = nullptr;
  ir::Constant constant = new_constant(std::move(type), &data);
  for (size_t i = 0; i < values.size(); ++i) {
    data[i] = static_cast<T>(values[i]);
  }
  return constant;
}

/// The dtype is one that floats_of() takes.
ir::Constant write(ir::TensorType type, const std::vector<double>& values) {
  switch (type.dtype) {
    case ScalarType::Double: return write_as<double>(std::move(type), values);
    case ScalarType::Half: return write_as<Half>(std::move(type), values);
    case ScalarType::BFloat16: return write_as<BFloat16>(std::move(type), values);
    default: return write_as<float>(std::move(type), values);
  }
}

/// What both nodes compute with.
struct Numbers {
  size_t channels = 0;  ///< of the output
  size_t groups = 1;
  bool transposed = false;
  double eps = 0;
  std::vector<double> weights;
  std::vector<double> bias, gamma, beta, mean, variance;  ///< [channels] each
};

/// Nothing when a number is not known, or when the two nodes do not become one.
std::optional<Numbers> numbers_in(const ir::Match& m, const ir::Program& program) {
  const ir::Node& norm = *m.root();
  const ir::Constant* weight = constant_of(program, m["weight"]);
  const auto transposed = int_of(m["transposed"]), groups = int_of(m["groups"]);
  const auto eps = number_of(m["eps"]);
  if (norm.results().size() != 3 || !norm.graph()->is_unused(norm.result(1)) ||
      !norm.graph()->is_unused(norm.result(2)) || m.node("x")->tag != norm.tag ||
      m.value("x")->type.tensor != norm.result()->type.tensor || weight == nullptr || !weight->type.is_row_major() ||
      weight->type.rank() < 3 || !transposed || !groups || !eps) {
    return std::nullopt;
  }
  Numbers found;
  found.transposed = *transposed != 0;
  found.groups = static_cast<size_t>(*groups);
  found.eps = *eps;
  const std::vector<ir::Dim>& dims = weight->type.dims;
  found.channels = static_cast<size_t>(found.transposed ? dims[1].max * *groups : dims[0].max);
  found.weights = floats_of(*weight);
  bool is_known = found.channels > 0 && !found.weights.empty();
  const auto of_channels = [&](std::string_view name, double absent) {
    const ir::Constant* constant = constant_of(program, m[name]);
    std::vector<double> values(m[name].is_none() ? found.channels : 0, absent);
    values = constant == nullptr ? values : floats_of(*constant);
    is_known = is_known && values.size() == found.channels;
    return values;
  };
  found.bias = of_channels("bias", 0);
  found.gamma = of_channels("gamma", 1);
  found.beta = of_channels("beta", 0);
  found.mean = of_channels("mean", 0);
  found.variance = of_channels("variance", 1);
  return is_known ? std::optional(std::move(found)) : std::nullopt;
}

void fold(const ir::Match& m, Numbers& numbers, PassContext& context) {
  std::vector<double> scale(numbers.channels);
  for (size_t o = 0; o < numbers.channels; ++o) {
    scale[o] = numbers.gamma[o] / std::sqrt(numbers.variance[o] + numbers.eps);
    numbers.bias[o] = (numbers.bias[o] - numbers.mean[o]) * scale[o] + numbers.beta[o];
  }
  // Weights are [out, in / groups, kernel…], of a transposed convolution [in, out / groups, kernel…].
  const ir::TensorType type = constant_of(context.program, m["weight"])->type;
  const auto rows = static_cast<size_t>(type.dims[0].max);
  const auto columns = static_cast<size_t>(type.dims[1].max);
  const size_t kernel = numbers.weights.size() / (rows * columns);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      const size_t group = row / (rows / numbers.groups);
      const double s = scale[numbers.transposed ? group * columns + column : row];
      for (size_t k = 0; k < kernel; ++k) {
        numbers.weights[(row * columns + column) * kernel + k] *= s;
      }
    }
  }
  ir::Node *const norm = m.root(), *const convolution = m.node("x");
  ir::Graph& graph = *norm->graph();
  const std::string name = norm->result()->name;
  const ir::TensorType bias_type = ir::TensorType::contiguous(type.dtype, {static_cast<int64_t>(numbers.channels)});
  std::vector<ir::Argument> args = convolution->args();
  args[kWeight].data =
      add_constant(context.program, graph, name + "_weight", write(type, numbers.weights), convolution);
  args[kBias].data = add_constant(context.program, graph, name + "_bias", write(bias_type, numbers.bias), convolution);
  ir::Node* folded = create_like(*convolution, op::convolution, std::move(args));
  graph.move_before(folded, norm);
  folded->add_result(name, norm->result()->type);
  folded->absorb(*convolution);
  replace_node(norm, folded);
  graph.erase(convolution);
}

}  // namespace

PassInfo FoldConvBatchNorm::info() const {
  return {"fold-conv-batch-norm", "Folds batch normalisation with fixed statistics into the convolution before it"};
}

Result<Changed> FoldConvBatchNorm::run(ir::Graph& graph, PassContext& context) {
  return rewrite_each(graph, [&context](ir::Node* node) {
    const std::optional<ir::Match> found = kNormalised.match(*node, context.program);
    std::optional<Numbers> numbers = found ? numbers_in(*found, context.program) : std::nullopt;
    if (numbers) {
      fold(*found, *numbers, context);
    }
    return numbers.has_value();
  });
}

}  // namespace et::passes
