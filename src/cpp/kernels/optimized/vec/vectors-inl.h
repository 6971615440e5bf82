// Loops over rows of floats or doubles in whole vectors and a rest, compiled once a target. Included inside its pass
// only.

#if defined(ET_KERNELS_OPTIMIZED_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_VECTORS_INL_H_
#undef ET_KERNELS_OPTIMIZED_VECTORS_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls body(std::true_type, i, lanes) for whole vectors of [0, n) and body(std::false_type, i, left) for the rest.
template <class T = float, class Body>
HWY_INLINE void over_vectors(size_t n, const Body& body) {
  const size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    body(std::true_type(), i, lanes);
  }
  if (i < n) {
    body(std::false_type(), i, n - i);
  }
}
template <class D, class Whole>
HWY_INLINE hn::Vec<D> load(D d, Whole, const hn::TFromD<D>* p, size_t count) {
  return Whole::value ? hn::LoadU(d, p) : hn::LoadN(d, p, count);
}
template <class D, class Whole>
HWY_INLINE void store(D d, Whole, hn::Vec<D> v, hn::TFromD<D>* p, size_t count) {
  Whole::value ? hn::StoreU(v, d, p) : hn::StoreN(v, d, p, count);
}

/// int32 that `to` holds. Bytes of AVX-512 take one instruction where demoting, which bounds them again, takes three.
template <class To, class V>
HWY_INLINE hn::Vec<To> narrow(To to, V numbers) {
  if constexpr (sizeof(hn::TFromD<To>) == 1) {
    const hn::RebindToUnsigned<hn::DFromV<V>> d;
    return hn::BitCast(to, hn::TruncateTo(hn::RebindToUnsigned<To>(), hn::BitCast(d, numbers)));
  } else {
    return hn::DemoteTo(to, numbers);
  }
}

/// Sum of fn(x[i]) with four independent sums, which also keeps rounding errors small.
template <class Fn, class T>
HWY_INLINE T sum_of(const Fn& fn, const T* x, size_t n) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::Add(s0, fn(hn::LoadU(d, x + i)));
    s1 = hn::Add(s1, fn(hn::LoadU(d, x + i + lanes)));
    s2 = hn::Add(s2, fn(hn::LoadU(d, x + i + 2 * lanes)));
    s3 = hn::Add(s3, fn(hn::LoadU(d, x + i + 3 * lanes)));
  }
  for (; i + lanes <= n; i += lanes) {
    s0 = hn::Add(s0, fn(hn::LoadU(d, x + i)));
  }
  if (i < n) {
    const auto used = hn::FirstN(d, n - i);
    s1 = hn::Add(s1, hn::IfThenElseZero(used, fn(hn::LoadN(d, x + i, n - i))));
  }
  return hn::ReduceSum(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

/// y[c] = combine(… combine(x[0][c], x[1][c]) …) for `count` columns of n rows that are `stride` apart. Four vectors of
/// each row at a time: whole lines are used while they are near, and four chains hide each other's latency.
template <class Combine, class T>
HWY_INLINE void fold_columns(const Combine& combine, const T* x, T* y, size_t n, size_t count, size_t stride) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t done = 0;
  for (; done + 4 * lanes <= count; done += 4 * lanes) {
    const T* row = x + done;
    auto v0 = hn::LoadU(d, row), v1 = hn::LoadU(d, row + lanes);
    auto v2 = hn::LoadU(d, row + 2 * lanes), v3 = hn::LoadU(d, row + 3 * lanes);
    for (size_t i = 1; i < n; ++i) {
      row += stride;
      v0 = combine(v0, hn::LoadU(d, row));
      v1 = combine(v1, hn::LoadU(d, row + lanes));
      v2 = combine(v2, hn::LoadU(d, row + 2 * lanes));
      v3 = combine(v3, hn::LoadU(d, row + 3 * lanes));
    }
    hn::StoreU(v0, d, y + done);
    hn::StoreU(v1, d, y + done + lanes);
    hn::StoreU(v2, d, y + done + 2 * lanes);
    hn::StoreU(v3, d, y + done + 3 * lanes);
  }
  over_vectors<T>(count - done, [&](auto whole, size_t c, size_t left) HWY_ATTR {
    const T* row = x + done + c;
    auto v = load(d, whole, row, left);
    for (size_t i = 1; i < n; ++i) {
      row += stride;
      v = combine(v, load(d, whole, row, left));
    }
    store(d, whole, v, y + done + c, left);
  });
}

/// The largest or smallest of x[0 … n), n >= 1; not a number when one is not.
template <bool kLargest, class T>
HWY_INLINE T extreme_of(const T* x, size_t n) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto better = [](auto m, auto v) HWY_ATTR {
    return hn::IfThenElse(hn::Or(kLargest ? hn::Gt(v, m) : hn::Lt(v, m), hn::IsNaN(v)), v, m);
  };
  auto m0 = hn::Set(d, x[0]);
  auto m1 = m0, m2 = m0, m3 = m0;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    m0 = better(m0, hn::LoadU(d, x + i));
    m1 = better(m1, hn::LoadU(d, x + i + lanes));
    m2 = better(m2, hn::LoadU(d, x + i + 2 * lanes));
    m3 = better(m3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) {
    m0 = better(m0, hn::LoadU(d, x + i));
  }
  if (i < n) {
    m1 = better(m1, hn::IfThenElse(hn::FirstN(d, n - i), hn::LoadN(d, x + i, n - i), m1));
  }
  m0 = better(better(m0, m1), better(m2, m3));
  HWY_ALIGN T each[hn::MaxLanes(d)];
  hn::Store(m0, d, each);
  T best = each[0];
  for (size_t k = 1; k < lanes; ++k) {
    best = (kLargest ? each[k] > best : each[k] < best) || each[k] != each[k] ? each[k] : best;  // NOLINT: NaN
  }
  return best;
}

}  // namespace et::kernels::optimized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
