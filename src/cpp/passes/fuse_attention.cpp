#include "passes/fuse_attention.h"

#include <algorithm>

#include "ir/op_views.h"
#include "ir/pattern.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

constexpr const char* kAttention = op::scaled_dot_product_attention;
using namespace ops::arguments::scaled_dot_product_attention;

const ir::Pattern kSpelledOut = R"(
  out = bmm(WEIGHTS, value)
  WEIGHTS = view(WEIGHTS, _) | weights
  weights = _softmax(MASKED | HIDDEN, -1, 0)
  MASKED = view(MASKED, _) | add(MASKED, _) | SCALED
  HIDDEN = view(HIDDEN, _) | mul(HIDDEN, _) | div(HIDDEN, _) | masked_fill(SCALED, hidden, -inf)
  SCALED = view(SCALED, _) | mul(SCALED, _) | div(SCALED, _) | scores
  scores = bmm(query, keys)
  keys = KEYS
  KEYS = &view(KEYS, _) | transposed
  transposed = &permute(_, dims)
)";

const ir::Pattern kRepeatedHeads = R"(
  joined = view(repeated, _)
  repeated = &expand(single, _, ...)
  single = &unsqueeze(source, 2)
)";

const ir::TensorType& type_of(const ir::Argument& argument) { return argument.value()->type.tensor; }

/// What attention is made of, in the shapes of the products: q [n, rows, depth], k.T [n, depth, keys], v [n, keys,
/// width].
struct Match {
  ir::Node* scores = nullptr;     ///< bmm of q and k.T
  ir::Node* transpose = nullptr;  ///< permute that makes k.T, maybe behind a view
  ir::Node* softmax = nullptr;
  ir::Node* out = nullptr;        ///< bmm with v
  std::vector<ir::Value*> masks;  ///< numbers that are added to the scores
  ir::Value* hidden = nullptr;    ///< where true, the score is -inf
  double scale = 1;
  std::vector<ir::Node*> chain;  ///< everything from scores to out, each with one use
};

/// The factor of a multiplication or division by a number; 0 when the node is none.
double factor_of(const ir::Node& node) {
  const bool divides = is_one_of(node.op, {op::div_Scalar, op::div_Tensor});
  if (!divides && !is_one_of(node.op, {op::mul_Scalar, op::mul_Tensor})) {
    return 0;
  }
  const std::optional<double> number = number_of(ops::MulTensor(node).other());
  return !number || *number == 0 ? 0 : divides ? 1 / *number : *number;
}

bool broadcasts_to(const ir::TensorType& from, const ir::TensorType& to) {
  if (from.rank() > to.rank()) {
    return false;
  }
  for (size_t i = 0; i < from.rank(); ++i) {
    const ir::Dim& dim = from.dims[from.rank() - 1 - i];
    if (dim != to.dims[to.rank() - 1 - i] && dim != ir::Dim(1)) {
      return false;
    }
  }
  return true;
}

/// The mask that an addition adds to scores on the way of the match; nullptr when it adds something else.
ir::Value* mask_of(const ir::Node& add, const ir::Match& m, const ir::TensorType& shape) {
  const ops::AddTensor sum(add);
  const bool first = m.has(sum.self().value()->producer());
  const ir::Argument& scores = first ? sum.self() : sum.other();
  ir::Value* mask = (first ? sum.other() : sum.self()).value();
  return mask != nullptr && mask->type.tensor.dtype == shape.dtype && broadcasts_to(mask->type.tensor, shape) &&
                 type_of(scores) == shape && add.result()->type.tensor == shape
             ? mask
             : nullptr;
}

/// Sizes in front of the last two dims, multiplied.
int64_t batch_of(const ir::TensorType& type) {
  int64_t batch = 1;
  for (size_t i = 0; i + 2 < type.rank(); ++i) {
    batch *= type.dims[i].min;
  }
  return batch;
}

