// et::quantized_lstm of int8 with 8 bits a weight. The state meets the weight as inputs of a linear layer do; the
// gates' functions are of sums of 8 bits, so that each is computed once for each of their values that occurs.
#include "kernels/cortex_m/kernels.h"
#include "kernels/cortex_m/product.h"
#include "kernels/portable/step_gates.h"
#include "kernels/quantized/recurrent.h"

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

struct Scratch {
  int8_t* state;     // [batch, hidden]
  int8_t* products;  // [batch, 4 * hidden]
  float* tables;     // [2, 256]
};

Error take_scratch(KernelContext& context, const quantized::RecurrentPlan& plan, Scratch* scratch) {
  const auto count = static_cast<size_t>(plan.batch * plan.hidden);
  ET_TRY(void* const tables, context.allocate_temp(2 * Table::kCount * sizeof(float), alignof(float)));
  ET_TRY(void* const bytes, context.allocate_temp(5 * count + 1, 1));
  scratch->tables = static_cast<float*>(tables);
  scratch->state = static_cast<int8_t*>(bytes);
  scratch->products = scratch->state + count;
  return Error::Ok;
}

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
                const quantized::RecurrentPlan& plan, const Filter& filter, bool reverse) {
  const auto hidden = static_cast<int32_t>(plan.hidden), batch = static_cast<int32_t>(plan.batch), row = 4 * hidden;
  Product product(filter, plan.product);
  Scratch scratch;
  ET_RETURN_IF_ERROR(take_scratch(context, plan, &scratch));
  ET_RETURN_IF_ERROR(product.start(context));
  const Table sigmoid(&portable::sigmoid, plan.sums, scratch.tables);
  const Table tanh(&tanh_of, plan.sums, scratch.tables + Table::kCount);
  float* const cells = quantized::start_cells(call, plan);
  const auto* const inputs = call.input->const_data_ptr<int8_t>();
  return quantized::for_each_step(context, call, plan, reverse, [&](const quantized::RecurrentStep& step) {
    const auto* first = step.is_given ? (*call.first)->const_data_ptr<int8_t>() : nullptr;
    if (!step.is_given) {
      for (int32_t i = 0; i < batch * hidden; ++i) {
        scratch.state[i] = static_cast<int8_t>(plan.state(step.before[i]));
      }
      for (int32_t c = 0; c < row; c += kBlock) {
        ET_RETURN_IF_ERROR(product.choose(c, std::min(kBlock, row - c), batch));
        product.multiply(scratch.state, hidden, batch, scratch.products + c, row);
      }
    }
    const int8_t* const in = inputs + step.time * batch * row;
    for (int32_t b = 0; b < batch; ++b) {
      run_gates(plan, first != nullptr ? first + b * plan.first_stride : scratch.products + b * row, in + b * row,
                sigmoid, tanh, cells + b * hidden, step.after + b * hidden);
    }
    return Error::Ok;
  });
}

}  // namespace

bool fits_quantized_lstm(Arguments args) {
  if (!is_int8(*args[0]) || !is_int8(*args[9])) {
    return false;
  }
  const Tensor input = args[0]->to_tensor(), weight = args[9]->to_tensor();
  return input.dim() == 3 && weight.dim() == 2 && weight.size(0) == input.size(2) && weight.size(0) > 0 &&
         4 * weight.size(1) == weight.size(0) && portable::is_contiguous(weight) &&
         5 * input.size(1) * input.size(2) <= INT32_MAX;
}

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
  Filter filter;
  ET_RETURN_IF_ERROR(filter.read(kOp, hidden_scale, hidden_zero_point, weight, weight_scales, bias, plan.product));
  return run_steps(context, call, plan, filter, reverse);
}

}  // namespace et::kernels::cortex_m
