#include "kernels/optimized/linalg/matrix_lines.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include "kernels/optimized/vec/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::linalg::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

template <class T>
HWY_INLINE void add_some_lines(T* y, const T* x, int64_t stride, const T* factors, int64_t count, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + 4 * lanes <= n; j += 4 * lanes) {  // sums stay in registers while the rows pass
    auto s0 = hn::LoadU(d, y + j), s1 = hn::LoadU(d, y + j + lanes);
    auto s2 = hn::LoadU(d, y + j + 2 * lanes), s3 = hn::LoadU(d, y + j + 3 * lanes);
    const T* row = x + j;
    for (int64_t k = 0; k < count; ++k, row += stride) {
      const auto f = hn::Set(d, factors[k]);
      s0 = hn::MulAdd(f, hn::LoadU(d, row), s0);
      s1 = hn::MulAdd(f, hn::LoadU(d, row + lanes), s1);
      s2 = hn::MulAdd(f, hn::LoadU(d, row + 2 * lanes), s2);
      s3 = hn::MulAdd(f, hn::LoadU(d, row + 3 * lanes), s3);
    }
    hn::StoreU(s0, d, y + j);
    hn::StoreU(s1, d, y + j + lanes);
    hn::StoreU(s2, d, y + j + 2 * lanes);
    hn::StoreU(s3, d, y + j + 3 * lanes);
  }
  over_vectors<T>(static_cast<size_t>(n - j), [&](auto whole, size_t i, size_t left) HWY_ATTR {
    auto sum = load(d, whole, y + j + i, left);
    const T* row = x + j + i;
    for (int64_t k = 0; k < count; ++k, row += stride) {
      sum = hn::MulAdd(hn::Set(d, factors[k]), load(d, whole, row, left), sum);
    }
    store(d, whole, sum, y + j + i, left);
  });
}

/// Many rows are read one after the other, some at a time, as memory likes it.
template <class T>
void AddLines(T* y, const T* x, int64_t stride, const T* factors, int64_t count, int64_t n) {
  constexpr int64_t kRows = 64;
  constexpr int64_t kAtOnce = 8;
  if (count <= kRows) {
    add_some_lines(y, x, stride, factors, count, n);
    return;
  }
  for (int64_t k = 0; k < count; k += kAtOnce) {
    add_some_lines(y, x + k * stride, stride, factors + k, HWY_MIN(kAtOnce, count - k), n);
  }
}

/// The products of R rows with v.
template <size_t R, class T>
HWY_INLINE void dot_of_rows(const T* x, int64_t stride, const T* v, int64_t n, T* out) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> even[R], odd[R];
  for (size_t r = 0; r < R; ++r) {
    even[r] = odd[r] = hn::Zero(d);
  }
  int64_t j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes) {
    const auto v0 = hn::LoadU(d, v + j), v1 = hn::LoadU(d, v + j + lanes);
    for (size_t r = 0; r < R; ++r) {
      const T* const row = x + static_cast<int64_t>(r) * stride + j;
      even[r] = hn::MulAdd(v0, hn::LoadU(d, row), even[r]);
      odd[r] = hn::MulAdd(v1, hn::LoadU(d, row + lanes), odd[r]);
    }
  }
  over_vectors<T>(static_cast<size_t>(n - j), [&](auto whole, size_t i, size_t left) HWY_ATTR {
    const auto v0 = load(d, whole, v + j + i, left);
    for (size_t r = 0; r < R; ++r) {
      even[r] = hn::MulAdd(v0, load(d, whole, x + static_cast<int64_t>(r) * stride + j + i, left), even[r]);
    }
  });
  for (size_t r = 0; r < R; ++r) {
    out[r] = hn::ReduceSum(d, hn::Add(even[r], odd[r]));
  }
}

template <class T>
void DotLines(const T* x, int64_t stride, int64_t count, const T* v, int64_t n, T* out) {
  int64_t k = 0;
  for (; k + 4 <= count; k += 4) {
    dot_of_rows<4>(x + k * stride, stride, v, n, out + k);
  }
  for (; k < count; ++k) {
    dot_of_rows<1>(x + k * stride, stride, v, n, out + k);
  }
}

