// aten::cumsum and aten::cumprod of floats (of 16 bits, too), doubles and integers of 64 bits: running sums and
// products along rows, or of rows along columns.
//
// The tensor is seen as [outer, length, inner] with the dimension of the sums in the middle. Floats are taken in
// double, as in the portable kernel. Along rows (inner == 1) each sum waits for the one before. Sums of floats, which
// double holds with room to spare, are taken in blocks first. Doubles, whose rounding would change with the order, take
// several rows at a time.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <type_traits>

#include "base/rounding.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/float_runs.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_SCAN_ONCE
#define ET_KERNELS_OPTIMIZED_SCAN_ONCE
namespace et::kernels::optimized::reduce {
/// What sums of T are taken in. Integers are unsigned, so that sums wrap.
template <typename T>
using Total = std::conditional_t<std::is_same_v<T, float>, double, T>;
}  // namespace et::kernels::optimized::reduce
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::reduce::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

struct Add {
  static constexpr int kFirst = 0;
  template <typename T>
  static T combine(T a, T b) {
    return a + b;
  }
};
struct Multiply {
  static constexpr int kFirst = 1;
  template <typename T>
  static T combine(T a, T b) {
    return a * b;
  }
};

/// Elements between two looks at whether the caller asked to stop.
constexpr size_t kLook = 1 << 18;

/// y[r] = x[0] + … + x[r] (or *) for `columns` columns of `length` rows `stride` apart; `totals` holds
/// what came before, and is left for what comes next.
template <typename Op, typename T>
HWY_INLINE void scan_columns(const T* x, T* y, size_t length, size_t columns, size_t stride,
                             Total<T>* HWY_RESTRICT totals) {
  for (size_t r = 0; r < length; ++r, x += stride, y += stride) {
    for (size_t c = 0; c < columns; ++c) {
      totals[c] = Op::combine(totals[c], static_cast<Total<T>>(x[c]));
      y[c] = static_cast<T>(totals[c]);
    }
  }
}

template <typename T>
void Columns(bool product, const T* x, T* y, size_t length, size_t columns, size_t stride, Total<T>* totals) {
  product ? scan_columns<Multiply>(x, y, length, columns, stride, totals)
          : scan_columns<Add>(x, y, length, columns, stride, totals);
}

/// A row in blocks whose own sums do not wait for the total.
template <typename Op, typename T>
HWY_INLINE Total<T> scan_row(const T* x, T* y, size_t n, Total<T> total) {
  constexpr size_t kBlock = 8;
  size_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    Total<T> parts[kBlock];
    parts[0] = static_cast<Total<T>>(x[i]);
    for (size_t k = 1; k < kBlock; ++k) {
      parts[k] = Op::combine(parts[k - 1], static_cast<Total<T>>(x[i + k]));
    }
    for (size_t k = 0; k < kBlock; ++k) {
      y[i + k] = static_cast<T>(Op::combine(total, parts[k]));
    }
    total = Op::combine(total, parts[kBlock - 1]);
  }
  for (; i < n; ++i) {
    total = Op::combine(total, static_cast<Total<T>>(x[i]));
    y[i] = static_cast<T>(total);
  }
  return total;
}

/// `rows` rows, in the order of their elements.
template <typename Op, typename T>
HWY_INLINE void scan_rows(const KernelContext& context, const T* x, T* y, size_t rows, size_t n) {
  constexpr size_t kRows = 4;
  size_t r = 0;
  for (; r + kRows <= rows; r += kRows, x += kRows * n, y += kRows * n) {
    double totals[kRows] = {Op::kFirst, Op::kFirst, Op::kFirst, Op::kFirst};
    for (size_t i = 0; i < n && !context.cancelled();) {
      for (const size_t end = n - i < kLook / kRows ? n : i + kLook / kRows; i < end; ++i) {
        for (size_t k = 0; k < kRows; ++k) {
          totals[k] = Op::combine(totals[k], static_cast<double>(x[k * n + i]));
          y[k * n + i] = static_cast<T>(totals[k]);
        }
      }
    }
  }
  for (; r < rows; ++r, x += n, y += n) {
    double total = Op::kFirst;
    for (size_t i = 0; i < n && !context.cancelled();) {
      for (const size_t end = n - i < kLook ? n : i + kLook; i < end; ++i) {
        total = Op::combine(total, static_cast<double>(x[i]));
        y[i] = static_cast<T>(total);
      }
    }
  }
}

