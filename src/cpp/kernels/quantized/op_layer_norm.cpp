// et::quantized_layer_norm: layer norm of integers, all in integers (numerics/integer_norm.h).
#include "kernels/quantized/op_layer_norm.h"

#include "kernels/quantized/layer_norm_rows.h"

namespace et::kernels::quantized {
namespace {

/// A weight or a bias: f32, one element for each of a row's.
Error check_parameter(const char* op, const char* name, const OptionalTensor& parameter, int64_t length) {
  if (!parameter.has_value()) {
    return Error::Ok;
  }
  ET_CHECK_OR_RETURN(parameter->scalar_type() == ScalarType::Float, InvalidType, "%s: %s is %s, must be torch.float32",
                     op, name, to_string(parameter->scalar_type()));
  ET_CHECK_OR_RETURN(parameter->numel() == length, InvalidArgument,
                     "%s: %s has %" PRId64 " elements for rows of %" PRId64, op, name,
                     static_cast<int64_t>(parameter->numel()), length);
  return check_row_major(op, {&*parameter});
}

template <typename T>
void rows_of(const LayerNormRows& rows) {
  const IntegerNorm& norm = rows.norm;
  const int64_t length = norm.length();
  const T* from = static_cast<const T*>(rows.in);
  T* to = static_cast<T*>(rows.out);
  for (int64_t row = 0; row < rows.count; ++row, from += length, to += length) {
    int64_t sum = 0, squares = norm.epsilon;
    for (int64_t i = 0; i < length; ++i) {
      sum += static_cast<int32_t>(from[i]) - rows.zero_point;
    }
    const int64_t mean = norm.mean_of(sum);
    for (int64_t i = 0; i < length; ++i) {
      rows.distances[i] = norm.distance(static_cast<int32_t>(from[i]) - rows.zero_point, mean);
      squares += norm.square(rows.distances[i]);
    }
    const int32_t inverse = IntegerNorm::inverse(squares);
    for (int64_t i = 0; i < length; ++i) {
      const int64_t result = rows.output(norm.normal(rows.distances[i], inverse), rows.weights[i], rows.biases[i]);
      to[i] = static_cast<T>(rows.requantizer.clamp(result + rows.requantizer.zero_point()));
    }
  }
}

}  // namespace

void plain_rows(KernelContext&, const LayerNormRows& rows) {
  switch (rows.dtype) {
    case ScalarType::Char: rows_of<int8_t>(rows); break;
    case ScalarType::Byte: rows_of<uint8_t>(rows); break;
    default: rows_of<int16_t>(rows); break;
  }
}

Error quantized_layer_norm_out(KernelContext& context, const Tensor& input, double input_scale,
                               int64_t input_zero_point, IntArrayRef normalized_shape, const OptionalTensor& weight,
                               const OptionalTensor& bias, double eps, double output_scale, int64_t output_zero_point,
                               int64_t output_min, int64_t output_max, Tensor& out) {
  return layer_norm_by_rows(context, input, input_scale, input_zero_point, normalized_shape, weight, bias, eps,
                            output_scale, output_zero_point, output_min, output_max, out, &plain_rows);
}

Error layer_norm_by_rows(KernelContext& context, const Tensor& input, double input_scale, int64_t input_zero_point,
                         IntArrayRef normalized_shape, const OptionalTensor& weight, const OptionalTensor& bias,
                         double eps, double output_scale, int64_t output_zero_point, int64_t output_min,
                         int64_t output_max, Tensor& out,
                         void (*compute)(KernelContext& context, const LayerNormRows& rows)) {
  constexpr const char* kOp = "et::quantized_layer_norm";
  ET_RETURN_IF_ERROR(check_activation(kOp, "input", input));
  ET_RETURN_IF_ERROR(check_activation(kOp, "out", out, &input));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&input, &out}));
  const auto rank = static_cast<int64_t>(normalized_shape.size());
  ET_CHECK_OR_RETURN(rank >= 1 && rank <= input.dim(), InvalidArgument,
                     "%s: %" PRId64 " normalised dims of a tensor with %" PRId64, kOp, rank,
                     static_cast<int64_t>(input.dim()));
  int64_t length = 1;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t size = input.size(input.dim() - rank + d);
    ET_CHECK_OR_RETURN(size == normalized_shape[static_cast<size_t>(d)], InvalidArgument,
                       "%s: the last dims of %s are not those of normalized_shape", kOp, ShapeText(input.sizes()).text);
    length *= size;
  }
  ET_RETURN_IF_ERROR(check_parameter(kOp, "weight", weight, length));
  ET_RETURN_IF_ERROR(check_parameter(kOp, "bias", bias, length));
  ET_TRY(const Affine of_input, Affine::make(kOp, "input", input.scalar_type(), input_scale, input_zero_point));
  ET_TRY(const Requantizer requantizer,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, input.sizes()));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const IntegerNorm norm(length, eps, static_cast<double>(of_input.scale), input.element_size() == 2);
  const auto values_of = [](const OptionalTensor& parameter) {
    return parameter.has_value() ? parameter->const_data_ptr<float>() : nullptr;
  };
  const NormOutput output(norm, static_cast<double>(requantizer.scale()), values_of(weight), values_of(bias));
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(length) * 3 * sizeof(int32_t)));
  auto* const distances = static_cast<int32_t*>(memory);
  int32_t *const weights = distances + length, *const biases = weights + length;
  for (int64_t i = 0; i < length; ++i) {
    weights[i] = output.weight(i);
    biases[i] = output.bias(i);
  }
  compute(context, {norm, output, requantizer, weights, biases, distances, input.scalar_type(), of_input.zero_point,
                    input.numel() / length, input.const_data_ptr(), out.mutable_data_ptr()});
  return Error::Ok;
}

}  // namespace et::kernels::quantized
