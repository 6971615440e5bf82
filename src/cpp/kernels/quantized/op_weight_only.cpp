// Products and look-ups that take floats and integer weights: et::dynamic_linear quantizes its input at run time and sums
// integers; et::weight_only_linear and et::quantized_embedding scale the weight.
#include "kernels/quantized/op_weight_only.h"
#include "base/run_time_quantization.h"
#include "kernels/portable/convert.h"
#include "kernels/quantized/dot.h"
#include "kernels/quantized/weights.h"

namespace et::kernels::quantized {
namespace {

Error check_float_bias(const char* op, const OptionalTensor& bias, int64_t rows) {
  if (!bias.has_value()) {
    return Error::Ok;
  }
  ET_CHECK_OR_RETURN(bias->scalar_type() == ScalarType::Float, InvalidType, "%s: bias is %s, must be f32", op,
                     to_string(bias->scalar_type()));
  ET_CHECK_OR_RETURN(bias->dim() == 1 && bias->size(0) == rows, InvalidArgument,
                     "%s: bias %s for %" PRId64 " output channels", op, ShapeText(bias->sizes()).text, rows);
  return Error::Ok;
}

/// Checks what the two products share and gives `out` its sizes.
Error check_product(KernelContext& context, const char* op, const Tensor& input, const OptionalTensor& bias,
                    int64_t rows, Tensor& out) {
  ET_CHECK_OR_RETURN(input.scalar_type() == ScalarType::Float && out.scalar_type() == ScalarType::Float, InvalidType,
                     "%s: input is %s and out %s, must be f32", op, to_string(input.scalar_type()),
                     to_string(out.scalar_type()));
  ET_RETURN_IF_ERROR(check_row_major(op, {&input, &out}));
  ET_RETURN_IF_ERROR(check_float_bias(op, bias, rows));
  Sizes sizes(input.sizes());
  sizes[input.dim() - 1] = rows;
  return resize_tensor(context, out, sizes);
}

}  // namespace

Error dynamic_linear_out(KernelContext& context, const Tensor& input, const Tensor& weight, const Tensor& weight_scales,
                         const OptionalTensor& bias, int64_t group_size, bool per_token, bool symmetric,
                         int64_t quant_min, int64_t quant_max, double eps, Tensor& out) {
  constexpr const char* kOp = "et::dynamic_linear";
  ET_RETURN_IF_ERROR(check_rank(kOp, "input", input, 1, static_cast<int64_t>(portable::kMaxRank)));
  const int64_t columns = input.size(-1);
  ET_TRY(const WeightRows weights, WeightRows::make(kOp, weight, columns));
  ET_TRY(const RowScales scales,
         RowScales::make(kOp, weight_scales, std::nullopt, weights.rows(), columns, group_size));
  const RunTimeQuantization choice{per_token, symmetric, quant_min, quant_max, static_cast<float>(eps)};
  ET_CHECK_OR_RETURN(choice.is_valid(), InvalidArgument,
                     "%s: [%" PRId64 ", %" PRId64 "] is no range of 8-bit integers around zero, or eps %g not positive",
                     kOp, quant_min, quant_max, eps);
  ET_RETURN_IF_ERROR(check_product(context, kOp, input, bias, weights.rows(), out));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const int64_t count = out.numel() / weights.rows();
  const auto numel = static_cast<size_t>(input.numel());
  ET_TRY(void* const integers, context.allocate_temp((numel + static_cast<size_t>(columns)) * sizeof(int16_t) + 1));
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(columns) + 1));
  ET_TRY(void* const factors, context.allocate_temp(static_cast<size_t>(count) * sizeof(float) + 1));
  auto* const quantized = static_cast<int16_t*>(integers);
  int16_t* const row = quantized + numel;
  auto* const input_scales = static_cast<float*>(factors);
  const bool is_finite =
      choice.for_each_row(input.const_data_ptr<float>(), count, columns, row,
                          [&](int64_t m, const int16_t* integers_of_row, const RowParameters& parameters) {
                            std::copy_n(integers_of_row, columns, quantized + m * columns);
                            input_scales[m] = static_cast<float>(parameters.scale);
                          });
  ET_CHECK_OR_RETURN(is_finite, InvalidArgument, "%s: the input is not finite, so it has no integers", kOp);
  auto* const to = out.mutable_data_ptr<float>();
  for (int64_t n = 0; n < weights.rows(); ++n) {
    ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", kOp);
    std::copy_n(weights.row(n, static_cast<int8_t*>(memory)), columns, row);
    const float initial = bias.has_value() ? bias->const_data_ptr<float>()[n] : 0.0f;
    for (int64_t m = 0; m < count; ++m) {
      float total = 0;
      for (int64_t g = 0; g < scales.groups(); ++g) {
        const int64_t first = g * scales.group_size();
        const int32_t sum = dot(quantized + m * columns + first, row + first, scales.group_size());
        total += static_cast<float>(sum) * scales.scale(n, g);
      }
      to[m * weights.rows() + n] = total * input_scales[m] + initial;
    }
  }
  return Error::Ok;
}

