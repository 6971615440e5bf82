#include "passes/recognise_norms.h"

#include <algorithm>

#include "ir/op_views.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

bool is_cast(const ir::Node& node) { return is_one_of(node.op, {op::dim_order_ops_to_dim_order_copy, op::_to_copy}); }

bool is_add(const ir::Node& node) { return is_one_of(node.op, {op::add_Tensor, op::add_Scalar}); }

/// The argument as a value with a tensor's type; nullptr otherwise.
ir::Value* tensor(const ir::Argument& argument) {
  ir::Value* value = argument.value();
  return value != nullptr && value->type.is_tensor() ? value : nullptr;
}

/// The other argument of a node of two, when `value` is one of them and not both; nullptr otherwise.
ir::Value* other_of(const ir::Node& node, const ir::Value* value) {
  ir::Value* const first = tensor(node.args()[0]);
  ir::Value* const second = tensor(node.args()[1]);
  return first == second ? nullptr : first == value ? second : second == value ? first : nullptr;
}

/// The one dim that a reduction reduces, counted from the front and kept; nothing when it does otherwise, or casts.
std::optional<size_t> reduced_dim(const ir::Node& node, size_t keepdim, size_t dtype) {
  const ir::Value* self = tensor(node.args()[0]);
  const auto* list = node.args()[1].as<ir::Argument::List>();
  const std::optional<int64_t> single = int_of(node.args()[1]);
  const auto dims = list != nullptr ? ints_of(node.args()[1])
                    : single        ? std::optional(std::vector{*single})
                                    : std::nullopt;
  if (self == nullptr || !dims || dims->size() != 1 || int_of(node.args()[keepdim]) != 1 ||
      (dtype != 0 && !node.args()[dtype].is_none() && node.result()->type.tensor.dtype != self->type.tensor.dtype)) {
    return std::nullopt;
  }
  const auto rank = static_cast<int64_t>(self->type.tensor.rank());
  return rank == 0 ? std::nullopt : std::optional(static_cast<size_t>((dims->front() + rank) % rank));
}

/// True when a mean.dim or var.correction is over the last dim of floats, keeps it, and knows no correction.
bool is_over_last(const ir::Node& node) {
  const bool is_mean = node.op == op::mean_dim;
  if (!is_mean && (node.op != op::var_correction || number_of(ops::VarCorrection(node).correction()) != 0.0)) {
    return false;
  }
  const std::optional<size_t> dim = is_mean ? reduced_dim(node, 2, 3) : reduced_dim(node, 3, 0);
  return dim && *dim + 1 == tensor(node.args()[0])->type.tensor.rank();
}

/// z of z²; nullptr otherwise.
ir::Value* squared(const ir::Node& node) {
  const bool is_square =
      node.op == op::square ||
      (node.op == op::pow_Tensor_Scalar && number_of(ops::PowTensorScalar(node).exponent()) == 2.0) ||
      (node.op == op::mul_Tensor && node.args()[0] == node.args()[1]);
  return is_square ? tensor(node.args()[0]) : nullptr;
}

/// x of x - mean(x); the nodes are added to `found`.
ir::Value* centred(const ir::Value* value, WrittenOut& found) {
  ir::Node* sub = value->producer();
  if (sub == nullptr || sub->op != op::sub_Tensor || number_of(ops::SubTensor(*sub).alpha()) != 1.0) {
    return nullptr;
  }
  ir::Value* x = tensor(ops::SubTensor(*sub).self());
  ir::Node* mean = producer_if(ops::SubTensor(*sub).other(), {op::mean_dim});
  if (x == nullptr || mean == nullptr || ops::MeanDim(*mean).self().value() != x || !is_over_last(*mean)) {
    return nullptr;
  }
  found.add(sub);
  found.add(mean);
  return x;
}

/// What a norm is made of.
struct Norm {
  WrittenOut found;
  ir::Value* x = nullptr;
  ir::Value* weight = nullptr;
  ir::Value* bias = nullptr;
  double eps = 0;
  bool is_centred = false;
  bool is_cast = false;  ///< x is of 16 bits and so is the result, between which floats are computed
};

