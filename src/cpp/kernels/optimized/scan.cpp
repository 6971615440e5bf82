// aten::cumsum of floats, doubles and integers of 64 bits: running sums along rows, or of rows along columns.
//
// The tensor is seen as [outer, length, inner] with the dimension of the sums in the middle. Floats add up in double, as in
// the portable kernel. Along rows (inner == 1) each sum waits for the one before: sums of floats, which double holds with
// room to spare, are taken in blocks first; doubles, whose rounding would change with the order, take several rows at a time.

#include "kernels/optimized/targets.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/scan.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/fitting.h"
#include "kernels/optimized/tables.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {

/// y[r] = x[0] + … + x[r] for `columns` columns of `length` rows that are `stride` apart; `totals` is room for a row.
template <typename T, typename Total>
HWY_INLINE void sum_columns(const T* x, T* y, size_t length, size_t columns, size_t stride,
                            Total* HWY_RESTRICT totals) {
  std::fill(totals, totals + columns, Total(0));
  for (size_t r = 0; r < length; ++r, x += stride, y += stride) {
    for (size_t c = 0; c < columns; ++c) {
      totals[c] += static_cast<Total>(x[c]);
      y[c] = static_cast<T>(totals[c]);
    }
  }
}

void FloatColumns(const float* x, float* y, size_t length, size_t columns, size_t stride, double* totals) {
  sum_columns(x, y, length, columns, stride, totals);
}
void DoubleColumns(const double* x, double* y, size_t length, size_t columns, size_t stride, double* totals) {
  sum_columns(x, y, length, columns, stride, totals);
}
// Unsigned, so that sums wrap.
void LongColumns(const uint64_t* x, uint64_t* y, size_t length, size_t columns, size_t stride, uint64_t* totals) {
  sum_columns(x, y, length, columns, stride, totals);
}

/// A row in blocks whose own sums do not wait for the total.
template <typename T, typename Total>
HWY_INLINE void sum_row(const T* x, T* y, size_t n) {
  constexpr size_t kBlock = 8;
  Total total = 0;
  size_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    Total sums[kBlock];
    sums[0] = static_cast<Total>(x[i]);
    for (size_t k = 1; k < kBlock; ++k) {
      sums[k] = sums[k - 1] + static_cast<Total>(x[i + k]);
    }
    for (size_t k = 0; k < kBlock; ++k) {
      y[i + k] = static_cast<T>(total + sums[k]);
    }
    total += sums[kBlock - 1];
  }
  for (; i < n; ++i) {
    total += static_cast<Total>(x[i]);
    y[i] = static_cast<T>(total);
  }
}

void FloatRow(const float* x, float* y, size_t n) { sum_row<float, double>(x, y, n); }
void LongRow(const uint64_t* x, uint64_t* y, size_t n) { sum_row<uint64_t, uint64_t>(x, y, n); }

/// `rows` rows, in the order of their elements.
void DoubleRows(const double* x, double* y, size_t rows, size_t n) {
  constexpr size_t kRows = 4;
  size_t r = 0;
  for (; r + kRows <= rows; r += kRows, x += kRows * n, y += kRows * n) {
    double totals[kRows] = {};
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < kRows; ++k) {
        totals[k] += x[k * n + i];
        y[k * n + i] = totals[k];
      }
    }
  }
  for (; r < rows; ++r, x += n, y += n) {
    double total = 0;
    for (size_t i = 0; i < n; ++i) {
      total += x[i];
      y[i] = total;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(FloatColumns);
HWY_EXPORT(DoubleColumns);
HWY_EXPORT(LongColumns);
HWY_EXPORT(FloatRow);
HWY_EXPORT(LongRow);
HWY_EXPORT(DoubleRows);

namespace {

constexpr size_t kPiece = 256;  // columns whose totals stay near

void columns_of(const float* x, float* y, size_t length, size_t columns, size_t stride) {
  alignas(64) double totals[kPiece];
  HWY_DYNAMIC_DISPATCH(FloatColumns)(x, y, length, columns, stride, totals);
}
void columns_of(const double* x, double* y, size_t length, size_t columns, size_t stride) {
  alignas(64) double totals[kPiece];
  HWY_DYNAMIC_DISPATCH(DoubleColumns)(x, y, length, columns, stride, totals);
}
void columns_of(const uint64_t* x, uint64_t* y, size_t length, size_t columns, size_t stride) {
  alignas(64) uint64_t totals[kPiece];
  HWY_DYNAMIC_DISPATCH(LongColumns)(x, y, length, columns, stride, totals);
}

void rows_of(const float* x, float* y, size_t rows, size_t n) {
  for (size_t r = 0; r < rows; ++r) {
    HWY_DYNAMIC_DISPATCH(FloatRow)(x + r * n, y + r * n, n);
  }
}
void rows_of(const uint64_t* x, uint64_t* y, size_t rows, size_t n) {
  for (size_t r = 0; r < rows; ++r) {
    HWY_DYNAMIC_DISPATCH(LongRow)(x + r * n, y + r * n, n);
  }
}
void rows_of(const double* x, double* y, size_t rows, size_t n) { HWY_DYNAMIC_DISPATCH(DoubleRows)(x, y, rows, n); }

template <typename T>
void scan(KernelContext& context, const Tensor& self, const Tensor& out, size_t outer, size_t length, size_t inner) {
  const auto* const x = static_cast<const T*>(self.const_data_ptr());
  auto* const y = static_cast<T*>(out.mutable_data_ptr());
  if (inner == 1) {
    threads::parallel_for(context.pool(), outer, threads::grain_for(4 * length), [&](size_t begin, size_t end) {
      rows_of(x + begin * length, y + begin * length, end - begin, length);
    });
    return;
  }
  const size_t pieces = (inner + kPiece - 1) / kPiece;
  threads::parallel_for(context.pool(), outer * pieces, threads::grain_for(2 * length * std::min(inner, kPiece)),
                        [&](size_t begin, size_t end) {
                          for (size_t i = begin; i < end; ++i) {
                            const size_t at = i % pieces * kPiece;
                            const size_t first = i / pieces * length * inner + at;
                            columns_of(x + first, y + first, length, std::min(inner - at, kPiece), inner);
                          }
                        });
}

Error cumsum_out(KernelContext& context, const Tensor& self, int64_t dim, std::optional<ScalarType>, Tensor& out) {
  ET_RETURN_IF_ERROR(portable::normalize_dim("aten::cumsum", dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  if (self.numel() == 0) {
    return Error::Ok;
  }
  size_t outer = 1, length = 1, inner = 1;
  for (int64_t d = 0; d < self.dim(); ++d) {
    (d < dim ? outer : d > dim ? inner : length) *= static_cast<size_t>(self.size(d));
  }
  switch (self.scalar_type()) {
    case ScalarType::Float: scan<float>(context, self, out, outer, length, inner); break;
    case ScalarType::Double: scan<double>(context, self, out, outer, length, inner); break;
    default: scan<uint64_t>(context, self, out, outer, length, inner); break;
  }
  return Error::Ok;
}

/// cumsum(self, dim, dtype, out): one dtype throughout.
bool fits_cumsum(Arguments args) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  return (dtype == ScalarType::Float || dtype == ScalarType::Double || dtype == ScalarType::Long) &&
         args[3]->to_tensor().scalar_type() == dtype && is_row_major(*args[0]) && is_row_major(*args[3]);
}

constexpr Kernel kKernels[] = {make_fitting_kernel<&cumsum_out, &fits_cumsum>("aten::cumsum.out")};

}  // namespace

Span<const Kernel> scan_kernels() { return kKernels; }

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
