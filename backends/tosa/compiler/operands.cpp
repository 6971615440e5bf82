#include "backends/tosa/compiler/operands.h"

#include "ir/literals.h"

namespace et::backends::tosa::compiler {

Operands operands_of(Lowering& lowering, const ir::Node& node, const std::vector<size_t>& positions) {
  const ir::TensorType& type = node.result()->type.tensor;
  bool same_rank = true, is_image = false;
  payload::DType of_numbers = Lowering::type_of(type.dtype);
  for (const size_t i : positions) {
    if (const ir::Value* value = node.args()[i].value(); value != nullptr) {
      same_rank = same_rank && value->type.tensor.rank() == type.rank();
      is_image = is_image || lowering.form_of(value) == Form::kImage;
      of_numbers = is_floating(value->type.tensor.dtype) ? Lowering::type_of(value->type.tensor.dtype) : of_numbers;
    }
  }
  Operands out;
  out.form = same_rank && is_image ? Form::kImage : Form::kRowMajor;
  out.shape = Lowering::shape_of(type, out.form);
  for (const size_t i : positions) {
    const ir::Value* value = node.args()[i].value();
    if (value == nullptr) {
      out.ids.push_back(lowering.real(of_numbers, out.shape.size(), *ir::number_of(node.args()[i])));
      continue;
    }
    Shape shape = Lowering::shape_of(value->type.tensor, out.form);
    shape.insert(shape.begin(), out.shape.size() - shape.size(), 1);
    out.ids.push_back(lowering.reshape(lowering.get(value, out.form), shape));
  }
  return out;
}

}  // namespace et::backends::tosa::compiler
