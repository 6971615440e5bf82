#include "backends/tosa/compiler/arithmetic.h"

#include <algorithm>

namespace et::backends::tosa::compiler {

TensorId Arithmetic::number(TensorId like, int32_t value) {
  const Shape ones(lowering_.writer.shape_of(like).size(), 1);
  return lowering_.writer.add_numbers(payload::DType_INT32, ones, std::vector<int32_t>{value});
}

TensorId Arithmetic::real(TensorId like, payload::DType type, double value) {
  return lowering_.real(type, lowering_.writer.shape_of(like).size(), value);
}

TensorId Arithmetic::unary(payload::Op op, TensorId a) {
  PayloadWriter& writer = lowering_.writer;
  const TensorId out = writer.add_tensor(writer.type_of(a), writer.shape_of(a));
  writer.add(op, writer.no_content(), {a}, out);
  return out;
}

TensorId Arithmetic::negate(TensorId a) {
  PayloadWriter& writer = lowering_.writer;
  const TensorId zero = lowering_.scalar(writer.type_of(a), 0);
  const TensorId out = writer.add_tensor(writer.type_of(a), writer.shape_of(a));
  writer.add(payload::Op_NEGATE, writer.no_content(), {a, zero, zero}, out);
  return out;
}

TensorId Arithmetic::select(TensorId condition, TensorId a, TensorId b) {
  PayloadWriter& writer = lowering_.writer;
  Shape shape = shape_of(a, b);
  const Shape& other = writer.shape_of(condition);
  for (size_t d = 0; d < shape.size(); ++d) {
    shape[d] = std::max(shape[d], other[d]);
  }
  const TensorId out = writer.add_tensor(writer.type_of(a), shape);
  writer.add(payload::Op_SELECT, writer.no_content(), {condition, a, b}, out);
  return out;
}

TensorId Arithmetic::cast(TensorId a, payload::DType type) {
  PayloadWriter& writer = lowering_.writer;
  if (writer.type_of(a) == type) {
    return a;
  }
  const TensorId out = writer.add_tensor(type, writer.shape_of(a));
  writer.add(payload::Op_CAST, writer.no_content(), {a}, out);
  return out;
}

TensorId Arithmetic::shift_left(TensorId a, TensorId by) {
  PayloadWriter& writer = lowering_.writer;
  const TensorId out = writer.add_tensor(payload::DType_INT32, shape_of(a, by));
  writer.add(payload::Op_LOGICAL_LEFT_SHIFT, payload::CreateLogicalLeftShiftAttribute(writer.builder).Union(), {a, by},
             out);
  return out;
}

TensorId Arithmetic::shift_right(TensorId a, TensorId by, bool rounds) {
  PayloadWriter& writer = lowering_.writer;
  const TensorId out = writer.add_tensor(payload::DType_INT32, shape_of(a, by));
  const auto attribute = payload::CreateArithmeticRightShiftAttribute(writer.builder, rounds);
  writer.add(payload::Op_ARITHMETIC_RIGHT_SHIFT, attribute.Union(), {a, by}, out);
  return out;
}

TensorId Arithmetic::leading_zeros(TensorId a) {
  PayloadWriter& writer = lowering_.writer;
  const TensorId out = writer.add_tensor(payload::DType_INT32, writer.shape_of(a));
  writer.add(payload::Op_CLZ, payload::CreateClzAttribute(writer.builder).Union(), {a}, out);
  return out;
}

TensorId Arithmetic::sum(TensorId a, int32_t axis) { return reduce(payload::Op_REDUCE_SUM, a, axis); }
TensorId Arithmetic::largest(TensorId a, int32_t axis) { return reduce(payload::Op_REDUCE_MAX, a, axis); }

TensorId Arithmetic::table(TensorId a, const std::vector<int8_t>& entries) {
  PayloadWriter& writer = lowering_.writer;
  const TensorId constant = writer.add_numbers(payload::DType_INT8, {256}, entries);
  const TensorId out = writer.add_tensor(payload::DType_INT8, writer.shape_of(a));
  writer.add(payload::Op_TABLE, payload::CreateTableAttribute(writer.builder).Union(), {a, constant}, out);
  return out;
}

Shape Arithmetic::shape_of(TensorId a, TensorId b) const {
  Shape out = lowering_.writer.shape_of(a);
  const Shape& other = lowering_.writer.shape_of(b);
  for (size_t d = 0; d < out.size(); ++d) {
    out[d] = std::max(out[d], other[d]);
  }
  return out;
}

TensorId Arithmetic::reduce(payload::Op op, TensorId a, int32_t axis) {
  PayloadWriter& writer = lowering_.writer;
  flatbuffers::Offset<void> attribute;
  if (op == payload::Op_REDUCE_MAX ||
      op == payload::Op_REDUCE_MIN) {  // both have the same content, and so for the rest
    attribute = payload::CreateReduceMaxAttribute(writer.builder, axis, payload::NanPropagationMode_PROPAGATE).Union();
  } else {
    attribute = payload::CreateReduceSumAttribute(writer.builder, axis).Union();
  }
  Shape shape = writer.shape_of(a);
  shape[static_cast<size_t>(axis)] = 1;
  const TensorId out = writer.add_tensor(writer.type_of(a), shape);
  writer.add(op, attribute, {a}, out);
  return out;
}

}  // namespace et::backends::tosa::compiler