/// Views between the products must only split or join the batch, so that rows stay rows.
bool is_same_matrix(const ir::TensorType& a, const ir::TensorType& b) {
  return a.is_static() && b.is_static() && a.rank() >= 3 && b.rank() >= 3 && a.dims.back() == b.dims.back() &&
         a.dims[a.rank() - 2] == b.dims[b.rank() - 2] && batch_of(a) == batch_of(b);
}

/// Reads masks and factors, and compares shapes; nothing when they are those of another function.
std::optional<Match> attention_of(const ir::Match& m) {
  Match a{m.node("scores"), m.node("transposed"), m.node("weights"), m.root(), {}, m.value("hidden"), 1, {}};
  const ir::TensorType& shape = m.value("weights")->type.tensor;
  const ir::TensorType& scores = m.value("scores")->type.tensor;
  const auto dims = ints_of(m["dims"]);
  const auto has_tag = [](const ir::Node* node) { return !node->tag.empty(); };
  if (std::any_of(m.nodes.begin(), m.nodes.end(), has_tag) || shape.rank() > 4 || !is_floating(shape.dtype) || !dims ||
      dims->size() < 3 || !is_same_matrix(a.transpose->result()->type.tensor, type_of(m["keys"]))) {
    return std::nullopt;
  }
  a.chain.assign(m.nodes.begin() + 1, m.nodes.end());
  for (const ir::Node* node : a.chain) {
    const ir::TensorType& type = node->result()->type.tensor;
    bool fits = type.dtype == shape.dtype && is_same_matrix(type, scores);
    if (node->op == op::add_Tensor || node->op == op::add_Scalar) {
      a.masks.push_back(mask_of(*node, m, shape));
      fits = fits && a.masks.back() != nullptr;
    } else if (node->op == op::masked_fill_Scalar) {
      fits = fits && a.scale > 0 && type_of(ops::MaskedFillScalar(*node).self()) == shape &&
             broadcasts_to(type_of(m["hidden"]), shape);
    } else if (ops::moves_of(node->op) != ops::Moves::kReshape && !is_one_of(node->op, {op::bmm, op::_softmax})) {
      a.scale *= factor_of(*node);
      fits = fits && factor_of(*node) != 0;
    }
    if (!fits) {
      return std::nullopt;
    }
  }
  return a;
}

ir::Argument sizes_argument(const ir::TensorType& type) {
  ir::Argument::List sizes;
  for (const ir::Dim& dim : type.dims) {
    sizes.push_back({dim.min});
  }
  return {std::move(sizes)};
}

/// Puts a node that prepares an operand in front of the attention. It serves the softmax, whose value it never is.
ir::Node* create_operand(const Match& m, std::string_view op, std::vector<ir::Argument> args) {
  ir::Node* made = m.out->graph()->create_node(op, std::move(args), m.out);
  serve(made, *m.softmax);
  return made;
}

/// `value` with the batch dims of the softmax, its own last two; a view unless it has them.
ir::Value* with_batch(const Match& m, ir::Value* value) {
  const ir::TensorType& like = m.softmax->result()->type.tensor;
  const ir::TensorType& from = value->type.tensor;
  std::vector<ir::Dim> dims(like.dims.begin(), like.dims.end() - 2);
  dims.push_back(from.dims[from.rank() - 2]);
  dims.push_back(from.dims[from.rank() - 1]);
  const ir::TensorType type = ir::TensorType::contiguous(from.dtype, std::move(dims));
  if (type == from) {
    return value;
  }
  return create_operand(m, op::view_copy, {{value}, sizes_argument(type)})
      ->add_result(value->name + "_heads", ir::Type::of(type));
}