/// A vector with an element for each of the last dim.
bool is_parameter(const ir::Value* value, const ir::TensorType& type) {
  const ir::TensorType& own = value->type.tensor;
  return own.rank() == 1 && own.dims[0] == type.dims.back() && is_floating(own.dtype);
}

/// 1 / root of the variance, or the root itself with `divides`: from the variance along the only users.
ir::Value* root_of(ir::Node& variance, const ir::Program& program, Norm& norm, bool& divides) {
  ir::Node* add = only_user(variance.result());
  if (add == nullptr || !is_add(*add) || number_of(add->args()[2]) != 1.0) {
    return nullptr;
  }
  const bool first = add->args()[0].value() == variance.result();
  const std::optional<double> eps = scalar_of(program, add->args()[first ? 1 : 0]);
  ir::Node* root = eps ? only_user(add->result()) : nullptr;
  if (root == nullptr || *type_of(*add) != *type_of(variance)) {
    return nullptr;
  }
  norm.eps = *eps;
  norm.found.add(add);
  norm.found.add(root);
  const double exponent =
      root->op == op::pow_Tensor_Scalar ? number_of(ops::PowTensorScalar(*root).exponent()).value_or(0) : 0;
  divides = root->op == op::sqrt || exponent == 0.5;
  if (!divides && root->op != op::rsqrt && exponent != -0.5) {
    return nullptr;
  }
  ir::Node* inverse = divides ? only_user(root->result()) : nullptr;
  if (inverse != nullptr && inverse->op == op::reciprocal) {
    norm.found.add(inverse);
    divides = false;
    return inverse->result();
  }
  return root->result();
}

/// The value before a cast from a float of 16 bits; the value itself otherwise.
ir::Value* before_cast(ir::Value* value) {
  const ir::Node* cast = value->producer();
  ir::Value* source = cast != nullptr && is_cast(*cast) ? tensor(cast->args()[0]) : nullptr;
  return source != nullptr && is_small_float(source->type.tensor.dtype) &&
                 value->type.tensor.dtype == ScalarType::Float && source->type.tensor.dims == value->type.tensor.dims
             ? source
             : value;
}

/// The same value, or made of the same by the same operators: before equal expressions are merged.
bool is_same(const ir::Value* a, const ir::Value* b, int depth = 2) {
  if (a == b) {
    return true;
  }
  const ir::Node* first = a == nullptr ? nullptr : a->producer();
  const ir::Node* second = b == nullptr ? nullptr : b->producer();
  if (depth == 0 || first == nullptr || second == nullptr || first->op != second->op ||
      a->result_index() != b->result_index() || first->args().size() != second->args().size() ||
      !is_one_of(first->op, {op::sub_Tensor, op::mean_dim})) {
    return false;
  }
  for (size_t i = 0; i < first->args().size(); ++i) {
    const ir::Argument& one = first->args()[i];
    const ir::Argument& other = second->args()[i];
    if (!(one == other) &&
        (one.value() == nullptr || other.value() == nullptr || !is_same(one.value(), other.value(), depth - 1))) {
      return false;
    }
  }
  return true;
}

/// True when `value` is what the variance was made of: z, or x - mean(x) where z is x; before a cast, too.
bool is_base(ir::Value* value, ir::Value* z, bool of_variance, Norm& norm) {
  const bool is_z = is_same(value, z);
  if (!of_variance && !is_z && value != before_cast(z)) {
    return false;
  }
  WrittenOut found = norm.found;
  ir::Value* x = centred(of_variance ? value : z, found);
  norm.is_centred = of_variance ? x == z : x != nullptr && is_z && centred(value, found) == x;
  if (norm.is_centred) {
    norm.found = std::move(found);
  }
  norm.x = norm.is_centred ? x : z;
  return norm.is_centred || (!of_variance && (value == z || value == before_cast(z)));
}

