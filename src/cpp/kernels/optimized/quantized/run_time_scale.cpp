// quantized_decomposed::choose_qparams, quantize_per_tensor and dequantize_per_tensor whose scale the program computes:
// images that become integers at the call. Unusual calls, and those with a mistake, are the plain kernels'.
#include "kernels/optimized/quantized/arguments.h"
#include "kernels/optimized/quantized/pointwise.h"
#include "kernels/optimized/quantized/quantize_rows.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/op_choose_qparams.h"
#include "kernels/portable/op_quantize.h"

namespace et::kernels::optimized::quantized {
namespace {

bool has_type(const EValue& value, ScalarType dtype) {
  return value.is_tensor() && value.to_tensor().scalar_type() == dtype;
}

// choose_qparams(input, quant_min, quant_max, eps, dtype, scale_out, zero_point_out)
bool fits_choice(Arguments args) {
  return is_float(*args[0]) && has_type(*args[5], ScalarType::Double) && has_type(*args[6], ScalarType::Long);
}

/// False, and nothing written, for a call of the plain kernel.
Result<bool> choose(KernelContext& context, const Tensor& input, const RunTimeQuantization& choice, int32_t symmetric,
                    Tensor& scale_out, Tensor& zero_point_out) {
  if (input.numel() == 0 || !choice.is_valid()) {
    return false;
  }
  ET_TRY(const NumberRange range, range_of(context, input.const_data_ptr<float>(), static_cast<size_t>(input.numel())));
  if (!range.is_finite()) {
    return false;
  }
  const RowParameters chosen = choice.of(range);
  const int64_t one = 1;
  ET_RETURN_IF_ERROR(resize_tensor(context, scale_out, {&one, 1}));
  ET_RETURN_IF_ERROR(resize_tensor(context, zero_point_out, {&one, 1}));
  *scale_out.mutable_data_ptr<double>() = chosen.scale;
  *zero_point_out.mutable_data_ptr<int64_t>() = choice.symmetric ? symmetric : chosen.zero_point;
  return true;
}

Error choose_out(KernelContext& context, const Tensor& input, int64_t quant_min, int64_t quant_max, double eps,
                 ScalarType dtype, Tensor& scale_out, Tensor& zero_point_out) {
  const RunTimeQuantization choice{false, false, quant_min, quant_max, static_cast<float>(eps)};
  ET_TRY(const bool is_chosen, choose(context, input, choice, 0, scale_out, zero_point_out));
  return is_chosen ? Error::Ok
                   : portable::choose_qparams_tensor_out(context, input, quant_min, quant_max, eps, dtype, scale_out,
                                                         zero_point_out);
}

Error choose_symmetric_out(KernelContext& context, const Tensor& input, int64_t quant_min, int64_t quant_max,
                           double eps, ScalarType dtype, Tensor& scale_out, Tensor& zero_point_out) {
  const RunTimeQuantization choice{false, true, quant_min, quant_max, static_cast<float>(eps)};
  const int32_t middle = dtype == ScalarType::Byte ? 128 : 0;
  ET_TRY(const bool is_chosen, choose(context, input, choice, middle, scale_out, zero_point_out));
  return is_chosen ? Error::Ok
                   : portable::choose_qparams_symmetric_tensor_out(context, input, quant_min, quant_max, eps, dtype,
                                                                   scale_out, zero_point_out);
}

/// One scale and one zero point of the usual types.
bool is_parameter(const EValue& value, ScalarType dtype) {
  return has_type(value, dtype) && value.to_tensor().numel() == 1;
}
/// The same at a call, whose sizes may be others.
bool are_parameters(const Tensor& scale, const Tensor& zero_point) {
  return scale.numel() == 1 && zero_point.numel() == 1;
}
bool is_small_integer(ScalarType dtype) {
  return dtype == ScalarType::Char || dtype == ScalarType::Byte || dtype == ScalarType::Short;
}

// quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, out)
bool fits_quantize(Arguments args) {
  const ScalarType dtype = args[6]->to_tensor().scalar_type();
  const IntegerRange range(dtype);
  return is_float(*args[0]) && is_parameter(*args[1], ScalarType::Double) && is_parameter(*args[2], ScalarType::Long) &&
         is_small_integer(dtype) && args[5]->number_as_int() == static_cast<int64_t>(dtype) && range.has(*args[3]) &&
         range.has(*args[4]) && same_dim_order(*args[0], *args[6]);
}

Error quantize_out(KernelContext& context, const Tensor& input, const Tensor& scale, const Tensor& zero_point,
                   int64_t quant_min, int64_t quant_max, ScalarType dtype, Tensor& out) {
  const double size = are_parameters(scale, zero_point) ? *scale.const_data_ptr<double>() : 0;
  if (size == 0) {
    return portable::quantize_per_tensor_tensor_out(context, input, scale, zero_point, quant_min, quant_max, dtype,
                                                    out);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, input.sizes()));
  const QuantizeParameters parameters{static_cast<float>(1.0 / size),
                                      static_cast<float>(static_cast<double>(*zero_point.const_data_ptr<int64_t>())),
                                      static_cast<float>(quant_min), static_cast<float>(quant_max)};
  pointwise::PointwiseBlock block{};
  block.parameters = &parameters;
  run_loop(context, quantize_loop(dtype), input, out.mutable_data_ptr(), out.element_size(), block);
  return Error::Ok;
}

// dequantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, out_dtype?, out)
bool fits_dequantize(Arguments args) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  return is_small_integer(dtype) && is_parameter(*args[1], ScalarType::Double) &&
         is_parameter(*args[2], ScalarType::Long) && args[5]->number_as_int() == static_cast<int64_t>(dtype) &&
         is_float(*args[7]) && same_dim_order(*args[0], *args[7]) &&
         (args[6]->is_none() || args[6]->number_as_int() == static_cast<int64_t>(ScalarType::Float));
}

Error dequantize_out(KernelContext& context, const Tensor& input, const Tensor& scale, const Tensor& zero_point,
                     int64_t quant_min, int64_t quant_max, ScalarType dtype, std::optional<ScalarType> out_dtype,
                     Tensor& out) {
  if (!are_parameters(scale, zero_point)) {
    return portable::dequantize_per_tensor_tensor_out(context, input, scale, zero_point, quant_min, quant_max, dtype,
                                                      out_dtype, out);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, input.sizes()));
  pointwise::PointwiseBlock block{};
  block.a = static_cast<float>(static_cast<double>(*zero_point.const_data_ptr<int64_t>()));
  block.b = static_cast<float>(*scale.const_data_ptr<double>());
  run_loop(context, dequantize_loop(dtype), input, out.mutable_data_ptr(), out.element_size(), block);
  return Error::Ok;
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&choose_out, &fits_choice>("quantized_decomposed::choose_qparams.Tensor_out"),
    make_fitting_kernel<&choose_symmetric_out, &fits_choice>(
        "quantized_decomposed::choose_qparams_symmetric.Tensor_out"),
    make_fitting_kernel<&quantize_out, &fits_quantize>("quantized_decomposed::quantize_per_tensor.Tensor_out"),
    make_fitting_kernel<&dequantize_out, &fits_dequantize>("quantized_decomposed::dequantize_per_tensor.Tensor_out"),
};

}  // namespace

ET_KERNEL_TABLE(run_time_scale, kKernels)

}  // namespace et::kernels::optimized::quantized
