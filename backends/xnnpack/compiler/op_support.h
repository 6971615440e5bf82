/// What the delegate can do: one table, operator -> node type, constraints, and how it is written.
///
/// For: the partitioner (through BackendCompiler::refusal) and lowering.h, so that what one accepts the other can
/// write. Every refusal has a reason, which reports show to the user.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace et::backends::xnnpack {

class Lowering;

/// Which numbers a partitioner lets the delegate take (compile spec "precisions"); all by default.
struct Options {
  bool fp32 = true;
  bool fp16 = true;
  bool static_quant = true;
  bool dynamic_quant = true;
  bool weight_only = false;  ///< products of floats with integer weights, which our own kernels do as fast
};
Options read_options(const std::vector<ir::Delegate::CompileSpec>& specs);

/// A node and what a check may look at.
struct Question {
  const ir::Node& node;
  const ir::Program& program;
  const Options& options;

  const ir::TensorType& result_type() const { return node.result()->type.tensor; }
};

/// One row.
struct OperatorRow {
  std::string_view op;    ///< "aten::convolution"
  std::string_view node;  ///< what it becomes, for people: "Conv2d, DepthwiseConv2d or ConvTranspose2d"
  bool is_heavy;          ///< enough work to be worth a call of the delegate by itself
  std::string (*refusal)(const Question& question);  ///< "" = taken
  Error (*emit)(Lowering& lowering, const ir::Node& node);
};

/// The row of an operator; nullptr when the delegate has none.
const OperatorRow* find_operator(std::string_view op);

/// Why the delegate does not take a node; "" when it does.
std::string refusal_of(const ir::Node& node, const ir::Program& program, const Options& options);

/// True when the delegate makes the value with its channels innermost, unless it leaves what the value comes from: a
/// convolution, pooling or resize, maybe with elementwise operators behind it. What works on channels is worth taking
/// then.
bool is_made_as_image(const ir::Value* value);

/// The type of a tensor argument; nullptr for anything else.
const ir::TensorType* type_of(const ir::Argument& argument);

/// True for a constant, and for what folding makes one: views and arithmetic of constants.
bool is_foldable(const ir::Value* value);
bool is_constant(const ir::Argument& argument);

}  // namespace et::backends::xnnpack
