#include "kernels/quantized/recurrent.h"

namespace et::kernels::quantized {
namespace {

/// A state [batch, hidden] of floats, with sizes of one in front or not.
Error check_state(const RecurrentCall& call, const char* name, const Tensor& state, const RecurrentPlan& plan) {
  ET_CHECK_OR_RETURN(state.scalar_type() == ScalarType::Float, InvalidType, "%s: %s is %s, must be f32", call.op, name,
                     to_string(state.scalar_type()));
  ET_RETURN_IF_ERROR(check_rank(call.op, name, state, 2, 3));
  ET_RETURN_IF_ERROR(check_row_major(call.op, {&state}));
  ET_CHECK_OR_RETURN(
      state.size(-1) == plan.hidden && state.size(-2) == plan.batch && (state.dim() == 2 || state.size(0) == 1),
      InvalidArgument, "%s: %s is %s, must be [%" PRId64 ", %" PRId64 "]", call.op, name, ShapeText(state.sizes()).text,
      plan.batch, plan.hidden);
  return Error::Ok;
}

Error check_first(const RecurrentCall& call, RecurrentPlan* plan) {
  if (!call.first->has_value()) {
    return Error::Ok;
  }
  const Tensor& first = **call.first;
  const ScalarType wanted = call.gates == 4 ? call.input->scalar_type() : ScalarType::Float;
  const int64_t row = call.gates * plan->hidden;
  ET_CHECK_OR_RETURN(first.scalar_type() == wanted, InvalidType, "%s: first is %s, must be %s", call.op,
                     to_string(first.scalar_type()), to_string(wanted));
  ET_RETURN_IF_ERROR(check_row_major(call.op, {&first}));
  const bool is_shared = first.numel() == row;
  ET_CHECK_OR_RETURN(first.dim() >= 1 && first.size(-1) == row && (is_shared || first.numel() == plan->batch * row),
                     InvalidArgument, "%s: first is %s, must be [%" PRId64 "] or [%" PRId64 ", %" PRId64 "]", call.op,
                     ShapeText(first.sizes()).text, row, plan->batch, row);
  plan->first_stride = is_shared ? 0 : row;
  return Error::Ok;
}

Error check_sum(const RecurrentCall& call, float product_scale, float input_scale, RecurrentPlan* plan) {
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

Error check_parameters(const RecurrentCall& call, RecurrentPlan* plan) {
  const ScalarType dtype = call.input->scalar_type();
  int32_t zero_point = 0, low = 0, high = 0;
  ET_RETURN_IF_ERROR(check_scale(call.op, "input_scale", call.input_scale, &plan->input.scale));
  ET_RETURN_IF_ERROR(check_zero_point(call.op, "input_zero_point", dtype, call.input_zero_point, &zero_point));
  plan->input.zero_point = static_cast<float>(zero_point);
  float hidden_scale = 0;
  ET_RETURN_IF_ERROR(check_scale(call.op, "hidden_scale", call.hidden_scale, &hidden_scale));
  ET_RETURN_IF_ERROR(
      check_zero_point(call.op, "hidden_zero_point", dtype, call.hidden_zero_point, &plan->state_zero_point));
  ET_RETURN_IF_ERROR(check_zero_point(call.op, "hidden_min", dtype, call.hidden_min, &low));
  ET_RETURN_IF_ERROR(check_zero_point(call.op, "hidden_max", dtype, call.hidden_max, &high));
  ET_CHECK_OR_RETURN(low <= high, InvalidArgument, "%s: hidden_min %d is above hidden_max %d", call.op, low, high);
  plan->state = {static_cast<float>(1.0 / call.hidden_scale), static_cast<float>(plan->state_zero_point),
                 static_cast<float>(low), static_cast<float>(high)};
  ET_TRY(plan->product, Requantizer::make(call.op, *call.input, call.product));
  ET_TRY(plan->scales, ProductScales::make(call.op, hidden_scale, *call.weight_scales, plan->product.scale()));
  plan->products = {plan->product.scale(), static_cast<float>(plan->product.zero_point())};
  return call.gates == 4 ? check_sum(call, plan->product.scale(), plan->input.scale, plan) : Error::Ok;
}

}  // namespace

Error prepare_recurrent(KernelContext& context, const RecurrentCall& call, RecurrentPlan* plan) {
  const Tensor& input = *call.input;
  ET_RETURN_IF_ERROR(check_activation(call.op, "input", input));
  ET_RETURN_IF_ERROR(check_rank(call.op, "input", input, 3, 3));
  ET_RETURN_IF_ERROR(check_row_major(call.op, {&input}));
  plan->steps = input.size(0);
  plan->batch = input.size(1);
  plan->hidden = input.size(2) / call.gates;
  const int64_t rows = call.gates * plan->hidden;
  ET_CHECK_OR_RETURN(input.size(2) == rows, InvalidArgument, "%s: rows of %" PRId64 " elements for %" PRId64 " gates",
                     call.op, input.size(2), call.gates);
  ET_CHECK_OR_RETURN(call.hidden != nullptr || call.first->has_value(), InvalidArgument,
                     "%s: neither the first state nor its products are given", call.op);
  if (call.hidden != nullptr) {
    ET_RETURN_IF_ERROR(check_state(call, "hidden", *call.hidden, *plan));
  }
  if (call.cell != nullptr) {
    ET_RETURN_IF_ERROR(check_state(call, "cell", *call.cell, *plan));
  }
  ET_TRY(const WeightRows weight, WeightRows::make(call.op, *call.weight, plan->hidden));
  ET_CHECK_OR_RETURN(weight.rows() == rows, InvalidArgument,
                     "%s: a weight of %" PRId64 " rows for %" PRId64 " gates of %" PRId64 " units", call.op,
                     weight.rows(), call.gates, plan->hidden);
  ET_RETURN_IF_ERROR(check_weight_scales(call.op, *call.weight_scales, rows));
  ET_RETURN_IF_ERROR(check_bias(call.op, *call.bias, rows));
  ET_RETURN_IF_ERROR(check_first(call, plan));
  ET_RETURN_IF_ERROR(check_parameters(call, plan));
  const int64_t sizes[] = {plan->steps, plan->batch, plan->hidden};
  for (const Tensor* out : {call.out, call.last_cell}) {
    if (out == nullptr) {
      continue;
    }
    ET_CHECK_OR_RETURN(out->scalar_type() == ScalarType::Float, InvalidType, "%s: out is %s, must be f32", call.op,
                       to_string(out->scalar_type()));
    ET_RETURN_IF_ERROR(resize_tensor(context, *out, out == call.out ? IntArrayRef(sizes, 3) : call.cell->sizes()));
    ET_RETURN_IF_ERROR(check_row_major(call.op, {out}));
  }
  return Error::Ok;
}

}  // namespace et::kernels::quantized
