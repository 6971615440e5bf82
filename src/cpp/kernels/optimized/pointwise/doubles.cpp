// Pointwise functions of one tensor of doubles: what unary.cpp, transcendental.cpp and special.cpp are for floats.
//
// The vector functions are Highway's, at most 4 ulp from the exact value, and the error function below. An element
// outside of the range of a function (infinities, NaN, a large angle) is computed by the standard library.

#include "kernels/optimized/vec/every_target-inl.h"

#include <cmath>
#include <limits>

#include <hwy/contrib/math/math-inl.h>

#include "kernels/optimized/pointwise/pointwise-inl.h"
#include "kernels/optimized/vec/domains-inl.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_activation.h"
#include "ops/signatures/portable/op_binary.h"
#include "ops/signatures/portable/op_clamp.h"
#include "ops/signatures/portable/op_unary.h"

#ifndef ET_KERNELS_OPTIMIZED_DOUBLES_ONCE
#define ET_KERNELS_OPTIMIZED_DOUBLES_ONCE
namespace et::kernels::optimized::pointwise {
/// The numbers of an operation, which a block has as floats only.
struct DoublePair {
  double a = 0, b = 0;
};
}  // namespace et::kernels::optimized::pointwise
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

using Doubles = hn::ScalableTag<double>;
using Vector = hn::Vec<Doubles>;

/// out = fn(x) for one operand of doubles in the output's order.
template <class Fn>
HWY_INLINE void map_doubles(const Fn& fn, const PointwiseBlock& block) {
  const Doubles d;
  const size_t lanes = hn::Lanes(d);
  const auto* const x = static_cast<const double*>(block.in[0]);
  auto* const y = static_cast<double*>(block.out);
  const size_t n = block.columns;
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(fn(hn::LoadU(d, x + i)), d, y + i);
  }
  if (i < n) {
    hn::StoreN(fn(hn::LoadN(d, x + i, n - i)), d, y + i, n - i);
  }
}

HWY_INLINE Vector set(double value) { return hn::Set(Doubles(), value); }
HWY_INLINE Vector at_most(Vector x, double high) { return hn::IfThenElse(hn::Gt(x, set(high)), set(high), x); }
/// e^x, 0 below -707.
HWY_INLINE Vector exp(Vector x) { return hn::Exp(Doubles(), x); }

template <size_t N>
HWY_INLINE Vector polynomial(Vector x, const double (&c)[N]) {
  Vector sum = set(c[N - 1]);
  for (size_t i = N - 1; i-- > 0;) {
    sum = hn::MulAdd(sum, x, set(c[i]));
  }
  return sum;
}

/// erfc(x) for 0 <= x <= 26.5 as e^(-x^2) f(x) / (1 + 2 x), f a polynomial of (x - 4) / (x + 4).
/// Source of the form: M. Shepherd, J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", 1981; the
/// polynomial is interpolated at Chebyshev's nodes, error 7e-16.
HWY_INLINE Vector erfc_of_positive(Vector x) {
  constexpr double kCoefficients[] = {1.2329951186255526,      -0.13962111684057552,    0.015379652102595913,
                                      0.068097054255958925,    -0.10103906603477862,    0.093732834962182487,
                                      -0.066330365852150783,   0.037167516006217677,    -0.016197733524042843,
                                      0.0050319667064388923,   -0.00075777733575466859, -0.00019924348270804971,
                                      0.00015064005697033983,  -2.443028184973729e-05,  -1.1272978585231567e-05,
                                      5.7488316320960225e-06,  3.7843573322253591e-07,  -8.4191884563156153e-07,
                                      -3.4660137002818085e-09, 9.6062077760891131e-08,  1.4271002325465475e-08};
  const Vector square = hn::Mul(x, x);
  const Vector rest = hn::MulSub(x, x, square);  // what the square lost, which the exponential would multiply
  const Vector power = exp(hn::Neg(square));
  const Vector t = hn::Div(hn::Sub(x, set(4.0)), hn::Add(x, set(4.0)));
  const Vector f = hn::Div(polynomial(t, kCoefficients), hn::MulAdd(x, set(2.0), set(1.0)));
  return hn::Mul(hn::NegMulAdd(power, rest, power), f);
}

