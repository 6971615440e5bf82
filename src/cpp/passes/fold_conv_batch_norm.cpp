#include "passes/fold_conv_batch_norm.h"

#include <cmath>

#include "ir/op_views.h"
#include "ops/arguments.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

// Positions of arguments.
using namespace ops::arguments::et_convolution_clamp;

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

/// What is needed of both nodes; complete when ok().
struct Match {
  ir::Node* convolution = nullptr;
  const ir::Constant* weight = nullptr;
  std::vector<double> weights;
  size_t channels = 0;  ///< of the output
  size_t groups = 1;
  bool transposed = false;
  std::vector<double> bias, gamma, beta, mean, variance;  ///< [channels] each
  double eps = 0;

  bool ok() const {
    return channels > 0 && !weights.empty() && bias.size() == channels && gamma.size() == channels &&
           beta.size() == channels && mean.size() == channels && variance.size() == channels;
  }
};

/// [channels] values of an optional constant argument; `absent` for none; empty when it is no constant.
std::vector<double> channel_values(const ir::Program& program, const ir::Argument& argument, size_t channels,
                                   double absent) {
  if (argument.is_none()) {
    return std::vector<double>(channels, absent);
  }
  const ir::Constant* constant = constant_of(program, argument);
  return constant == nullptr ? std::vector<double>() : floats_of(*constant);
}

Match match(const ir::Node& norm, const ir::Program& program) {
  Match m;
  const ir::Graph& graph = *norm.graph();
  ir::Node* convolution = producer_if(ops::NativeBatchNormLegitNoTraining_(norm).input(), {op::convolution});
  if (convolution == nullptr || convolution->tag != norm.tag || !is_only_use(convolution->result(), &norm) ||
      !graph.is_unused(norm.result(1)) || !graph.is_unused(norm.result(2)) ||
      convolution->result()->type.tensor != norm.result()->type.tensor) {
    return m;
  }
  m.weight = constant_of(program, ops::Convolution(*convolution).weight());
  const auto transposed = int_of(ops::Convolution(*convolution).transposed());
  const auto groups = int_of(ops::Convolution(*convolution).groups());
  const auto eps = number_of(ops::NativeBatchNormLegitNoTraining_(norm).eps());
  if (m.weight == nullptr || !m.weight->type.is_row_major() || m.weight->type.rank() < 3 || !transposed || !groups ||
      !eps) {
    return m;
  }
  m.convolution = convolution;
  m.transposed = *transposed != 0;
  m.groups = static_cast<size_t>(*groups);
  m.eps = *eps;
  const std::vector<ir::Dim>& dims = m.weight->type.dims;
  m.channels = static_cast<size_t>(m.transposed ? dims[1].max * *groups : dims[0].max);
  m.weights = floats_of(*m.weight);
  m.bias = channel_values(program, ops::Convolution(*convolution).bias(), m.channels, 0);
  m.gamma = channel_values(program, ops::NativeBatchNormLegitNoTraining_(norm).weight(), m.channels, 1);
  m.beta = channel_values(program, ops::NativeBatchNormLegitNoTraining_(norm).bias(), m.channels, 0);
  m.mean = channel_values(program, ops::NativeBatchNormLegitNoTraining_(norm).running_mean(), m.channels, 0);
  m.variance = channel_values(program, ops::NativeBatchNormLegitNoTraining_(norm).running_var(), m.channels, 1);
  return m;
}

void fold(ir::Node* norm, Match& m, PassContext& context) {
  std::vector<double> scale(m.channels);
  for (size_t o = 0; o < m.channels; ++o) {
    scale[o] = m.gamma[o] / std::sqrt(m.variance[o] + m.eps);
    m.bias[o] = (m.bias[o] - m.mean[o]) * scale[o] + m.beta[o];
  }
  // Weights are [out, in / groups, kernel…], of a transposed convolution [in, out / groups, kernel…].
  const std::vector<ir::Dim>& dims = m.weight->type.dims;
  const auto rows = static_cast<size_t>(dims[0].max);
  const auto columns = static_cast<size_t>(dims[1].max);
  const size_t kernel = m.weights.size() / (rows * columns);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      const size_t group = row / (rows / m.groups);
      const double s = scale[m.transposed ? group * columns + column : row];
      for (size_t k = 0; k < kernel; ++k) {
        m.weights[(row * columns + column) * kernel + k] *= s;
      }
    }
  }
  ir::Graph& graph = *norm->graph();
  const std::string name = norm->result()->name;
  const ir::TensorType bias_type = ir::TensorType::contiguous(m.weight->type.dtype, {static_cast<int64_t>(m.channels)});
  std::vector<ir::Argument> args = m.convolution->args();
  ir::Value* weight =
      add_constant(context.program, graph, name + "_weight", write(m.weight->type, m.weights), m.convolution);
  ir::Value* bias = add_constant(context.program, graph, name + "_bias", write(bias_type, m.bias), m.convolution);
  args[kWeight].data = weight;
  args[kBias].data = bias;
  ir::Node* folded = create_like(*m.convolution, op::convolution, std::move(args));
  graph.move_before(folded, norm);
  folded->add_result(name, norm->result()->type);
  folded->absorb(*m.convolution);
  replace_node(norm, folded);
  graph.erase(m.convolution);
}

}  // namespace

PassInfo FoldConvBatchNorm::info() const {
  return {"fold-conv-batch-norm", "Folds batch normalisation with fixed statistics into the convolution before it"};
}

Result<Changed> FoldConvBatchNorm::run(ir::Graph& graph, PassContext& context) {
  return rewrite_each(graph, [&context](ir::Node* node) {
    if (node->op != op::_native_batch_norm_legit_no_training || node->results().size() != 3) {
      return false;
    }
    Match m = match(*node, context.program);
    if (m.ok()) {
      fold(node, m, context);
    }
    return m.ok();
  });
}

}  // namespace et::passes