Error weight_only_linear_out(KernelContext& context, const Tensor& input, const Tensor& weight,
                             const Tensor& weight_scales, const OptionalTensor& weight_zero_points,
                             const OptionalTensor& bias, int64_t group_size, Tensor& out) {
  constexpr const char* kOp = "et::weight_only_linear";
  ET_RETURN_IF_ERROR(check_rank(kOp, "input", input, 1, static_cast<int64_t>(portable::kMaxRank)));
  const int64_t columns = input.size(-1);
  ET_TRY(const WeightRows weights, WeightRows::make(kOp, weight, columns));
  ET_TRY(const RowScales scales,
         RowScales::make(kOp, weight_scales, weight_zero_points, weights.rows(), columns, group_size));
  ET_RETURN_IF_ERROR(check_product(context, kOp, input, bias, weights.rows(), out));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const int64_t count = out.numel() / weights.rows();
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(columns) + 1));
  ET_TRY(void* const numbers, context.allocate_temp(static_cast<size_t>(columns) * sizeof(float) + 1));
  auto* const row = static_cast<float*>(numbers);
  const auto* const from = input.const_data_ptr<float>();
  auto* const to = out.mutable_data_ptr<float>();
  for (int64_t n = 0; n < weights.rows(); ++n) {
    ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", kOp);
    const int8_t* const stored = weights.row(n, static_cast<int8_t*>(memory));
    for (int64_t i = 0; i < columns; ++i) {
      const int64_t g = i / scales.group_size();
      row[i] = (static_cast<float>(stored[i]) - scales.zero_point(n, g)) * scales.scale(n, g);
    }
    for (int64_t m = 0; m < count; ++m) {
      constexpr int64_t kLanes = 8;  // partial sums: a small error, and a loop for vectors
      float lanes[kLanes] = {};
      const float* const x = from + m * columns;
      int64_t i = 0;
      for (; i + kLanes <= columns; i += kLanes) {
        for (int64_t k = 0; k < kLanes; ++k) {
          lanes[k] += x[i + k] * row[i + k];
        }
      }
      for (; i < columns; ++i) {
        lanes[0] += x[i] * row[i];
      }
      const float sum =
          ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
      to[m * weights.rows() + n] = sum + (bias.has_value() ? bias->const_data_ptr<float>()[n] : 0.0f);
    }
  }
  return Error::Ok;
}

Error quantized_embedding_out(KernelContext& context, const Tensor& weight, const Tensor& weight_scales,
                              const OptionalTensor& weight_zero_points, const Tensor& indices, int64_t columns,
                              int64_t group_size, Tensor& out) {
  constexpr const char* kOp = "et::quantized_embedding";
  ET_TRY(const WeightRows weights, WeightRows::make(kOp, weight, columns));
  ET_TRY(const RowScales scales,
         RowScales::make(kOp, weight_scales, weight_zero_points, weights.rows(), columns, group_size));
  const ScalarType index_type = indices.scalar_type();
  ET_CHECK_OR_RETURN(index_type == ScalarType::Int || index_type == ScalarType::Long, InvalidType,
                     "%s: indices are %s, must be i32 or i64", kOp, to_string(index_type));
  ET_CHECK_OR_RETURN(out.scalar_type() == ScalarType::Float, InvalidType, "%s: out is %s, must be f32", kOp,
                     to_string(out.scalar_type()));
  ET_CHECK_OR_RETURN(indices.dim() < static_cast<int64_t>(portable::kMaxRank), InvalidArgument,
                     "%s: indices have too many dimensions", kOp);
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&indices, &out}));
  for (int64_t i = 0; i < indices.numel(); ++i) {
    const int64_t index = portable::index_at(indices, i);
    ET_CHECK_OR_RETURN(index >= 0 && index < weights.rows(), InvalidArgument,
                       "%s: index %" PRId64 " is not one of %" PRId64 " rows", kOp, index, weights.rows());
  }
  Sizes sizes(indices.sizes());
  sizes.push_back(columns);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(columns) + 1));
  float* to = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < indices.numel(); ++i) {
    const int64_t index = portable::index_at(indices, i);
    const int8_t* const row = weights.row(index, static_cast<int8_t*>(memory));
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t g = c / scales.group_size();
      *to++ = (static_cast<float>(row[c]) - scales.zero_point(index, g)) * scales.scale(index, g);
    }
  }
  return Error::Ok;
}

}  // namespace et::kernels::quantized