// The product of a few floats may leave double's range where the running product does not: only sums go in blocks.
template <typename T>
void Rows(const KernelContext& context, bool product, const T* x, T* y, size_t rows, size_t n) {
  if constexpr (std::is_same_v<T, double>) {
    product ? scan_rows<Multiply>(context, x, y, rows, n) : scan_rows<Add>(context, x, y, rows, n);
  } else if (std::is_same_v<T, float> && product) {
    scan_rows<Multiply>(context, x, y, rows, n);
  } else {
    for (size_t r = 0; r < rows; ++r, x += n, y += n) {
      Total<T> total = product ? Multiply::kFirst : Add::kFirst;
      threads::in_pieces(context, n, kLook, [&](size_t i, size_t end) HWY_ATTR {
        total =
            product ? scan_row<Multiply>(x + i, y + i, end - i, total) : scan_row<Add>(x + i, y + i, end - i, total);
      });
    }
  }
}
/// A piece of a row; `before` comes in front of it. Gives what comes in front of the next one.
double FloatPiece(bool product, const float* x, float* y, size_t n, double before) {
  if (!product) {
    return scan_row<Add>(x, y, n, before);
  }
  for (size_t i = 0; i < n; ++i) {
    before *= static_cast<double>(x[i]);
    y[i] = static_cast<float>(before);
  }
  return before;
}

}  // namespace et::kernels::optimized::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::reduce {

HWY_EXPORT(FloatPiece);

