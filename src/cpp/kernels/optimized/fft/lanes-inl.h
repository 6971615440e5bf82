// Fourier transforms side by side, one in each lane of the vectors, compiled once a target. Included inside the
// target's pass only.
//
// A buffer holds [elements][2][lanes]: the real parts of one element of all transforms, then the imaginary ones. What
// is scalar code for one transform (any radix, chirps, real transforms) is vector code for as many as there are lanes.
// Source: T. G. Stockham, "High-speed convolution and correlation", 1966 (stages that leave their results in order).

#if defined(ET_KERNELS_OPTIMIZED_FFT_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_FFT_LANES_INL_H_
#undef ET_KERNELS_OPTIMIZED_FFT_LANES_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_FFT_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include <utility>

#include "kernels/optimized/fft/job.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::fft::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using LaneTag = hn::ScalableTag<T>;
template <class T>
constexpr size_t kLanes = hn::MaxLanes(LaneTag<T>());

/// One element of all lanes.
template <class T>
struct Lane {
  using D = LaneTag<T>;
  hn::Vec<D> re, im;

  static HWY_INLINE Lane load(const T* p) { return {hn::Load(D(), p), hn::Load(D(), p + kLanes<T>)}; }
  HWY_INLINE void store(T* p) const {
    hn::Store(re, D(), p);
    hn::Store(im, D(), p + kLanes<T>);
  }
  static HWY_INLINE Lane set(const T* number) { return {hn::Set(D(), number[0]), hn::Set(D(), number[1])}; }
  HWY_INLINE Lane operator+(Lane b) const { return {hn::Add(re, b.re), hn::Add(im, b.im)}; }
  HWY_INLINE Lane operator-(Lane b) const { return {hn::Sub(re, b.re), hn::Sub(im, b.im)}; }
  HWY_INLINE Lane operator*(Lane b) const {
    return {hn::NegMulAdd(im, b.im, hn::Mul(re, b.re)), hn::MulAdd(im, b.re, hn::Mul(re, b.im))};
  }
  HWY_INLINE Lane turned() const { return {im, hn::Neg(re)}; }  // times -i
  HWY_INLINE Lane conjugate() const { return {re, hn::Neg(im)}; }
};

/// The element that starts at number `k` of a buffer.
template <class T>
HWY_INLINE T* at(T* buffer, size_t k) {
  return buffer + k * 2 * kLanes<std::remove_const_t<T>>;
}

// --------------------------------------------------------------------------------------------------------------------
// stages

/// The transform of two or four elements, in place.
template <class T>
HWY_INLINE void butterfly2(Lane<T>* x) {
  const Lane<T> a = x[0];
  x[0] = a + x[1];
  x[1] = a - x[1];
}
template <class T>
HWY_INLINE void butterfly4(Lane<T>* x) {
  const Lane<T> even = x[0] + x[2], even_minus = x[0] - x[2];
  const Lane<T> odd = x[1] + x[3], odd_minus = (x[1] - x[3]).turned();
  x[0] = even + odd;
  x[1] = even_minus + odd_minus;
  x[2] = even - odd;
  x[3] = even_minus - odd_minus;
}
/// Of an odd number of elements: x[k] and x[r - k] meet roots that are conjugates of each other.
template <size_t kRoom, class T>
HWY_INLINE void butterfly_odd(Lane<T>* x, size_t r, const T* roots) {
  const LaneTag<T> d;
  Lane<T> sums[kRoom / 2], differences[kRoom / 2];
  const size_t half = (r - 1) / 2;
  const Lane<T> first = x[0];
  for (size_t k = 1; k <= half; ++k) {
    sums[k - 1] = x[k] + x[r - k];
    differences[k - 1] = x[k] - x[r - k];
    x[0] = x[0] + sums[k - 1];
  }
  for (size_t q = 1; q <= half; ++q) {
    Lane<T> a = first;
    Lane<T> b{hn::Zero(d), hn::Zero(d)};
    size_t place = 0;  // q k modulo r
    for (size_t k = 0; k < half; ++k) {
      place += q;
      place -= place >= r ? r : 0;
      const auto cosine = hn::Set(d, roots[2 * place]);
      const auto sine = hn::Set(d, roots[2 * place + 1]);
      a = {hn::MulAdd(cosine, sums[k].re, a.re), hn::MulAdd(cosine, sums[k].im, a.im)};
      b = {hn::MulAdd(sine, differences[k].re, b.re), hn::MulAdd(sine, differences[k].im, b.im)};
    }
    x[q] = a + b.turned();
    x[r - q] = a - b.turned();
  }
}

