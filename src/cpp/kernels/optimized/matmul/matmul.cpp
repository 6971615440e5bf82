// mm, bmm, addmm, baddbmm and linear of every real type, by the packed product of gemm.h. Sums are float for floats of
// up to 32 bits, double for double, int32 for integers of up to 32 bits and int64 for the others; integers wrap.

#include <algorithm>
#include <optional>

#include "kernels/optimized/matmul/dot.h"
#include "kernels/optimized/matmul/gemm.h"
#include "kernels/optimized/matmul/row_product.h"
#include "kernels/optimized/vec/float_runs.h"
#include "kernels/optimized/vec/offering.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::matmul {
namespace {

using portable::Sizes;
using portable::wrapping_add;
using portable::wrapping_mul;

/// out = alpha * (left · right) + beta * added, a product for each index of the first of three dimensions.
struct Product {
  const Tensor* left;          // [batches,] rows, depth
  const Tensor* right;         // [batches,] depth, columns
  const OptionalTensor added;  // broadcasts to the output
  const Scalar beta, alpha;
};

/// Matrix number `batch` of a tensor; rank 2 has one.
StridedMatrix matrix_of(const Tensor& tensor, int64_t batch, bool strips_are_columns) {
  const int64_t d = tensor.dim() - 2;
  const int64_t offset = d > 0 ? batch * tensor.stride(0) : 0;
  const auto* const data =
      static_cast<const char*>(tensor.const_data_ptr()) + offset * static_cast<int64_t>(tensor.element_size());
  const int64_t row = tensor.stride(d);
  const int64_t column = tensor.stride(d + 1);
  return {data, tensor.scalar_type(), strips_are_columns ? column : row, strips_are_columns ? row : column};
}

/// alpha * sums [rows, columns] + beta * added to row-major elements `out`; `added` may be nullptr.
template <typename T>
void finish(KernelContext& context, T alpha, const T* sums, size_t rows, size_t columns, T beta, const char* added,
            int64_t added_row, int64_t added_column, ScalarType dtype, char* out) {
  const size_t size = element_size(dtype);
  threads::parallel_for(context, rows, threads::grain_for(2 * columns), [&](size_t begin, size_t end) {
    constexpr size_t kChunk = 256;
    T line[kChunk];
    T other[kChunk];
    for (size_t r = begin; r < end; ++r) {
      for (size_t c = 0; c < columns; c += kChunk) {
        const size_t n = columns - c < kChunk ? columns - c : kChunk;
        const T* const from = sums + r * columns + c;
        for (size_t i = 0; i < n; ++i) {
          line[i] = wrapping_mul(alpha, from[i]);
        }
        if (added != nullptr) {
          const int64_t at = static_cast<int64_t>(r) * added_row + static_cast<int64_t>(c) * added_column;
          portable::load(dtype, added + at * static_cast<int64_t>(size), added_column, static_cast<int64_t>(n), other);
          for (size_t i = 0; i < n; ++i) {
            line[i] = wrapping_add(line[i], wrapping_mul(beta, other[i]));
          }
        }
        portable::store(dtype, line, static_cast<int64_t>(n), out + (r * columns + c) * size, 1);
      }
    }
  });
}

/// A matrix product with one row or one column: each output is the sum of a line of `matrix` times `vector`.
struct LineSums {
  const StridedMatrix& vector;
  const StridedMatrix& matrix;
  size_t outputs;
};

/// The operands of `gemm`, as sums of lines that are written side by side; nothing where it is another product or adds
/// to them.
template <typename T>
std::optional<LineSums> line_sums(const GemmOf<T>& gemm, const StridedMatrix& left, const StridedMatrix& right) {
  if ((gemm.rows != 1 && gemm.columns != 1) || gemm.depth == 0 || gemm.out_stride != gemm.columns || gemm.accumulate) {
    return std::nullopt;
  }
  const bool is_row = gemm.rows == 1;
  return LineSums{is_row ? left : right, is_row ? right : left, gemm.rows * gemm.columns};
}

bool is_dense(const LineSums& sums, size_t depth) { return sums.vector.along == 1 || depth == 1; }

/// The product of floats in lines, which packing takes longer than multiplying. False where they do not lie densely.
bool multiply_lines(KernelContext& context, const GemmOf<float>& gemm, const LineSums& sums) {
  const StridedMatrix& matrix = sums.matrix;
  const auto depth = static_cast<int64_t>(gemm.depth);
  const auto outputs = static_cast<int64_t>(sums.outputs);
  const bool inner = matrix.across == 1 && matrix.along == outputs && outputs > 1;
  if (matrix.dtype != ScalarType::Float || !is_dense(sums, gemm.depth) ||
      !(inner || (matrix.along == 1 && matrix.across == depth))) {
    return false;
  }
  RowProduct product;
  product.x = static_cast<const float*>(sums.vector.data);
  product.matrix = static_cast<const float*>(matrix.data);
  product.out = gemm.out;
  product.depth = gemm.depth;
  product.outputs = sums.outputs;
  product.outputs_inner = inner;
  multiply_row(context, product);
  return true;
}

/// The same for doubles, whose lines must lie densely.
bool multiply_lines(KernelContext& context, const GemmOf<double>& gemm, const LineSums& sums) {
  const StridedMatrix& matrix = sums.matrix;
  if (matrix.along != 1 || !is_dense(sums, gemm.depth)) {
    return false;
  }
  const auto dot = dot_of_doubles();
  threads::parallel_for(context, sums.outputs, threads::grain_for(gemm.depth), [&](size_t begin, size_t end) {
    const auto* const x = static_cast<const double*>(sums.vector.data);
    for (size_t i = begin; i < end; ++i) {
      const auto* const line = static_cast<const double*>(matrix.data) + static_cast<int64_t>(i) * matrix.across;
      gemm.out[i] = dot(line, x, gemm.depth);
    }
  });
  return true;
}

/// The same for floats of 16 bits: some lines at a time become floats.
Result<bool> multiply_small_lines(KernelContext& context, const GemmOf<float>& gemm, const LineSums& sums) {
  const auto& [vector, matrix, outputs] = sums;
  const size_t depth = gemm.depth;
  if (!is_small_float(matrix.dtype) || matrix.along != 1 || matrix.across != static_cast<int64_t>(depth)) {
    return false;
  }
  constexpr size_t kElements = 65536;  // of the lines that are floats at a time: they stay in the second cache
  const size_t lines = std::min(outputs, std::max<size_t>(1, kElements / depth));
  ET_TRY(void* const memory, context.allocate_temp((1 + lines) * depth * sizeof(float)));
  auto* const x = static_cast<float*>(memory);
  float* const some = x + depth;
  floats_from(vector.dtype, vector.data, vector.along, depth, x);
  for (size_t first = 0; first < outputs; first += lines) {
    const size_t n = std::min(lines, outputs - first);
    const auto* const from = static_cast<const uint16_t*>(matrix.data) + first * depth;
    const ScalarType dtype = matrix.dtype;
    threads::parallel_for(context, n * depth, threads::grain_for(1), [&](size_t begin, size_t end) {
      floats_from(dtype, from + begin, 1, end - begin, some + begin);
    });
    RowProduct product;
    product.x = x;
    product.matrix = some;
    product.out = gemm.out + first;
    product.depth = depth;
    product.outputs = n;
    multiply_row(context, product);
  }
  return true;
}

/// The product that `gemm` describes, of these operands.
template <typename T>
Error multiply_matrices(KernelContext& context, const GemmOf<T>& gemm, const StridedMatrix& left,
                        const StridedMatrix& right) {
  if constexpr (std::is_floating_point_v<T>) {
    if (const auto sums = line_sums(gemm, left, right)) {
      if constexpr (std::is_same_v<T, float>) {
        ET_TRY(const bool done, multiply_small_lines(context, gemm, *sums));
        if (done) {
          return Error::Ok;
        }
      }
      if (multiply_lines(context, gemm, *sums)) {
        return Error::Ok;
      }
    }
  }
  return multiply(context, gemm);
}

template <typename T>
Error run_product(KernelContext& context, const char* op, const Product& product, IntArrayRef out_sizes,
                  const Tensor& out) {
  const auto rank = static_cast<int64_t>(out_sizes.size());
  Sizes added_strides;
  if (product.added) {
    const Tensor& added = *product.added;
    Sizes both;
    ET_RETURN_IF_ERROR(portable::broadcast_sizes(op, added.sizes(), out_sizes, &both));
    ET_CHECK_OR_RETURN(equal(IntArrayRef(both), out_sizes), InvalidArgument, "%s: shape %s does not broadcast to %s",
                       op, ShapeText(added.sizes()).text, ShapeText(out_sizes).text);
    added_strides.resize(static_cast<size_t>(rank), 0);
    for (int64_t d = 0; d < added.dim(); ++d) {
      added_strides[rank - added.dim() + d] = added.size(d) == 1 ? 0 : added.stride(d);
    }
  }
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const auto rows = static_cast<size_t>(out_sizes[static_cast<size_t>(rank) - 2]);
  const auto columns = static_cast<size_t>(out_sizes[static_cast<size_t>(rank) - 1]);
  const int64_t batches = rank == 3 ? out_sizes[0] : 1;
  const ScalarType dtype = out.scalar_type();
  const T alpha = portable::scalar_to<T>(product.alpha);
  const T beta = portable::scalar_to<T>(product.beta);
  const bool adds = product.added && beta != T(0);  // a factor of 0 keeps NaN out, as in ATen
  const bool direct = dtype == dtype_of<T> && !adds && alpha == T(1);
  T* sums = nullptr;
  if (!direct) {
    ET_TRY(void* const memory, context.allocate_temp(rows * columns * sizeof(T)));
    sums = static_cast<T*>(memory);
  }
  for (int64_t n = 0; n < batches; ++n) {
    char* const to =
        static_cast<char*>(out.mutable_data_ptr()) + static_cast<size_t>(n) * rows * columns * element_size(dtype);
    const StridedMatrix left = matrix_of(*product.left, n, false);
    const StridedMatrix right = matrix_of(*product.right, n, true);
    const GemmOf<T> gemm{rows,
                         columns,
                         static_cast<size_t>(product.left->size(-1)),
                         strips_for<T>(left),
                         strips_for<T>(right),
                         direct ? reinterpret_cast<T*>(to) : sums,
                         columns,
                         false};
    ET_RETURN_IF_ERROR(multiply_matrices(context, gemm, left, right));
    if (!direct) {
      const char* added = nullptr;
      int64_t added_row = 0;
      int64_t added_column = 0;
      if (adds) {
        const int64_t offset = rank == 3 ? n * added_strides[0] : 0;
        added = static_cast<const char*>(product.added->const_data_ptr()) +
                offset * static_cast<int64_t>(element_size(dtype));
        added_row = added_strides[rank - 2];
        added_column = added_strides[rank - 1];
      }
      finish<T>(context, alpha, sums, rows, columns, beta, added, added_row, added_column, dtype, to);
    }
  }
  return Error::Ok;
}

Error matrix_product(KernelContext& context, const char* op, const OptionalTensor& added, const Tensor& left,
                     const Tensor& right, const Scalar& beta, const Scalar& alpha, const Tensor& out) {
  const int64_t rank = left.dim();
  ET_CHECK_OR_RETURN(left.size(-1) == right.size(-2) && (rank == 2 || left.size(0) == right.size(0)), InvalidArgument,
                     "%s: shapes %s and %s do not multiply", op, ShapeText(left.sizes()).text,
                     ShapeText(right.sizes()).text);
  Sizes sizes(left.sizes());
  sizes[rank - 1] = right.size(-1);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  return dispatch_sums(out.scalar_type(), [&](auto zero) {
    return run_product<decltype(zero)>(context, op, {&left, &right, added, beta, alpha}, sizes, out);
  });
}

Error mm_out(KernelContext& context, const Tensor& self, const Tensor& mat2, Tensor& out) {
  return matrix_product(context, "aten::mm", std::nullopt, self, mat2, Scalar(1.0), Scalar(1.0), out);
}

Error bmm_out(KernelContext& context, const Tensor& self, const Tensor& mat2, Tensor& out) {
  return matrix_product(context, "aten::bmm", std::nullopt, self, mat2, Scalar(1.0), Scalar(1.0), out);
}

Error addmm_out(KernelContext& context, const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                const Scalar& alpha, Tensor& out) {
  return matrix_product(context, "aten::addmm", self, mat1, mat2, beta, alpha, out);
}

Error baddbmm_out(KernelContext& context, const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                  const Scalar& beta, const Scalar& alpha, Tensor& out) {
  return matrix_product(context, "aten::baddbmm", self, batch1, batch2, beta, alpha, out);
}

Error linear_out(KernelContext& context, const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                 Tensor& out) {
  constexpr const char* kOp = "aten::linear";
  ET_CHECK_OR_RETURN(input.size(-1) == weight.size(1), InvalidArgument, "%s: shapes %s and %s do not multiply", kOp,
                     ShapeText(input.sizes()).text, ShapeText(weight.sizes()).text);
  ET_CHECK_OR_RETURN(!bias || bias->numel() == weight.size(0), InvalidArgument, "%s: bias %s does not fit weight %s",
                     kOp, ShapeText(bias->sizes()).text, ShapeText(weight.sizes()).text);
  Sizes sizes(input.sizes());
  sizes[input.dim() - 1] = weight.size(0);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const auto columns = static_cast<size_t>(weight.size(0));
  const size_t rows = static_cast<size_t>(out.numel()) / columns;
  const auto depth = static_cast<size_t>(weight.size(1));
  const ScalarType dtype = out.scalar_type();
  return dispatch_sums(dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool direct = dtype == dtype_of<T> && !bias;
    auto* sums = static_cast<T*>(out.mutable_data_ptr());
    if (!direct) {
      ET_TRY(void* const memory, context.allocate_temp(rows * columns * sizeof(T)));
      sums = static_cast<T*>(memory);
    }
    const StridedMatrix left{input.const_data_ptr(), dtype, static_cast<int64_t>(depth), 1};
    const StridedMatrix right{weight.const_data_ptr(), dtype, weight.stride(0), weight.stride(1)};
    const GemmOf<T> gemm{rows, columns, depth, strips_for<T>(left), strips_for<T>(right), sums, columns, false};
    ET_RETURN_IF_ERROR(multiply_matrices(context, gemm, left, right));
    if (!direct) {
      const auto* const added = bias ? static_cast<const char*>(bias->const_data_ptr()) : nullptr;
      finish<T>(context, T(1), sums, rows, columns, T(1), added, 0, 1, dtype,
                static_cast<char*>(out.mutable_data_ptr()));
    }
    return Error::Ok;
  });
}

