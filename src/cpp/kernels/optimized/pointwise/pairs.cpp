// Functions of two floats or doubles: atan2, copysign, hypot, logaddexp, prelu, xlogy, and powers of floats.
//
// atan2 and hypot of floats are at most 2 ulp from the exact value, powers (computed in doubles) less than 1, what
// takes a logarithm as exact as Highway's (hwy/contrib/math). Elements that a vector function is not for go to the
// standard library one by one.

#include "kernels/optimized/vec/every_target-inl.h"

#include <cmath>
#include <limits>

#include <hwy/contrib/math/math-inl.h>

#include "kernels/optimized/pointwise/pair_loops-inl.h"
#include "kernels/optimized/vec/domains-inl.h"
#include "kernels/optimized/vec/math-inl.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_activation.h"
#include "ops/signatures/portable/op_binary.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

template <class D>
constexpr bool kIsDouble = sizeof(hn::TFromD<D>) == sizeof(double);

/// atan(q) for q in [0, 1].
/// Source: of floats, q + q³ P(q²) with P the minimax polynomial of the relative error (1.7e-8), by Remez' exchange in
///         40 digits.
template <class D, class V>
HWY_INLINE V arc_tangent(D d, V q) {
  if constexpr (kIsDouble<D>) {
    return hn::Atan(d, q);
  } else {
    constexpr float kCoefficients[] = {-0.333331527f,  0.199937728f,  -0.142110552f,  0.106660042f,
                                       -0.0755221344f, 0.0432118519f, -0.0163679231f, 0.00292069109f};
    const V square = hn::Mul(q, q);
    return hn::MulAdd(hn::Mul(q, square), polynomial(d, square, kCoefficients), q);
  }
}

/// π as a sum of two numbers of a type: what the first one leaves out is the second.
template <typename T>
constexpr T kPiRest = static_cast<T>(sizeof(T) == sizeof(double) ? 1.2246467991473532e-16 : -8.7422776573475858e-8);

/// An angle between 0 and π/4 of the smaller over the larger side, mirrored into its quadrant.
struct Atan2 {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V y, V x) const {
    using T = hn::TFromD<D>;
    const V zero = hn::Zero(d);
    const V ay = hn::Abs(y), ax = hn::Abs(x);
    const auto is_steep = hn::Gt(ay, ax);
    const V low = hn::IfThenElse(is_steep, ax, ay), high = hn::IfThenElse(is_steep, ay, ax);
    V ratio = hn::IfThenElse(hn::Eq(low, high), hn::Set(d, T{1}), hn::Div(low, high));  // also of infinities
    ratio = hn::IfThenElse(hn::Eq(low, zero), zero, ratio);
    const V angle = arc_tangent(d, ratio);
    const auto is_left = hn::IsNegative(x);
    const V turn = hn::IfThenElse(is_steep, hn::Set(d, kPi<T> / 2), hn::IfThenElseZero(is_left, hn::Set(d, kPi<T>)));
    const V rest =
        hn::IfThenElse(is_steep, hn::Set(d, kPiRest<T> / 2), hn::IfThenElseZero(is_left, hn::Set(d, kPiRest<T>)));
    const V part = hn::IfThenElse(hn::Xor(is_steep, is_left), hn::Neg(angle), angle);
    const V result = hn::CopySign(hn::Add(turn, hn::Add(rest, part)), y);
    return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), hn::NaN(d), result);
  }
};

struct CopySign {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::CopySign(a, b);
  }
};

/// A leaky ReLU whose slopes are an operand.
struct PRelu {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V slope) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(x, slope));
  }
};

/// √(a² + b²); infinite beside NaN where the other side is.
struct Hypot {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    V length;
    if constexpr (kIsDouble<D>) {
      length = hn::Hypot(d, a, b);
    } else {
      length =
          in_doubles(d, [](auto, auto x, auto y) HWY_ATTR { return hn::Sqrt(hn::MulAdd(x, x, hn::Mul(y, y))); }, a, b);
    }
    return hn::IfThenElse(hn::Or(hn::IsInf(a), hn::IsInf(b)), hn::Inf(d), length);
  }
};

/// log(e^a + e^b) = m + log(1 + e^-|a - b|), m being the larger one.
struct LogAddExp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    const V apart = hn::Neg(hn::Abs(hn::Sub(a, b)));
    V share;
    if constexpr (kIsDouble<D>) {
      share = hn::Exp(d, hn::IfThenElse(hn::Lt(apart, hn::Set(d, -700.0)), hn::Set(d, -700.0), apart));
    } else {
      share = exp(d, apart);
    }
    const V sum = hn::Add(maximum(a, b), hn::Log1p(d, share));
    return hn::IfThenElse(hn::And(hn::Eq(a, b), hn::IsInf(a)), a, sum);
  }
};