namespace {

constexpr size_t kPiece = 256;       // columns whose totals stay near
constexpr size_t kPieceRows = 1024;  // between two looks at whether the caller asked to stop

template <typename T>
auto columns_loop() {
  HWY_EXPORT_T(OfColumns, Columns<T>);
  return HWY_DYNAMIC_POINTER_T(OfColumns);
}

template <typename T>
void scan(KernelContext& context, bool product, const Tensor& self, const Tensor& out, size_t outer, size_t length,
          size_t inner) {
  const auto* const x = static_cast<const T*>(self.const_data_ptr());
  auto* const y = static_cast<T*>(out.mutable_data_ptr());
  HWY_EXPORT_T(OfRows, Rows<T>);
  const auto rows_of = HWY_DYNAMIC_POINTER_T(OfRows);
  const auto columns_of = columns_loop<T>();
  if (inner == 1) {
    threads::parallel_for(context, outer, threads::grain_for(4 * length), [&](size_t begin, size_t end) {
      rows_of(context, product, x + begin * length, y + begin * length, end - begin, length);
    });
    return;
  }
  const size_t pieces = divide_up(inner, kPiece);
  threads::parallel_for(context, outer * pieces, threads::grain_for(2 * length * std::min(inner, kPiece)),
                        [&](size_t begin, size_t end) {
                          for (size_t i = begin; i < end; ++i) {
                            const size_t at = i % pieces * kPiece;
                            const size_t first = i / pieces * length * inner + at;
                            const size_t columns = std::min(inner - at, kPiece);
                            alignas(64) Total<T> totals[kPiece];
                            std::fill(totals, totals + columns, static_cast<Total<T>>(product ? 1 : 0));
                            threads::in_pieces(context, length, kPieceRows, [&](size_t r, size_t last) {
                              const size_t row = first + r * inner;
                              columns_of(product, x + row, y + row, last - r, columns, inner, totals);
                            });
                          }
                        });
}

/// Floats of 16 bits, converted a few hundred at a time.
void scan_small(KernelContext& context, bool product, const Tensor& self, const Tensor& out, size_t outer,
                size_t length, size_t inner) {
  const ScalarType dtype = self.scalar_type();
  const size_t size = self.element_size();
  const auto* const x = static_cast<const char*>(self.const_data_ptr());
  auto* const y = static_cast<char*>(out.mutable_data_ptr());
  const auto columns_of_floats = columns_loop<float>();
  const auto piece_of_floats = HWY_DYNAMIC_POINTER(FloatPiece);
  const size_t pieces = divide_up(inner, kPiece);
  const size_t width = std::min(inner, kPiece);
  threads::parallel_for(context, outer * pieces, threads::grain_for(4 * length * width), [&](size_t begin, size_t end) {
    alignas(64) double totals[kPiece];
    alignas(64) float line[kPiece];
    for (size_t i = begin; i < end; ++i) {
      const size_t at = i % pieces * kPiece;
      const size_t first = i / pieces * length * inner + at;
      const size_t columns = std::min(inner - at, kPiece);
      std::fill(totals, totals + columns, product ? 1.0 : 0.0);
      const size_t step = inner == 1 ? kPiece : 1;  // elements of a row, or rows
      for (size_t r = 0; r < length && !context.cancelled(); r += step) {
        const size_t rows = std::min(length - r, step);
        const size_t offset = (first + r * inner) * size;
        floats_from(dtype, x + offset, 1, rows * columns, line);
        if (inner == 1) {
          totals[0] = piece_of_floats(product, line, line, rows, totals[0]);
        } else {
          columns_of_floats(product, line, line, 1, columns, columns, totals);
        }
        floats_to(dtype, line, rows * columns, y + offset);
      }
    }
  });
}

Error scan(KernelContext& context, const char* op, bool product, const Tensor& self, int64_t dim, const Tensor& out) {
  ET_RETURN_IF_ERROR(portable::normalize_dim(op, dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  if (self.numel() == 0) {
    return Error::Ok;
  }
  size_t outer = 1, length = 1, inner = 1;
  for (int64_t d = 0; d < self.dim(); ++d) {
    (d < dim ? outer : d > dim ? inner : length) *= static_cast<size_t>(self.size(d));
  }
  switch (self.scalar_type()) {
    case ScalarType::Float: scan<float>(context, product, self, out, outer, length, inner); break;
    case ScalarType::Half:
    case ScalarType::BFloat16: scan_small(context, product, self, out, outer, length, inner); break;
    case ScalarType::Double: scan<double>(context, product, self, out, outer, length, inner); break;
    default: scan<uint64_t>(context, product, self, out, outer, length, inner); break;
  }
  return Error::Ok;
}

Error cumsum_out(KernelContext& context, const Tensor& self, int64_t dim, std::optional<ScalarType>, Tensor& out) {
  return scan(context, "aten::cumsum", false, self, dim, out);
}

Error cumprod_out(KernelContext& context, const Tensor& self, int64_t dim, std::optional<ScalarType>, Tensor& out) {
  return scan(context, "aten::cumprod", true, self, dim, out);
}

/// scan(self, dim, dtype, out): one dtype throughout.
bool fits_scan(Arguments args) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  const bool takes = is_up_to_float(dtype) || dtype == ScalarType::Double || dtype == ScalarType::Long;
  return takes && args[3]->to_tensor().scalar_type() == dtype && is_row_major(*args[0]) && is_row_major(*args[3]);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&cumprod_out, &fits_scan>("aten::cumprod.out"),
    make_fitting_kernel<&cumsum_out, &fits_scan>("aten::cumsum.out"),
};

}  // namespace

ET_KERNEL_TABLE(scan, kKernels)

}  // namespace et::kernels::optimized::reduce
#endif  // HWY_ONCE