HWY_INLINE Vector erfc(Vector x) {
  const Vector tail = erfc_of_positive(hn::Abs(x));
  return hn::IfThenElse(hn::Lt(x, set(0.0)), hn::Sub(set(2.0), tail), tail);
}

/// Taylor's series around 0, 1 - erfc beyond.
HWY_INLINE Vector erf(Vector x) {
  constexpr double kSeries[] = {1.1283791670955126,      -0.37612638903183754,   0.11283791670955126,
                                -0.026866170645131252,   0.0052239776254421879,  -0.00085483270234508533,
                                0.00012055332981789664,  -1.492565035840625e-05, 1.6462114365889248e-06,
                                -1.6365844691234924e-07, 1.4807192815879218e-08, -1.2290555301717928e-09,
                                9.4227590646504113e-11,  -6.7113668551641105e-12};
  const Vector y = hn::Abs(x);
  const Vector small = hn::Mul(x, polynomial(hn::Mul(x, x), kSeries));
  const Vector large = hn::CopySign(hn::Sub(set(1.0), erfc_of_positive(y)), x);
  return hn::IfThenElse(hn::Lt(y, set(0.65)), small, large);
}

HWY_INLINE Vector sigmoid(Vector x) { return hn::Div(set(1.0), hn::Add(set(1.0), exp(hn::Neg(x)))); }
double sigmoid_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// x tanh(log(1 + e^x)) = x n / (n + 2) with n = e^x (e^x + 2).
HWY_INLINE Vector mish(Vector x) {
  const Vector e = exp(at_most(x, 40.0));
  const Vector n = hn::Mul(e, hn::Add(e, set(2.0)));
  return hn::Mul(x, hn::Div(n, hn::Add(n, set(2.0))));
}

HWY_INLINE Vector gelu_tanh(Vector x) {
  const Vector inner = hn::MulAdd(hn::Mul(hn::Mul(x, x), x), set(0.044715), x);
  return hn::Mul(hn::Mul(x, set(0.5)),
                 hn::Add(set(1.0), hn::Tanh(Doubles(), hn::Mul(set(0.79788456080286535588), inner))));
}

/// y, but x where it is a zero or subnormal: what functions give that are x near 0, of which Highway's lose the sign.
HWY_INLINE Vector near_zero(Vector x, Vector y) {
  return hn::IfThenElse(hn::Lt(hn::Abs(x), set(2.2250738585072014e-308)), x, y);
}

// DoubleNAME(block) applies VECTOR, which sees x, to elements in [LOW, HIGH], SCALAR, which sees x, to others.
#define ET_CHECKED(NAME, LOW, HIGH, VECTOR, SCALAR)                           \
  void Double##NAME(const PointwiseBlock& block) {                            \
    map_doubles(                                                              \
        [](Vector all) HWY_ATTR {                                             \
          const Doubles d;                                                    \
          return checked(                                                     \
              d, all, LOW, HIGH, [d](Vector x) HWY_ATTR { return (VECTOR); }, \
              [](double x) HWY_ATTR -> double { return SCALAR; });            \
        },                                                                    \
        block);                                                               \
  }

// The same for functions with a domain.
#define ET_BOUNDED(NAME, DOMAIN_OF, LOW, HIGH, VECTOR, SCALAR)                           \
  void Double##NAME(const PointwiseBlock& block) {                                       \
    map_doubles(                                                                         \
        [](Vector all) HWY_ATTR {                                                        \
          const Doubles d;                                                               \
          return bounded(                                                                \
              d, all, DOMAIN_OF, LOW, HIGH, [d](Vector x) HWY_ATTR { return (VECTOR); }, \
              [](double x) HWY_ATTR -> double { return SCALAR; });                       \
        },                                                                               \
        block);                                                                          \
  }

constexpr double kLargest = std::numeric_limits<double>::max();
constexpr double kSmallest = std::numeric_limits<double>::min();
constexpr double kAngle = 30000.0;  // Highway reduces angles up to 39000 well
constexpr double kExponent = 700.0;
constexpr double kHalfRoot = 0.70710678118654752440;