/// A stage of radix kRadix (0: any odd one up to kLargestRadix) from x to y.
template <size_t kRadix, class T>
HWY_NOINLINE void stage_of(const FftStage<T>& stage, const T* HWY_RESTRICT x, T* HWY_RESTRICT y) {
  constexpr size_t kRoom = kRadix == 0 ? kLargestRadix : kRadix;
  const size_t r = kRadix == 0 ? stage.radix : kRadix;
  const size_t m = stage.m, s = stage.s;
  const auto butterfly = [&](size_t p, size_t q, Lane<T>* values) HWY_ATTR {
    for (size_t k = 0; k < r; ++k) {
      values[k] = Lane<T>::load(at(x, q + s * (p + k * m)));
    }
    if constexpr (kRadix == 2) {
      butterfly2(values);
    } else if constexpr (kRadix == 4) {
      butterfly4(values);
    } else {
      butterfly_odd<kRoom>(values, r, stage.roots);
    }
    values[0].store(at(y, q + s * r * p));
  };
  Lane<T> values[kRoom];
  for (size_t q = 0; q < s; ++q) {  // p = 0: all roots are 1
    butterfly(0, q, values);
    for (size_t k = 1; k < r; ++k) {
      values[k].store(at(y, q + s * k));
    }
  }
  for (size_t p = 1; p < m; ++p) {
    const T* const twiddles = stage.twiddles + 2 * p * (r - 1);
    for (size_t q = 0; q < s; ++q) {
      butterfly(p, q, values);
      for (size_t k = 1; k < r; ++k) {
        (values[k] * Lane<T>::set(twiddles + 2 * (k - 1))).store(at(y, q + s * (r * p + k)));
      }
    }
  }
}

/// All stages. Returns that one of the two buffers which holds the result.
template <class T>
T* run_stages(const FftPlan<T>& plan, T* x, T* y) {
  for (size_t i = 0; i < plan.num_stages; ++i) {
    const FftStage<T>& stage = plan.stages[i];
    switch (stage.radix) {
      case 2: stage_of<2>(stage, x, y); break;
      case 3: stage_of<3>(stage, x, y); break;
      case 4: stage_of<4>(stage, x, y); break;
      case 5: stage_of<5>(stage, x, y); break;
      case 7: stage_of<7>(stage, x, y); break;
      default: stage_of<0>(stage, x, y);
    }
    std::swap(x, y);
  }
  return x;
}

/// The transform of the plan's n elements in x, also of a length with a large prime factor. There jk = (j² + k² - (k -
/// j)²) / 2 makes the sum over j of x[j] w^jk a convolution of x[j] w^(j²/2) with w^(-j²/2).
template <class T>
T* transform(const FftPlan<T>& plan, T* x, T* y) {
  if (plan.chirp == nullptr) {
    return run_stages(plan, x, y);
  }
  for (size_t k = 0; k < plan.n; ++k) {
    (Lane<T>::load(at(x, k)) * Lane<T>::set(plan.chirp + 2 * k)).store(at(x, k));
  }
  std::memset(at(x, plan.n), 0, (plan.m - plan.n) * 2 * kLanes<T> * sizeof(T));
  T* const spectrum = run_stages(plan, x, y);
  for (size_t k = 0; k < plan.m; ++k) {
    (Lane<T>::load(at(spectrum, k)) * Lane<T>::set(plan.filter + 2 * k)).store(at(spectrum, k));
  }
  T* const product = run_stages(plan, spectrum, spectrum == x ? y : x);
  T* const result = product == x ? y : x;
  for (size_t k = 0; k < plan.n; ++k) {  // backwards: the element at -k
    const T* const value = at(static_cast<const T*>(product), (plan.m - k) % plan.m);
    (Lane<T>::load(value) * Lane<T>::set(plan.chirp + 2 * k)).store(at(result, k));
  }
  return result;
}

// ------------------------------------------------------------------------------------------------------- from and to
// tensors