/// Keys as they were before they were transposed: the same permutation with the last two dims in their places.
ir::Value* untransposed(const Match& m) {
  std::vector<int64_t> dims = *ints_of(ops::Permute(*m.transpose).dims());
  const auto rank = static_cast<int64_t>(dims.size());
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  ir::Value* source = ops::Permute(*m.transpose).self().value();
  bool identity = true;
  ir::Argument::List order;
  std::vector<ir::Dim> sizes;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = (dims[i] + rank) % rank;
    identity = identity && dim == static_cast<int64_t>(i);
    order.push_back({dim});
    sizes.push_back(source->type.tensor.dims[static_cast<size_t>(dim)]);
  }
  if (identity) {
    return source;
  }
  return create_operand(m, op::permute_copy, {{source}, {std::move(order)}})
      ->add_result(source->name + "_keys",
                   ir::Type::of(ir::TensorType::contiguous(source->type.tensor.dtype, std::move(sizes))));
}

/// All masks as one: the sum of those that are added, or where scores are not hidden; nullptr without any.
ir::Value* one_mask(const Match& m) {
  if (m.hidden != nullptr) {
    return create_operand(m, op::logical_not, {{m.hidden}})->add_result(m.hidden->name + "_shown", m.hidden->type);
  }
  ir::Value* sum = nullptr;
  for (auto mask = m.masks.rbegin(); mask != m.masks.rend(); ++mask) {  // in the order of the program
    if (sum == nullptr) {
      sum = *mask;
      continue;
    }
    const ir::TensorType& a = sum->type.tensor;
    const ir::TensorType& b = (*mask)->type.tensor;
    std::vector<ir::Dim> dims = a.rank() > b.rank() ? a.dims : b.dims;
    for (size_t i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
      const ir::Dim& dim = a.dims[a.rank() - i];
      dims[dims.size() - i] = dim == ir::Dim(1) ? b.dims[b.rank() - i] : dim;
    }
    ir::Node* add = create_operand(m, op::add_Tensor, {{sum}, {*mask}, {int64_t{1}}});
    sum = add->add_result((*mask)->name + "_sum", ir::Type::of(ir::TensorType::contiguous(a.dtype, std::move(dims))));
  }
  return sum;
}

void fuse(const Match& m) {
  ir::Graph& graph = *m.out->graph();
  const ir::TensorType& shape = m.softmax->result()->type.tensor;
  ir::Value* query = with_batch(m, ops::Bmm(*m.scores).self().value());
  ir::Value* key = with_batch(m, untransposed(m));
  ir::Value* value = with_batch(m, ops::Bmm(*m.out).mat2().value());
  ir::Argument mask;
  if (ir::Value* given = one_mask(m); given != nullptr) {
    mask.data = given;
  }
  ir::Node* attention =
      create_like(*m.out, kAttention, {{query}, {key}, {value}, mask, {0.0}, {false}, {m.scale}, {false}});
  std::vector<ir::Dim> dims = query->type.tensor.dims;
  dims.back() = value->type.tensor.dims.back();
  const ir::TensorType type = ir::TensorType::contiguous(shape.dtype, std::move(dims));
  ir::Value* result = attention->add_result("attention", ir::Type::of(type));
  for (const ir::Node* node : m.chain) {
    attention->absorb(*node);
  }
  const ir::TensorType& wanted = m.out->result()->type.tensor;
  ir::Node* last = attention;
  if (type != wanted) {
    last = create_like(*m.out, op::view_copy, {{result}, sizes_argument(wanted)});
    last->add_result(m.out->result()->name, m.out->result()->type);
    attention->absorb(*m.out);
    m.out->debug_handle = 0;
    m.out->merged_handles.clear();
    serve(last, *attention);
  }
  replace_node(m.out, last);
  for (ir::Node* node : m.chain) {
    graph.erase(node);
  }
}

