// Pointwise functions of one float tensor beyond the activations: logarithms, trigonometric and hyperbolic functions and
// their inverses, general powers, and the rounding functions.
//
// The vector functions are Highway's (hwy/contrib/math), at most 4 ulp from the exact value in the range that each states.
// An element outside of it (0, infinities, NaN, a large angle) is computed by the standard library instead, so special
// values are those of the portable kernels.

#include "kernels/optimized/targets.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/transcendental.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include "kernels/optimized/math-inl.h"
#include "kernels/optimized/pointwise-inl.h"
#include "kernels/optimized/tables.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {

/// Elements of y where `valid` is false, computed one by one from x.
template <class D, class V = hn::Vec<D>, class Scalar>
HWY_NOINLINE V repair(D d, V x, V y, hn::Mask<D> valid, Scalar scalar) {
  HWY_ALIGN float from[hn::MaxLanes(d)];
  HWY_ALIGN float to[hn::MaxLanes(d)];
  HWY_ALIGN float is_valid[hn::MaxLanes(d)];
  hn::Store(x, d, from);
  hn::Store(y, d, to);
  hn::Store(hn::IfThenElseZero(valid, hn::Set(d, 1.0f)), d, is_valid);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (is_valid[i] == 0.0f) {
      to[i] = scalar(from[i]);
    }
  }
  return hn::Load(d, to);
}

/// vector(d, x) for x in [low, high], scalar(x) elsewhere.
template <class D, class V = hn::Vec<D>, class Vector, class Scalar>
HWY_INLINE V checked(D d, V x, float low, float high, Vector vector, Scalar scalar) {
  const auto valid = hn::And(hn::Ge(x, hn::Set(d, low)), hn::Le(x, hn::Set(d, high)));
  const V y = vector(x);
  return HWY_LIKELY(hn::AllTrue(d, valid)) ? y : repair(d, x, y, valid, scalar);
}

// NAME(block) applies VECTOR, which sees d and x, to elements in [LOW, HIGH], SCALAR, which sees x, to others.
#define ET_CHECKED(NAME, LOW, HIGH, VECTOR, SCALAR)                         \
  void NAME(const PointwiseBlock& block) {                                  \
    map_floats(                                                             \
        [](auto d, auto all) HWY_ATTR {                                     \
          return checked(                                                   \
              d, all, LOW, HIGH, [d](auto x) HWY_ATTR { return (VECTOR); }, \
              [](float x) HWY_ATTR { return static_cast<float>(SCALAR); }); \
        },                                                                  \
        block);                                                             \
  }

constexpr float kLargest = 3.402823466e38f;
constexpr float kSmallest = 1.17549435e-38f;  // that is not subnormal
constexpr float kAngle = 30000.0f;            // Highway reduces angles up to 39000 well
constexpr float kExponent = 87.0f;            // e^x and e^-x are finite and normal

ET_CHECKED(Acos, -1.0f, 1.0f, hn::Acos(d, x), std::acos(x))
ET_CHECKED(Acosh, 1.0f, kLargest, hn::Acosh(d, x), std::acosh(x))
ET_CHECKED(Asin, -1.0f, 1.0f, hn::Asin(d, x), std::asin(x))
ET_CHECKED(Asinh, -1e18f, 1e18f, hn::Asinh(d, x), std::asinh(x))
ET_CHECKED(Atan, -kLargest, kLargest, hn::Atan(d, x), std::atan(x))
ET_CHECKED(Atanh, -0.999999f, 0.999999f, hn::Atanh(d, x), std::atanh(x))
ET_CHECKED(Cos, -kAngle, kAngle, hn::Cos(d, x), std::cos(x))
ET_CHECKED(Cosh, -kExponent, kExponent, hn::MulAdd(exp(d, x), hn::Set(d, 0.5f), hn::Div(hn::Set(d, 0.5f), exp(d, x))),
           std::cosh(x))
ET_CHECKED(Exp2, -125.0f, 127.0f, hn::Exp2(d, x), std::exp2(x))
ET_CHECKED(Expm1, -kExponent, kExponent, hn::Expm1(d, x), std::expm1(x))
ET_CHECKED(Log, kSmallest, kLargest, hn::Log(d, x), std::log(x))
ET_CHECKED(Log10, kSmallest, kLargest, hn::Log10(d, x), std::log10(x))
ET_CHECKED(Log1p, 0.0f, kLargest, hn::Log1p(d, x), std::log1p(x))
ET_CHECKED(Log2, kSmallest, kLargest, hn::Log2(d, x), std::log2(x))
ET_CHECKED(Sin, -kAngle, kAngle, hn::Sin(d, x), std::sin(x))
ET_CHECKED(Sinh, -kExponent, kExponent, hn::Sinh(d, x), std::sinh(x))
ET_CHECKED(Tan, -kAngle, kAngle, hn::Div(hn::Sin(d, x), hn::Cos(d, x)), std::tan(x))
#undef ET_CHECKED