/// The node that scales what the variance was made of, with a weight before it or not.
bool match_scaled(ir::Node& variance, const ir::Program& program, Norm& norm) {
  const bool of_variance = variance.op == op::var_correction;
  ir::Value* z = tensor(variance.args()[0]);
  if (!of_variance) {
    ir::Node* square = z == nullptr ? nullptr : z->producer();
    z = square == nullptr ? nullptr : squared(*square);
    if (z == nullptr || z->type.tensor != *type_of(*square)) {
      return false;
    }
    norm.found.add(square);
  }
  bool divides = false;
  ir::Value* root = root_of(variance, program, norm, divides);
  ir::Node* scaled = root == nullptr ? nullptr : only_user(root);
  if (scaled == nullptr || scaled->op != (divides ? op::div_Tensor : op::mul_Tensor)) {
    return false;
  }
  ir::Value* value = divides ? tensor(scaled->args()[0]) : other_of(*scaled, root);
  if (value == nullptr || value == root || *type_of(*scaled) != z->type.tensor) {
    return false;
  }
  norm.found.add(&variance);
  norm.found.add(scaled);
  norm.found.root = scaled;
  if (is_base(value, z, of_variance, norm)) {
    return true;
  }
  ir::Node* weighted = value->producer();  // weight * (x - mean) / root
  for (size_t i = 0; weighted != nullptr && weighted->op == op::mul_Tensor && i < 2; ++i) {
    ir::Value* inner = tensor(weighted->args()[i]);
    ir::Value* weight = tensor(weighted->args()[1 - i]);
    if (inner != nullptr && weight != nullptr && is_parameter(weight, z->type.tensor) &&
        *type_of(*weighted) == z->type.tensor && is_base(inner, z, of_variance, norm)) {
      norm.weight = weight;
      norm.found.add(weighted);
      return true;
    }
  }
  return false;
}

/// Takes the weight, the bias and the cast behind the root, one of each and those that are there.
bool extend(Norm& norm) {
  ir::Node* root = norm.found.root;
  ir::Node* next = only_user(root->result());
  if (next == nullptr || next->results().size() != 1 || type_of(*next) == nullptr) {
    return false;
  }
  const ir::TensorType& type = *type_of(*next);
  if (is_cast(*next)) {
    if (norm.is_cast || type != before_cast(norm.x)->type.tensor || before_cast(norm.x) == norm.x) {
      return false;
    }
    norm.is_cast = true;
  } else {
    ir::Value* other =
        next->op == op::mul_Tensor || next->op == op::add_Tensor ? other_of(*next, root->result()) : nullptr;
    if (other == nullptr || type != *type_of(*root) || !is_parameter(other, type) || norm.bias != nullptr) {
      return false;
    }
    if (next->op == op::mul_Tensor && norm.weight == nullptr) {
      norm.weight = other;
    } else if (next->op == op::add_Tensor && norm.is_centred && number_of(ops::AddTensor(*next).alpha()) == 1.0) {
      norm.bias = other;
    } else {
      return false;
    }
  }
  norm.found.add(next);
  norm.found.root = next;
  return true;
}

ir::Argument optional(ir::Value* value) { return value == nullptr ? ir::Argument{} : ir::Argument{value}; }

/// True for a parameter that is there and has another element type.
bool is_other(const ir::Value* parameter, ScalarType dtype) {
  return parameter != nullptr && parameter->type.tensor.dtype != dtype;
}