/// Four registers of one element of four transforms, or two of two, from rows to lanes or back: the transposed matrix.
HWY_INLINE void transpose(const float* const* from, float* const* to, float scale) {
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const auto factor = hn::Set(d, scale);
  const auto a = hn::Mul(factor, hn::LoadU(d, from[0])), b = hn::Mul(factor, hn::LoadU(d, from[1]));
  const auto c = hn::Mul(factor, hn::LoadU(d, from[2])), e = hn::Mul(factor, hn::LoadU(d, from[3]));
  const auto ab0 = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto ab1 = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto ce0 = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
  const auto ce1 = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab0, ce0)), d, to[0]);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab0, ce0)), d, to[1]);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab1, ce1)), d, to[2]);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab1, ce1)), d, to[3]);
}
HWY_INLINE void transpose(const double* const* from, double* const* to, double scale) {
  const hn::FixedTag<double, 2> d;
  const auto factor = hn::Set(d, scale);
  const auto a = hn::Mul(factor, hn::LoadU(d, from[0])), b = hn::Mul(factor, hn::LoadU(d, from[1]));
  hn::StoreU(hn::InterleaveLower(d, a, b), d, to[0]);
  hn::StoreU(hn::InterleaveUpper(d, a, b), d, to[1]);
}

/// Elements of a transform and rows that `transpose` takes at once.
template <class T>
constexpr size_t kSquare = 16 / sizeof(T);

/// What a block reads or writes: `count` transforms from number `lane` on, `length` elements of each.
template <class T>
struct BlockOf {
  const FftSide<T>& side;
  size_t lane, count, length;
  bool swapped;

  T* start(size_t v) const {
    const size_t l = lane + v;
    return side.data + l / side.inner * side.outer_step + l % side.inner * side.lane_step;
  }
  bool is_whole() const { return count == kLanes<T>; }
  bool is_rows() const { return is_whole() && side.inner == 1 && side.step == 2 && side.imag == 1; }
  bool is_contiguous() const {
    return is_whole() && lane % side.inner + count <= side.inner &&
           (side.lane_step == 1 || (side.lane_step == 2 && side.imag == 1));
  }
};

/// Calls f(addresses in the rows, addresses in the buffer) for squares of numbers of a whole block of rows.
template <class T, class F>
HWY_INLINE size_t over_squares(const BlockOf<T>& block, T* buffer, const F& f) {
  constexpr size_t kElements = kSquare<T> / 2;
  size_t j = 0;
  for (; j + kElements <= block.length; j += kElements) {
    for (size_t v = 0; v < kLanes<T>; v += kSquare<T>) {
      T* rows[kSquare<T>];
      T* lanes[kSquare<T>];
      for (size_t i = 0; i < kSquare<T>; ++i) {
        rows[i] = block.side.data + (block.lane + v + i) * block.side.outer_step + 2 * j;
        lanes[i] = buffer + (2 * j + (i ^ (block.swapped ? 1 : 0))) * kLanes<T> + v;
      }
      f(rows, lanes);
    }
  }
  return j;
}

template <class T>
void load_block(const BlockOf<T>& block, T* buffer) {
  const LaneTag<T> d;
  const FftSide<T>& side = block.side;
  const size_t re = block.swapped ? kLanes<T> : 0;
  const size_t im = kLanes<T> - re;
  size_t j = 0;
  if (block.is_rows()) {
    j = over_squares(block, buffer, [](T* const* rows, T* const* lanes) HWY_ATTR { transpose(rows, lanes, T(1)); });
  } else if (block.is_contiguous()) {
    const T* p = block.start(0);
    for (; j < block.length; ++j, p += side.step) {
      auto real = hn::Zero(d), imaginary = real;
      if (side.lane_step == 2) {
        hn::LoadInterleaved2(d, p, real, imaginary);
      } else {
        real = hn::LoadU(d, p);
        imaginary = side.imag == 0 ? imaginary : hn::LoadU(d, p + side.imag);
      }
      hn::Store(real, d, at(buffer, j) + re);
      hn::Store(imaginary, d, at(buffer, j) + im);
    }
  } else if (!block.is_whole()) {
    std::memset(buffer, 0, block.length * 2 * kLanes<T> * sizeof(T));
  }
  for (size_t v = 0; v < block.count && j < block.length; ++v) {
    const T* p = block.start(v) + j * side.step;
    for (size_t k = j; k < block.length; ++k, p += side.step) {
      at(buffer, k)[re + v] = p[0];
      at(buffer, k)[im + v] = side.imag == 0 ? T(0) : p[side.imag];
    }
  }
}

