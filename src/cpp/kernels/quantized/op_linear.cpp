// et::quantized_linear and et::quantized_matmul: products of integers that give integers.
#include "kernels/quantized/op_linear.h"

#include "kernels/quantized/dot.h"
#include "kernels/quantized/weights.h"

namespace et::kernels::quantized {
namespace {

/// Sum of (a[i] - zero_point) * b[i].
template <typename S, typename A, typename B>
S wide_dot(const A* a, int32_t zero_point, const B* b, int64_t n) {
  S sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum = multiply_add(sum, static_cast<S>(static_cast<int32_t>(a[i]) - zero_point), static_cast<S>(b[i]));
  }
  return sum;
}

}  // namespace

Error quantized_linear_out(KernelContext& context, const Tensor& input, double input_scale, int64_t input_zero_point,
                           const Tensor& weight, const Tensor& weight_scales, const OptionalTensor& bias,
                           double output_scale, int64_t output_zero_point, int64_t output_min, int64_t output_max,
                           Tensor& out) {
  constexpr const char* kOp = "et::quantized_linear";
  ET_RETURN_IF_ERROR(check_activation(kOp, "input", input));
  ET_RETURN_IF_ERROR(check_activation(kOp, "out", out, &input));
  ET_RETURN_IF_ERROR(check_rank(kOp, "input", input, 1, static_cast<int64_t>(portable::kMaxRank)));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&input, &out}));
  const int64_t columns = input.size(-1);
  ET_TRY(const WeightRows rows, WeightRows::make(kOp, weight, columns));
  ET_RETURN_IF_ERROR(check_weight_scales(kOp, weight_scales, rows.rows()));
  ET_RETURN_IF_ERROR(check_bias(kOp, bias, rows.rows()));
  ET_TRY(const Affine of_input, Affine::make(kOp, "input", input.scalar_type(), input_scale, input_zero_point));
  ET_TRY(const Requantizer requantize,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  ET_TRY(const ProductScales scales, ProductScales::make(kOp, of_input.scale, weight_scales, requantize.scale()));
  Sizes sizes(input.sizes());
  sizes[input.dim() - 1] = rows.rows();
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(columns) + 1));
  const int64_t count = out.numel() / rows.rows();
  const int32_t* const start = bias.has_value() ? bias->const_data_ptr<int32_t>() : nullptr;
  return dispatch<Activations>(input.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = Sum<T>;
    using Wide = std::conditional_t<sizeof(T) == 1, int16_t, int32_t>;  // an integer less its zero point
    const T* const from = input.const_data_ptr<T>();
    T* const to = out.mutable_data_ptr<T>();
    const auto numel = static_cast<size_t>(input.numel());
    ET_TRY(void* const widened, context.allocate_temp((numel + static_cast<size_t>(columns)) * sizeof(Wide) + 1));
    const int surplus = surplus_of<T>(columns, kWeightedBits);
    Wide* const values = static_cast<Wide*>(widened);
    Wide* const weights = values + numel;
    for (size_t i = 0; i < numel; ++i) {
      values[i] = static_cast<Wide>(static_cast<int32_t>(from[i]) - of_input.zero_point);
    }
    for (int64_t n = 0; n < rows.rows(); ++n) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", kOp);
      const int8_t* const row = rows.row(n, static_cast<int8_t*>(memory));
      std::copy_n(row, columns, weights);
      const S initial = start == nullptr ? S(0) : S(start[n]);
      for (int64_t m = 0; m < count; ++m) {
        S sum = 0;
        if constexpr (sizeof(T) == 1) {
          sum = dot(values + m * columns, weights, columns);
        } else {
          sum = wide_dot<S>(values + m * columns, 0, weights, columns);
        }
        to[m * rows.rows() + n] = static_cast<T>(requantize(multiply_add(sum, initial, S(1)), scales[n], surplus));
      }
    }
    return Error::Ok;
  });
}

Error quantized_matmul_out(KernelContext& context, const Tensor& self, double self_scale, int64_t self_zero_point,
                           const Tensor& mat2, double mat2_scale, int64_t mat2_zero_point, double output_scale,
                           int64_t output_zero_point, int64_t output_min, int64_t output_max, Tensor& out) {
  constexpr const char* kOp = "et::quantized_matmul";
  ET_RETURN_IF_ERROR(check_activation(kOp, "self", self));
  ET_RETURN_IF_ERROR(check_activation(kOp, "mat2", mat2));
  ET_RETURN_IF_ERROR(check_activation(kOp, "out", out, &self));
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 2, 3));
  ET_RETURN_IF_ERROR(check_rank(kOp, "mat2", mat2, self.dim(), self.dim()));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&self, &mat2, &out}));
  ET_CHECK_OR_RETURN(mat2.scalar_type() == self.scalar_type(), InvalidType, "%s: mat2 is %s, must be %s", kOp,
                     to_string(mat2.scalar_type()), to_string(self.scalar_type()));
  const bool batched = self.dim() == 3;
  const int64_t batch = batched ? self.size(0) : 1;
  const int64_t m = self.size(-2), k = self.size(-1), n = mat2.size(-1);
  ET_CHECK_OR_RETURN(mat2.size(-2) == k && (!batched || mat2.size(0) == batch), InvalidArgument,
                     "%s: %s and %s do not fit together", kOp, ShapeText(self.sizes()).text,
                     ShapeText(mat2.sizes()).text);
  ET_TRY(const Affine of_left, Affine::make(kOp, "self", self.scalar_type(), self_scale, self_zero_point));
  ET_TRY(const Affine of_right, Affine::make(kOp, "mat2", mat2.scalar_type(), mat2_scale, mat2_zero_point));
  ET_TRY(const Requantizer requantize,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  const float scale = of_left.scale * of_right.scale / requantize.scale();
  ET_CHECK_OR_RETURN(std::isfinite(scale), InvalidArgument, "%s: the scales have no finite ratio", kOp);
  const int64_t sizes[3] = {batch, m, n};
  ET_RETURN_IF_ERROR(resize_tensor(context, out, batched ? IntArrayRef(sizes, 3) : IntArrayRef(sizes + 1, 2)));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  return dispatch<Activations>(self.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = Sum<T>;
    ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(k) * sizeof(int32_t) + 1));
    const int surplus = surplus_of<T>(k, kProductBits);
    auto* const column = static_cast<int32_t*>(memory);
    for (int64_t b = 0; b < batch; ++b) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", kOp);
      const T* const left = self.const_data_ptr<T>() + b * m * k;
      const T* const right = mat2.const_data_ptr<T>() + b * k * n;
      T* const to = out.mutable_data_ptr<T>() + b * m * n;
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t i = 0; i < k; ++i) {
          column[i] = static_cast<int32_t>(right[i * n + j]) - of_right.zero_point;
        }
        for (int64_t i = 0; i < m; ++i) {
          to[i * n + j] =
              static_cast<T>(requantize(wide_dot<S>(left + i * k, of_left.zero_point, column, k), scale, surplus));
        }
      }
    }
    return Error::Ok;
  });
}

}  // namespace et::kernels::quantized
