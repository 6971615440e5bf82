/// The text form of the IR: for debugging, golden files and et_opt. parser.h reads it back; docs/reference/ir.md is the
/// grammar.
///
/// For: dumps after a pass, messages, tests. What is printed with default options parses to an equal Program, which
///      prints to the same text.
/// Not for: storage. The text has no version and changes with the IR.
///
///     method @forward(%x: f32[2, s0:{1..64}, 8]) {
///       %w = constant @linear.weight : f32[4, 8]
///       %y = aten::linear(%x, %w, none) : f32[2, s0, 4]  // fx: linear, model.py:12
///       return %y
///     }
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ir/graph.h"

namespace et::ir {

struct PrintOptions {
  /// Constants and buffers with more elements are printed without their data (and parse to ones without).
  size_t max_data_elements = SIZE_MAX;
  /// Print `// fx: …` comments.
  bool sources = true;
};

/// A whole program: constants, buffers, delegates, constant methods, named data, methods in their order.
std::string to_text(const Program& program, const PrintOptions& options = {});
/// One method or region.
std::string to_text(const Graph& graph, const PrintOptions& options = {});
/// One node, without its regions, on one line.
std::string to_text(const Node& node);
/// "f32[2, s0:{1..64}, 8]", "int", …
std::string to_text(const Type& type);
std::string to_text(const TensorType& type);

/// The same for messages, which tell types as PyTorch does: "torch.float32 (2, 1 to 64, 8)", "int", …
std::string describe(const Type& type);
std::string describe(const TensorType& type);

}  // namespace et::ir