// NAME(block) applies EXPRESSION, which sees d and x and is right for every float.
#define ET_PLAIN(NAME, EXPRESSION)         \
  void NAME(const PointwiseBlock& block) { \
    map_floats(                            \
        [](auto d, auto x) HWY_ATTR {      \
          static_cast<void>(d);            \
          return (EXPRESSION);             \
        },                                 \
        block);                            \
  }

ET_PLAIN(Ceil, hn::Ceil(x))
ET_PLAIN(Floor, hn::Floor(x))
ET_PLAIN(Frac, hn::Sub(x, hn::Trunc(x)))
ET_PLAIN(Round, hn::Round(x))
ET_PLAIN(Sign, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0f),
                              hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, -1.0f), hn::Zero(d))))
ET_PLAIN(Trunc, hn::Trunc(x))
#undef ET_PLAIN

/// x^b for positive x, in doubles: the error of y log x, which e^… multiplies, stays far below a float's last bit.
void Pow(const PointwiseBlock& block) {
  const float exponent = block.b;
  map_floats(
      [exponent](auto d, auto all) HWY_ATTR {
        return checked(
            d, all, kSmallest, kLargest,
            [d, exponent](auto x) HWY_ATTR {
              const hn::Repartition<double, decltype(d)> dd;
              const auto e = hn::Set(dd, static_cast<double>(exponent));
              const auto bound = hn::Set(dd, 700.0);
              const auto power = [&](auto v) HWY_ATTR {
                const auto product = hn::Mul(e, hn::Log(dd, v));
                return hn::Exp(dd, hn::Max(hn::Min(product, bound), hn::Neg(bound)));
              };
              const hn::Half<decltype(d)> half;
              const auto low = power(hn::PromoteLowerTo(dd, x));
              const auto high = power(hn::PromoteUpperTo(dd, x));
              return hn::Combine(d, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
            },
            [exponent](float x) HWY_ATTR { return std::pow(x, exponent); });
      },
      block);
}

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

#define ET_LOOPS(X)                                                                                                 \
  X(Acos)                                                                                                           \
  X(Acosh)                                                                                                          \
  X(Asin)                                                                                                           \
  X(Asinh)                                                                                                          \
  X(Atan) X(Atanh) X(Ceil) X(Cos) X(Cosh) X(Exp2) X(Expm1) X(Floor) X(Frac) X(Log) X(Log10) X(Log1p) X(Log2) X(Pow) \
      X(Round) X(Sign) X(Sin) X(Sinh) X(Tan) X(Trunc)
#define ET_EXPORT(NAME) \
  HWY_EXPORT(NAME);     \
  static BlockFunction loop_##NAME() { return HWY_DYNAMIC_POINTER(NAME); }
ET_LOOPS(ET_EXPORT)
#undef ET_EXPORT
#undef ET_LOOPS

namespace {

Error choose(Arguments args, BlockFunction function, size_t cost, PointwiseOperation* operation) {
  if (!fits_unary(args)) {
    return Error::NotSupported;
  }
  operation->function = function;
  operation->cost = cost;
  operation->add_tensor(args, 0);
  return Error::Ok;
}

template <BlockFunction (*Loop)(), size_t kCost>
Error choose_plain(Arguments args, PointwiseOperation* operation) {
  return choose(args, Loop(), kCost, operation);
}

template <BlockFunction (*Loop)(), size_t kCost = 2 * kTranscendental>
constexpr Kernel plain(const char* name) {
  return make_pointwise_kernel<&choose_plain<Loop, kCost>>(name, "To");
}

constexpr Kernel kKernels[] = {
    plain<&loop_Acos>("aten::acos.out"),
    plain<&loop_Acosh>("aten::acosh.out"),
    plain<&loop_Asin>("aten::asin.out"),
    plain<&loop_Asinh>("aten::asinh.out"),
    plain<&loop_Atan>("aten::atan.out"),
    plain<&loop_Atanh>("aten::atanh.out"),
    plain<&loop_Ceil, kCheap>("aten::ceil.out"),
    plain<&loop_Cos>("aten::cos.out"),
    plain<&loop_Cosh>("aten::cosh.out"),
    plain<&loop_Exp2>("aten::exp2.out"),
    plain<&loop_Expm1>("aten::expm1.out"),
    plain<&loop_Floor, kCheap>("aten::floor.out"),
    plain<&loop_Frac, kCheap>("aten::frac.out"),
    plain<&loop_Log10>("aten::log10.out"),
    plain<&loop_Log1p>("aten::log1p.out"),
    plain<&loop_Log2>("aten::log2.out"),
    plain<&loop_Log>("aten::log.out"),
    plain<&loop_Round, kCheap>("aten::round.out"),
    plain<&loop_Sign, kCheap>("aten::sign.out"),
    plain<&loop_Sin>("aten::sin.out"),
    plain<&loop_Sinh>("aten::sinh.out"),
    plain<&loop_Tan>("aten::tan.out"),
    plain<&loop_Trunc, kCheap>("aten::trunc.out"),
};

}  // namespace

BlockFunction power_loop() { return loop_Pow(); }

Span<const Kernel> transcendental_kernels() { return kKernels; }

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
