// Sums, means, products, extremes and variances of floats and doubles (reduction.h). 16-bit floats are converted a
// piece at a time, computed in float and rounded once.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "kernels/optimized/reduce/reduction.h"
#include "kernels/optimized/vec/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::reduce::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

template <class T>
HWY_INLINE T prod_of(const T* x, size_t n) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto one = hn::Set(d, T(1));
  auto p0 = one, p1 = one, p2 = one, p3 = one;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    p0 = hn::Mul(p0, hn::LoadU(d, x + i));
    p1 = hn::Mul(p1, hn::LoadU(d, x + i + lanes));
    p2 = hn::Mul(p2, hn::LoadU(d, x + i + 2 * lanes));
    p3 = hn::Mul(p3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i < n; i += lanes) {
    p0 = hn::Mul(p0, hn::LoadNOr(one, d, x + i, HWY_MIN(lanes, n - i)));
  }
  HWY_ALIGN T each[hn::MaxLanes(d)];
  hn::Store(hn::Mul(hn::Mul(p0, p1), hn::Mul(p2, p3)), d, each);
  return std::accumulate(each + 1, each + lanes, each[0], [](T a, T b) { return a * b; });
}

/// Sum of deviations from `center`.
template <class T>
HWY_INLINE T deviations_from(const T* x, size_t n, T center) {
  const auto mean = hn::Set(hn::ScalableTag<T>(), center);
  return sum_of([mean](auto v) HWY_ATTR { return hn::Sub(v, mean); }, x, n);
}

/// Sum of squared deviations from `center`.
template <class T>
HWY_INLINE T squares_about(const T* x, size_t n, T center) {
  const auto mean = hn::Set(hn::ScalableTag<T>(), center);
  return sum_of(
      [mean](auto v) HWY_ATTR {
        const auto deviation = hn::Sub(v, mean);
        return hn::Mul(deviation, deviation);
      },
      x, n);
}

/// y[c] = sum over n rows, for `count` columns of rows that are `stride` apart. Four rows are added before they meet
/// the sum, which halves the traffic and the rounding error.
HWY_INLINE void sum_columns(const float* x, float* y, size_t n, size_t count, size_t stride) {
  const hn::ScalableTag<float> d;
  over_vectors(count, [&](auto whole, size_t c, size_t left) HWY_ATTR {
    auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
    const float* row = x + c;
    size_t i = 0;
    for (; i + 4 <= n; i += 4, row += 4 * stride) {
      s0 = hn::Add(s0, load(d, whole, row, left));
      s1 = hn::Add(s1, load(d, whole, row + stride, left));
      s2 = hn::Add(s2, load(d, whole, row + 2 * stride, left));
      s3 = hn::Add(s3, load(d, whole, row + 3 * stride, left));
    }
    for (; i < n; ++i, row += stride) {
      s0 = hn::Add(s0, load(d, whole, row, left));
    }
    store(d, whole, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), y + c, left);
  });
}
/// Doubles are exact enough in one chain, which reads four vectors of a row.
HWY_INLINE void sum_columns(const double* x, double* y, size_t n, size_t count, size_t stride) {
  fold_columns([](auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, x, y, n, count, stride);
}

// What a reduction does with a run of elements, with columns side by side, and with two of its results.

struct Sum {
  template <class T>
  static constexpr T kFirst = 0;
  template <class T>
  static HWY_INLINE T of(const T* x, size_t n) {
    return sum_of([](auto v) HWY_ATTR { return v; }, x, n);
  }
  template <class T>
  static HWY_INLINE void of_columns(const T* x, T* y, size_t n, size_t count, size_t stride) {
    sum_columns(x, y, n, count, stride);
  }
  template <class T>
  static HWY_INLINE T combine(T a, T b) {
    return a + b;
  }
};
struct Prod {
  template <class T>
  static constexpr T kFirst = 1;
  template <class T>
  static HWY_INLINE T of(const T* x, size_t n) {
    return prod_of(x, n);
  }
  template <class T>
  static HWY_INLINE void of_columns(const T* x, T* y, size_t n, size_t count, size_t stride) {
    fold_columns([](auto a, auto b) HWY_ATTR { return hn::Mul(a, b); }, x, y, n, count, stride);
  }
  template <class T>
  static HWY_INLINE T combine(T a, T b) {
    return a * b;
  }
};
/// The largest or the least; not a number where one is not.
template <bool kLargest>
struct Extreme {
  template <class T>
  static constexpr T kFirst = kLargest ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
  template <class T>
  static HWY_INLINE T of(const T* x, size_t n) {
    return extreme_of<kLargest>(x, n);
  }
  template <class T>
  static HWY_INLINE void of_columns(const T* x, T* y, size_t n, size_t count, size_t stride) {
    const auto better = [](auto m, auto v) HWY_ATTR {
      return hn::IfThenElse(hn::Or(kLargest ? hn::Gt(v, m) : hn::Lt(v, m), hn::IsNaN(v)), v, m);
    };
    fold_columns(better, x, y, n, count, stride);
  }
  template <class T>
  static HWY_INLINE T combine(T a, T b) {
    return (kLargest ? b > a : b < a) || std::isnan(b) ? b : a;
  }
};

/// The reduction of n >= 1 elements; a few of them take longer in vectors.
template <class Op, class T>
HWY_INLINE T reduce_run(const T* x, size_t n) {
  return n < 8 ? std::accumulate(x + 1, x + n, x[0], Op::template combine<T>) : Op::of(x, n);
}

/// Sum of squared deviations from the mean, in double.
inline double squares_in_double(const ReductionJob& job, size_t first) {
  double sum = 0, squares = 0;
  for_each_piece<float>(job.self, first, job.shape.length,
                        [&](const float* x, size_t n) { sum = std::accumulate(x, x + n, sum); });
  const double mean = sum / static_cast<double>(job.shape.length);
  for_each_piece<float>(job.self, first, job.shape.length, [&](const float* x, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      squares += (x[i] - mean) * (x[i] - mean);
    }
  });
  return squares;
}

