// Matrix products. Accumulated in float for the 16-bit types, in int64 (which wraps) for integers.
#include "kernels/portable/op_matmul.h"

#include <complex>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/dot.h"
#include "kernels/portable/fused_clamp.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

// Calls f(TypeTag<T>{}) for the real types, and for the complex ones with the standard library's, which lie alike in
// memory.
template <typename F>
Error dispatch_numbers(ScalarType dtype, const char* op, F&& f) {
  if (dtype == ScalarType::ComplexFloat) {
    return f(TypeTag<std::complex<float>>{});
  }
  if (dtype == ScalarType::ComplexDouble) {
    return f(TypeTag<std::complex<double>>{});
  }
  return dispatch<RealTypes>(dtype, op, f);
}

// A matrix in memory: element (i, j) is at data[i * row + j * column].
template <typename T>
struct Matrix {
  const T* data;
  int64_t row;
  int64_t column;
};

template <typename T>
Matrix<T> matrix_of(const Tensor& tensor, int64_t batch = 0) {
  const int64_t d = tensor.dim() - 2;
  const T* data = static_cast<const T*>(tensor.const_data_ptr());
  return {data + (d > 0 ? batch * tensor.stride(0) : 0), tensor.stride(d), tensor.stride(d + 1)};
}

// Writes out[i, j] = finish(sum over k of a[i, k] * b[k, j], i, j) for rows x columns outputs.
template <typename T, typename Finish>
Error multiply(KernelContext& context, const Matrix<T>& a, const Matrix<T>& b, int64_t rows, int64_t inner,
               int64_t columns, const Finish& finish) {
  using A = Accumulator<T>;
  constexpr int64_t kBlock = 64;
  for (int64_t i = 0; i < rows; ++i) {
    ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "matrix product: cancelled");
    const T* left = a.data + i * a.row;
    if (b.row == 1 && b.column != 1) {  // b is a transposed row-major matrix: dot products of rows
      for (int64_t j = 0; j < columns; ++j) {
        finish(dot<A>(left, a.column, b.data + j * b.column, int64_t{1}, inner), i, j);
      }
      continue;
    }
    for (int64_t first = 0; first < columns; first += kBlock) {  // a block of the output row stays in registers
      const int64_t count = columns - first < kBlock ? columns - first : kBlock;
      A sums[kBlock] = {};
      for (int64_t k = 0; k < inner; ++k) {
        const A x = static_cast<A>(left[k * a.column]);
        const T* right = b.data + k * b.row + first * b.column;
        if (b.column == 1) {
          for (int64_t j = 0; j < count; ++j) {
            sums[j] = wrapping_add(sums[j], wrapping_mul(x, static_cast<A>(right[j])));
          }
        } else {
          for (int64_t j = 0; j < count; ++j) {
            sums[j] = wrapping_add(sums[j], wrapping_mul(x, static_cast<A>(right[j * b.column])));
          }
        }
      }
      for (int64_t j = 0; j < count; ++j) {
        finish(sums[j], i, first + j);
      }
    }
  }
  return Error::Ok;
}

Error check_product(const char* op, const Tensor& a, const Tensor& b, const Tensor& out, int64_t rank) {
  ET_RETURN_IF_ERROR(check_rank(op, "the left operand", a, rank, rank));
  ET_RETURN_IF_ERROR(check_rank(op, "the right operand", b, rank, rank));
  ET_CHECK_OR_RETURN(a.size(-1) == b.size(-2) && (rank == 2 || a.size(0) == b.size(0)), InvalidArgument,
                     "%s: shapes %s and %s do not multiply", op, ShapeText(a.sizes()).text, ShapeText(b.sizes()).text);
  ET_RETURN_IF_ERROR(check_same_dtype(op, "the right operand", b, a));
  return check_same_dtype(op, "out", out, a);
}

