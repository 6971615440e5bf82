// Products and look-ups that take floats and integer weights: et::dynamic_linear quantizes its input at run time and
// sums integers; et::weight_only_linear and et::quantized_embedding scale the weight.
#include "kernels/quantized/op_weight_only.h"

#include <algorithm>

#include "kernels/portable/convert.h"
#include "kernels/quantized/float_products.h"

namespace et::kernels::quantized {
namespace {

Error check_input(const char* op, const Tensor& input) {
  return check_rank(op, "input", input, 1, static_cast<int64_t>(portable::kMaxRank));
}

/// out[..., n] = input[..., k] times the product's weight.
template <typename Product>
Error multiply(KernelContext& context, const char* op, const Tensor& input, Product& product, Tensor& out) {
  ET_CHECK_OR_RETURN(input.scalar_type() == ScalarType::Float && out.scalar_type() == ScalarType::Float, InvalidType,
                     "%s: input is %s and out %s, must be torch.float32", op, to_string(input.scalar_type()),
                     to_string(out.scalar_type()));
  ET_RETURN_IF_ERROR(check_row_major(op, {&input, &out}));
  Sizes sizes(input.sizes());
  sizes[input.dim() - 1] = product.rows();
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  ET_RETURN_IF_ERROR(product.start(context, out.numel() / product.rows()));
  return product.multiply(context, input.const_data_ptr<float>(), out.mutable_data_ptr<float>());
}

}  // namespace

Error dynamic_linear_out(KernelContext& context, const Tensor& input, const Tensor& weight, const Tensor& weight_scales,
                         const OptionalTensor& bias, int64_t group_size, bool per_token, bool symmetric,
                         int64_t quant_min, int64_t quant_max, double eps, Tensor& out) {
  constexpr const char* kOp = "et::dynamic_linear";
  ET_RETURN_IF_ERROR(check_input(kOp, input));
  const RunTimeQuantization choice{per_token, symmetric, quant_min, quant_max, static_cast<float>(eps)};
  ET_TRY(DynamicProduct product,
         DynamicProduct::make(kOp, {&weight, &weight_scales, &bias, group_size}, choice, input.size(-1)));
  return multiply(context, kOp, input, product, out);
}

Error weight_only_linear_out(KernelContext& context, const Tensor& input, const Tensor& weight,
                             const Tensor& weight_scales, const OptionalTensor& weight_zero_points,
                             const OptionalTensor& bias, int64_t group_size, Tensor& out) {
  constexpr const char* kOp = "et::weight_only_linear";
  ET_RETURN_IF_ERROR(check_input(kOp, input));
  ET_TRY(WeightOnlyProduct product, WeightOnlyProduct::make(kOp, {&weight, &weight_scales, &bias, group_size},
                                                            weight_zero_points, input.size(-1)));
  return multiply(context, kOp, input, product, out);
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
                     "%s: indices are %s, must be torch.int32 or torch.int64", kOp, to_string(index_type));
  ET_CHECK_OR_RETURN(out.scalar_type() == ScalarType::Float, InvalidType, "%s: out is %s, must be torch.float32", kOp,
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
    for (int64_t first = 0; first < columns; first += scales.group_size()) {
      const int64_t g = first / scales.group_size();
      const float zero = scales.zero_point(index, g);
      const float scale = scales.scale(index, g);
      const int64_t end = std::min(columns, first + scales.group_size());
      for (int64_t c = first; c < end; ++c) {
        to[c] = (static_cast<float>(row[c]) - zero) * scale;
      }
    }
    to += columns;
  }
  return Error::Ok;
}

}  // namespace et::kernels::quantized
