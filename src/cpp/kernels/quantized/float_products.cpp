#include "kernels/quantized/float_products.h"

#include <algorithm>

#include "kernels/quantized/dot.h"

namespace et::kernels::quantized {

Error FloatProduct::check(const char* op, const FloatLayer& layer, const OptionalTensor& zero_points, int64_t columns,
                          FloatProduct* product) {
  product->op_ = op;
  ET_TRY(product->weight_, WeightRows::make(op, *layer.weight, columns));
  const int64_t rows = product->rows();
  ET_TRY(product->scales_, RowScales::make(op, *layer.weight_scales, zero_points, rows, columns, layer.group_size));
  if (!layer.bias->has_value()) {
    return Error::Ok;
  }
  const Tensor& bias = **layer.bias;
  ET_CHECK_OR_RETURN(bias.scalar_type() == ScalarType::Float, InvalidType, "%s: bias is %s, must be torch.float32", op,
                     to_string(bias.scalar_type()));
  ET_CHECK_OR_RETURN(bias.dim() == 1 && bias.size(0) == rows, InvalidArgument,
                     "%s: bias %s for %" PRId64 " output channels", op, ShapeText(bias.sizes()).text, rows);
  product->bias_ = bias.const_data_ptr<float>();
  return Error::Ok;
}

Result<DynamicProduct> DynamicProduct::make(const char* op, const FloatLayer& layer, const RunTimeQuantization& choice,
                                            int64_t columns) {
  DynamicProduct made;
  ET_RETURN_IF_ERROR(check(op, layer, std::nullopt, columns, &made));
  ET_CHECK_OR_RETURN(choice.is_valid(), InvalidArgument,
                     "%s: [%" PRId64 ", %" PRId64 "] is no range of 8-bit integers around zero, or eps %g not positive",
                     op, choice.quant_min, choice.quant_max, static_cast<double>(choice.eps));
  made.choice_ = choice;
  return made;
}

Error DynamicProduct::start(KernelContext& context, int64_t count) {
  count_ = count;
  const auto columns = static_cast<size_t>(weight_.columns());
  const size_t numel = static_cast<size_t>(count) * columns;
  ET_TRY(void* const integers, context.allocate_temp((numel + columns) * sizeof(int16_t) + 1));
  ET_TRY(void* const unpacked, context.allocate_temp(columns + 1));
  ET_TRY(void* const factors, context.allocate_temp(static_cast<size_t>(count) * sizeof(float) + 1));
  integers_ = static_cast<int16_t*>(integers);
  row_ = integers_ + numel;
  unpacked_ = static_cast<int8_t*>(unpacked);
  input_scales_ = static_cast<float*>(factors);
  return Error::Ok;
}

Error DynamicProduct::multiply(KernelContext& context, const float* x, float* out) const {
  const int64_t columns = weight_.columns();
  const bool is_finite = choice_.for_each_row(
      x, count_, columns, row_, [&](int64_t m, const int16_t* integers_of_row, const RowParameters& parameters) {
        std::copy_n(integers_of_row, columns, integers_ + m * columns);
        input_scales_[m] = static_cast<float>(parameters.scale);
      });
  ET_CHECK_OR_RETURN(is_finite, InvalidArgument, "%s: the input is not finite, so it has no integers", op_);
  for (int64_t n = 0; n < rows(); ++n) {
    ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", op_);
    std::copy_n(weight_.row(n, unpacked_), columns, row_);
    for (int64_t m = 0; m < count_; ++m) {
      float total = 0;
      for (int64_t g = 0; g < scales_.groups(); ++g) {
        const int64_t first = g * scales_.group_size();
        const int32_t sum = dot(integers_ + m * columns + first, row_ + first, scales_.group_size());
        total += static_cast<float>(sum) * scales_.scale(n, g);
      }
      out[m * rows() + n] = total * input_scales_[m] + bias(n);
    }
  }
  return Error::Ok;
}

Result<WeightOnlyProduct> WeightOnlyProduct::make(const char* op, const FloatLayer& layer,
                                                  const OptionalTensor& zero_points, int64_t columns) {
  WeightOnlyProduct made;
  ET_RETURN_IF_ERROR(check(op, layer, zero_points, columns, &made));
  return made;
}

Error WeightOnlyProduct::start(KernelContext& context, int64_t count) {
  count_ = count;
  const auto columns = static_cast<size_t>(weight_.columns());
  ET_TRY(void* const unpacked, context.allocate_temp(columns + 1));
  ET_TRY(void* const numbers, context.allocate_temp(columns * sizeof(float) + 1));
  unpacked_ = static_cast<int8_t*>(unpacked);
  row_ = static_cast<float*>(numbers);
  return Error::Ok;
}

Error WeightOnlyProduct::multiply(KernelContext& context, const float* x, float* out) const {
  const int64_t columns = weight_.columns();
  for (int64_t n = 0; n < rows(); ++n) {
    ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", op_);
    const int8_t* const stored = weight_.row(n, unpacked_);
    for (int64_t i = 0; i < columns; ++i) {
      const int64_t g = i / scales_.group_size();
      row_[i] = (static_cast<float>(stored[i]) - scales_.zero_point(n, g)) * scales_.scale(n, g);
    }
    for (int64_t m = 0; m < count_; ++m) {
      constexpr int64_t kLanes = 8;  // partial sums: a small error, and a loop for vectors
      float lanes[kLanes] = {};
      const float* const from = x + m * columns;
      int64_t i = 0;
      for (; i + kLanes <= columns; i += kLanes) {
        for (int64_t k = 0; k < kLanes; ++k) {
          lanes[k] += from[i + k] * row_[i + k];
        }
      }
      for (; i < columns; ++i) {
        lanes[0] += from[i] * row_[i];
      }
      const float sum =
          ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
      out[m * rows() + n] = sum + bias(n);
    }
  }
  return Error::Ok;
}

}  // namespace et::kernels::quantized