ET_BOUNDED(Acos, kArcCosine<double>, -1.0, 1.0, hn::Acos(d, x), std::acos(x))
ET_BOUNDED(Acosh, kFromOne<double>, 1.0, 1e150, hn::Acosh(d, x), std::acosh(x))
ET_BOUNDED(Asin, kArcSine<double>, -1.0, 1.0, hn::Asin(d, x), std::asin(x))
ET_CHECKED(Asinh, -1e150, 1e150, hn::Asinh(d, x), std::asinh(x))
ET_CHECKED(Atan, -kLargest, kLargest, hn::Atan(d, x), std::atan(x))
ET_BOUNDED(Atanh, kUnit<double>, -0.999999999999, 0.999999999999, hn::Atanh(d, x), std::atanh(x))
ET_CHECKED(Cos, -kAngle, kAngle, hn::Cos(d, x), std::cos(x))
ET_CHECKED(Cosh, -kExponent, kExponent, hn::MulAdd(exp(x), set(0.5), hn::Div(set(0.5), exp(x))), std::cosh(x))
ET_CHECKED(Erf, -26.0, 26.0, erf(x), std::erf(x))
ET_CHECKED(Erfc, -26.0, 26.0, erfc(x), std::erfc(x))
ET_CHECKED(Exp, -kExponent, kExponent, exp(x), std::exp(x))
ET_CHECKED(Exp2, -1000.0, 1000.0, hn::Exp2(d, x), std::exp2(x))
ET_CHECKED(Expm1, -kExponent, kExponent, near_zero(x, hn::Expm1(d, x)), std::expm1(x))
ET_CHECKED(GeluErf, -36.0, 36.0, hn::Mul(hn::Mul(x, set(0.5)), erfc(hn::Mul(x, set(-kHalfRoot)))),
           0.5 * x * (1.0 + std::erf(x * kHalfRoot)))
ET_CHECKED(GeluTanh, -1e100, 1e100, gelu_tanh(x),
           0.5 * x * (1.0 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))))
ET_BOUNDED(Log, kLogarithm<double>, kSmallest, kLargest, hn::Log(d, x), std::log(x))
ET_BOUNDED(Log10, kLogarithm<double>, kSmallest, kLargest, hn::Log10(d, x), std::log10(x))
ET_BOUNDED(Log1p, kLogarithm1<double>, -0.999, kLargest, hn::Log1p(d, x), std::log1p(x))
ET_BOUNDED(Log2, kLogarithm<double>, kSmallest, kLargest, hn::Log2(d, x), std::log2(x))
ET_CHECKED(Mish, -kExponent, kLargest, mish(x), x* std::tanh(std::log1p(std::exp(x))))
ET_CHECKED(Sigmoid, -kExponent, kExponent, sigmoid(x), sigmoid_of(x))
ET_CHECKED(Silu, -kExponent, kExponent, hn::Mul(x, sigmoid(x)), x* sigmoid_of(x))
ET_CHECKED(Sin, -kAngle, kAngle, near_zero(x, hn::Sin(d, x)), std::sin(x))
ET_CHECKED(Sinh, -kExponent, kExponent, hn::Sinh(d, x), std::sinh(x))
ET_CHECKED(Tan, -kAngle, kAngle, near_zero(x, hn::Div(hn::Sin(d, x), hn::Cos(d, x))), std::tan(x))
ET_CHECKED(Tanh, -kLargest, kLargest, hn::Tanh(d, x), std::tanh(x))
#undef ET_BOUNDED
#undef ET_CHECKED

// DoubleNAME(block) applies EXPRESSION, which sees x and the operation's numbers a and b, and is right for every
// double.
#define ET_PLAIN(NAME, EXPRESSION)                                              \
  void Double##NAME(const PointwiseBlock& block) {                              \
    const auto numbers = *static_cast<const DoublePair*>(block.parameters);     \
    map_doubles(                                                                \
        [a = set(numbers.a), b = set(numbers.b)](Vector x) HWY_ATTR -> Vector { \
          static_cast<void>(a);                                                 \
          static_cast<void>(b);                                                 \
          return (EXPRESSION);                                                  \
        },                                                                      \
        block);                                                                 \
  }

