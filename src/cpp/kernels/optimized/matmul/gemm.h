/// Products of matrices that are packed on the fly: operands of any real type in any layout; sums in float, double,
/// int32 or int64, which wrap.
///
/// For: matrix products and convolutions whose operands are known at run time only, and types that no library takes. A
/// caller gives each operand as a function that packs a strip of it, so that a conversion, a transpose or the windows
/// of a convolution cost nothing beside the copy that packing is anyway. Not for: constant float weights; a library
/// that packs them once at load stands above (kernels of backends/).
///
///     StridedMatrix a{data, ScalarType::BFloat16, row_stride, 1};                      // element (i, k)
///     Gemm gemm{rows, columns, depth, strips_of(a), strips_of(b), out, columns, false};
///     ET_RETURN_IF_ERROR(multiply(context, gemm));                                     // out = a · b
///
/// Source: K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", 2008: packed strips that stay
/// in the caches around a kernel that keeps a tile of the product in registers.
#pragma once

#include "runtime/kernel_types.h"

namespace et::kernels::optimized::matmul {

/// One operand, cut into strips of rows (left) or columns (right). `pack` writes `depth` steps of a strip, beginning
/// with step `k`: out[s * width + i] = element of step k + s in row or column first + i, for i < count. The rest, up to
/// `width`, is 0.
template <typename T>
struct GemmStripsOf {
  using Pack = void (*)(const void* state, size_t k, size_t depth, size_t first, size_t count, size_t width, T* out);
  using PackPairs = void (*)(const void* state, size_t k, size_t depth, size_t first, size_t count, size_t width,
                             BFloat16* out);
  Pack pack;
  const void* state;
  /// Of elements that are BFloat16: packs pairs of steps, out[(s / 2 * width + i) * 2 + s % 2], 0 after an odd last
  /// step. With both operands of this kind sums in float take the processor's instructions for BFloat16, where it has
  /// them.
  PackPairs pack_pairs = nullptr;
  /// Of elements that are BFloat16 and lie side by side from step to step, beside pack_pairs: out[i * room + s], 0 up
  /// to `room` steps and `width` rows.
  using PackRows = void (*)(const void* state, size_t k, size_t depth, size_t first, size_t count, size_t width,
                            size_t room, BFloat16* out);
  PackRows pack_rows = nullptr;
};
using GemmStrips = GemmStripsOf<float>;

/// out[r * out_stride + c] (+)= sum over k of left(r, k) * right(k, c).
template <typename T>
struct GemmOf {
  size_t rows, columns, depth;
  GemmStripsOf<T> left, right;
  T* out;
  size_t out_stride;
  bool accumulate;              // add to what is in `out`
  const T* row_bias = nullptr;  // of operands of type T that do not: what the sums of each row begin with
};
using Gemm = GemmOf<float>;

/// Computes the product on the context's threads. The result does not depend on their number. T: float, double, int32_t
/// or int64_t. Errors: MemoryAllocationFailed for the packed strips; Cancelled.
template <typename T>
Error multiply(KernelContext& context, const GemmOf<T>& gemm);

/// A matrix in memory as an operand: along the strip elements are `across` apart, from step to step `along`.
struct StridedMatrix {
  const void* data;
  ScalarType dtype;  // as the sums' type says below
  int64_t across;
  int64_t along;
};
/// A matrix of Float, BFloat16 or Half for sums in float; of Double for double; of integers of up to 32 bits for
/// int32_t; of Long for int64_t. The matrix must live until multiply() is done.
template <typename T>
GemmStripsOf<T> strips_for(const StridedMatrix& matrix);
inline GemmStrips strips_of(const StridedMatrix& matrix) { return strips_for<float>(matrix); }

/// Calls f(T{}) with the type of the sums for elements of `dtype`.
template <typename F>
Error dispatch_sums(ScalarType dtype, F&& f) {
  switch (dtype) {
    case ScalarType::Double: return f(double{});
    case ScalarType::Long: return f(int64_t{});
    default: return is_integral(dtype, false) ? f(int32_t{}) : f(float{});
  }
}

/// True for the dtypes that are summed in float.
inline bool is_gemm_dtype(ScalarType dtype) { return dtype == ScalarType::Float || is_small_float(dtype); }

}  // namespace et::kernels::optimized::matmul
