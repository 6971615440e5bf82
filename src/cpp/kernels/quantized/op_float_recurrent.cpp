// et::dynamic_lstm, et::dynamic_gru, et::weight_only_lstm and et::weight_only_gru: all steps of a layer in one
// direction, from the products of its inputs, in floats; the state meets an integer weight as in et::dynamic_linear or
// et::weight_only_linear. Source of the cells: the documentation of torch.nn.LSTM and GRU.
#include "kernels/quantized/op_float_recurrent.h"

#include "kernels/portable/step_gates.h"
#include "kernels/quantized/float_products.h"
#include "kernels/quantized/recurrent_steps.h"

namespace et::kernels::quantized {
namespace {

/// One row of gates for each sequence, from the products of the inputs [batch, gates * hidden] and of the state, which
/// are spoiled.
void step_rows(const RecurrentCall& call, const RecurrentShape& shape, const RecurrentStep& step, const float* input,
               float* products, float* cells) {
  const int64_t hidden = shape.hidden, row = call.gates * hidden;
  for (int64_t b = 0; b < shape.batch; ++b, input += row, products += row) {
    if (cells == nullptr) {
      portable::gru_row(input, products, step.before + b * hidden, step.after + b * hidden, hidden);
      continue;
    }
    for (int64_t n = 0; n < row; ++n) {
      products[n] += input[n];
    }
    portable::lstm_row(products, cells + b * hidden, step.after + b * hidden, cells + b * hidden, hidden);
  }
}

/// `make(columns)` -> the product.
template <typename Make>
Error run(KernelContext& context, const RecurrentCall& call, bool reverse, const Make& make) {
  ET_CHECK_OR_RETURN(call.input->scalar_type() == ScalarType::Float, InvalidType,
                     "%s: input is %s, must be torch.float32", call.op, to_string(call.input->scalar_type()));
  RecurrentShape shape;
  ET_RETURN_IF_ERROR(prepare_steps(context, call, ScalarType::Float, &shape));
  ET_TRY(auto product, make(shape.hidden));
  ET_RETURN_IF_ERROR(check_weight_rows(call, shape, product.rows()));
  float* const cells = start_cells(call, shape);
  if (call.out->numel() == 0) {
    return Error::Ok;  // however many steps or sequences there are
  }
  const int64_t row = call.gates * shape.hidden, size = shape.batch * row;
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(size) * sizeof(float)));
  auto* const products = static_cast<float*>(memory);
  ET_RETURN_IF_ERROR(product.start(context, shape.batch));
  return for_each_step(context, call, shape, reverse, [&](const RecurrentStep& step) {
    for (int64_t b = 0; step.is_given && b < shape.batch; ++b) {
      std::copy_n((*call.first)->const_data_ptr<float>() + b * shape.first_stride, row, products + b * row);
    }
    if (!step.is_given) {
      ET_RETURN_IF_ERROR(product.multiply(context, step.before, products));
    }
    step_rows(call, shape, step, call.input->const_data_ptr<float>() + step.time * size, products, cells);
    return Error::Ok;
  });
}

}  // namespace

Error dynamic_gru_out(KernelContext& context, const Tensor& input, const Tensor& hidden, const Tensor& weight,
                      const Tensor& weight_scales, const OptionalTensor& bias, int64_t group_size, bool per_token,
                      bool symmetric, int64_t quant_min, int64_t quant_max, double eps, const OptionalTensor& first,
                      bool reverse, Tensor& out) {
  const RecurrentCall call{"et::dynamic_gru", 3, &input, &hidden, nullptr, &first, &out, nullptr};
  const RunTimeQuantization choice{per_token, symmetric, quant_min, quant_max, static_cast<float>(eps)};
  return run(context, call, reverse, [&](int64_t columns) {
    return DynamicProduct::make(call.op, {&weight, &weight_scales, &bias, group_size}, choice, columns);
  });
}

Error dynamic_lstm_out(KernelContext& context, const Tensor& input, const OptionalTensor& hidden, const Tensor& cell,
                       const Tensor& weight, const Tensor& weight_scales, const OptionalTensor& bias,
                       int64_t group_size, bool per_token, bool symmetric, int64_t quant_min, int64_t quant_max,
                       double eps, const OptionalTensor& first, bool reverse, Tensor& out0, Tensor& out1) {
  const RecurrentCall call{
      "et::dynamic_lstm", 4, &input, hidden.has_value() ? &*hidden : nullptr, &cell, &first, &out0, &out1};
  const RunTimeQuantization choice{per_token, symmetric, quant_min, quant_max, static_cast<float>(eps)};
  return run(context, call, reverse, [&](int64_t columns) {
    return DynamicProduct::make(call.op, {&weight, &weight_scales, &bias, group_size}, choice, columns);
  });
}

Error weight_only_gru_out(KernelContext& context, const Tensor& input, const Tensor& hidden, const Tensor& weight,
                          const Tensor& weight_scales, const OptionalTensor& weight_zero_points,
                          const OptionalTensor& bias, int64_t group_size, const OptionalTensor& first, bool reverse,
                          Tensor& out) {
  const RecurrentCall call{"et::weight_only_gru", 3, &input, &hidden, nullptr, &first, &out, nullptr};
  return run(context, call, reverse, [&](int64_t columns) {
    return WeightOnlyProduct::make(call.op, {&weight, &weight_scales, &bias, group_size}, weight_zero_points, columns);
  });
}

Error weight_only_lstm_out(KernelContext& context, const Tensor& input, const OptionalTensor& hidden,
                           const Tensor& cell, const Tensor& weight, const Tensor& weight_scales,
                           const OptionalTensor& weight_zero_points, const OptionalTensor& bias, int64_t group_size,
                           const OptionalTensor& first, bool reverse, Tensor& out0, Tensor& out1) {
  const RecurrentCall call{
      "et::weight_only_lstm", 4, &input, hidden.has_value() ? &*hidden : nullptr, &cell, &first, &out0, &out1};
  return run(context, call, reverse, [&](int64_t columns) {
    return WeightOnlyProduct::make(call.op, {&weight, &weight_scales, &bias, group_size}, weight_zero_points, columns);
  });
}

}  // namespace et::kernels::quantized