/// The operator for what was matched; nothing when it has none.
std::optional<WrittenOut> finish(Norm norm, bool one_dtype) {
  ir::Value* x = norm.is_cast ? before_cast(norm.x) : norm.x;
  const ir::TensorType& type = x->type.tensor;
  if (*type_of(*norm.found.root) != type || !type.is_row_major() || type.rank() == 0 || !is_floating(type.dtype)) {
    return std::nullopt;
  }
  if (norm.is_cast) {
    ir::Node* cast = norm.x->producer();
    const auto& users = norm.x->users();
    const bool only_here =
        cast->graph() == norm.found.root->graph() && !norm.x->graph()->is_output(norm.x) &&
        std::all_of(users.begin(), users.end(), [&](const ir::Node* user) { return norm.found.has(user); });
    if (only_here) {
      norm.found.add(cast);
    }
  }
  if (!norm.is_centred) {
    norm.found.op = op::et_rms_norm;
    norm.found.args = {{x}, optional(norm.weight), {norm.eps}};
  } else if (type.dims.back().is_static() &&
             !(one_dtype && (is_other(norm.weight, type.dtype) || is_other(norm.bias, type.dtype)))) {
    norm.found.op = op::native_layer_norm;
    const ir::Argument::List shape{{type.dims.back().min}};
    norm.found.args = {{x}, {shape}, optional(norm.weight), optional(norm.bias), {norm.eps}};
    std::vector<ir::Dim> dims = type.dims;
    dims.back() = ir::Dim(1);
    const ir::Type statistics = ir::Type::of(ir::TensorType::contiguous(type.dtype, std::move(dims)));
    norm.found.unused = {statistics, statistics};
  } else {
    return std::nullopt;
  }
  return is_closed(norm.found) ? std::optional(std::move(norm.found)) : std::nullopt;
}

/// e / sum(e) with e = exp(x - max(x)), all over the same dim.
std::optional<WrittenOut> softmax(ir::Node& sum) {
  ir::Node* exp = producer_if(sum.args()[0], {op::exp});
  const std::optional<size_t> dim = exp == nullptr ? std::nullopt : reduced_dim(sum, 2, 3);
  ir::Node* sub = exp == nullptr ? nullptr : producer_if(ops::Exp(*exp).self(), {op::sub_Tensor});
  ir::Node* div = only_user(sum.result());
  if (!dim || sub == nullptr || number_of(ops::SubTensor(*sub).alpha()) != 1.0 || div == nullptr ||
      div->op != op::div_Tensor || ops::DivTensor(*div).self().value() != exp->result() ||
      ops::DivTensor(*div).other().value() != sum.result()) {
    return std::nullopt;
  }
  const ops::SubTensor difference(*sub);
  ir::Value* x = tensor(difference.self());
  ir::Node* most = producer_if(difference.other(), {op::amax, op::max_dim});
  if (x == nullptr || most == nullptr || difference.other().value() != most->result() || most->args()[0].value() != x ||
      reduced_dim(*most, 2, 0) != dim || !is_floating(x->type.tensor.dtype)) {
    return std::nullopt;
  }
  WrittenOut found;
  found.root = div;
  for (ir::Node* node : {&sum, exp, sub, most, div}) {
    found.add(node);
  }
  for (const ir::Node* node : {exp, sub, div}) {
    if (*type_of(*node) != x->type.tensor) {
      return std::nullopt;
    }
  }
  found.op = op::_softmax;
  found.args = {{x}, {static_cast<int64_t>(*dim)}, {false}};
  return is_closed(found) ? std::optional(std::move(found)) : std::nullopt;
}

}  // namespace

std::optional<WrittenOut> written_out_norm(ir::Node& node, const ir::Program& program, bool one_dtype) {
  if (node.op == op::sum_dim_IntList) {
    return softmax(node);
  }
  Norm norm;
  if (!is_one_of(node.op, {op::mean_dim, op::var_correction}) || !is_over_last(node) ||
      !match_scaled(node, program, norm)) {
    return std::nullopt;
  }
  std::optional<WrittenOut> best = finish(norm, one_dtype);
  while (extend(norm)) {
    if (std::optional<WrittenOut> longer = finish(norm, one_dtype)) {
      best = std::move(longer);
    }
  }
  return best;
}

PassInfo RecogniseNorms::info() const {
  return {"recognise-norms", "Makes one operator of a layer norm, an RMS norm or a softmax that is written out"};
}

Result<Changed> RecogniseNorms::run(ir::Graph& graph, PassContext& context) {
  return replace_each(graph, context, [&](ir::Node& node) {
    return written_out_norm(node, context.program, context.options.compatible);
  });
}

}  // namespace et::passes
