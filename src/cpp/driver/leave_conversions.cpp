#include "driver/leave_conversions.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "passes/quantized_values.h"

namespace et::driver {
namespace {

bool is_taken(const ir::Node& node) { return !node.tag.empty(); }

bool is_quantize(const ir::Node& node) { return node.op == passes::kQuantizePerTensor; }

/// Of an activation: the integers are no constant.
bool is_dequantize(const ir::Value* value) {
  const ir::Node* node = value->producer();
  return node != nullptr && node->op == passes::kDequantizePerTensor &&
         passes::producer_if(node->args()[0], {"constant"}) == nullptr;
}

/// What becomes part of the operator before it.
bool is_clamp(const ir::Node& node) {
  return passes::is_one_of(node.op, {"aten::relu", "aten::hardtanh", "aten::clamp"});
}

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
  }

 private:
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
    bool any = false, all = true;
    node.for_each_input([&](const ir::Value* input) {
      any = any || is_dequantize(input);
      all = all && is_dequantize(input);
    });
    return any && all && std::all_of(node.results().begin(), node.results().end(), [&](const auto& result) {
             const auto& users = result->users();
             return !graph_.is_output(result.get()) && !users.empty() &&
                    std::all_of(users.begin(), users.end(), [](const ir::Node* user) { return is_quantize(*user); });
           });
  }

  void keep_conversions_of(ir::Node& node) {
    const std::string why = "it belongs to " + std::string(node.op) + ", which is not taken";
    node.for_each_input([&](const ir::Value* input) {
      const auto& users = input->users();
      const bool only_here =
          std::all_of(users.begin(), users.end(), [&](const ir::Node* user) { return alone_.count(user) != 0; });
      if (only_here && is_taken(*input->producer()) && !graph_.is_output(input)) {
        refuse_(*input->producer(), why);
      }
    });
    for (const auto& result : node.results()) {
      for (ir::Node* user : result->users()) {
        if (is_taken(*user)) {
          refuse_(*user, why);
        }
      }
    }
  }

  ir::Graph& graph_;
  const Refuse& refuse_;
  std::unordered_set<const ir::Node*> behind_refused_;
  std::unordered_set<const ir::Node*> alone_;
};

}  // namespace

void leave_conversions(ir::Graph& graph, const std::function<void(ir::Node&, std::string)>& refuse) {
  LeaveConversions(graph, refuse).run();
}

}  // namespace et::driver
