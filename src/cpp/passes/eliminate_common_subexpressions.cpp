#include "passes/eliminate_common_subexpressions.h"

#include <algorithm>
#include <unordered_map>

#include "passes/rewrite.h"

namespace et::passes {
namespace {

bool may_merge(const ir::Node& node) {
  if (!node.regions.empty()) {
    return false;
  }
  if (is_one_of(node.op, {"constant", "buffer"})) {
    return true;
  }
  const ops::OpInfo* op = ops::find_op(node.op);
  return op != nullptr && !op->has_tag(ops::kMutates) && !op->has_tag(ops::kRandom);
}

bool same_types(const ir::Node& a, const ir::Node& b) {
  return std::equal(
      a.results().begin(), a.results().end(), b.results().begin(), b.results().end(), [](const auto& x, const auto& y) {
        return x->type.kind == y->type.kind && x->type.tensor == y->type.tensor && x->type.dim == y->type.dim;
      });
}

/// Literals of different kinds compare unequal (1 is not 1.0), as they must.
bool same_computation(const ir::Node& a, const ir::Node& b) {
  return a.op == b.op && a.symbol == b.symbol && a.tag == b.tag && a.args() == b.args() && same_types(a, b);
}

class Hasher {
 public:
  size_t operator()(const ir::Node* node) {
    hash_ = std::hash<std::string>()(node->op);
    mix(std::hash<std::string>()(node->symbol));
    for (const ir::Argument& argument : node->args()) {
      add(argument);
    }
    return hash_;
  }

 private:
  void mix(size_t value) { hash_ ^= value + 0x9e3779b97f4a7c15ULL + (hash_ << 6) + (hash_ >> 2); }

  void add(const ir::Argument& argument) {
    mix(argument.data.index());
    if (const ir::Value* value = argument.value()) {
      mix(std::hash<const ir::Value*>()(value));  // finds equals only; nothing is ordered by it
    } else if (const auto* number = argument.as<int64_t>()) {
      mix(std::hash<int64_t>()(*number));
    } else if (const auto* list = argument.as<ir::Argument::List>()) {
      for (const ir::Argument& item : *list) {
        add(item);
      }
    }
  }

  size_t hash_ = 0;
};

bool both_returned(const ir::Graph& graph, const ir::Node& a, const ir::Node& b) {
  for (size_t i = 0; i < a.results().size(); ++i) {
    if (graph.is_output(b.result(i)) && (graph.is_output(a.result(i)) || is_external(a.result(i)))) {
      return true;
    }
  }
  return false;
}

}  // namespace

PassInfo EliminateCommonSubexpressions::info() const {
  return {"eliminate-common-subexpressions", "Merges nodes that compute the same value"};
}

Result<Changed> EliminateCommonSubexpressions::run(ir::Graph& graph, PassContext&) {
  std::unordered_map<size_t, std::vector<ir::Node*>> seen;
  return rewrite_each(graph, [&](ir::Node* node) {
    if (!may_merge(*node)) {
      return false;
    }
    std::vector<ir::Node*>& equals = seen[Hasher()(node)];
    const auto first = std::find_if(equals.begin(), equals.end(), [&](ir::Node* other) {
      return same_computation(*other, *node) && !both_returned(graph, *other, *node);
    });
    if (first == equals.end()) {
      equals.push_back(node);
      return false;
    }
    for (size_t i = 0; i < node->results().size(); ++i) {
      graph.replace_all_uses(node->result(i), (*first)->result(i));
    }
    (*first)->absorb(*node);
    graph.erase(node);
    return true;
  });
}

}  // namespace et::passes
