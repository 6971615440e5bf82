#include "passes/lift_scalars.h"

#include "passes/rewrite.h"

namespace et::passes {
namespace {

/// The overload of `op` that takes a number for argument `index` and is otherwise the same; nullptr when there is none.
const ops::OpInfo* scalar_overload(const ops::OpInfo& op, size_t index, bool compatible) {
  const std::string base(op.name.substr(0, op.name.find('.')));
  for (const char* overload : {".Scalar", ".Tensor_Scalar"}) {
    const ops::OpInfo* candidate = ops::find_op(base + overload);
    if (candidate == nullptr || candidate->arguments.size() != op.arguments.size() ||
        candidate->arguments[index].letter != 'n' || (compatible && !candidate->is_published)) {
      continue;
    }
    bool same = true;
    for (size_t i = 0; i < op.arguments.size(); ++i) {
      same = same && (i == index || candidate->arguments[i].letter == op.arguments[i].letter);
    }
    if (same) {
      return candidate;
    }
  }
  return nullptr;
}

/// A constant without dims for a number beside the other tensors of `node`.
ir::Constant constant_for(const ir::Argument& number, const ir::Node& node) {
  if (const auto* real = number.as<double>()) {
    bool is_double = !node.results().empty() && node.result()->type.tensor.dtype == ScalarType::Double;
    node.for_each_input([&](const ir::Value* value) {
      is_double = is_double || (value->type.is_tensor() && value->type.tensor.dtype == ScalarType::Double);
    });
    if (is_double) {
      double* data = nullptr;
      ir::Constant constant = new_constant(ir::TensorType::contiguous(ScalarType::Double, {}), &data);
      *data = *real;
      return constant;
    }
    float* data = nullptr;
    ir::Constant constant = new_constant(ir::TensorType::contiguous(ScalarType::Float, {}), &data);
    *data = static_cast<float>(*real);
    return constant;
  }
  if (const auto* flag = number.as<bool>()) {
    bool* data = nullptr;
    ir::Constant constant = new_constant(ir::TensorType::contiguous(ScalarType::Bool, {}), &data);
    *data = *flag;
    return constant;
  }
  int64_t* data = nullptr;
  ir::Constant constant = new_constant(ir::TensorType::contiguous(ScalarType::Long, {}), &data);
  *data = *number.as<int64_t>();
  return constant;
}

bool is_number(const ir::Argument& argument) {
  return argument.as<int64_t>() != nullptr || argument.as<double>() != nullptr || argument.as<bool>() != nullptr;
}

}  // namespace

PassInfo LiftScalars::info() const {
  return {"lift-scalars",   "Turns numbers that stand for tensors into scalar overloads or constants",
          ir::Stage::kEdge, ir::Stage::kEdge,
          Scope::kGraph,    /*is_required=*/true};
}

Result<Changed> LiftScalars::run(ir::Graph& graph, PassContext& context) {
  Changed changed = Changed::kNo;
  for (const auto& node : graph.nodes()) {
    const ops::OpInfo* op = ops::find_op(node->op);
    for (size_t i = 0; op != nullptr && i < op->arguments.size() && i < node->args().size(); ++i) {
      const char letter = op->arguments[i].letter;
      const ir::Argument number = node->args()[i];
      if ((letter != 'T' && letter != 't') || !is_number(number)) {
        continue;
      }
      changed = Changed::kYes;
      if (const ops::OpInfo* overload = scalar_overload(*op, i, context.options.compatible)) {
        node->op = overload->name;
        op = overload;
        continue;
      }
      node->set_arg(i, {add_constant(context.program, graph, "scalar", constant_for(number, *node), node.get())});
    }
  }
  return changed;
}

}  // namespace et::passes