template <class T>
void store_block(const BlockOf<T>& block, T* buffer, T scale) {
  const LaneTag<T> d;
  const FftSide<T>& side = block.side;
  const size_t re = block.swapped ? kLanes<T> : 0;
  const size_t im = kLanes<T> - re;
  size_t j = 0;
  if (block.is_rows()) {
    j = over_squares(block, buffer,
                     [scale](T* const* rows, T* const* lanes) HWY_ATTR { transpose(lanes, rows, scale); });
  } else if (block.is_contiguous()) {
    const auto factor = hn::Set(d, scale);
    T* p = block.start(0);
    for (; j < block.length; ++j, p += side.step) {
      const auto real = hn::Mul(factor, hn::Load(d, at(buffer, j) + re));
      const auto imaginary = hn::Mul(factor, hn::Load(d, at(buffer, j) + im));
      if (side.lane_step == 2) {
        hn::StoreInterleaved2(real, imaginary, d, p);
      } else {
        hn::StoreU(real, d, p);
        if (side.imag != 0) {
          hn::StoreU(imaginary, d, p + side.imag);
        }
      }
    }
  }
  for (size_t v = 0; v < block.count && j < block.length; ++v) {
    T* p = block.start(v) + j * side.step;
    for (size_t k = j; k < block.length; ++k, p += side.step) {
      p[0] = scale * at(buffer, k)[re + v];
      if (side.imag != 0) {
        p[side.imag] = scale * at(buffer, k)[im + v];
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------------------- real
// transforms

/// From the transform of n / 2 pairs of a real sequence (as complex numbers) to elements 0 to n / 2 of its own, in
/// place.
template <class T>
void untangle(T* z, size_t n, const T* roots) {
  const LaneTag<T> d;
  const size_t half = n / 2;
  const auto by_half = [d](Lane<T> a) HWY_ATTR {
    return Lane<T>{hn::Mul(a.re, hn::Set(d, T(0.5))), hn::Mul(a.im, hn::Set(d, T(0.5)))};
  };
  Lane<T>::load(at(z, 0)).store(at(z, half));
  for (size_t k = 0; k <= half / 2; ++k) {
    const Lane<T> a = Lane<T>::load(at(z, k));
    const Lane<T> b = Lane<T>::load(at(z, half - k)).conjugate();
    const Lane<T> even = by_half(a + b);
    const Lane<T> odd = by_half(a - b).turned() * Lane<T>::set(roots + 2 * k);
    (even + odd).store(at(z, k));
    (even - odd).conjugate().store(at(z, half - k));
  }
  // These are real; a zero with a sign would turn the angle of negative ones.
  for (const size_t k : {size_t{0}, half}) {
    hn::Store(hn::Zero(d), d, at(z, k) + kLanes<T>);
  }
}

/// The way back, for a transform backwards: real and imaginary parts change places.
template <class T>
void entangle(T* x, size_t n, const T* roots) {
  const LaneTag<T> d;
  const size_t half = n / 2;
  for (const size_t k : {size_t{0}, half}) {  // these are real
    hn::Store(hn::Zero(d), d, at(x, k) + kLanes<T>);
  }
  for (size_t k = 0; k <= half / 2; ++k) {
    const Lane<T> a = Lane<T>::load(at(x, k));
    const Lane<T> b = Lane<T>::load(at(x, half - k)).conjugate();
    const Lane<T> even = a + b;
    const Lane<T> odd = ((a - b) * Lane<T>::set(roots + 2 * k).conjugate()).turned();  // times -i
    const Lane<T> low = even - odd;
    const Lane<T> high = (even + odd).conjugate();
    Lane<T>{low.im, low.re}.store(at(x, k));
    Lane<T>{high.im, high.re}.store(at(x, half - k));
  }
}

/// The elements that symmetry gives: of the transform of a real sequence of n, of which elements 0 to n / 2 are there.
template <class T>
void mirror(T* x, size_t n) {
  for (size_t k = n / 2 + 1; k < n; ++k) {
    Lane<T>::load(at(x, n - k)).conjugate().store(at(x, k));
  }
}

/// Multiplies element k of lane number l by exp(-2πi l k / n). `scratch`: kFineSteps + length / kFineSteps + 1
/// elements.
template <class T>
void twist(const RootsOfUnity& roots, size_t first_lane, size_t count, size_t length, T* x, T* scratch) {
  const size_t coarse_steps = length / kFineSteps + 1;
  T* const fine = scratch;
  T* const coarse = at(scratch, kFineSteps);
  const auto fill = [&](T* table, size_t entries, size_t step) {
    for (size_t k = 0; k < entries && k * step < length; ++k) {
      for (size_t v = 0; v < kLanes<T>; ++v) {
        const ComplexDouble w = v < count ? roots.at((first_lane + v) * k * step) : ComplexDouble{0, 0};
        at(table, k)[v] = static_cast<T>(w.re);
        at(table, k)[kLanes<T> + v] = static_cast<T>(w.im);
      }
    }
  };
  fill(fine, kFineSteps, 1);
  fill(coarse, coarse_steps, kFineSteps);
  for (size_t c = 0; c * kFineSteps < length; ++c) {
    const Lane<T> base = Lane<T>::load(at(coarse, c));
    for (size_t f = 0; f < kFineSteps && c * kFineSteps + f < length; ++f) {
      T* const p = at(x, c * kFineSteps + f);
      (Lane<T>::load(p) * (base * Lane<T>::load(at(fine, f)))).store(p);
    }
  }
}

/// The transforms of one block; x and y: buffers of scratch_elements(job) / 2 - kFineSteps elements.
template <class T>
void run_block(const FftJob<T>& job, size_t lane, size_t count, T* x, T* y, T* tables) {
  const FftPlan<T>& plan = *job.plan;
  const bool pairs = job.kind != FftKind::Complex && job.n % 2 == 0;
  load_block(BlockOf<T>{job.from, lane, count, job.loaded, job.from_swapped}, x);
  if (job.kind == FftKind::ComplexToReal) {
    if (pairs) {
      entangle(x, job.n, job.roots);
    } else {
      const LaneTag<T> d;
      hn::Store(hn::Zero(d), d, at(x, 0) + kLanes<T>);
      mirror(x, job.n);
      for (size_t k = 0; k < job.n; ++k) {  // backwards
        const Lane<T> value = Lane<T>::load(at(x, k));
        Lane<T>{value.im, value.re}.store(at(x, k));
      }
    }
  }
  T* const result = transform(plan, x, y);
  if (job.kind == FftKind::RealToComplex && pairs) {
    untangle(result, job.n, job.roots);
    if (job.stored == job.n) {
      mirror(result, job.n);
    }
  }
  if (job.twist != nullptr) {
    twist(*job.twist, lane, count, plan.n, result, tables);
  }
  store_block(BlockOf<T>{job.to, lane, count, job.stored, job.to_swapped}, result, job.scale);
}

template <class T>
size_t NumBlocks(const FftJob<T>& job) {
  const size_t inner = job.from.inner;
  return inner < kLanes<T> ? hwy::DivCeil(job.lanes, kLanes<T>) : job.lanes / inner * hwy::DivCeil(inner, kLanes<T>);
}

/// Blocks [begin, end) of a job. A block does not reach over the end of neighbours that fill a vector.
template <class T>
void RunBlocks(const FftJob<T>& job, size_t begin, size_t end, T* scratch) {
  const size_t inner = job.from.inner;
  T* const y = at(scratch, job.buffer);
  T* const tables = at(y, job.buffer);
  for (size_t i = begin; i < end; ++i) {
    size_t lane = i * kLanes<T>;
    size_t last = job.lanes;
    if (inner >= kLanes<T>) {
      const size_t per_outer = hwy::DivCeil(inner, kLanes<T>);
      last = (i / per_outer + 1) * inner;
      lane = last - inner + i % per_outer * kLanes<T>;
    }
    run_block(job, lane, HWY_MIN(kLanes<T>, last - lane), scratch, y, tables);
  }
}

/// Transforms the filter of a plan's convolution in place.
template <class T>
void TransformFilter(const FftPlan<T>& plan, T* scratch) {
  T* const y = at(scratch, plan.m);
  for (size_t k = 0; k < plan.m; ++k) {
    Lane<T>::set(plan.filter + 2 * k).store(at(scratch, k));
  }
  const T* const result = run_stages(plan, scratch, y);
  for (size_t k = 0; k < plan.m; ++k) {
    plan.filter[2 * k] = at(result, k)[0];
    plan.filter[2 * k + 1] = at(result, k)[kLanes<T>];
  }
}

}  // namespace et::kernels::optimized::fft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
