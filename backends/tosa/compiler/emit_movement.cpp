#include <algorithm>

#include "backends/tosa/compiler/emitters.h"
#include "ir/op_views.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::backends::tosa::compiler {
namespace {

using passes::int_of;
using passes::ints_of;
using passes::number_of;

size_t dim_of(const ir::Argument& argument, size_t rank) {
  const int64_t dim = int_of(argument).value_or(0);
  return static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim);
}

const ir::TensorType& type_of(const ir::Node& node, size_t i) { return node.args()[i].value()->type.tensor; }

/// Elements [start, start + size) along dim d of a value, in the form that is there.
TensorId part_of(Lowering& lowering, const ir::Value* value, Form form, size_t d, int64_t start, int64_t size) {
  const TensorId from = lowering.get(value, form);
  const auto axis = static_cast<size_t>(Lowering::axis_in(form, value->type.tensor.rank(), d));
  Shape sizes = lowering.writer.shape_of(from);
  std::vector<int64_t> starts(sizes.size(), 0);
  starts[axis] = start;
  sizes[axis] = static_cast<int32_t>(size);
  return lowering.slice(from, starts, sizes);
}

}  // namespace

Error emit_view(Lowering& lowering, const ir::Node& node) {
  const TensorId from = lowering.get(node.args()[0].value(), Form::kRowMajor);
  const Shape shape = Lowering::shape_of(node.result()->type.tensor, Form::kRowMajor);
  lowering.set(node.result(), Form::kRowMajor, lowering.reshape(from, shape));
  return Error::Ok;
}

Error emit_permute(Lowering& lowering, const ir::Node& node) {
  const ops::PermuteCopy call(node);
  const ir::Value* value = call.self().value();
  const auto rank = static_cast<int64_t>(value->type.tensor.rank());
  const std::vector<int64_t> given = *ints_of(call.dims());
  std::vector<int32_t> perms;
  for (const int64_t dim : given) {
    perms.push_back(static_cast<int32_t>(dim < 0 ? dim + rank : dim));
  }
  // Between the two forms a permutation is another name.
  if (perms == std::vector<int32_t>{0, 2, 3, 1} && lowering.has(value, Form::kImage)) {
    lowering.set(node.result(), Form::kRowMajor, lowering.get(value, Form::kImage));
    return Error::Ok;
  }
  if (perms == std::vector<int32_t>{0, 3, 1, 2} && lowering.has(value, Form::kRowMajor)) {
    lowering.set(node.result(), Form::kImage, lowering.get(value, Form::kRowMajor));
    return Error::Ok;
  }
  lowering.set(node.result(), Form::kRowMajor, lowering.transpose(lowering.get(value, Form::kRowMajor), perms));
  return Error::Ok;
}

Error emit_slice(Lowering& lowering, const ir::Node& node) {
  const ops::SliceCopyTensor call(node);
  const ir::Value* value = call.self().value();
  const size_t d = dim_of(call.dim(), value->type.tensor.rank());
  const int64_t extent = value->type.tensor.dims[d].max;
  int64_t start = int_of(call.start()).value_or(0);
  start = std::clamp<int64_t>(start < 0 ? start + extent : start, 0, extent);
  const int64_t count = node.result()->type.tensor.dims[d].max, step = *int_of(call.step());
  const Form form = lowering.form_of(value);
  const TensorId part = part_of(lowering, value, form, d, start, (count - 1) * step + 1);
  const auto axis = static_cast<size_t>(Lowering::axis_in(form, value->type.tensor.rank(), d));
  lowering.set(node.result(), form, lowering.every(part, axis, step));
  return Error::Ok;
}

Error emit_select(Lowering& lowering, const ir::Node& node) {
  const ops::SelectCopyInt call(node);
  const ir::Value* value = call.self().value();
  const size_t d = dim_of(call.dim(), value->type.tensor.rank());
  int64_t index = *int_of(call.index());
  index += index < 0 ? value->type.tensor.dims[d].max : 0;
  const TensorId part = part_of(lowering, value, Form::kRowMajor, d, index, 1);
  const Shape shape = Lowering::shape_of(node.result()->type.tensor, Form::kRowMajor);
  lowering.set(node.result(), Form::kRowMajor, lowering.reshape(part, shape));
  return Error::Ok;
}

Error emit_split(Lowering& lowering, const ir::Node& node) {
  const ops::SplitCopyTensor call(node);
  const ir::Value* value = call.self().value();
  const size_t d = dim_of(call.dim(), value->type.tensor.rank());
  const Form form = lowering.form_of(value);
  int64_t start = 0;
  for (const auto& result : node.results()) {
    const int64_t size = result->type.tensor.dims[d].max;
    lowering.set(result.get(), form, part_of(lowering, value, form, d, start, size));
    start += size;
  }
  return Error::Ok;
}

Error emit_flip(Lowering& lowering, const ir::Node& node) {
  const ir::Value* value = node.args()[0].value();
  const Form form = lowering.form_of(value);
  const size_t rank = value->type.tensor.rank();
  TensorId out = lowering.get(value, form);
  PayloadWriter& writer = lowering.writer;
  const std::vector<int64_t> dims = *ints_of(ops::Flip(node).dims());
  for (const int64_t dim : dims) {
    const auto d = static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim);
    const TensorId turned = writer.add_tensor(writer.type_of(out), writer.shape_of(out));
    const auto attribute = payload::CreateReverseAttribute(writer.builder, Lowering::axis_in(form, rank, d));
    writer.add(payload::Op_REVERSE, attribute.Union(), {out}, turned);
    out = turned;
  }
  lowering.set(node.result(), form, out);
  return Error::Ok;
}

