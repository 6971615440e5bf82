/// What becomes TOSA: one table, operator -> what it becomes, constraints, and how it is written.
///
/// For: register.cpp, which calls it for each node of a part in its integer form, and lowering.cpp, so that what one
/// accepts the other can write. Every refusal has a reason, which reports show to the user.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace et::backends::tosa::compiler {

class Lowering;

/// An NPU's limits, tighter than those of TOSA's level 8K.
struct Accelerator {
  std::string_view prefix;  ///< of its names: "ethos-u55"
  int64_t max_stride;
  int64_t max_kernel_height;
  int64_t max_kernel_area;  ///< of convolutions
  int64_t max_pool_height;
  int64_t max_pool_area;
  int64_t max_depth;  ///< channels that a product adds up
  int64_t max_transposed_stride;
  bool has_matmul_of_16_bits;
  bool has_table_of_16_bits;
};

/// What compile specs say.
struct Target {
  const Accelerator* accelerator = nullptr;
  bool floats = false;               ///< the profile FP, else INT
  bool bf16 = false;                 ///< its extension
  bool int16 = false, int4 = false;  ///< extensions: activations of 16 bits, weights of 4
  std::string problem;               ///< why no part can be compiled for it; "" = none
};
Target read_target(const std::vector<ir::Delegate::CompileSpec>& specs);

/// A node and what a check may look at.
struct Question {
  const ir::Node& node;
  const ir::Program& program;
  const Target& target;

  const ir::Argument& arg(size_t i) const { return node.args()[i]; }
  const ir::TensorType& type(size_t i) const { return arg(i).value()->type.tensor; }
  const ir::TensorType& result_type(size_t i = 0) const { return node.results()[i]->type.tensor; }
};

struct OperatorRow {
  std::string_view op;                               ///< "et::quantized_add"
  std::string_view becomes;                          ///< for people: "RESCALE, ADD, RESCALE"
  std::string (*refusal)(const Question& question);  ///< "" = taken
  Error (*emit)(Lowering& lowering, const ir::Node& node);
};
/// The row of an operator; nullptr when there is none.
const OperatorRow* find_operator(std::string_view op);

/// Why a node is not taken; "" when it is.
std::string refusal_of(const Question& question);

}  // namespace et::backends::tosa::compiler
