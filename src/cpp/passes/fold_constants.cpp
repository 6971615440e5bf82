#include "passes/fold_constants.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/op_views.h"
#include "ops/names.h"
#include "ops/op_table.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

/// A result may be this much larger than twice its inputs: folding must not blow the file up.
constexpr int64_t kGrowthNbytes = 256 * 1024;

/// Elements that are only repeated are stored up to this many bytes beyond what they are repeated from: an instruction
/// and its values take some 300 bytes of the file and a microsecond.
constexpr int64_t kRepeatedNbytes = 4096;

/// Longer chains of repetitions are stored: each is a pass over all elements at every call.
constexpr int kMostSteps = 4;

/// Repeats elements, or reads each once, which takes no longer than to read the result from a file.
bool is_repeating(std::string_view op) { return ops::has_tag(op, ops::kCheap); }

/// The result has the bytes of the first argument, when both are row-major.
bool keeps_bytes(std::string_view op) { return ops::moves_of(op) == ops::Moves::kReshape; }

bool is_deterministic(const ir::Node& node) {
  const ops::OpInfo* op = ops::find_op(node.op);
  return op != nullptr && !op->has_tag(ops::kRandom) && !op->has_tag(ops::kMutates) &&
         !op->has_tag(ops::kDataDependent);
}

/// What stays although its inputs are constants: quantization that a backend gets whole, and integer weights. Kernels
/// and backends that take a weight want the integers, and a file that holds them is small. Only when the file must do
/// without the operator, because the official runtime has not got it, do floats replace it.
bool is_kept(const ir::Node& node, const PassOptions& options) {
  const ops::OpInfo* op = ops::find_op(node.op);
  if (op == nullptr || (op->tags & (ops::kQuantizes | ops::kDequantizes | ops::kRunTimeScale)) == 0) {
    return false;
  }
  const auto& users = node.result()->users();
  if (!node.tag.empty() ||
      std::any_of(users.begin(), users.end(), [](const ir::Node* user) { return !user->tag.empty(); })) {
    return true;
  }
  return is_one_of(node.op,
                   {op::quantized_decomposed_dequantize_per_tensor, op::quantized_decomposed_dequantize_per_channel,
                    op::quantized_decomposed_dequantize_per_channel_group}) &&
         (!options.compatible || op->is_published);
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

/// What a result is made of when its node, and those before it, only repeat elements.
struct Repetition {
  int64_t source_nbytes = 0;  ///< of the constants at the beginning
  int steps = 0;              ///< nodes from there on, without views
};

/// Results that were folded for what is computed from them, but may stay nodes.
using Repetitions = std::map<const ir::Value*, Repetition>;

/// Nothing when the node does more than to repeat elements, or the result is hardly larger than what it is made of.
std::optional<Repetition> repetition_of(const ir::Node& node, const Repetitions& known) {
  const bool is_free = keeps_bytes(node.op);
  if (!is_free && !is_repeating(node.op)) {
    return std::nullopt;
  }
  std::set<const ir::Value*> inputs;
  node.for_each_input([&](const ir::Value* value) { inputs.insert(value); });
  Repetition repetition{0, is_free ? 0 : 1};
  for (const ir::Value* value : inputs) {
    const auto found = known.find(value);
    repetition.steps += found != known.end() ? found->second.steps : 0;
    repetition.source_nbytes += found != known.end() ? found->second.source_nbytes : value->type.tensor.max_nbytes();
  }
  const bool is_large = node.result()->type.tensor.max_nbytes() > repetition.source_nbytes + kRepeatedNbytes;
  return is_large && repetition.steps <= kMostSteps ? std::optional(repetition) : std::nullopt;
}

/// Nobody prepares the value at load, as products do with their weights: it is read element by element.
bool is_only_read(const ir::Value* value) {
  const auto& users = value->users();
  return std::all_of(users.begin(), users.end(), [&](const ir::Node* user) {
    return is_repeating(user->op) || keeps_bytes(user->op) || user->op == op::div_Tensor ||
           (user->op == op::scaled_dot_product_attention &&
            ops::ScaledDotProductAttention(*user).attn_mask().value() == value);
  });
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
  // Repetitions are folded like all else, for what is computed from them, and stay in the graph until it
  // is known who is left.
  Repetitions known;
  std::vector<std::pair<ir::Node*, ir::Value*>> repetitions;
  Changed changed = rewrite_each(graph, [&](ir::Node* node) {
    int64_t input_nbytes = 0;
    const bool returned = std::any_of(node->results().begin(), node->results().end(),
                                      [&](const auto& result) { return graph.is_output(result.get()); });
    if (returned || node->results().empty() || !node->regions.empty() || !is_deterministic(*node) ||
        ops::has_tag(node->op, ops::kUninitialised) || is_kept(*node, context.options) ||
        !has_constant_inputs(*node, context.program, &input_nbytes) || !worth_folding(*node, input_nbytes)) {
      return false;
    }
    std::vector<ir::Constant> results;
    const ir::Constant* source = node->args().empty() ? nullptr : constant_of(context.program, node->args()[0]);
    if (source != nullptr && is_viewed(*node, *source)) {
      ir::Constant view = *source;
      view.type = node->result()->type.tensor;
      view.from_module = false;
      results.push_back(std::move(view));
    } else if (context.evaluator == nullptr ||
               context.evaluator->evaluate(*node, context.program.constants, &results) != Error::Ok ||
               results.size() != node->results().size()) {
      return false;
    }
    if (const auto repetition = repetition_of(*node, known)) {
      ir::Value* folded = add_constant(context.program, graph, node->result()->name, std::move(results.front()), node);
      graph.replace_all_uses(node->result(), folded);
      repetitions.emplace_back(node, folded);
      known.emplace(folded, *repetition);
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
  // Backwards, so that a repetition of a repetition that stays is a user of it.
  for (auto entry = repetitions.rbegin(); entry != repetitions.rend(); ++entry) {
    const auto [node, folded] = *entry;
    if (!graph.is_unused(folded) && is_only_read(folded)) {
      graph.replace_all_uses(folded, node->result());
      context.program.constants.erase(folded->producer()->symbol);
      graph.erase(folded->producer());
    } else {
      std::swap(node->result()->name, folded->name);
      graph.erase(node);
      changed = Changed::kYes;
    }
  }
  return changed;
}

}  // namespace et::passes