/// Four rows at a time: their part left of the diagonal gives four elements of y, and adds to those of its columns.
template <class T>
void SymmetricProduct(const T* a, int64_t stride, int64_t n, const T* x, T* y) {
  constexpr int64_t kRows = 4;
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; ++i) {
    y[i] = T(0);
  }
  int64_t i = 0;
  for (; i + kRows <= n; i += kRows) {
    const T *r0 = a + i * stride, *r1 = r0 + stride, *r2 = r1 + stride, *r3 = r2 + stride;
    const auto x0 = hn::Set(d, x[i]), x1 = hn::Set(d, x[i + 1]), x2 = hn::Set(d, x[i + 2]), x3 = hn::Set(d, x[i + 3]);
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    int64_t j = 0;
    for (; j + lanes <= i; j += lanes) {
      const auto v = hn::LoadU(d, x + j);
      const auto a0 = hn::LoadU(d, r0 + j), a1 = hn::LoadU(d, r1 + j);
      const auto a2 = hn::LoadU(d, r2 + j), a3 = hn::LoadU(d, r3 + j);
      s0 = hn::MulAdd(a0, v, s0);
      s1 = hn::MulAdd(a1, v, s1);
      s2 = hn::MulAdd(a2, v, s2);
      s3 = hn::MulAdd(a3, v, s3);
      const auto low = hn::MulAdd(a1, x1, hn::MulAdd(a0, x0, hn::LoadU(d, y + j)));
      hn::StoreU(hn::Add(low, hn::MulAdd(a3, x3, hn::Mul(a2, x2))), d, y + j);
    }
    T sums[kRows] = {hn::ReduceSum(d, s0), hn::ReduceSum(d, s1), hn::ReduceSum(d, s2), hn::ReduceSum(d, s3)};
    for (; j < i; ++j) {
      sums[0] += r0[j] * x[j];
      sums[1] += r1[j] * x[j];
      sums[2] += r2[j] * x[j];
      sums[3] += r3[j] * x[j];
      y[j] += r0[j] * x[i] + r1[j] * x[i + 1] + (r2[j] * x[i + 2] + r3[j] * x[i + 3]);
    }
    for (int64_t p = 0; p < kRows; ++p) {  // the triangle on the diagonal
      const T* const row = r0 + p * stride + i;
      for (int64_t q = 0; q < p; ++q) {
        sums[p] += row[q] * x[i + q];
        sums[q] += row[q] * x[i + p];
      }
      sums[p] += row[p] * x[i + p];
    }
    for (int64_t p = 0; p < kRows; ++p) {
      y[i + p] += sums[p];
    }
  }
  for (; i < n; ++i) {
    T sum = T(0);
    const T* const row = a + i * stride;
    for (int64_t j = 0; j < i; ++j) {
      sum += row[j] * x[j];
      y[j] += row[j] * x[i];
    }
    y[i] += sum + row[i] * x[i];
  }
}

/// Columns by the vector, so that the row that two rotations share stays in a register from one to the next.
template <class T>
void RotateLines(T* x, int64_t stride, int64_t n, const T* c, const T* s, int64_t count, bool downward) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (count <= 0) {
    return;
  }
  const auto pass = [&](auto vectors, int64_t j) HWY_ATTR {
    constexpr int64_t kVectors = decltype(vectors)::value;
    hn::Vec<decltype(d)> kept[kVectors];
    T* row = x + j + (downward ? 0 : count * stride);
    for (int64_t v = 0; v < kVectors; ++v) {
      kept[v] = hn::LoadU(d, row + v * lanes);
    }
    if (downward) {
      for (int64_t k = 0; k < count; ++k, row += stride) {
        const auto vc = hn::Set(d, c[k]), vs = hn::Set(d, s[k]);
        for (int64_t v = 0; v < kVectors; ++v) {
          const auto next = hn::LoadU(d, row + stride + v * lanes);
          hn::StoreU(hn::MulAdd(vs, next, hn::Mul(vc, kept[v])), d, row + v * lanes);
          kept[v] = hn::NegMulAdd(vs, kept[v], hn::Mul(vc, next));
        }
      }
    } else {
      for (int64_t k = count - 1; k >= 0; --k, row -= stride) {
        const auto vc = hn::Set(d, c[k]), vs = hn::Set(d, s[k]);
        for (int64_t v = 0; v < kVectors; ++v) {
          const auto above = hn::LoadU(d, row - stride + v * lanes);
          hn::StoreU(hn::NegMulAdd(vs, above, hn::Mul(vc, kept[v])), d, row + v * lanes);
          kept[v] = hn::MulAdd(vs, kept[v], hn::Mul(vc, above));
        }
      }
    }
    for (int64_t v = 0; v < kVectors; ++v) {
      hn::StoreU(kept[v], d, row + v * lanes);
    }
  };
  int64_t j = 0;
  for (; j + 4 * lanes <= n; j += 4 * lanes) {
    pass(std::integral_constant<int64_t, 4>(), j);
  }
  for (; j + lanes <= n; j += lanes) {
    pass(std::integral_constant<int64_t, 1>(), j);
  }
  for (; j < n; ++j) {
    for (int64_t step = 0; step < count; ++step) {
      const int64_t k = downward ? step : count - 1 - step;
      T *upper = x + k * stride + j, *lower = upper + stride;
      const T first = c[k] * *upper + s[k] * *lower;
      *lower = c[k] * *lower - s[k] * *upper;
      *upper = first;
    }
  }
}

}  // namespace et::kernels::optimized::linalg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::linalg {

template <typename T>
const MatrixLines<T>& matrix_lines() {
  HWY_EXPORT_T(Add, AddLines<T>);
  HWY_EXPORT_T(Dot, DotLines<T>);
  HWY_EXPORT_T(Symmetric, SymmetricProduct<T>);
  HWY_EXPORT_T(Rotate, RotateLines<T>);
  static const MatrixLines<T> lines = {HWY_DYNAMIC_POINTER_T(Add), HWY_DYNAMIC_POINTER_T(Dot),
                                       HWY_DYNAMIC_POINTER_T(Symmetric), HWY_DYNAMIC_POINTER_T(Rotate)};
  return lines;
}
template const MatrixLines<float>& matrix_lines();
template const MatrixLines<double>& matrix_lines();

}  // namespace et::kernels::optimized::linalg
#endif  // HWY_ONCE
