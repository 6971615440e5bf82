// Vector norms of order 2, of floats of 16 to 64 bits (reduction.h): squares are summed in double in one pass.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cmath>

#include "kernels/optimized/reduce/reduction.h"
#include "kernels/optimized/vec/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::reduce::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

using DoubleTag = hn::ScalableTag<double>;

/// `count` elements from p on as doubles, zeros behind them.
HWY_INLINE hn::Vec<DoubleTag> doubles_at(const double* p, size_t count) {
  const DoubleTag d;
  return count == hn::Lanes(d) ? hn::LoadU(d, p) : hn::LoadN(d, p, count);
}
HWY_INLINE hn::Vec<DoubleTag> doubles_at(const float* p, size_t count) {
  const DoubleTag d;
  const hn::Rebind<float, DoubleTag> df;
  return hn::PromoteTo(d, count == hn::Lanes(d) ? hn::LoadU(df, p) : hn::LoadN(df, p, count));
}

template <typename T>
HWY_INLINE double squares_of_row(const T* x, size_t n) {
  const DoubleTag d;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto v0 = doubles_at(x + i, lanes), v1 = doubles_at(x + i + lanes, lanes);
    const auto v2 = doubles_at(x + i + 2 * lanes, lanes), v3 = doubles_at(x + i + 3 * lanes, lanes);
    s0 = hn::MulAdd(v0, v0, s0);
    s1 = hn::MulAdd(v1, v1, s1);
    s2 = hn::MulAdd(v2, v2, s2);
    s3 = hn::MulAdd(v3, v3, s3);
  }
  for (; i < n; i += lanes) {
    const auto v = doubles_at(x + i, HWY_MIN(lanes, n - i));
    s0 = hn::MulAdd(v, v, s0);
  }
  return hn::ReduceSum(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

/// sums[c] += the squares of `rows` elements that are `stride` apart, for `columns` columns.
template <typename T>
HWY_INLINE void add_squares(const T* x, double* sums, size_t rows, size_t columns, size_t stride) {
  const DoubleTag d;
  const size_t lanes = hn::Lanes(d);
  for (size_t r = 0; r < rows; ++r) {
    const T* const row = x + r * stride;
    for (size_t c = 0; c < columns; c += lanes) {
      const size_t count = HWY_MIN(lanes, columns - c);
      const auto v = doubles_at(row + c, count);
      if (count == lanes) {
        hn::StoreU(hn::MulAdd(v, v, hn::LoadU(d, sums + c)), d, sums + c);
      } else {
        hn::StoreN(hn::MulAdd(v, v, hn::LoadN(d, sums + c, count)), d, sums + c, count);
      }
    }
  }
}

/// T: what the input is read as.
template <typename T>
void NormRows(const ReductionJob& job, size_t begin, size_t end) {
  for (size_t r = begin; r < end; ++r) {
    double sum = 0;
    for_each_piece<T>(job.self, r * job.shape.length, job.shape.length,
                      [&](const T* x, size_t n) HWY_ATTR { sum += squares_of_row(x, n); });
    T norm = static_cast<T>(std::sqrt(sum));
    T* const y = elements_for(job.out, r, &norm);
    *y = norm;
    write_elements(job.out, r, 1, y);
  }
}

template <typename T>
void NormColumns(const ReductionJob& job, size_t first, size_t to, size_t columns) {
  double sums[kPieceColumns] = {};
  for_each_block<T>(job.self, first, columns, job.shape.length, job.shape.inner,
                    [&](const T* x, size_t rows, size_t stride)
                        HWY_ATTR { add_squares(x, sums, rows, columns, stride); });
  T values[kPieceColumns];
  T* const y = elements_for(job.out, to, values);
  for (size_t c = 0; c < columns; ++c) {
    y[c] = static_cast<T>(std::sqrt(sums[c]));
  }
  write_elements(job.out, to, columns, y);
}

ReductionLoops LoopsOfNorms(bool doubles) {
  return doubles ? ReductionLoops{&NormRows<double>, &NormColumns<double>}
                 : ReductionLoops{&NormRows<float>, &NormColumns<float>};
}

}  // namespace et::kernels::optimized::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::reduce {

HWY_EXPORT(LoopsOfNorms);

ReductionLoops loops_of_norms(Reduction what, ScalarType from, ScalarType to) {
  const bool doubles = from == ScalarType::Double;
  const bool takes = what == Reduction::kNorm && from == to && (doubles || is_up_to_float(from));
  return takes ? HWY_DYNAMIC_DISPATCH(LoopsOfNorms)(doubles) : ReductionLoops();
}

}  // namespace et::kernels::optimized::reduce
#endif  // HWY_ONCE