bool repeats_heads(const ir::Match& m) {
  const auto dims = [&](std::string_view name) -> const std::vector<ir::Dim>& {
    return m.value(name)->type.tensor.dims;
  };
  const auto &own = dims("source"), &repeated = dims("repeated"), &joined = dims("joined");
  return m.root()->tag.empty() && m.node("repeated")->tag.empty() && m.node("single")->tag.empty() && own.size() == 4 &&
         joined.size() == 4 && repeated.size() == 5 && repeated[2].is_static() && own[1].is_static() &&
         joined[1].is_static() && repeated[0] == own[0] && repeated[1] == own[1] && repeated[3] == own[2] &&
         repeated[4] == own[3] && joined[0] == own[0] && joined[1].min == own[1].min * repeated[2].min &&
         joined[2] == own[2] && joined[3] == own[3];
}

/// [batch, heads, keys, depth] that are repeated for groups of heads; nullptr otherwise.
ir::Value* before_repetition(const ir::Argument& argument, const ir::Program& program) {
  const std::optional<ir::Match> found = kRepeatedHeads.match_producer(argument, program, repeats_heads);
  return found ? found->value("source") : nullptr;
}

/// Gives attention the keys and values of its groups once; true when it did.
bool share_heads(const ir::Program& program, ir::Node& attention) {
  if (!attention.tag.empty() || int_of(ops::ScaledDotProductAttention(attention).enable_gqa()) != 0) {
    return false;
  }
  ir::Value* key = before_repetition(ops::ScaledDotProductAttention(attention).key(), program);
  ir::Value* value = before_repetition(ops::ScaledDotProductAttention(attention).value(), program);
  if (key == nullptr || value == nullptr || key->type.tensor.dims[1] != value->type.tensor.dims[1]) {
    return false;
  }
  attention.set_arg(kKey, {key});
  attention.set_arg(kValue, {value});
  attention.set_arg(kEnableGqa, {true});
  return true;
}

/// True when attention with this mask is attention without one: a constant that is true everywhere, or adds zeros.
bool hides_nothing(const ir::Program& program, const ir::Value* mask) {
  if (mask == nullptr || !mask->type.is_tensor()) {
    return false;
  }
  const ScalarType dtype = mask->type.tensor.dtype;
  if (const ir::Constant* constant = constant_of(program, mask)) {
    const auto* bytes = static_cast<const uint8_t*>(constant->data);
    return (dtype == ScalarType::Bool || dtype == ScalarType::Float) &&
           std::all_of(bytes, bytes + constant->type.max_nbytes(),
                       [&](uint8_t byte) { return (byte != 0) == (dtype == ScalarType::Bool); });
  }
  if (const ir::Node* full = producer_if({const_cast<ir::Value*>(mask)}, {op::full})) {
    const auto number = number_of(ops::Full(*full).fill_value());
    return number && (dtype == ScalarType::Bool ? *number != 0 : *number == 0);
  }
  const ir::Node* expand = producer_if({const_cast<ir::Value*>(mask)}, {op::expand, op::expand_copy});
  return expand != nullptr && hides_nothing(program, ops::Expand(*expand).self().value());
}

/// Leaves out a mask that hides nothing, as models make it for inputs without padding. True when it did.
bool drop_open_mask(const ir::Program& program, ir::Node& attention) {
  if (!attention.tag.empty() ||
      !hides_nothing(program, ops::ScaledDotProductAttention(attention).attn_mask().value())) {
    return false;
  }
  attention.set_arg(kAttnMask, {});
  return true;
}

}  // namespace

PassInfo FuseAttention::info() const {
  return PassInfo::extension(
      "fuse-attention",
      "Finds attention that is spelled out; shares keys of head groups, drops masks that hide nothing");
}

Result<Changed> FuseAttention::run(ir::Graph& graph, PassContext& context) {
  return rewrite_each(graph, [&context](ir::Node* node) {
    if (node->op == kAttention) {
      const bool dropped = drop_open_mask(context.program, *node);
      return share_heads(context.program, *node) || dropped;
    }
    std::optional<Match> attention;
    const auto where = [&](const ir::Match& match) { return (attention = attention_of(match)).has_value(); };
    if (kSpelledOut.match(*node, context.program, where)) {
      fuse(*attention);
    }
    return attention.has_value();
  });
}

}  // namespace et::passes