Error emit_unbind(Lowering& lowering, const ir::Node& node) {
  const ir::Value* value = node.args()[0].value();
  const size_t d = dim_of(ops::UnbindCopyInt(node).dim(), value->type.tensor.rank());
  int64_t index = 0;
  for (const auto& result : node.results()) {
    const TensorId part = part_of(lowering, value, Form::kRowMajor, d, index++, 1);
    const Shape shape = Lowering::shape_of(result->type.tensor, Form::kRowMajor);
    lowering.set(result.get(), Form::kRowMajor, lowering.reshape(part, shape));
  }
  return Error::Ok;
}

Error emit_stack(Lowering& lowering, const ir::Node& node) {
  const ir::TensorType& type = node.result()->type.tensor;
  const size_t d = dim_of(ops::Stack(node).dim(), type.rank());
  Shape shape = Lowering::shape_of(type, Form::kRowMajor);
  shape[d] = 1;
  std::vector<TensorId> parts;
  for (const ir::Argument& item : *node.args()[0].as<ir::Argument::List>()) {
    parts.push_back(lowering.reshape(lowering.get(item.value(), Form::kRowMajor), shape));
  }
  lowering.set(node.result(), Form::kRowMajor, lowering.concat(parts, static_cast<int32_t>(d)));
  return Error::Ok;
}

Error emit_concatenate(Lowering& lowering, const ir::Node& node) {
  const ops::Cat call(node);
  const ir::TensorType& type = node.result()->type.tensor;
  const auto& items = *call.tensors().as<ir::Argument::List>();
  const bool is_image = std::any_of(items.begin(), items.end(), [&](const ir::Argument& item) {
    return lowering.form_of(item.value()) == Form::kImage;
  });
  const Form form = is_image ? Form::kImage : Form::kRowMajor;
  std::vector<TensorId> parts;
  for (const ir::Argument& item : items) {
    parts.push_back(lowering.get(item.value(), form));
  }
  const int32_t axis = Lowering::axis_in(form, type.rank(), dim_of(call.dim(), type.rank()));
  lowering.set(node.result(), form, lowering.concat(parts, axis));
  return Error::Ok;
}

Error emit_pad(Lowering& lowering, const ir::Node& node) {
  const ops::ConstantPadNd call(node);
  const ir::Value* value = call.self().value();
  const size_t rank = value->type.tensor.rank();
  const Form form = lowering.form_of(value);
  const TensorId from = lowering.get(value, form);
  PayloadWriter& writer = lowering.writer;
  const std::vector<int64_t> given = *ints_of(call.pad());  // pairs from the last dim on
  std::vector<int64_t> pairs(writer.shape_of(from).size() * 2, 0);
  for (size_t i = 0; i < given.size() / 2; ++i) {
    const auto axis = static_cast<size_t>(Lowering::axis_in(form, rank, rank - 1 - i));
    pairs[2 * axis] = given[2 * i];
    pairs[2 * axis + 1] = given[2 * i + 1];
  }
  const double number = *number_of(call.value());
  const TensorId filling = is_floating(value->type.tensor.dtype)
                               ? lowering.real(writer.type_of(from), 1, number)
                               : lowering.scalar(writer.type_of(from), static_cast<int64_t>(number));
  lowering.set(node.result(), form, lowering.pad(from, pairs, filling));
  return Error::Ok;
}

/// Channels become pixels, or pixels channels: in both forms the same permutation of six axes.
Error emit_pixel_shuffle(Lowering& lowering, const ir::Node& node) {
  const bool shuffles = node.op == op::pixel_shuffle;
  const ops::PixelShuffle call(node);
  const ir::Value* value = call.self().value();
  const Form form = lowering.form_of(value);
  const auto r = static_cast<int32_t>(*int_of(call.upscale_factor()));
  const Shape wide = Lowering::shape_of((shuffles ? node.result() : value)->type.tensor, Form::kRowMajor);
  const int32_t n = wide[0], c = wide[1], h = wide[2] / r, w = wide[3] / r;
  const bool is_image = form == Form::kImage;
  const Shape six = shuffles ? (is_image ? Shape{n, h, w, c, r, r} : Shape{n, c, r, r, h, w})
                             : (is_image ? Shape{n, h, r, w, r, c} : Shape{n, c, h, r, w, r});
  const std::vector<int32_t> perms =
      shuffles ? std::vector<int32_t>{0, 1, 4, 2, 5, 3} : std::vector<int32_t>{0, 1, 3, 5, 2, 4};
  const TensorId moved = lowering.transpose(lowering.reshape(lowering.get(value, form), six), perms);
  lowering.set(node.result(), form, lowering.reshape(moved, Lowering::shape_of(node.result()->type.tensor, form)));
  return Error::Ok;
}

/// Repeats elements along each dim until the result is full.
Error emit_expand(Lowering& lowering, const ir::Node& node) {
  const Shape shape = Lowering::shape_of(node.result()->type.tensor, Form::kRowMajor);
  Shape own = Lowering::shape_of(type_of(node, 0), Form::kRowMajor);
  own.insert(own.begin(), shape.size() - own.size(), 1);
  const TensorId from = lowering.reshape(lowering.get(node.args()[0].value(), Form::kRowMajor), own);
  std::vector<int64_t> times;
  for (size_t d = 0; d < shape.size(); ++d) {
    times.push_back(shape[d] / own[d]);
  }
  lowering.set(node.result(), Form::kRowMajor, lowering.tile(from, times));
  return Error::Ok;
}

}  // namespace et::backends::tosa::compiler
