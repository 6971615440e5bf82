#include "kernels/quantized/recurrent.h"

namespace et::kernels::quantized {
namespace {

Error check_sum(const QuantizedRecurrentCall& call, float product_scale, float input_scale, RecurrentPlan* plan) {
  ET_TRY(plan->sum, Requantizer::make(call.op, *call.input, call.sum));
  const float scale = plan->sum.scale();
  plan->product_units = product_scale / scale;
  plan->input_units = input_scale / scale;
  ET_CHECK_OR_RETURN(std::isfinite(plan->product_units) && std::isfinite(plan->input_units), InvalidArgument,
                     "%s: the scales have no finite ratio", call.op);
  plan->is_fixed =
      call.input->element_size() == 1 && plan->fixed.make(product_scale, plan->product.zero_point(), input_scale,
                                                          static_cast<int32_t>(call.input_zero_point), scale, false);
  plan->sums = {scale, static_cast<float>(plan->sum.zero_point())};
  return Error::Ok;
}

Error check_parameters(const QuantizedRecurrentCall& call, RecurrentPlan* plan) {
  const ScalarType dtype = call.input->scalar_type();
  ET_TRY(const Affine input, Affine::make(call.op, "input", dtype, call.input_scale, call.input_zero_point));
  plan->input = {input.scale, static_cast<float>(input.zero_point)};
  ET_TRY(const Affine hidden, Affine::make(call.op, "hidden", dtype, call.state.scale, call.state.zero_point));
  plan->state_zero_point = hidden.zero_point;
  int32_t low = 0, high = 0;
  ET_RETURN_IF_ERROR(check_integer(call.op, "hidden", "min", dtype, call.state.min, &low));
  ET_RETURN_IF_ERROR(check_integer(call.op, "hidden", "max", dtype, call.state.max, &high));
  ET_CHECK_OR_RETURN(low <= high, InvalidArgument, "%s: hidden_min %d is above hidden_max %d", call.op, low, high);
  plan->state = {static_cast<float>(1.0 / call.state.scale), static_cast<float>(plan->state_zero_point),
                 static_cast<float>(low), static_cast<float>(high)};
  ET_TRY(plan->product, Requantizer::make(call.op, *call.input, call.product));
  ET_TRY(plan->scales, ProductScales::make(call.op, hidden.scale, *call.weight_scales, plan->product.scale()));
  plan->products = {plan->product.scale(), static_cast<float>(plan->product.zero_point())};
  return call.gates == 4 ? check_sum(call, plan->product.scale(), plan->input.scale, plan) : Error::Ok;
}

}  // namespace

Error prepare_recurrent(KernelContext& context, const QuantizedRecurrentCall& call, RecurrentPlan* plan) {
  ET_RETURN_IF_ERROR(check_activation(call.op, "input", *call.input));
  const ScalarType first_type = call.gates == 4 ? call.input->scalar_type() : ScalarType::Float;
  ET_RETURN_IF_ERROR(prepare_steps(context, call, first_type, plan));
  ET_TRY(const WeightRows weight, WeightRows::make(call.op, *call.weight, plan->hidden));
  ET_RETURN_IF_ERROR(check_weight_rows(call, *plan, weight.rows()));
  ET_RETURN_IF_ERROR(check_weight_scales(call.op, *call.weight_scales, weight.rows()));
  ET_RETURN_IF_ERROR(check_bias(call.op, *call.bias, weight.rows()));
  return check_parameters(call, plan);
}

}  // namespace et::kernels::quantized