ET_PLAIN(Abs, hn::Abs(x))
ET_PLAIN(Ceil, hn::Ceil(x))
ET_PLAIN(Clamp, hn::IfThenElse(hn::Gt(hn::IfThenElse(hn::Lt(x, a), a, x), b), b, hn::IfThenElse(hn::Lt(x, a), a, x)))
ET_PLAIN(Cube, hn::Mul(hn::Mul(x, x), x))
ET_PLAIN(Floor, hn::Floor(x))
ET_PLAIN(Frac, hn::Sub(x, hn::Trunc(x)))
ET_PLAIN(LeakyRelu, hn::IfThenElse(hn::Lt(x, set(0.0)), hn::Mul(x, a), x))
ET_PLAIN(Neg, hn::Neg(x))
ET_PLAIN(Reciprocal, hn::Div(set(1.0), x))
ET_PLAIN(Relu, hn::IfThenZeroElse(hn::Lt(x, set(0.0)), x))
ET_PLAIN(Round, hn::Round(x))
ET_PLAIN(Rsqrt, hn::Div(set(1.0), hn::Sqrt(x)))
ET_PLAIN(Sqrt, hn::Sqrt(x))
ET_PLAIN(Same, x)
ET_PLAIN(Square, hn::Mul(x, x))
ET_PLAIN(Trunc, hn::Trunc(x))
#undef ET_PLAIN

/// a (e^x - 1) for x <= 0, else b x.
void DoubleElu(const PointwiseBlock& block) {
  const auto numbers = *static_cast<const DoublePair*>(block.parameters);
  map_doubles(
      [a = set(numbers.a), b = set(numbers.b)](Vector x) HWY_ATTR {
        const Vector low = hn::IfThenElse(hn::Lt(x, set(-700.0)), set(-700.0), at_most(x, 0.0));
        const Vector below = hn::Mul(a, near_zero(low, hn::Expm1(Doubles(), low)));
        return hn::IfThenElse(hn::Lt(x, set(0.0)), below, hn::Mul(x, b));
      },
      block);
}

/// x b > a ? x : log(1 + e^(x b)) / b.
void DoubleSoftplus(const PointwiseBlock& block) {
  const auto numbers = *static_cast<const DoublePair*>(block.parameters);
  map_doubles(
      [threshold = set(numbers.a), beta = set(numbers.b)](Vector x) HWY_ATTR {
        const Vector y = hn::Mul(x, beta);
        const auto is_linear = hn::Gt(y, threshold);
        const Vector low = hn::IfThenElse(hn::Lt(y, set(-746.0)), set(-746.0), at_most(y, 700.0));
        const Vector curve = hn::Div(hn::Log1p(Doubles(), exp(low)), beta);
        return hn::IfThenElse(hn::Or(is_linear, hn::IsNaN(x)), x, curve);
      },
      block);
}

/// x limited to [low, high], all tensors; not a number in any of them is the result.
void DoubleLimits(const PointwiseBlock& block) {
  const size_t rows = block.rows, columns = block.columns;
  for (size_t r = 0; r < rows; ++r) {
    const auto row = static_cast<int64_t>(r);
    const auto operand = [&](size_t k) { return static_cast<const double*>(block.in[k]) + row * block.row_stride[k]; };
    const double* const x = operand(0);
    const double* const low = operand(1);
    const double* const high = operand(2);
    double* const out = static_cast<double*>(block.out) + r * columns;
    const int64_t* const step = block.column_stride;
    const auto limited = [](double v, double from, double to) {
      v = v > from || v != v ? v : from;  // the bound, also where it is not a number
      return v < to || v != v ? v : to;
    };
    if (step[0] == 1 && step[1] == 1 && step[2] == 1) {
      for (size_t c = 0; c < columns; ++c) {
        out[c] = limited(x[c], low[c], high[c]);
      }
      continue;
    }
    for (size_t c = 0; c < columns; ++c) {
      const auto i = static_cast<int64_t>(c);
      out[c] = limited(x[i * step[0]], low[i * step[1]], high[i * step[2]]);
    }
  }
}

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

