// Grouped matrix products of floats, 16-bit ones included, by the packed product of gemm.h: the experts of a mixture.

#include "kernels/optimized/matmul/gemm.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/grouped_product.h"

namespace et::kernels::optimized::matmul {
namespace {

using portable::GroupedProduct;
using portable::MatrixPair;

Error multiply_pair(KernelContext& context, const MatrixPair& pair, ScalarType dtype, float* sums) {
  const auto rows = static_cast<size_t>(pair.out.rows);
  const auto columns = static_cast<size_t>(pair.out.columns);
  if (rows == 0 || columns == 0 || pair.left.columns == 0) {
    return Error::Ok;
  }
  const StridedMatrix left{pair.left.data, dtype, pair.left.row, pair.left.column};
  const StridedMatrix right{pair.right.data, dtype, pair.right.column, pair.right.row};
  const bool direct = sums == nullptr;
  const Gemm gemm{rows,
                  columns,
                  static_cast<size_t>(pair.left.columns),
                  strips_of(left),
                  strips_of(right),
                  direct ? reinterpret_cast<float*>(pair.out.data) : sums,
                  direct ? static_cast<size_t>(pair.out.row) : columns,
                  false};
  ET_RETURN_IF_ERROR(multiply(context, gemm));
  for (size_t r = 0; !direct && r < rows; ++r) {
    char* const to = pair.out.data + static_cast<int64_t>(r) * pair.out.row * static_cast<int64_t>(element_size(dtype));
    portable::store(dtype, sums + r * columns, pair.out.columns, to, 1);
  }
  return Error::Ok;
}

Error multiply_groups(KernelContext& context, const char* op, const Tensor& self, const Tensor& mat2,
                      const OptionalTensor& offs, Tensor& out) {
  ET_TRY(const GroupedProduct grouped, GroupedProduct::of(context, op, self, mat2, offs, out));
  const ScalarType dtype = out.scalar_type();
  float* sums = nullptr;
  if (dtype != ScalarType::Float) {
    const int64_t largest = out.size(-2) * out.size(-1);  // of a group: it has a part of the rows or columns, or all
    ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(largest) * sizeof(float)));
    sums = static_cast<float*>(memory);
  }
  for (int64_t g = 0; g < grouped.count(); ++g) {
    ET_RETURN_IF_ERROR(multiply_pair(context, grouped[g], dtype, sums));
  }
  return Error::Ok;
}

Error grouped_mm_out(KernelContext& context, const Tensor& self, const Tensor& mat2, const OptionalTensor& offs,
                     const OptionalTensor& bias, Tensor& out) {
  ET_CHECK_OR_RETURN(!bias, NotSupported, "aten::_grouped_mm: ATen defines no bias yet");
  return multiply_groups(context, "aten::_grouped_mm", self, mat2, offs, out);
}

Error grouped_mm_fallback_out(KernelContext& context, const Tensor& input, const Tensor& weight, const Tensor& offs,
                              Tensor& out) {
  return multiply_groups(context, "transformers::grouped_mm_fallback", input, weight, offs, out);
}

bool fits(Arguments args) {  // (self, mat2, …, out)
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  const Tensor out = args[args.size() - 1]->to_tensor();
  return is_gemm_dtype(dtype) && args[1]->to_tensor().scalar_type() == dtype && out.scalar_type() == dtype &&
         is_row_major(*args[args.size() - 1]);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&grouped_mm_out, &fits>("et::grouped_mm.out"),
    make_fitting_kernel<&grouped_mm_fallback_out, &fits>("transformers::grouped_mm_fallback.out"),
};

}  // namespace

ET_KERNEL_TABLE(grouped_matmul, kKernels)

}  // namespace et::kernels::optimized::matmul