/// The variance or standard deviation of a row from element `first` on. Sums that a float does not hold are made again
/// in double: the mean of large numbers is a float all the same, and so is the root of their variance.
template <class T>
HWY_INLINE T variance_of(const ReductionJob& job, size_t first, T sum) {
  const T length = static_cast<T>(job.shape.length), divisor = static_cast<T>(job.divisor);
  T mean = sum / length;
  const auto squares_of_all = [&]() HWY_ATTR {
    T squares = 0;
    for_each_piece<T>(job.self, first, job.shape.length,
                      [&](const T* x, size_t n) HWY_ATTR { squares += squares_about(x, n, mean); });
    return squares;
  };
  T squares = squares_of_all();
  // Where all elements are nearly equal, the mean's rounding counts. Deviations are exact there, and correct it.
  const T rounding = 64 * std::numeric_limits<T>::epsilon() * mean;
  if (squares <= length * rounding * rounding) {
    const auto off = [&]() HWY_ATTR {
      T deviations = 0;
      for_each_piece<T>(job.self, first, job.shape.length,
                        [&](const T* x, size_t n) HWY_ATTR { deviations += deviations_from(x, n, mean); });
      return deviations / length;
    };
    mean += off();
    squares = squares_of_all();
    const T rest = off();
    squares = std::max(squares - length * rest * rest, T{0});
  }
  const bool root = job.what == Reduction::kDeviation;
  constexpr T kSmall = static_cast<T>(1e-30);  // below, squares of single deviations are no normal floats
  if (std::is_same_v<T, double> || (squares <= std::numeric_limits<T>::max() && (!root || squares >= kSmall))) {
    return root ? std::sqrt(squares / divisor) : squares / divisor;
  }
  const double exact = squares_in_double(job, first) / static_cast<double>(divisor);
  return static_cast<T>(root ? std::sqrt(exact) : exact);
}

/// T: what is computed in.
template <class Op, class T>
void Rows(const ReductionJob& job, size_t begin, size_t end) {
  constexpr size_t kResults = 64;
  T values[kResults];
  const size_t length = job.shape.length;
  const bool direct = job.self.scalar_type() == dtype_of<T>;
  for (size_t r = begin; r < end; r += kResults) {
    const size_t n = std::min(kResults, end - r);
    T* const y = elements_for(job.out, r, values);
    for (size_t i = 0; i < n; ++i) {
      const size_t first = (r + i) * length;
      T total = Op::template kFirst<T>;
      if (direct) {
        total = reduce_run<Op>(job.from<T>() + first, length);
      } else {
        for_each_piece<T>(job.self, first, length, [&](const T* x, size_t count) HWY_ATTR {
          total = Op::combine(total, reduce_run<Op>(x, count));
        });
      }
      y[i] = total;
    }
    for (size_t i = 0; job.what != Reduction::kSum && std::is_same_v<Op, Sum> && i < n; ++i) {
      y[i] = is_variance(job.what) ? variance_of(job, (r + i) * length, y[i]) : y[i] / static_cast<T>(job.divisor);
    }
    write_elements(job.out, r, n, y);
  }
}

template <class Op, class T>
void Columns(const ReductionJob& job, size_t first, size_t to, size_t columns) {
  alignas(64) T values[kPieceColumns];
  alignas(64) T pair[2 * kPieceColumns];  // what came before, and the next block
  T* const y = elements_for(job.out, to, values);
  bool started = false;
  for_each_block<T>(job.self, first, columns, job.shape.length, job.shape.inner,
                    [&](const T* x, size_t rows, size_t stride) HWY_ATTR {
                      Op::of_columns(x, started ? pair + kPieceColumns : y, rows, columns, stride);
                      if (started) {
                        std::copy_n(y, columns, pair);
                        Op::of_columns(static_cast<const T*>(pair), y, 2, columns, kPieceColumns);
                      }
                      started = true;
                    });
  const T divisor = static_cast<T>(job.divisor);
  for (size_t c = 0; job.what == Reduction::kMean && c < columns; ++c) {
    y[c] /= divisor;
  }
  write_elements(job.out, to, columns, y);
}

template <class Op>
ReductionLoops loops_of(bool doubles) {
  return doubles ? ReductionLoops{&Rows<Op, double>, &Columns<Op, double>}
                 : ReductionLoops{&Rows<Op, float>, &Columns<Op, float>};
}

ReductionLoops LoopsOfFloats(Reduction what, bool doubles) {
  switch (what) {
    case Reduction::kProd: return loops_of<Prod>(doubles);
    case Reduction::kMax: return loops_of<Extreme<true>>(doubles);
    case Reduction::kMin: return loops_of<Extreme<false>>(doubles);
    default: return loops_of<Sum>(doubles);
  }
}

}  // namespace et::kernels::optimized::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::reduce {

HWY_EXPORT(LoopsOfFloats);

ReductionLoops loops_of_floats(Reduction what, ScalarType from, ScalarType to) {
  const bool doubles = from == ScalarType::Double;
  const bool takes = what < Reduction::kNorm && from == to && (doubles || is_up_to_float(from));
  return takes ? HWY_DYNAMIC_DISPATCH(LoopsOfFloats)(what, doubles) : ReductionLoops();
}

}  // namespace et::kernels::optimized::reduce
#endif  // HWY_ONCE
