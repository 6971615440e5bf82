#include "passes/fold_constants.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace et::passes {
namespace {

/// A result may be this much larger than twice its inputs: folding must not blow the file up.
constexpr int64_t kGrowthNbytes = 256 * 1024;

/// Operators whose result has the bytes of the first argument, when both are row-major.
bool keeps_bytes(std::string_view op) {
  return is_one_of(
      op, {"aten::view", "aten::view_copy", "aten::reshape", "aten::_unsafe_view", "aten::unsqueeze",
           "aten::unsqueeze_copy", "aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims", "aten::squeeze_copy.dim",
           "aten::squeeze_copy.dims", "aten::alias", "aten::alias_copy", "aten::detach", "aten::detach_copy",
           "aten::clone", "aten::lift_fresh", "aten::lift_fresh_copy"});
}

bool is_deterministic(const ir::Node& node) {
  const ops::OpInfo* op = ops::find_op(node.op);
  return op != nullptr && !op->has_tag(ops::kRandom) && !op->has_tag(ops::kMutates) &&
         !op->has_tag(ops::kDataDependent);
}

/// Allocates without saying what is in it, so there is nothing to compute.
bool is_uninitialised(std::string_view op) {
  return is_one_of(op, {"aten::empty.memory_format", "aten::empty_like", "aten::empty_strided", "aten::new_empty",
                        "dim_order_ops::_empty_dim_order"});
}

/// What stays although its inputs are constants: quantization that a backend gets whole, and integer weights. Kernels and
/// backends that take a weight want the integers, and a file that holds them is small. Only when the file must do without the
/// operator, because the official runtime has not got it, do floats replace it.
bool is_kept(const ir::Node& node, const PassOptions& options) {
  if (node.op.rfind("quantized_decomposed::", 0) != 0) {
    return false;
  }
  const auto& users = node.result()->users();
  if (!node.tag.empty() ||
      std::any_of(users.begin(), users.end(), [](const ir::Node* user) { return !user->tag.empty(); })) {
    return true;
  }
  const ops::OpInfo* op = ops::find_op(node.op);
  const bool is_published = op == nullptr || op->is_published;
  return is_one_of(node.op,
                   {"quantized_decomposed::dequantize_per_tensor", "quantized_decomposed::dequantize_per_channel",
                    "quantized_decomposed::dequantize_per_channel_group"}) &&
         (!options.compatible || is_published);
}

/// All inputs are constants with data; adds up their bytes.
bool has_constant_inputs(const ir::Node& node, const ir::Program& program, int64_t* nbytes) {
  bool constant = true;
  node.for_each_input([&](const ir::Value* value) {
    const ir::Constant* entry = constant_of(program, value);
    constant = constant && entry != nullptr;
    *nbytes += entry == nullptr ? 0 : entry->type.max_nbytes();
  });
  return constant;
}

bool worth_folding(const ir::Node& node, int64_t input_nbytes) {
  int64_t result_nbytes = 0;
  for (const auto& result : node.results()) {
    if (!result->type.is_tensor() || !result->type.tensor.is_static()) {
      return false;
    }
    result_nbytes += result->type.tensor.max_nbytes();
  }
  return result_nbytes <= 2 * input_nbytes + kGrowthNbytes;
}

bool is_viewed(const ir::Node& node, const ir::Constant& source) {
  const ir::TensorType& type = node.result()->type.tensor;
  return node.results().size() == 1 && keeps_bytes(node.op) && source.type.is_row_major() && type.is_row_major() &&
         type.dtype == source.type.dtype && type.numel() == source.type.numel();
}

}  // namespace

PassInfo FoldConstants::info() const {
  return {"fold-constants", "Computes at compile time what depends on constants only"};
}

Result<Changed> FoldConstants::run(ir::Graph& graph, PassContext& context) {
  return rewrite_each(graph, [&](ir::Node* node) {
    int64_t input_nbytes = 0;
    const bool returned = std::any_of(node->results().begin(), node->results().end(),
                                      [&](const auto& result) { return graph.is_output(result.get()); });
    if (returned || node->results().empty() || !node->regions.empty() || !is_deterministic(*node) ||
        is_uninitialised(node->op) || is_kept(*node, context.options) ||
        !has_constant_inputs(*node, context.program, &input_nbytes) || !worth_folding(*node, input_nbytes)) {
      return false;
    }
    std::vector<ir::Constant> results;
    const ir::Constant* source = node->args().empty() ? nullptr : constant_of(context.program, node->args()[0]);
    if (source != nullptr && is_viewed(*node, *source)) {
      ir::Constant view = *source;
      view.type = node->result()->type.tensor;
      view.external_key.clear();
      view.from_module = false;
      results.push_back(std::move(view));
    } else if (context.evaluator == nullptr ||
               context.evaluator->evaluate(*node, context.program.constants, &results) != Error::Ok ||
               results.size() != node->results().size()) {
      return false;
    }
    for (size_t i = 0; i < results.size(); ++i) {
      ir::Value* old = node->result(i);
      if (!graph.is_unused(old)) {
        ir::Value* folded = add_constant(context.program, graph, old->name, std::move(results[i]), node);
        graph.replace_all_uses(old, folded);
        std::swap(old->name, folded->name);
      }
    }
    graph.erase(node);
    return true;
  });
}

}  // namespace et::passes
