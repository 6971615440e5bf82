// et::quantized_gru of int8. Its gates are functions of sums of two floats, so that no table has them.
#include "kernels/cortex_m/recurrent.h"
#include "kernels/portable/step_gates.h"

namespace et::kernels::cortex_m {
namespace {

/// One sequence's step. `own(n)` -> the product of the state at n, in floats.
template <typename Own>
void run_gates(const quantized::RecurrentPlan& plan, const Own& own, const int8_t* in, const float* before,
               float* after) {
  const int64_t hidden = plan.hidden;
  for (int64_t j = 0; j < hidden; ++j) {
    float given[3], products[3];
    for (int64_t gate = 0; gate < 3; ++gate) {
      given[gate] = plan.input(in[gate * hidden + j]);
      products[gate] = own(gate * hidden + j);
    }
    portable::gru_row(given, products, before + j, after + j, 1);
  }
}

Error run_steps(KernelContext& context, const quantized::QuantizedRecurrentCall& call,
                const quantized::RecurrentPlan& plan, bool reverse) {
  const int64_t hidden = plan.hidden, row = 3 * hidden;
  StateProduct product(call, plan);
  ET_RETURN_IF_ERROR(product.start(context));
  return quantized::for_each_step(context, call, plan, reverse, [&](const quantized::RecurrentStep& step) {
    if (!step.is_given) {
      product.multiply(step.before);
    }
    const float* const first = step.is_given ? (*call.first)->const_data_ptr<float>() : nullptr;
    const int8_t* const in = call.input->const_data_ptr<int8_t>() + step.time * plan.batch * row;
    for (int64_t b = 0; b < plan.batch; ++b) {
      const auto own = [&](int64_t n) {
        return step.is_given ? first[b * plan.first_stride + n] : plan.products(product.rows()[b * row + n]);
      };
      run_gates(plan, own, in + b * row, step.before + b * hidden, step.after + b * hidden);
    }
    return Error::Ok;
  });
}

}  // namespace

bool fits_quantized_gru(Arguments args) { return fits_recurrent(*args[0], *args[8], 3); }

Error quantized_gru_out(KernelContext& context, const Tensor& input, double input_scale, int64_t input_zero_point,
                        const Tensor& hidden, double hidden_scale, int64_t hidden_zero_point, int64_t hidden_min,
                        int64_t hidden_max, const Tensor& weight, const Tensor& weight_scales,
                        const OptionalTensor& bias, const OptionalTensor& first, double product_scale,
                        int64_t product_zero_point, int64_t product_min, int64_t product_max, bool reverse,
                        Tensor& out) {
  const quantized::QuantizedRecurrentCall call{
      {"et::quantized_gru", 3, &input, &hidden, nullptr, &first, &out, nullptr},
      input_scale,
      input_zero_point,
      {hidden_scale, hidden_zero_point, hidden_min, hidden_max},
      &weight,
      &weight_scales,
      &bias,
      {product_scale, product_zero_point, product_min, product_max},
      {}};
  quantized::RecurrentPlan plan;
  ET_RETURN_IF_ERROR(quantized::prepare_recurrent(context, call, &plan));
  return plan.steps * plan.batch == 0 ? Error::Ok : run_steps(context, call, plan, reverse);
}

}  // namespace et::kernels::cortex_m