/// Tensors of one of the dtypes, a row-major output.
bool fits_tensors(Arguments args, std::initializer_list<size_t> tensors) {
  const EValue& out = *args[args.size() - 1];
  const ScalarType dtype = out.to_tensor().scalar_type();
  for (const size_t i : tensors) {
    if (!args[i]->is_none() && args[i]->to_tensor().scalar_type() != dtype) {
      return false;
    }
  }
  return is_number(dtype) && is_row_major(out);
}

int64_t rank_of(const EValue& value) { return value.to_tensor().dim(); }

template <int64_t kRank>
bool fits_product(Arguments args) {  // (self, mat2, out)
  return fits_tensors(args, {0, 1}) && rank_of(*args[0]) == kRank && rank_of(*args[1]) == kRank;
}
template <int64_t kRank>
bool fits_added_product(Arguments args) {  // (self, mat1, mat2, beta, alpha, out)
  return fits_tensors(args, {0, 1, 2}) && rank_of(*args[1]) == kRank && rank_of(*args[2]) == kRank;
}
bool fits_linear(Arguments args) {  // (input, weight, bias, out)
  return fits_tensors(args, {0, 1, 2}) && is_row_major(*args[0]) && rank_of(*args[0]) > 0 && rank_of(*args[1]) == 2 &&
         (args[2]->is_none() || rank_of(*args[2]) == 1);
}

/// Of (self, mat2, out).
ops::Work work_of(Arguments args) {
  const Tensor left = args[0]->to_tensor(), right = args[1]->to_tensor();
  return ops::work_of_matmul({left.dim() == 3 ? static_cast<double>(left.size(0)) : 1,
                              static_cast<double>(left.size(-2)), static_cast<double>(right.size(-1)),
                              static_cast<double>(left.size(-1))});
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&addmm_out, &fits_added_product<2>>("aten::addmm.out"),
    make_fitting_kernel<&baddbmm_out, &fits_added_product<3>>("aten::baddbmm.out"),
    make_offering_kernel<&bmm_out, &fits_product<3>, &work_of>("aten::bmm.out"),
    make_fitting_kernel<&linear_out, &fits_linear>("aten::linear.out"),
    make_offering_kernel<&mm_out, &fits_product<2>, &work_of>("aten::mm.out"),
};

}  // namespace

ET_KERNEL_TABLE(matmul, kKernels)

}  // namespace et::kernels::optimized::matmul