// clang-format off
#define ET_LOOPS(X) \
  X(Abs) X(Acos) X(Acosh) X(Asin) X(Asinh) X(Atan) X(Atanh) X(Ceil) X(Clamp) X(Cos) X(Cosh) X(Cube) X(Elu) X(Erf) \
  X(Erfc) X(Exp) X(Exp2) X(Expm1) X(Floor) X(Frac) X(GeluErf) X(GeluTanh) X(LeakyRelu) X(Log) X(Log10) X(Log1p) \
  X(Log2) X(Mish) X(Limits) X(Neg) X(Reciprocal) X(Relu) X(Round) X(Rsqrt) X(Sigmoid) X(Silu) X(Sin) X(Sinh) X(Same) \
  X(Softplus) X(Sqrt) X(Square) X(Tan) X(Tanh) X(Trunc)
// clang-format on
#define ET_EXPORT(NAME)     \
  HWY_EXPORT(Double##NAME); \
  static BlockFunction loop_##NAME() { return HWY_DYNAMIC_POINTER(Double##NAME); }
ET_LOOPS(ET_EXPORT)
#undef ET_EXPORT
#undef ET_LOOPS

namespace {

/// fn(self, …, out): doubles in one dim order.
Error choose(Arguments args, BlockFunction function, size_t cost, PointwiseOperation* operation,
             DoublePair numbers = {}) {
  const EValue& out = *args[args.size() - 1];
  const auto is_double = [](const EValue& value) {
    return value.is_tensor() && value.to_tensor().scalar_type() == ScalarType::Double;
  };
  if (!is_double(*args[0]) || !is_double(out) || !same_dim_order(*args[0], out)) {
    return Error::NotSupported;
  }
  operation->function = function;
  operation->cost = cost;
  operation->set_parameters(numbers);
  operation->add_tensor(args, 0);
  return Error::Ok;
}

template <BlockFunction (*Loop)(), size_t kCost>
Error choose_plain(Arguments args, PointwiseOperation* operation) {
  return choose(args, Loop(), kCost, operation);
}

// clamp(self, Scalar? min, Scalar? max, out) and hardtanh(self, Scalar min_val, Scalar max_val, out)
Error choose_clamp(Arguments args, PointwiseOperation* operation) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  DoublePair range{-kInfinity, kInfinity};
  range.a = args[1]->is_none() ? range.a : args[1]->number_as_double();
  range.b = args[2]->is_none() ? range.b : args[2]->number_as_double();
  if (range.a != range.a || range.b != range.b) {
    return Error::NotSupported;  // would have to reach the output
  }
  return choose(args, loop_Clamp(), kCheap, operation, range);
}

// elu(self, Scalar alpha, Scalar scale, Scalar input_scale, out)
Error choose_elu(Arguments args, PointwiseOperation* operation) {
  if (args[3]->number_as_double() != 1.0) {
    return Error::NotSupported;
  }
  const double scale = args[2]->number_as_double();
  return choose(args, loop_Elu(), 2 * kTranscendental, operation, {args[1]->number_as_double() * scale, scale});
}

// gelu(self, str approximate, out)
Error choose_gelu(Arguments args, PointwiseOperation* operation) {
  const bool is_tanh = args[1]->to_string_view() == "tanh";
  return choose(args, is_tanh ? loop_GeluTanh() : loop_GeluErf(), 2 * kTranscendental, operation);
}

// clamp(self, Tensor? min, Tensor? max, out)
Error choose_limits(Arguments args, PointwiseOperation* operation) {
  for (const size_t i : {0, 1, 2, 3}) {
    if (!args[i]->is_tensor() || args[i]->to_tensor().scalar_type() != ScalarType::Double) {
      return Error::NotSupported;
    }
  }
  operation->name = "aten::clamp";
  operation->function = loop_Limits();
  operation->cost = kDivides;
  for (const size_t i : {0, 1, 2}) {
    operation->add_tensor(args, i);
  }
  return Error::Ok;
}

// softplus(self, Scalar beta, Scalar threshold, out)
Error choose_softplus(Arguments args, PointwiseOperation* operation) {
  const DoublePair numbers{args[2]->number_as_double(), args[1]->number_as_double()};
  if (!(numbers.a <= 700.0)) {  // beyond, the exponential overflows in eager
    return Error::NotSupported;
  }
  return choose(args, loop_Softplus(), 4 * kTranscendental, operation, numbers);
}

// leaky_relu(self, Scalar negative_slope, out)
Error choose_leaky_relu(Arguments args, PointwiseOperation* operation) {
  return choose(args, loop_LeakyRelu(), kCheap, operation, {args[1]->number_as_double(), 0});
}

// pow(self, Scalar exponent, out): exponents that are a few multiplications.
Error choose_pow(Arguments args, PointwiseOperation* operation) {
  const struct {
    double exponent;
    BlockFunction function;
  } entries[] = {{1.0, loop_Same()}, {2.0, loop_Square()}, {3.0, loop_Cube()},
                 {0.5, loop_Sqrt()}, {-0.5, loop_Rsqrt()}, {-1.0, loop_Reciprocal()}};
  for (const auto& entry : entries) {
    if (entry.exponent == args[1]->number_as_double()) {
      return choose(args, entry.function, kDivides, operation);
    }
  }
  return Error::NotSupported;
}

template <BlockFunction (*Loop)(), size_t kCost = 2 * kTranscendental>
constexpr Kernel plain(const Signature& signature) {
  return make_pointwise_kernel<&choose_plain<Loop, kCost>>(signature);
}

constexpr Kernel kKernels[] = {
    plain<&loop_Abs, kCheap>(signature::abs_out),
    plain<&loop_Acos>(signature::acos_out),
    plain<&loop_Acosh>(signature::acosh_out),
    plain<&loop_Asin>(signature::asin_out),
    plain<&loop_Asinh>(signature::asinh_out),
    plain<&loop_Atan>(signature::atan_out),
    plain<&loop_Atanh>(signature::atanh_out),
    plain<&loop_Ceil, kCheap>(signature::ceil_out),
    make_pointwise_kernel<&choose_clamp>(signature::clamp_out),
    make_pointwise_kernel<&choose_limits>(signature::clamp_tensor_out),
    plain<&loop_Cos>(signature::cos_out),
    plain<&loop_Cosh>(signature::cosh_out),
    make_pointwise_kernel<&choose_elu>(signature::elu_out),
    plain<&loop_Erf>(signature::erf_out),
    plain<&loop_Erfc>(signature::erfc_out),
    plain<&loop_Exp>(signature::exp_out),
    plain<&loop_Exp2>(signature::exp2_out),
    plain<&loop_Expm1>(signature::expm1_out),
    plain<&loop_Floor, kCheap>(signature::floor_out),
    plain<&loop_Frac, kCheap>(signature::frac_out),
    make_pointwise_kernel<&choose_gelu>(signature::gelu_out),
    make_pointwise_kernel<&choose_clamp>(signature::hardtanh_out),
    make_pointwise_kernel<&choose_leaky_relu>(signature::leaky_relu_out),
    plain<&loop_Log>(signature::log_out),
    plain<&loop_Log10>(signature::log10_out),
    plain<&loop_Log1p>(signature::log1p_out),
    plain<&loop_Log2>(signature::log2_out),
    plain<&loop_Mish>(signature::mish_out),
    plain<&loop_Neg, kCheap>(signature::neg_out),
    make_pointwise_kernel<&choose_pow>(signature::pow_tensor_scalar_out),
    plain<&loop_Reciprocal, kDivides>(signature::reciprocal_out),
    plain<&loop_Relu, kCheap>(signature::relu_out),
    plain<&loop_Round, kCheap>(signature::round_out),
    plain<&loop_Rsqrt, kDivides>(signature::rsqrt_out),
    plain<&loop_Sigmoid>(signature::sigmoid_out),
    plain<&loop_Silu>(signature::silu_out),
    plain<&loop_Sin>(signature::sin_out),
    plain<&loop_Sinh>(signature::sinh_out),
    make_pointwise_kernel<&choose_softplus>(signature::softplus_out),
    plain<&loop_Sqrt, kDivides>(signature::sqrt_out),
    plain<&loop_Square, kCheap>(signature::square_out),
    plain<&loop_Tan>(signature::tan_out),
    plain<&loop_Tanh>(signature::tanh_out),
    plain<&loop_Trunc, kCheap>(signature::trunc_out),
};
constexpr auto kTable = at_priority(kPriorityDoubles, kKernels);

}  // namespace

ET_KERNEL_TABLE(doubles, {kTable.data(), kTable.size()})

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