/// a log(b), 0 where a is. 16-bit floats: the logarithm is one of them.
template <class Round>
struct XLogY {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    using T = hn::TFromD<D>;
    const V log = bounded(
        d, b, kLogarithm<T>, std::numeric_limits<T>::min(), std::numeric_limits<T>::max(),
        [d](auto x) HWY_ATTR { return hn::Log(d, x); }, [](T x) HWY_ATTR { return std::log(x); });
    const V product = hn::IfThenZeroElse(hn::Eq(a, hn::Zero(d)), hn::Mul(a, Round()(d, log)));
    return hn::IfThenElse(hn::IsNaN(b), b, product);
  }
};

/// a^b in doubles: the error of b log |a|, which e^… multiplies, stays far below a float's last bit.
struct Pow {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    const V zero = hn::Zero(d), largest = hn::Set(d, std::numeric_limits<float>::max());
    const V one = hn::Set(d, 1.0f);
    const auto is_one = hn::Or(hn::Eq(a, one), hn::Eq(b, zero));  // beside every NaN, too
    const auto is_finite = hn::And(hn::Le(hn::Abs(a), largest), hn::Le(hn::Abs(b), largest));
    const auto valid = hn::Or(is_one, hn::And(hn::Ne(a, zero), is_finite));
    V power = in_doubles(
        d,
        [](auto dd, auto base, auto exponent) HWY_ATTR {
          const auto bound = hn::Set(dd, 700.0);
          const auto product = hn::Mul(exponent, hn::Log(dd, base));
          return hn::Exp(dd, hn::Max(hn::Min(product, bound), hn::Neg(bound)));
        },
        hn::Abs(a), b);
    const V half = hn::Mul(b, hn::Set(d, 0.5f));
    const auto is_whole = hn::Eq(hn::Trunc(b), b);
    const auto is_odd = hn::And(is_whole, hn::Ne(hn::Trunc(half), half));
    const V below = hn::IfThenElse(is_whole, hn::IfThenElse(is_odd, hn::Neg(power), power), hn::NaN(d));
    power = hn::IfThenElse(is_one, one, hn::IfThenElse(hn::Lt(a, zero), below, power));
    if (HWY_LIKELY(hn::AllTrue(d, valid))) {
      return power;
    }
    return repair_pair(d, a, b, power, valid, [](float x, float y) HWY_ATTR { return std::pow(x, y); });
  }
};

PairLoops Atan2Loops() { return number_loops<Atan2>(); }
PairLoops CopySignLoops() { return number_loops<CopySign>(); }
PairLoops HypotLoops() { return number_loops<Hypot>(); }
PairLoops LogAddExpLoops() { return number_loops<LogAddExp>(); }
PairLoops PReluLoops() { return number_loops<PRelu>(); }
PairLoops XLogYLoops() {
  PairLoops loops = number_loops<XLogY<RoundNothing>>();
  loops.halves = &PairNumbers<float, XLogY<RoundHalf>>;
  loops.bfloats = &PairNumbers<float, XLogY<RoundBFloat16>>;
  return loops;
}
PairLoops PowLoops() {
  PairLoops loops;
  loops.floats = &PairNumbers<float, Pow>;
  return loops;
}

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

ET_PAIR_OPERATOR(Atan2, "aten::atan2", kTranscendental)
ET_PAIR_OPERATOR(CopySign, "aten::copysign", kCheap)
ET_PAIR_OPERATOR(Hypot, "aten::hypot", kDivides)
ET_PAIR_OPERATOR(LogAddExp, "aten::logaddexp", 2 * kTranscendental)
ET_PAIR_OPERATOR(PRelu, "et::prelu", kCheap)
ET_PAIR_OPERATOR(XLogY, "aten::xlogy", kTranscendental)
ET_PAIR_OPERATOR(Pow, "aten::pow", 4 * kTranscendental)

namespace {

constexpr Kernel kKernels[] = {
    make_pointwise_kernel<&choose_float_pair<Atan2Operator>>(signature::atan2_out),
    make_pointwise_kernel<&choose_float_pair<CopySignOperator>>(signature::copysign_out),
    make_pointwise_kernel<&choose_float_pair<HypotOperator>>(signature::hypot_out),
    make_pointwise_kernel<&choose_float_pair<LogAddExpOperator>>(signature::logaddexp_out),
    make_pointwise_kernel<&choose_pair<PowOperator>>(signature::pow_tensor_tensor_out),
    make_pointwise_kernel<&choose_float_pair<XLogYOperator>>(signature::xlogy_outtensor),
    make_pointwise_kernel<&choose_pair<PReluOperator>>(signature::prelu_out),
};

}  // namespace

ET_KERNEL_TABLE(pairs, kKernels)

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
