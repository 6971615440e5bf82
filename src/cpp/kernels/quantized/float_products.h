/// Products of rows of floats with an integer weight, as plain loops: what et::dynamic_linear and
/// et::weight_only_linear compute.
///
/// For: those operators (op_weight_only.cpp) and the layers that have such a product in each step
/// (op_float_recurrent.cpp). Not for: products that give integers (op_linear.cpp).
///
///     ET_TRY(DynamicProduct product, DynamicProduct::make(op, layer, choice, columns));
///     ET_RETURN_IF_ERROR(product.start(context, count));                // takes memory for so many rows
///     ET_RETURN_IF_ERROR(product.multiply(context, x, out));            // [count, columns] -> [count, product.rows()]
#pragma once

#include "kernels/quantized/weights.h"
#include "numerics/run_time_quantization.h"

namespace et::kernels::quantized {

/// The arguments that describe a weight.
struct FloatLayer {
  const Tensor* weight;         ///< [rows, columns] of i8, or u8 with two columns a byte
  const Tensor* weight_scales;  ///< one, one a row, or one a group of columns
  const OptionalTensor* bias;   ///< f32 [rows]
  int64_t group_size;           ///< 0: no groups
};

/// What both products have.
class FloatProduct {
 public:
  int64_t rows() const { return weight_.rows(); }

 protected:
  /// Errors: InvalidArgument, InvalidType, which name `op`.
  static Error check(const char* op, const FloatLayer& layer, const OptionalTensor& zero_points, int64_t columns,
                     FloatProduct* product);
  float bias(int64_t row) const { return bias_ == nullptr ? 0.0f : bias_[row]; }

  const char* op_ = nullptr;
  WeightRows weight_;
  RowScales scales_;
  const float* bias_ = nullptr;
  int64_t count_ = 0;
  int8_t* unpacked_ = nullptr;  // [columns]
};

/// The rows become integers first: (Σ_g float(Σ q · w) · w_g) · scale + bias.
class DynamicProduct : public FloatProduct {
 public:
  /// Errors: InvalidArgument, InvalidType, which name `op`.
  static Result<DynamicProduct> make(const char* op, const FloatLayer& layer, const RunTimeQuantization& choice,
                                     int64_t columns);
  /// Takes memory for `count` rows until the end of the instruction. Errors: MemoryAllocationFailed.
  Error start(KernelContext& context, int64_t count);
  /// Errors: InvalidArgument for numbers that are not finite; Cancelled.
  Error multiply(KernelContext& context, const float* x, float* out) const;

 private:
  RunTimeQuantization choice_{};
  int16_t* integers_ = nullptr;    // [count, columns], less the zero points
  int16_t* row_ = nullptr;         // [columns]
  float* input_scales_ = nullptr;  // [count]
};

/// The weight becomes floats: Σ x · ((w - z_g) · w_g) + bias.
class WeightOnlyProduct : public FloatProduct {
 public:
  /// Errors: InvalidArgument, InvalidType, which name `op`.
  static Result<WeightOnlyProduct> make(const char* op, const FloatLayer& layer, const OptionalTensor& zero_points,
                                        int64_t columns);
  /// Takes memory for `count` rows until the end of the instruction. Errors: MemoryAllocationFailed.
  Error start(KernelContext& context, int64_t count);
  /// Errors: Cancelled.
  Error multiply(KernelContext& context, const float* x, float* out) const;

 private:
  float* row_ = nullptr;  // [columns]
};

}  // namespace et::kernels::quantized
