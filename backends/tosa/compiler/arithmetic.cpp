#include "backends/tosa/compiler/arithmetic.h"

#include <algorithm>

namespace et::backends::tosa::compiler {

TensorId Arithmetic::number(TensorId like, int32_t value) {
  const Shape ones(lowering_.writer.shape_of(like).size(), 1);
  return lowering_.writer.add_numbers(payload::DType_INT32, ones, std::vector<int32_t>{value});
}

TensorId Arithmetic::shift_left(TensorId a, TensorId by) {
  PayloadWriter& writer = lowering_.writer;
  const TensorId out = writer.add_tensor(payload::DType_INT32, shape_of(a, by));
  writer.add(payload::Op_LOGICAL_LEFT_SHIFT, payload::CreateLogicalLeftShiftAttribute(writer.builder).Union(), {a, by},
             out);
  return out;
}

TensorId Arithmetic::shift_right(TensorId a, TensorId by) {
  PayloadWriter& writer = lowering_.writer;
  const TensorId out = writer.add_tensor(payload::DType_INT32, shape_of(a, by));
  const auto attribute = payload::CreateArithmeticRightShiftAttribute(writer.builder, true);
  writer.add(payload::Op_ARITHMETIC_RIGHT_SHIFT, attribute.Union(), {a, by}, out);
  return out;
}

TensorId Arithmetic::leading_zeros(TensorId a) {
  PayloadWriter& writer = lowering_.writer;
  const TensorId out = writer.add_tensor(payload::DType_INT32, writer.shape_of(a));
  writer.add(payload::Op_CLZ, payload::CreateClzAttribute(writer.builder).Union(), {a}, out);
  return out;
}

TensorId Arithmetic::sum(TensorId a, int32_t axis) {
  const auto attribute = payload::CreateReduceSumAttribute(lowering_.writer.builder, axis);
  return reduced(a, payload::Op_REDUCE_SUM, attribute.Union(), axis);
}

TensorId Arithmetic::largest(TensorId a, int32_t axis) {
  const auto attribute =
      payload::CreateReduceMaxAttribute(lowering_.writer.builder, axis, payload::NanPropagationMode_PROPAGATE);
  return reduced(a, payload::Op_REDUCE_MAX, attribute.Union(), axis);
}

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

TensorId Arithmetic::reduced(TensorId a, payload::Op op, flatbuffers::Offset<void> attribute, int32_t axis) {
  PayloadWriter& writer = lowering_.writer;
  Shape shape = writer.shape_of(a);
  shape[static_cast<size_t>(axis)] = 1;
  const TensorId out = writer.add_tensor(writer.type_of(a), shape);
  writer.add(op, attribute, {a}, out);
  return out;
}

}  // namespace et::backends::tosa::compiler
