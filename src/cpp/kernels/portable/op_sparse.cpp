// Products with a weight that is mostly zero: et::sparse_linear. Its convolution is in op_convolution.cpp.
#include "kernels/portable/op_sparse.h"

#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/fused_clamp.h"
#include "kernels/portable/shape.h"
#include "numerics/sparse_weight.h"

namespace et::kernels::portable {

Error sparse_linear_out(KernelContext& context, const Tensor& input, const Tensor& values, const Tensor& mask,
                        const OptionalTensor& bias, IntArrayRef weight_size, const std::optional<Scalar>& min,
                        const std::optional<Scalar>& max, Tensor& out) {
  constexpr const char* kOp = "et::sparse_linear";
  ET_RETURN_IF_ERROR(check_rank(kOp, "input", input, 1, kMaxRank));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "values", values, input));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, input));
  SparseWeight weight;
  ET_RETURN_IF_ERROR(check_sparse_weight(kOp, values, mask, weight_size, &weight));
  const auto inner = static_cast<int64_t>(weight.columns);
  const auto columns = static_cast<int64_t>(weight.rows);
  ET_CHECK_OR_RETURN(weight_size.size() == 2 && input.size(-1) == inner, InvalidArgument,
                     "%s: input %s does not fit weight %s", kOp, ShapeText(input.sizes()).text,
                     ShapeText(weight_size).text);
  if (bias.has_value()) {
    ET_RETURN_IF_ERROR(check_same_dtype(kOp, "bias", *bias, input));
    ET_CHECK_OR_RETURN(bias->dim() == 1 && bias->numel() == columns, InvalidArgument,
                       "%s: bias %s does not fit weight %s", kOp, ShapeText(bias->sizes()).text,
                       ShapeText(weight_size).text);
  }
  Sizes sizes(input.sizes());
  sizes[input.dim() - 1] = columns;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&input, &out}));
  const int64_t rows = product(input.sizes(), 0, static_cast<size_t>(input.dim()) - 1);
  ET_RETURN_IF_ERROR(dispatch<FloatTypes>(input.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T* const x = static_cast<const T*>(input.const_data_ptr());
    const T* const shift = bias.has_value() ? static_cast<const T*>(bias->const_data_ptr()) : nullptr;
    T* const to = static_cast<T*>(out.mutable_data_ptr());
    for (int64_t i = 0; i < rows; ++i) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", kOp);
      const T* const row = x + i * inner;
      const T* value = static_cast<const T*>(weight.values);
      for (size_t n = 0; n < weight.rows; ++n) {
        A sum = shift != nullptr ? static_cast<A>(shift[n]) : A(0);
        for (size_t j = 0; j < weight.words; ++j) {
          for (uint64_t bits = weight.mask[n * weight.words + j]; bits != 0; bits &= bits - 1) {
            const size_t k = 64 * j + static_cast<size_t>(__builtin_ctzll(bits));
            sum += static_cast<A>(*value++) * static_cast<A>(row[k]);
          }
        }
        to[static_cast<size_t>(i) * weight.rows + n] = convert<T>(sum);
      }
    }
    return Error::Ok;
  }));
  return clamp_in_place(kOp, min, max, out);
}

}  // namespace et::kernels::portable
