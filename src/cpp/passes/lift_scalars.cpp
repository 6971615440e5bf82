#include "passes/lift_scalars.h"

#include "ops/names.h"
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

/// The dtype that a number has as a tensor without dims beside the other tensors of `node`.
ScalarType dtype_for(ir::Kind number, const ir::Node& node) {
  if (number != ir::Kind::kDouble) {
    return number == ir::Kind::kBool ? ScalarType::Bool : ScalarType::Long;
  }
  bool is_double = !node.results().empty() && node.result()->type.tensor.dtype == ScalarType::Double;
  node.for_each_input([&](const ir::Value* value) {
    is_double = is_double || (value->type.is_tensor() && value->type.tensor.dtype == ScalarType::Double);
  });
  return is_double ? ScalarType::Double : ScalarType::Float;
}

template <typename T>
ir::Constant constant_of_one(ScalarType dtype, T value) {
  T* data = nullptr;
  ir::Constant constant = new_constant(ir::TensorType::contiguous(dtype, {}), &data);
  *data = value;
  return constant;
}

/// A tensor without dims for a number that is known at run time only.
ir::Value* tensor_for(ir::Value* number, ir::Node& node) {
  const ScalarType dtype = dtype_for(number->type.kind, node);
  ir::Node* made = create_like(node, op::scalar_tensor, {{number}, {static_cast<int64_t>(dtype)}, {}, {}, {}});
  return made->add_result("scalar", ir::Type::of(ir::TensorType::contiguous(dtype, {})));
}

bool is_number(const ir::Argument& argument) {
  if (const ir::Value* value = argument.value()) {
    return value->type.kind == ir::Kind::kInt || value->type.kind == ir::Kind::kDouble ||
           value->type.kind == ir::Kind::kBool;
  }
  return argument.as<int64_t>() != nullptr || argument.as<double>() != nullptr || argument.as<bool>() != nullptr;
}

}  // namespace

ir::Constant constant_of_number(const ir::Argument& number, const ir::Node& node) {
  if (const auto* real = number.as<double>()) {
    const ScalarType dtype = dtype_for(ir::Kind::kDouble, node);
    return dtype == ScalarType::Double ? constant_of_one(dtype, *real)
                                       : constant_of_one(dtype, static_cast<float>(*real));
  }
  if (const auto* flag = number.as<bool>()) {
    return constant_of_one(ScalarType::Bool, *flag);
  }
  return constant_of_one(ScalarType::Long, *number.as<int64_t>());
}

PassInfo LiftScalars::info() const {
  return {"lift-scalars",   "Turns numbers that stand for tensors into scalar overloads or tensors",
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
      node->set_arg(i, {number.is_value() ? tensor_for(number.value(), *node)
                                          : add_constant(context.program, graph, "scalar",
                                                         constant_of_number(number, *node), node.get())});
    }
  }
  return changed;
}

}  // namespace et::passes
