#include "delegation/leave_conversions.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "ir/op_views.h"
#include "passes/clamps.h"
#include "passes/propagate_dequantize.h"
#include "passes/quantized_values.h"

namespace et::delegation {
namespace {

using passes::is_clamp;  // what becomes part of the operator before it

bool is_taken(const ir::Node& node) { return !node.tag.empty(); }

bool is_quantize(const ir::Node& node) { return node.op == passes::kQuantizePerTensor; }

/// Of an activation: the integers are no constant.
bool is_dequantize(const ir::Value* value) {
  const ir::Node* node = value->producer();
  return node != nullptr && node->op == passes::kDequantizePerTensor &&
         passes::producer_if(passes::Dequantize(*node).input(), {"constant"}) == nullptr;
}

/// Whether a node makes a tensor of numbers alone, as zeros and full do.
bool is_made_of_numbers(const ir::Node& node) {
  bool takes_tensor = false;
  node.for_each_input([&](const ir::Value* input) { takes_tensor = takes_tensor || input->type.is_tensor(); });
  const ops::OpInfo* op = ops::find_op(node.op);
  return !takes_tensor && op != nullptr && !op->has_tag(ops::kRandom);
}

/// A constant, or the numbers of an integer constant: weights and biases.
enum class Constness { kNone, kPlain, kDequantized };
Constness constness_of(const ir::Value* value) {
  const ir::Node* node = value->producer();
  if (node == nullptr) {
    return Constness::kNone;
  }
  if (node->op == "constant" || is_made_of_numbers(*node)) {
    return Constness::kPlain;
  }
  const bool is_dequantized = passes::is_one_of(node->op, {passes::kDequantizePerTensor, passes::kDequantizePerChannel,
                                                           passes::kDequantizePerGroup}) &&
                              passes::producer_if(passes::Dequantize(*node).input(), {"constant"}) != nullptr;
  return is_dequantized ? Constness::kDequantized : Constness::kNone;
}

/// Places of elements, shapes, conditions: nothing that is quantized.
bool is_no_float(const ir::Value* value) { return !value->type.is_tensor() || !is_floating(value->type.tensor.dtype); }

class LeaveConversions {
 public:
  using Refuse = std::function<void(ir::Node&, std::string)>;

  LeaveConversions(ir::Graph& graph, const Refuse& refuse) : graph_(graph), refuse_(refuse) {}

  void run() {
    for (const auto& node : graph_.nodes()) {
      stay_with_refused_conversions(*node);
    }
    for (const auto& node : graph_.nodes()) {
      if (is_refused_between_integers(*node)) {
        alone_.insert(node.get());
      }
    }
    for (const auto& node : graph_.nodes()) {
      if (alone_.count(node.get()) != 0) {
        keep_conversions_of(*node);
      }
    }
    const auto& nodes = graph_.nodes();
    std::for_each(nodes.rbegin(), nodes.rend(), [this](const auto& node) { stay_with_refused_readers(*node); });
  }

 private:
  /// A quantization at run time is part of the product behind it; alone it would compute scales for nobody of the
  /// backend.
  void stay_with_refused_readers(ir::Node& node) {
    if (!is_taken(node) || !passes::is_run_time_conversion(node.op)) {
      return;
    }
    const bool is_read = std::any_of(node.results().begin(), node.results().end(), [](const auto& result) {
      return std::any_of(result->users().begin(), result->users().end(),
                         [](const ir::Node* user) { return is_taken(*user); });
    });
    if (!is_read) {
      refuse_(node, "it belongs to an operator that is not taken");
    }
  }

  void stay_with_refused_conversions(ir::Node& node) {
    bool takes = false;
    node.for_each_input([&](const ir::Value* input) {
      takes = takes || (is_dequantize(input) && !is_taken(*input->producer())) ||
              (is_clamp(node) && behind_refused_.count(input->producer()) != 0);
    });
    if (takes) {
      behind_refused_.insert(&node);
      if (is_taken(node) && !is_quantize(node) && is_quantized_by_refused(node)) {
        refuse_(node, "it stands between integers that the backend does not take");
      }
    }
  }

  static bool is_quantized_by_refused(const ir::Node& node) {
    return std::any_of(node.results().begin(), node.results().end(), [](const auto& result) {
      return std::any_of(result->users().begin(), result->users().end(), [](const ir::Node* user) {
        return is_quantize(*user) ? !is_taken(*user) : is_clamp(*user) && is_quantized_by_refused(*user);
      });
    });
  }

  bool is_refused_between_integers(const ir::Node& node) const {
    if (is_taken(node) || !node.regions.empty() || node.op == passes::kDequantizePerTensor || is_quantize(node)) {
      return false;
    }
    bool has_activation = false, has_weight = false, has_plain = false, has_float = false;
    node.for_each_input([&](const ir::Value* input) {
      if (is_no_float(input)) {
        return;
      }
      const Constness constness = constness_of(input);
      has_activation = has_activation || is_dequantize(input);
      has_weight = has_weight || constness == Constness::kDequantized;
      has_plain = has_plain || constness == Constness::kPlain;
      has_float = has_float || (constness == Constness::kNone && !is_dequantize(input));
    });
    // A constant of floats is the bias of a product with integer weights, elements that are quantized, or an operand
    // that stays float.
    return has_activation && !has_float && (has_weight || !has_plain || passes::joins_tensors(node)) &&
           std::all_of(node.results().begin(), node.results().end(), [&](const auto& result) {
             return (is_no_float(result.get()) && result->users().empty()) || becomes_integers(result.get());
           });
  }

  void keep_conversions_of(ir::Node& node) {
    const std::string why = "it belongs to " + std::string(node.op) + ", which is not taken";
    node.for_each_input([&](const ir::Value* input) {
      if (is_no_float(input)) {
        return;
      }
      const auto& users = input->users();
      const bool only_here =
          std::all_of(users.begin(), users.end(), [&](const ir::Node* user) { return alone_.count(user) != 0; });
      if (only_here && is_taken(*input->producer()) && !graph_.is_output(input)) {
        refuse_(*input->producer(), why);
      }
    });
    for (const auto& result : node.results()) {
      refuse_behind(*result, why);
    }
  }

  /// The quantize nodes behind a result, and the clamps between.
  void refuse_behind(const ir::Value& result, const std::string& why) {
    for (ir::Node* user : result.users()) {
      if (is_taken(*user)) {
        refuse_(*user, why);
      }
      if (is_clamp(*user)) {
        refuse_behind(*user->result(), why);
      }
    }
  }

  ir::Graph& graph_;
  const Refuse& refuse_;
  std::unordered_set<const ir::Node*> behind_refused_;
  std::unordered_set<const ir::Node*> alone_;
};

}  // namespace

bool becomes_integers(const ir::Value* result) {
  const auto& users = result->users();
  return !result->graph()->is_output(result) && !users.empty() &&
         std::all_of(users.begin(), users.end(), [](const ir::Node* user) {
           return is_quantize(*user) || (is_clamp(*user) && becomes_integers(user->result()));
         });
}

void leave_conversions(ir::Graph& graph, const std::function<void(ir::Node&, std::string)>& refuse) {
  LeaveConversions(graph, refuse).run();
}

}  // namespace et::delegation
