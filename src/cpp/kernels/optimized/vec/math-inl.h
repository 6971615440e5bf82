// Limits and transcendental functions on vectors of float, compiled once a target. Included inside the target's pass
// only.
//
// Errors against the exact value, measured by tests/cpp/kernels/optimized: exp 2 ulp, tanh and erf 5 ulp, sigmoid 4
// ulp. NaN gives NaN. Nothing depends on the number of lanes, so every target with fused multiply-add gives the same
// result.

#if defined(ET_KERNELS_OPTIMIZED_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_MATH_INL_H_
#undef ET_KERNELS_OPTIMIZED_MATH_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_MATH_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// x limited to [low, high]; NaN stays. Highway leaves open which operand Max and Min give beside NaN: x86's
/// instructions give the second, Arm's the number.
template <class V>
HWY_INLINE V limit(V x, V low, V high) {
#if HWY_ARCH_X86
  return hn::Min(high, hn::Max(low, x));
#else
  x = hn::IfThenElse(hn::Lt(x, low), low, x);
  return hn::IfThenElse(hn::Gt(x, high), high, x);
#endif
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V limit(D d, V x, float low, float high) {
  return limit(x, hn::Set(d, low), hn::Set(d, high));
}

/// The polynomial c[0] + c[1] x + …, highest coefficient last.
template <class D, size_t N, class V = hn::Vec<D>>
HWY_INLINE V polynomial(D d, V x, const float (&c)[N]) {
  V sum = hn::Set(d, c[N - 1]);
  for (size_t i = N - 1; i-- > 0;) {
    sum = hn::MulAdd(sum, x, hn::Set(d, c[i]));
  }
  return sum;
}

/// e^x: x = n ln 2 + r with |r| <= ln 2 / 2, then 2^n times a polynomial of r.
/// Source: Cephes expf (polynomial and the split of ln 2), S. Moshier.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp(D d, V x) {
  x = limit(d, x, -104.0f, 89.0f);  // beyond: 0 and infinity, which the scaling below gives
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504088896341f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  constexpr float kCoefficients[] = {5.0000001201e-1f, 1.6666665459e-1f, 4.1665795894e-2f,
                                     8.3334519073e-3f, 1.3981999507e-3f, 1.9875691500e-4f};
  V y = polynomial(d, r, kCoefficients);
  y = hn::Add(hn::MulAdd(y, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  // 2^n in two factors, because n reaches -150 and 128.
  const hn::RebindToSigned<D> di;
  const auto e = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(e);
  const auto bias = hn::Set(di, 127);
  const V scale1 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V scale2 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(e, half), bias)));
  return hn::Mul(hn::Mul(y, scale1), scale2);
}

/// 1 / (1 + e^-x), with e^-x = 2^n e^r as in `exp`: 2^n in one factor, which is infinite from x = -88.4 down and 0 from
/// x = 87.7 up. The addition rounds to n, which it leaves, with the bias of an exponent, in the lowest bits. The
/// polynomial in -r is a minimax approximation, 9.2e-8 at most from e^r in relation to it.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  const V rounding = hn::Set(d, 12582912.0f + 127.0f);
  x = limit(d, x, -89.0f, 88.0f);
  const V shifted = hn::NegMulAdd(x, hn::Set(d, 1.44269504088896341f), rounding);
  const V scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(hn::RebindToSigned<D>(), shifted)));
  const V n = hn::Sub(shifted, rounding);
  V minus_r = hn::MulAdd(n, hn::Set(d, 0.693359375f), x);
  minus_r = hn::MulAdd(n, hn::Set(d, -2.12194440e-4f), minus_r);
  constexpr float kCoefficients[] = {1.0f, -0.999999702f, 0.499991477f, -0.166676387f, 0.0418981612f, -0.00829027221f};
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::MulAdd(scale, polynomial(d, minus_r, kCoefficients), one));
}

/// `inside`, or from |x| = `end` on 1 with the sign of x: what approximations end in is near 1, which functions that
/// subtract it from 1 and multiply by x (GELU) would show.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V saturate(D d, V x, float end, V inside) {
  return hn::IfThenElse(hn::Ge(hn::Abs(x), hn::Set(d, end)), hn::CopySign(hn::Set(d, 1.0f), x), inside);
}

/// tanh as a rational function of odd over even powers.
/// Source: Eigen, generic_fast_tanh_float (degree 13 over 6, a minimax approximation on [-7.9, 7.9]).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh(D d, V x) {
  const V y = limit(d, x, -7.90531110763549805f, 7.90531110763549805f);
  const V y2 = hn::Mul(y, y);
  constexpr float kOdd[] = {4.89352455891786e-03f,  6.37261928875436e-04f, 1.48572235717979e-05f, 5.12229709037114e-08f,
                            -8.60467152213735e-11f, 2.00018790482477e-13f, -2.76076847742355e-16f};
  constexpr float kEven[] = {4.89352518554385e-03f, 2.26843463243900e-03f, 1.18534705686654e-04f,
                             1.19825839466702e-06f};
  const V quotient = hn::Div(hn::Mul(y, polynomial(d, y2, kOdd)), polynomial(d, y2, kEven));
  return saturate(d, x, 9.02f, hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0.0004f)), x, quotient));
}

/// The error function as a rational function of odd over even powers.
/// Source: XLA, erf of float (a minimax approximation on [-3.74, 3.74]; from 3.93 on erf rounds to 1).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V erf(D d, V x) {
  const V y = limit(d, x, -3.7439211627767994f, 3.7439211627767994f);
  const V y2 = hn::Mul(y, y);
  constexpr float kOdd[] = {1.128379143519084f, 0.18520832239976145f, 0.050955695062380861f, 0.0034082910107109506f,
                            0.00022905065861350646f};
  constexpr float kEven[] = {1.0f,
                             0.49746925110067538f,
                             0.11098505178285362f,
                             0.014070470171167667f,
                             0.0010179625278914885f,
                             0.000023547966471313185f,
                             -1.1791602954361697e-7f};
  return saturate(d, x, 3.93f, hn::Div(hn::Mul(y, polynomial(d, y2, kOdd)), polynomial(d, y2, kEven)));
}

/// x times the normal distribution's share below x, (1 + erf(x / √2)) / 2: the quotient of `erf` in powers of x. What
/// it ends in on the left is near 0, where the share is 0: -∞ gives NaN, as infinity times 0 does.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu(D d, V x) {
  const V y = limit(d, x, -5.2947043f, 5.2947043f);
  const V y2 = hn::Mul(y, y);
  constexpr float kOdd[] = {0.39894227206590638f, 0.032740515175263912f, 0.0045038896898354228f,
                            0.00015062660537067907f, 5.0613523106517279e-06f};
  constexpr float kEven[] = {1.0f,
                             0.24873462555033768f,
                             0.027746262945713404f,
                             0.0017588087713959583f,
                             6.3622657993218026e-05f,
                             7.3587395222853698e-07f,
                             -1.8424379616190151e-09f};
  const V quotient = hn::Div(hn::Mul(y, polynomial(d, y2, kOdd)), polynomial(d, y2, kEven));
  const V share = hn::Add(quotient, hn::Set(d, 0.5f));
  return hn::Mul(x, hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -5.558f)), share));
}

}  // namespace et::kernels::optimized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
