/// The product of a recurrent layer's state with its weight, of int8 with 8 bits a weight.
///
/// For: et::quantized_lstm and et::quantized_gru, whose gates follow. The state meets the weight as inputs of a linear
/// layer do. Not for: the products of the layer's inputs, which a linear layer makes for all steps at once.
///
///     StateProduct product(call, plan);
///     ET_RETURN_IF_ERROR(product.start(context));
///     return for_each_step(context, call, plan, reverse, [&](const RecurrentStep& step) {
///       if (!step.is_given) {
///         product.multiply(step.before);
///       }
///       …  // product.rows()
///     });
#pragma once

#include "kernels/cortex_m/kernels.h"
#include "kernels/cortex_m/product.h"
#include "kernels/quantized/recurrent.h"

namespace et::kernels::cortex_m {

class StateProduct {
 public:
  /// Both must outlive it.
  StateProduct(const quantized::QuantizedRecurrentCall& call, const quantized::RecurrentPlan& plan)
      : call_(call), plan_(plan), product_(filter_, plan.product) {}

  /// Takes temporary memory: 8 bytes a gate and unit for what all steps use. Errors: MemoryAllocationFailed; those of
  /// Filter::read and Product::choose.
  Error start(KernelContext& context);

  /// Multiplies the state `before`, [batch, hidden].
  void multiply(const float* before);

  /// Integers of the product, [batch, gates * hidden].
  const int8_t* rows() const { return rows_; }

 private:
  /// Of the weight.
  int32_t num_rows() const { return static_cast<int32_t>(call_.gates * plan_.hidden); }

  const quantized::QuantizedRecurrentCall& call_;
  const quantized::RecurrentPlan& plan_;
  Filter filter_ = {};
  Product product_;
  int8_t* state_ = nullptr;  // [batch, hidden]
  int8_t* rows_ = nullptr;
};

/// True when StateProduct takes a call with this input and this weight.
bool fits_recurrent(const EValue& input, const EValue& weight, int64_t gates);

}  // namespace et::kernels::cortex_m
