// et::quantized_lstm of int8. The gates' functions are of sums of 8 bits, so that each is computed once for each of
// their values that occurs.
#include "kernels/cortex_m/recurrent.h"
#include "kernels/portable/step_gates.h"

namespace et::kernels::cortex_m {
namespace {

/// A function of dequantized sums, by sum.
class Table {
 public:
  Table(float (*function)(float), quantized::Dequantizer sums, float* values)
      : function_(function), sums_(sums), values_(values) {
    std::memset(values, 0xFF, kCount * sizeof(float));  // NaN: not known yet
  }
  float operator()(int32_t sum) const {
    float& value = values_[sum + 128];
    if (value != value) {
      value = function_(sums_(sum));
    }
    return value;
  }
  static constexpr size_t kCount = 256;

 private:
  float (*function_)(float);
  quantized::Dequantizer sums_;
  float* values_;
};

float tanh_of(float x) { return std::tanh(x); }

/// One sequence's step after its products are known.
void run_gates(const quantized::RecurrentPlan& plan, const int8_t* products, const int8_t* in, const Table& sigmoid,
               const Table& tanh, float* cell, float* after) {
  const int64_t hidden = plan.hidden;
  for (int64_t j = 0; j < hidden; ++j) {
    const auto sum = [&](int64_t gate) { return plan.add(products[gate * hidden + j], in[gate * hidden + j]); };
    const float kept = sigmoid(sum(1)) * cell[j];
    const float value = kept + sigmoid(sum(0)) * tanh(sum(2));
    cell[j] = value;
    after[j] = sigmoid(sum(3)) * std::tanh(value);
  }
}

Error run_steps(KernelContext& context, const quantized::QuantizedRecurrentCall& call,
                const quantized::RecurrentPlan& plan, bool reverse) {
  const int64_t batch = plan.batch, row = 4 * plan.hidden;
  ET_TRY(void* const tables, context.allocate_temp(2 * Table::kCount * sizeof(float), alignof(float)));
  const Table sigmoid(&portable::sigmoid, plan.sums, static_cast<float*>(tables));
  const Table tanh(&tanh_of, plan.sums, static_cast<float*>(tables) + Table::kCount);
  StateProduct product(call, plan);
  ET_RETURN_IF_ERROR(product.start(context));
  float* const cells = quantized::start_cells(call, plan);
  return quantized::for_each_step(context, call, plan, reverse, [&](const quantized::RecurrentStep& step) {
    if (!step.is_given) {
      product.multiply(step.before);
    }
    const int8_t* const in = call.input->const_data_ptr<int8_t>() + step.time * batch * row;
    const int8_t* const own = step.is_given ? (*call.first)->const_data_ptr<int8_t>() : product.rows();
    for (int64_t b = 0; b < batch; ++b) {
      run_gates(plan, own + b * (step.is_given ? plan.first_stride : row), in + b * row, sigmoid, tanh,
                cells + b * plan.hidden, step.after + b * plan.hidden);
    }
    return Error::Ok;
  });
}

}  // namespace

bool fits_quantized_lstm(Arguments args) { return fits_recurrent(*args[0], *args[9], 4); }

Error quantized_lstm_out(KernelContext& context, const Tensor& input, double input_scale, int64_t input_zero_point,
                         const OptionalTensor& hidden, const Tensor& cell, double hidden_scale,
                         int64_t hidden_zero_point, int64_t hidden_min, int64_t hidden_max, const Tensor& weight,
                         const Tensor& weight_scales, const OptionalTensor& bias, const OptionalTensor& first,
                         double product_scale, int64_t product_zero_point, int64_t product_min, int64_t product_max,
                         double sum_scale, int64_t sum_zero_point, int64_t sum_min, int64_t sum_max, bool reverse,
                         Tensor& out0, Tensor& out1) {
  constexpr const char* kOp = "et::quantized_lstm";
  const quantized::QuantizedRecurrentCall call{
      {kOp, 4, &input, hidden.has_value() ? &*hidden : nullptr, &cell, &first, &out0, &out1},
      input_scale,
      input_zero_point,
      {hidden_scale, hidden_zero_point, hidden_min, hidden_max},
      &weight,
      &weight_scales,
      &bias,
      {product_scale, product_zero_point, product_min, product_max},
      {sum_scale, sum_zero_point, sum_min, sum_max}};
  quantized::RecurrentPlan plan;
  ET_RETURN_IF_ERROR(quantized::prepare_recurrent(context, call, &plan));
  if (plan.steps * plan.batch == 0) {
    static_cast<void>(quantized::start_cells(call, plan));
    return Error::Ok;
  }
  return run_steps(context, call, plan, reverse);
}

}  // namespace et::kernels::cortex_m
