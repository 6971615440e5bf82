#include "passes/remove_views.h"

#include <algorithm>

#include "ir/op_views.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

/// The bytes of the result are always those of the argument. A clone is a copy that the model asked for.
bool is_reshape(std::string_view out_name) {
  const ops::OpInfo* op = ops::find_out(out_name);
  return op != nullptr && op->moves == ops::Moves::kReshape && op->has_tag(ops::kView);
}

/// The dims of more than one element lie in memory as they did, so nothing moves: only others change places, or the dim
/// order says so.
bool permutes_nothing(const ir::Node& node) {
  const auto dims = ints_of(ops::Permute(node).dims());
  const ir::TensorType& from = ops::Permute(node).self().value()->type.tensor;
  const ir::TensorType& to = node.result()->type.tensor;
  if (!dims || dims->size() != from.rank() || to.rank() != from.rank()) {
    return false;
  }
  const auto rank = static_cast<int64_t>(from.rank());
  std::vector<int64_t> before, after;  // dims of `from`, outermost in memory first
  for (size_t i = 0; i < from.rank(); ++i) {
    for (const auto& [order, dim] : {std::pair(&before, int64_t{from.dim_order[i]}),
                                     std::pair(&after, ((*dims)[to.dim_order[i]] + rank) % rank)}) {
      if (from.dims[static_cast<size_t>(dim)] != ir::Dim(1)) {
        order->push_back(dim);
      }
    }
  }
  return before == after;
}

/// Two dims that change places, or none: transpose_copy.int_out, t_copy.out.
bool transposes_only_ones(const ir::Node& node) {
  const ir::TensorType& from = node.args()[0].value()->type.tensor;
  return std::count_if(from.dims.begin(), from.dims.end(), [](const ir::Dim& dim) { return dim != ir::Dim(1); }) <= 1;
}

/// Elements lie in the same order in both: the dims of more than one element follow each other alike.
bool same_order(const ir::TensorType& from, const ir::TensorType& to) {
  const auto long_dims = [](const ir::TensorType& type) {
    std::vector<uint8_t> order;
    for (const uint8_t dim : type.dim_order) {
      if (type.dims[dim] != ir::Dim(1)) {
        order.push_back(dim);
      }
    }
    return order;
  };
  return from.dims == to.dims && long_dims(from) == long_dims(to);
}

bool keeps_bytes(const ir::Node& node) {
  const ir::TensorType& from = node.args()[0].value()->type.tensor;
  const ir::TensorType& to = node.result()->type.tensor;
  if (node.op == op::dim_order_ops_clone_dim_order_out) {
    return from != to && same_order(from, to);  // a copy in the same order was kept for its own sake
  }
  if (node.op == op::permute_copy_out) {
    return permutes_nothing(node);
  }
  if (!from.is_row_major() || !to.is_row_major()) {
    return false;
  }
  if (is_reshape(node.op)) {
    return true;
  }
  if (is_one_of(node.op, {op::transpose_copy_int_out, op::t_copy_out})) {
    return transposes_only_ones(node);
  }
  // Nothing is repeated, or left out, when the number of elements stays.
  return is_one_of(node.op, {op::expand_copy_out, op::slice_copy_Tensor_out, op::select_copy_int_out}) &&
         to.is_static() && from.numel() == to.numel();
}

bool returned_by_region(const ir::Value* value) {
  return value->graph()->owner != nullptr && value->graph()->is_output(value);
}

/// A branch's output becomes the result by a move, so where its bytes lie is known at run time only.
bool is_bound_by_move(const ir::Value* root) { return root->producer() != nullptr && root->producer()->op == "cond"; }

bool may_share(const ir::Value* self, const ir::Value* view, const PassOptions& options) {
  const ir::Value* root = self->root();
  const ir::Graph* graph = view->graph();
  if (root->producer() != nullptr && root->producer()->op == "constant") {
    return false;
  }
  if (root->producer() == nullptr && root->graph()->owner == nullptr && !options.plan_inputs) {
    return false;
  }
  if (graph->is_output(view) && (!options.plan_outputs || is_external(root) || root->graph() != graph)) {
    return false;
  }
  if (!options.plan_outputs && (graph->is_output(self) || graph->is_output(root))) {
    return false;
  }
  return !returned_by_region(view) && !returned_by_region(root);
}

}  // namespace

PassInfo RemoveViews::info() const {
  return {"remove-views", "Views become other names for the same memory", ir::Stage::kLowered, ir::Stage::kLowered};
}

Result<Changed> RemoveViews::run(ir::Graph& graph, PassContext& context) {
  Changed changed = Changed::kNo;
  for (const auto& node : graph.nodes()) {
    ir::Value* self = node->args().empty() ? nullptr : node->args()[0].value();
    if (self == nullptr || node->results().size() != 1 || !self->type.is_tensor() ||
        !node->result()->type.is_tensor()) {
      continue;
    }
    const ir::TensorType& from = self->type.tensor;
    const ir::TensorType& to = node->result()->type.tensor;
    // The bound of a derived size may be wider than that of what it is derived from.
    const bool fits = to.max_nbytes() <= self->root()->type.tensor.max_nbytes();
    if (from.dtype != to.dtype || node->result()->alias_of != nullptr || !fits || !keeps_bytes(*node) ||
        !may_share(self, node->result(), context.options)) {
      continue;
    }
    if (from.is_static() && to.is_static() && !is_bound_by_move(self->root())) {
      node->op = "alias";
      node->set_args({{self}});
    } else if (node->op == op::view_copy_out && from.is_bounded() && to.is_bounded()) {
      node->op = op::executorch_prim_et_view_default;
    } else {
      continue;
    }
    node->result()->alias_of = self;
    changed = Changed::kYes;
  }
  return changed;
}

}  // namespace et::passes