// out = beta * self + alpha * a @ b for matrices or batches of them; without `self`: a @ b.
Error product(KernelContext& context, const char* op, const Tensor* self, const Tensor& a, const Tensor& b,
              const Scalar& beta, const Scalar& alpha, int64_t rank, Tensor& out) {
  ET_RETURN_IF_ERROR(check_product(op, a, b, out, rank));
  Sizes sizes(a.sizes());
  sizes[rank - 1] = b.size(-1);
  Sizes self_strides;  // of self, broadcast to the output
  if (self != nullptr) {
    ET_RETURN_IF_ERROR(check_same_dtype(op, "self", *self, a));
    Sizes both;
    ET_RETURN_IF_ERROR(broadcast_sizes(op, self->sizes(), sizes, &both));
    ET_CHECK_OR_RETURN(equal(IntArrayRef(both), IntArrayRef(sizes)), InvalidArgument,
                       "%s: shape %s does not broadcast to %s", op, ShapeText(self->sizes()).text,
                       ShapeText(sizes).text);
    self_strides.resize(static_cast<size_t>(rank), 0);
    for (int64_t d = 0; d < self->dim(); ++d) {
      self_strides[rank - self->dim() + d] = self->size(d) == 1 ? 0 : self->stride(d);
    }
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  const int64_t batches = rank == 3 ? sizes[0] : 1;
  return dispatch_numbers(a.scalar_type(), op, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    if (out.numel() == 0) {
      return Error::Ok;  // rows of nothing may be more than there is time for
    }
    const A factor = scalar_to<A>(alpha);
    const A self_factor = scalar_to<A>(beta);
    for (int64_t n = 0; n < batches; ++n) {
      T* out_data = static_cast<T*>(out.mutable_data_ptr()) + (rank == 3 ? n * out.stride(0) : 0);
      const int64_t row = out.stride(-2);
      const int64_t column = out.stride(-1);
      const Matrix<T> left = matrix_of<T>(a, n);
      const Matrix<T> right = matrix_of<T>(b, n);
      Error error;
      if (self == nullptr) {
        error = multiply(context, left, right, sizes[rank - 2], a.size(-1), sizes[rank - 1],
                         [&](A sum, int64_t i, int64_t j) { out_data[i * row + j * column] = convert<T>(sum); });
      } else {
        const T* add = static_cast<const T*>(self->const_data_ptr()) + (rank == 3 ? n * self_strides[0] : 0);
        const int64_t add_row = self_strides[rank - 2];
        const int64_t add_column = self_strides[rank - 1];
        error = multiply(context, left, right, sizes[rank - 2], a.size(-1), sizes[rank - 1],
                         [&](A sum, int64_t i, int64_t j) {
                           A value = wrapping_mul(factor, sum);
                           if (self_factor != A(0)) {  // beta 0 ignores self, NaN included
                             const A addend = static_cast<A>(add[i * add_row + j * add_column]);
                             value = wrapping_add(value, wrapping_mul(self_factor, addend));
                           }
                           out_data[i * row + j * column] = convert<T>(value);
                         });
      }
      ET_RETURN_IF_ERROR(error);
    }
    return Error::Ok;
  });
}

Scalar one() { return Scalar(int64_t{1}); }

}  // namespace

Error mm_out(KernelContext& context, const Tensor& self, const Tensor& mat2, Tensor& out) {
  return product(context, "aten::mm", nullptr, self, mat2, one(), one(), 2, out);
}

Error bmm_out(KernelContext& context, const Tensor& self, const Tensor& mat2, Tensor& out) {
  return product(context, "aten::bmm", nullptr, self, mat2, one(), one(), 3, out);
}

Error addmm_out(KernelContext& context, const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                const Scalar& alpha, Tensor& out) {
  return product(context, "aten::addmm", &self, mat1, mat2, beta, alpha, 2, out);
}

Error baddbmm_out(KernelContext& context, const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                  const Scalar& beta, const Scalar& alpha, Tensor& out) {
  return product(context, "aten::baddbmm", &self, batch1, batch2, beta, alpha, 3, out);
}

