#include "backends/xnnpack/compiler/bounds.h"

#include <algorithm>

#include "ir/op_views.h"
#include "ops/names.h"
#include "ops/op_table.h"
#include "passes/rewrite.h"

namespace et::backends::xnnpack {
namespace {

using passes::is_one_of;

using Dims = std::vector<ir::Dim>;

/// Whether sizes from the end on, but for the last `skipped` ones, are equal or 1.
bool broadcast(const Dims& a, const Dims& b, size_t skipped) {
  for (size_t i = skipped; i < std::min(a.size(), b.size()); ++i) {
    const int64_t one = a[a.size() - 1 - i].max, other = b[b.size() - 1 - i].max;
    if (one != other && one != 1 && other != 1) {
      return false;
    }
  }
  return true;
}

/// Whether the elements of `from` can be seen as `to`, whose dynamic size follows from them.
bool same_count(const Dims& from, const Dims& to) {
  int64_t count = 1, known = 1;
  bool open = false;
  for (const ir::Dim& dim : from) {
    count *= dim.max;
  }
  for (const ir::Dim& dim : to) {
    open = open || !dim.is_static();
    known *= dim.is_static() ? dim.max : 1;
  }
  return open ? count % known == 0 : count == known;
}

bool joins(const ir::Node& node) {
  const Dims& out = node.result()->type.tensor.dims;
  const auto dim = passes::int_of(ops::Cat(node).dim()).value_or(0);
  const auto along = static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(out.size()) : dim);
  bool fits = true;
  const Dims* first = nullptr;
  node.for_each_input([&](const ir::Value* input) {
    const Dims& dims = input->type.tensor.dims;
    first = first == nullptr ? &dims : first;
    for (size_t d = 0; d < dims.size(); ++d) {
      fits = fits && (d == along || dims[d].max == (*first)[d].max);
    }
  });
  return fits;
}

/// Whether two matrices, or batches of them, can be multiplied.
bool multiply(const ir::Argument& left, const ir::Argument& right) {
  const Dims &a = type_of(left)->dims, &b = type_of(right)->dims;
  return a.back().max == b[b.size() - 2].max && broadcast(a, b, 2);
}

bool fits(const Question& q) {
  const std::string_view op = q.node.op;
  if (op == op::cat) {
    return joins(q.node);
  }
  if (ops::moves_of(op) == ops::Moves::kReshape) {
    return same_count(type_of(q.node.args()[0])->dims, q.result_type().dims);
  }
  if (op == op::linear) {
    const ops::Linear call(q.node);
    return type_of(call.input())->dims.back().max == type_of(call.weight())->dims.back().max;
  }
  if (op == op::addmm) {
    return multiply(ops::Addmm(q.node).mat1(), ops::Addmm(q.node).mat2());
  }
  if (is_one_of(op, {op::mm, op::bmm})) {
    return multiply(ops::Mm(q.node).self(), ops::Mm(q.node).mat2());
  }
  if (is_one_of(op, {op::_native_batch_norm_legit_no_training, op::_prelu_kernel})) {
    return type_of(q.node.args()[0])->dims[1].is_static();
  }
  if (ops::has_tag(op, ops::kPointwise) && q.node.args().size() > 1) {
    const ops::AddTensor call(q.node);
    const ir::TensorType* other = type_of(call.other());
    return other == nullptr || broadcast(type_of(call.self())->dims, other->dims, 0);
  }
  return true;
}

}  // namespace

std::string bounds_refusal(const Question& q) {
  return fits(q) ? "" : "sizes that fit together below their upper bounds only";
}

}  // namespace et::backends::xnnpack
