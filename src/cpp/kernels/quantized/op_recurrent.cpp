// et::quantized_lstm and et::quantized_gru: all steps of a layer in one direction, from the products of its inputs.
// Source of the cells: the documentation of torch.nn.LSTM and GRU.
#include "kernels/quantized/op_recurrent.h"

#include "kernels/portable/step_gates.h"
#include "kernels/quantized/recurrent.h"

namespace et::kernels::quantized {
namespace {

/// Memory of a call.
template <typename T>
struct Scratch {
  int32_t* state;  // [hidden]: integers less the zero point
  int32_t* row;    // [hidden]: of the weight
  int8_t* packed;  // [hidden]: a row that is stored in 4 bits
  T* products;     // [gates * hidden]
  float* given;    // GRU: [gates * hidden], the products of the inputs
  float* own;      // [gates * hidden]: LSTM, the sums of both
};

template <typename T>
Result<Scratch<T>> make_scratch(KernelContext& context, const QuantizedRecurrentCall& call, const RecurrentPlan& plan) {
  const auto hidden = static_cast<size_t>(plan.hidden);
  const size_t row = hidden * static_cast<size_t>(call.gates);
  const size_t nbytes = (2 * hidden + 2 * row) * sizeof(int32_t) + row * sizeof(T) + hidden + 1;
  ET_TRY(void* const memory, context.allocate_temp(nbytes));
  Scratch<T> s{};
  s.state = static_cast<int32_t*>(memory);
  s.row = s.state + hidden;
  s.given = reinterpret_cast<float*>(s.row + hidden);
  s.own = s.given + row;
  s.products = reinterpret_cast<T*>(s.own + row);
  s.packed = reinterpret_cast<int8_t*>(s.products + row);
  return s;
}

/// Integers of the product of one sequence's state with the weight.
template <typename T>
void multiply_state(const QuantizedRecurrentCall& call, const RecurrentPlan& plan, const WeightRows& weight,
                    const float* before, const Scratch<T>& scratch) {
  for (int64_t k = 0; k < plan.hidden; ++k) {
    scratch.state[k] = plan.state(before[k]) - plan.state_zero_point;
  }
  const int32_t* const bias = call.bias->has_value() ? (*call.bias)->const_data_ptr<int32_t>() : nullptr;
  for (int64_t n = 0; n < weight.rows(); ++n) {
    const int8_t* const row = weight.row(n, scratch.packed);
    Sum<T> sum = bias == nullptr ? 0 : bias[n];
    for (int64_t k = 0; k < plan.hidden; ++k) {
      sum = multiply_add(sum, Sum<T>{scratch.state[k]}, Sum<T>{row[k]});
    }
    scratch.products[n] = static_cast<T>(plan.product(sum, plan.scales[n]));
  }
}

template <typename T>
Error run_steps(KernelContext& context, const QuantizedRecurrentCall& call, const RecurrentPlan& plan, bool reverse) {
  const bool is_lstm = call.gates == 4;
  const int64_t hidden = plan.hidden;
  const int64_t row = call.gates * hidden;
  ET_TRY(const WeightRows weight, WeightRows::make(call.op, *call.weight, hidden));
  ET_TRY(const Scratch<T> scratch, make_scratch<T>(context, call, plan));
  float* const cells = start_cells(call, plan);
  return for_each_step(context, call, plan, reverse, [&](const RecurrentStep& step) {
    const T* in = call.input->const_data_ptr<T>() + step.time * plan.batch * row;
    for (int64_t b = 0; b < plan.batch; ++b, in += row) {
      const float* const before = step.before == nullptr ? nullptr : step.before + b * hidden;
      float* const after = step.after + b * hidden;
      if (!step.is_given) {
        multiply_state<T>(call, plan, weight, before, scratch);
      }
      const void* const first = step.is_given ? (*call.first)->const_data_ptr() : nullptr;
      if (is_lstm) {
        const T* const products =
            step.is_given ? static_cast<const T*>(first) + b * plan.first_stride : scratch.products;
        for (int64_t n = 0; n < row; ++n) {
          scratch.own[n] = plan.sums(plan.add(products[n], in[n]));
        }
        portable::lstm_row(scratch.own, cells + b * hidden, after, cells + b * hidden, hidden);
        continue;
      }
      for (int64_t n = 0; n < row; ++n) {
        scratch.given[n] = plan.input(in[n]);
        scratch.own[n] = step.is_given ? static_cast<const float*>(first)[b * plan.first_stride + n]
                                       : plan.products(scratch.products[n]);
      }
      portable::gru_row(scratch.given, scratch.own, before, after, hidden);
    }
    return Error::Ok;
  });
}

Error run(KernelContext& context, const QuantizedRecurrentCall& call, bool reverse) {
  RecurrentPlan plan;
  ET_RETURN_IF_ERROR(prepare_recurrent(context, call, &plan));
  return dispatch<Activations>(call.input->scalar_type(), call.op, [&](auto tag) {
    return run_steps<typename decltype(tag)::type>(context, call, plan, reverse);
  });
}

}  // namespace

Error quantized_gru_out(KernelContext& context, const Tensor& input, double input_scale, int64_t input_zero_point,
                        const Tensor& hidden, double hidden_scale, int64_t hidden_zero_point, int64_t hidden_min,
                        int64_t hidden_max, const Tensor& weight, const Tensor& weight_scales,
                        const OptionalTensor& bias, const OptionalTensor& first, double product_scale,
                        int64_t product_zero_point, int64_t product_min, int64_t product_max, bool reverse,
                        Tensor& out) {
  const QuantizedRecurrentCall call{{"et::quantized_gru", 3, &input, &hidden, nullptr, &first, &out, nullptr},
                                    input_scale,
                                    input_zero_point,
                                    {hidden_scale, hidden_zero_point, hidden_min, hidden_max},
                                    &weight,
                                    &weight_scales,
                                    &bias,
                                    {product_scale, product_zero_point, product_min, product_max},
                                    {}};
  return run(context, call, reverse);
}

Error quantized_lstm_out(KernelContext& context, const Tensor& input, double input_scale, int64_t input_zero_point,
                         const OptionalTensor& hidden, const Tensor& cell, double hidden_scale,
                         int64_t hidden_zero_point, int64_t hidden_min, int64_t hidden_max, const Tensor& weight,
                         const Tensor& weight_scales, const OptionalTensor& bias, const OptionalTensor& first,
                         double product_scale, int64_t product_zero_point, int64_t product_min, int64_t product_max,
                         double sum_scale, int64_t sum_zero_point, int64_t sum_min, int64_t sum_max, bool reverse,
                         Tensor& out0, Tensor& out1) {
  const QuantizedRecurrentCall call{
      {"et::quantized_lstm", 4, &input, hidden.has_value() ? &*hidden : nullptr, &cell, &first, &out0, &out1},
      input_scale,
      input_zero_point,
      {hidden_scale, hidden_zero_point, hidden_min, hidden_max},
      &weight,
      &weight_scales,
      &bias,
      {product_scale, product_zero_point, product_min, product_max},
      {sum_scale, sum_zero_point, sum_min, sum_max}};
  return run(context, call, reverse);
}

}  // namespace et::kernels::quantized
