#include "passes/eliminate_no_ops.h"

#include <algorithm>

#include "ir/op_views.h"
#include "ir/pattern.h"
#include "ops/names.h"
#include "ops/op_table.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

/// Of two nodes in a row the outer one can do what both do.
const ir::Pattern kTwice = R"(y = view(&view(x, size=_), size=_) | permute(&permute(x, _), _))";

/// Whether the operator returns its first argument when the result has its type.
bool is_same_when_type_is(std::string_view op) {
  return ops::moves_of(op) == ops::Moves::kReshape || ops::has_tag(op, ops::kSameType);
}

bool is_identity_permutation(const ir::Node& node) {
  const auto dims = ints_of(ops::Permute(node).dims());
  const auto rank = static_cast<int64_t>(node.result()->type.tensor.rank());
  for (int64_t i = 0; dims && i < rank; ++i) {
    if (((*dims)[static_cast<size_t>(i)] + rank) % rank != i) {
      return false;
    }
  }
  return dims.has_value();
}

bool pads_nothing(const ir::Node& node) {
  const auto pads = ints_of(ops::ConstantPadNd(node).pad());
  return pads && std::all_of(pads->begin(), pads->end(), [](int64_t pad) { return pad == 0; });
}

/// The value that the node returns unchanged, or nullptr.
ir::Value* identity_of(const ir::Node& node) {
  if (node.args().empty() || node.results().size() != 1 || !node.result()->type.is_tensor()) {
    return nullptr;
  }
  if (node.op == op::cat) {
    const auto* list = ops::Cat(node).tensors().as<ir::Argument::List>();
    ir::Value* only = list != nullptr && list->size() == 1 ? list->front().value() : nullptr;
    return only != nullptr && only->type.tensor == node.result()->type.tensor ? only : nullptr;
  }
  ir::Value* self = node.args()[0].value();
  if (self == nullptr || !self->type.is_tensor() || self->type.tensor != node.result()->type.tensor) {
    return nullptr;
  }
  if (is_same_when_type_is(node.op)) {
    return self;
  }
  if (is_one_of(node.op, {op::permute, op::permute_copy})) {
    return is_identity_permutation(node) ? self : nullptr;
  }
  if (node.op == op::constant_pad_nd) {
    return pads_nothing(node) ? self : nullptr;
  }
  return nullptr;
}

/// Removing the node does not reach over a border of tags.
bool stays_inside(const ir::Node& node) {
  return node.tag.empty() || (!node.graph()->is_output(node.result()) &&
                              std::all_of(node.result()->users().begin(), node.result()->users().end(),
                                          [&](const ir::Node* user) { return user->tag == node.tag; }));
}

bool would_return_what_is_not_its_own(const ir::Node& node, const ir::Value* source) {
  const ir::Graph* graph = node.graph();
  return graph->is_output(node.result()) &&
         (is_external(source) || graph->is_output(source) || source->graph() != graph);
}

/// view(view(x)) => view(x), permute(permute(x, p), q) => permute(x, p∘q). True when it fired.
bool join(ir::Node& node, const ir::Program& program) {
  const auto found =
      kTwice.match(node, program, [](const ir::Match& m) { return m.kept.front()->tag == m.root()->tag; });
  if (!found) {
    return false;
  }
  const ir::Node& inner = *found->kept.front();
  if (ops::moves_of(node.op) == ops::Moves::kPermute) {
    const auto first = ints_of(ops::Permute(inner).dims()), second = ints_of(ops::Permute(node).dims());
    if (!first || !second) {
      return false;
    }
    const auto rank = static_cast<int64_t>(first->size());
    ir::Argument::List joined;
    for (const int64_t dim : *second) {
      const int64_t source = (*first)[static_cast<size_t>((dim + rank) % rank)];
      joined.push_back({(source + rank) % rank});
    }
    node.set_arg(ops::arguments::permute::kDims, {std::move(joined)});
  }
  node.set_arg(0, (*found)["x"]);
  node.absorb(inner);
  return true;
}

/// Attention whose mask is `value`, which it repeats by itself.
bool is_mask_of(const ir::Node& user, const ir::Value* value) {
  return user.op == op::scaled_dot_product_attention &&
         ops::ScaledDotProductAttention(user).attn_mask().value() == value &&
         std::count_if(user.args().begin(), user.args().end(),
                       [&](const ir::Argument& argument) { return argument.value() == value; }) == 1;
}

/// Pointwise, of two tensors, the first two arguments, which repeat along dims of size 1. Of three none is the other.
bool is_of_two_tensors(std::string_view op) {
  const ops::OpInfo* const info = ops::find_op(op);
  if (info == nullptr || !info->has_tag(ops::kPointwise) || info->arguments.size() < 2) {
    return false;
  }
  const auto is_tensor = [](const ops::Argument& one) { return one.letter == 'T' || one.letter == 't'; };
  return is_tensor(info->arguments[0]) && is_tensor(info->arguments[1]) &&
         std::count_if(info->arguments.begin(), info->arguments.end(), is_tensor) == 2;
}

/// add(x, expand(y)) => add(x, y), when all users repeat elements by themselves and have the sizes from another
/// argument of the same element type (y may have no dims, and then its type would count for less), or are attention
/// with y as the mask. True when the expand is gone.
bool skip_expand(ir::Node& node) {
  if (!is_one_of(node.op, {op::expand, op::expand_copy}) || !node.tag.empty()) {
    return false;
  }
  ir::Value* const source = ops::Expand(node).self().value();
  const ir::TensorType& wide = node.result()->type.tensor;
  const auto fits = [&](const ir::Argument& argument) {
    const ir::Value* value = argument.value();
    return value != nullptr && value != node.result() && value->type.is_tensor() && value->type.tensor == wide;
  };
  const std::vector<ir::Node*> users = node.result()->users();
  const bool all = !users.empty() && !node.graph()->is_output(node.result()) &&
                   std::all_of(users.begin(), users.end(), [&](const ir::Node* user) {
                     if (!user->tag.empty() || user->graph() != node.graph()) {
                       return false;
                     }
                     if (is_mask_of(*user, node.result())) {
                       return source != nullptr && source->type.tensor.rank() >= 2;
                     }
                     return is_of_two_tensors(user->op) &&
                            (fits(ops::AddTensor(*user).self()) || fits(ops::AddTensor(*user).other()));
                   });
  if (!all) {
    return false;
  }
  for (ir::Node* user : users) {
    constexpr size_t kMask = ops::arguments::scaled_dot_product_attention::kAttnMask;
    user->set_arg(is_mask_of(*user, node.result()) ? kMask : fits(ops::AddTensor(*user).self()) ? 1 : 0, {source});
  }
  users.front()->absorb(node);
  node.graph()->erase(&node);
  return true;
}

}  // namespace

PassInfo EliminateNoOps::info() const {
  return {"eliminate-no-ops", "Removes operators that return their argument; joins views of views"};
}

Result<Changed> EliminateNoOps::run(ir::Graph& graph, PassContext& context) {
  return rewrite_each(graph, [&](ir::Node* node) {
    bool changed = false;
    while (join(*node, context.program)) {
      changed = true;
    }
    if (skip_expand(*node)) {
      return true;
    }
    ir::Value* source = identity_of(*node);
    if (source == nullptr || !stays_inside(*node) || would_return_what_is_not_its_own(*node, source)) {
      return changed;
    }
    if (ir::Node* producer = source->producer(); producer != nullptr && producer->tag == node->tag) {
      producer->absorb(*node);
    }
    graph.replace_all_uses(node->result(), source);
    graph.erase(node);
    return true;
  });
}

}  // namespace et::passes
