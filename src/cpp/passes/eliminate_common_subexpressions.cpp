#include "passes/eliminate_common_subexpressions.h"

#include <algorithm>
#include <unordered_map>

#include "passes/clamps.h"
#include "passes/propagate_dequantize.h"
#include "passes/quantized_values.h"

namespace et::passes {
namespace {

/// A backend's dequantize is not merged: of two of its parts each has its own, or one would get floats.
bool may_merge(const ir::Node& node) {
  if (!node.regions.empty() || (!node.tag.empty() && node.op == kDequantizePerTensor)) {
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

/// The one node that reads the result of a node, in its first argument; nullptr when there are others, or none.
const ir::Node* only_reader(const ir::Node& node) {
  const ir::Node* reader = node.result()->users().empty() ? nullptr : node.result()->users().front();
  const bool is_only =
      reader != nullptr && is_only_use(node.result(), reader) && reader->args()[0].value() == node.result();
  return is_only ? reader : nullptr;
}

/// Whether a node computes with dequantized values and a quantize reads its result, behind clamps at most. It is an
/// operator on integers with one scale for its result as long as nothing else reads its floats. What moves elements
/// keeps its integers whoever reads it.
bool is_rounded(const ir::Node& node) {
  const auto is_dequantized = [](const ir::Argument& argument) {
    return producer_if(argument, {kDequantizePerTensor}) != nullptr;
  };
  const bool moves = !elements_of(node).empty() && !joins_tensors(node);
  if (moves || node.results().size() != 1 || std::none_of(node.args().begin(), node.args().end(), is_dequantized)) {
    return false;
  }
  const ir::Node* reader = only_reader(node);
  while (reader != nullptr && is_clamp(*reader)) {
    reader = only_reader(*reader);
  }
  return reader != nullptr && reader->op == kQuantizePerTensor;
}

/// Whether the one reader of each result computes the same of it, and so on to a quantize: all of that merges, too.
bool same_readers(const ir::Node& a, const ir::Node& b) {
  const ir::Node* first = only_reader(a);
  const ir::Node* second = only_reader(b);
  if (first == nullptr || second == nullptr || first->op != second->op || first->tag != second->tag ||
      !std::equal(first->args().begin() + 1, first->args().end(), second->args().begin() + 1, second->args().end())) {
    return false;
  }
  return first->op == kQuantizePerTensor || same_readers(*first, *second);
}

/// Merged, two operators on integers that are rounded in different ways would be one on floats.
bool stay_integers(const ir::Node& a, const ir::Node& b) {
  return (!is_rounded(a) && !is_rounded(b)) || same_readers(a, b);
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
      return same_computation(*other, *node) && !both_returned(graph, *other, *node) && stay_integers(*other, *node);
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