Error linear_out(KernelContext& context, const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                 Tensor& out) {
  constexpr const char* kOp = "aten::linear";
  ET_RETURN_IF_ERROR(check_rank(kOp, "input", input, 1, kMaxRank));
  ET_RETURN_IF_ERROR(check_rank(kOp, "weight", weight, 1, 2));
  ET_CHECK_OR_RETURN(input.size(-1) == weight.size(-1), InvalidArgument, "%s: input %s does not fit weight %s", kOp,
                     ShapeText(input.sizes()).text, ShapeText(weight.sizes()).text);
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "weight", weight, input));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, input));
  const bool has_rows = weight.dim() == 2;
  const int64_t columns = has_rows ? weight.size(0) : 1;
  if (bias.has_value()) {
    ET_RETURN_IF_ERROR(check_same_dtype(kOp, "bias", *bias, input));
    ET_CHECK_OR_RETURN(bias->numel() == columns, InvalidArgument, "%s: bias %s does not fit weight %s", kOp,
                       ShapeText(bias->sizes()).text, ShapeText(weight.sizes()).text);
  }
  Sizes sizes(input.sizes());
  sizes[input.dim() - 1] = columns;
  if (!has_rows) {
    sizes.resize(sizes.size() - 1);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&input, &out}));
  const int64_t inner = weight.size(-1);
  const int64_t rows = product(input.sizes(), 0, static_cast<size_t>(input.dim()) - 1);
  return dispatch_numbers(input.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    if (out.numel() == 0) {
      return Error::Ok;  // as above
    }
    const Matrix<T> left{static_cast<const T*>(input.const_data_ptr()), inner, 1};
    const Matrix<T> right{static_cast<const T*>(weight.const_data_ptr()), weight.stride(-1),
                          has_rows ? weight.stride(0) : 0};
    const T* shift = bias.has_value() ? static_cast<const T*>(bias->const_data_ptr()) : nullptr;
    T* out_data = static_cast<T*>(out.mutable_data_ptr());
    return multiply(context, left, right, rows, inner, columns, [&](A sum, int64_t i, int64_t j) {
      const A value = shift != nullptr ? wrapping_add(sum, static_cast<A>(shift[j])) : sum;
      out_data[i * columns + j] = convert<T>(value);
    });
  });
}

Error mv_out(KernelContext& context, const Tensor& self, const Tensor& vec, Tensor& out) {
  constexpr const char* kOp = "aten::mv";
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 2, 2));
  ET_RETURN_IF_ERROR(check_rank(kOp, "vec", vec, 1, 1));
  ET_CHECK_OR_RETURN(self.size(1) == vec.size(0), InvalidArgument, "%s: shapes %s and %s do not multiply", kOp,
                     ShapeText(self.sizes()).text, ShapeText(vec.sizes()).text);
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "vec", vec, self));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {self.size(0)}));
  return dispatch_numbers(self.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* matrix = static_cast<const T*>(self.const_data_ptr());
    const T* vector = static_cast<const T*>(vec.const_data_ptr());
    T* out_data = static_cast<T*>(out.mutable_data_ptr());
    for (int64_t i = 0; i < self.size(0); ++i) {
      out_data[i] =
          convert<T>(dot<Accumulator<T>>(matrix + i * self.stride(0), self.stride(1), vector, int64_t{1}, vec.size(0)));
    }
    return Error::Ok;
  });
}

Error dot_out(KernelContext& context, const Tensor& self, const Tensor& tensor, Tensor& out) {
  constexpr const char* kOp = "aten::dot";
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 1, 1));
  ET_RETURN_IF_ERROR(check_rank(kOp, "tensor", tensor, 1, 1));
  ET_CHECK_OR_RETURN(self.size(0) == tensor.size(0), InvalidArgument, "%s: %" PRId64 " and %" PRId64 " elements", kOp,
                     self.size(0), tensor.size(0));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "tensor", tensor, self));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {}));
  return dispatch_numbers(self.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    *static_cast<T*>(out.mutable_data_ptr()) =
        convert<T>(dot<Accumulator<T>>(static_cast<const T*>(self.const_data_ptr()), int64_t{1},
                                       static_cast<const T*>(tensor.const_data_ptr()), int64_t{1}, self.size(0)));
    return Error::Ok;
  });
}

Error linear_clamp_out(KernelContext& context, const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                       const std::optional<Scalar>& min, const std::optional<Scalar>& max, Tensor& out) {
  ET_RETURN_IF_ERROR(linear_out(context, input, weight, bias, out));
  return clamp_in_place("et::linear_clamp", min, max, out);
}

Error addmm_clamp_out(KernelContext& context, const Tensor& self, const Tensor& mat1, const Tensor& mat2,
                      const Scalar& beta, const Scalar& alpha, const std::optional<Scalar>& min,
                      const std::optional<Scalar>& max, Tensor& out) {
  ET_RETURN_IF_ERROR(addmm_out(context, self, mat1, mat2, beta, alpha, out));
  return clamp_in_place("et::addmm_clamp", min, max, out);
}

}  // namespace et::kernels::portable
