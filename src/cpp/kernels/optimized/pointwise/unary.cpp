// Pointwise operators of one tensor of floats, computed in f32: activations, exp, sqrt, powers. One vector functor an
// operator.

#include "kernels/optimized/vec/every_target-inl.h"

#include <limits>

#include "kernels/optimized/pointwise/pointwise-inl.h"
#include "kernels/optimized/vec/math-inl.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_activation.h"
#include "ops/signatures/portable/op_binary.h"
#include "ops/signatures/portable/op_clamp.h"
#include "ops/signatures/portable/op_unary.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

// NAME(block) applies EXPRESSION, which sees d, x (a vector) and the operation's numbers a and b.
#define ET_UNARY(NAME, EXPRESSION)                            \
  void NAME(const PointwiseBlock& block) {                    \
    map_floats(                                               \
        [a = block.a, b = block.b](auto d, auto x) HWY_ATTR { \
          static_cast<void>(d);                               \
          static_cast<void>(a);                               \
          static_cast<void>(b);                               \
          return (EXPRESSION);                                \
        },                                                    \
        block);                                               \
  }

ET_UNARY(Relu, hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x))
ET_UNARY(Clamp, limit(d, x, a, b))
ET_UNARY(HardShrink, hn::IfThenZeroElse(hn::And(hn::Ge(x, hn::Set(d, -a)), hn::Le(x, hn::Set(d, a))), x))
ET_UNARY(SoftShrink,
         hn::IfThenElse(hn::Gt(x, hn::Set(d, a)), hn::Sub(x, hn::Set(d, a)),
                        hn::IfThenElse(hn::Lt(x, hn::Set(d, -a)), hn::Add(x, hn::Set(d, a)), hn::Mul(x, hn::Zero(d)))))
ET_UNARY(HardSigmoid, hn::Mul(limit(d, hn::Add(x, hn::Set(d, 3.0f)), 0.0f, 6.0f), hn::Set(d, 1.0f / 6.0f)))
ET_UNARY(HardSwish, hn::Mul(x, hn::Mul(limit(d, hn::Add(x, hn::Set(d, 3.0f)), 0.0f, 6.0f), hn::Set(d, 1.0f / 6.0f))))
ET_UNARY(Sigmoid, sigmoid(d, x))
ET_UNARY(Silu, hn::Mul(x, sigmoid(d, x)))
ET_UNARY(Swish, hn::Mul(x, sigmoid(d, hn::Mul(x, hn::Set(d, a)))))
// x tanh(log(1 + e^x)) = x n / (n + 2) with n = e^x (e^x + 2), which is 1 to a float's precision from x = 20 on.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V mish(D d, V x) {
  const V two = hn::Set(d, 2.0f);
  const V e = exp(d, limit(d, x, -110.0f, 20.0f));
  const V n = hn::Mul(e, hn::Add(e, two));
  return hn::Mul(x, hn::Div(n, hn::Add(n, two)));
}
ET_UNARY(Mish, mish(d, x))
ET_UNARY(Tanh, tanh(d, x))
ET_UNARY(Exp, exp(d, x))
ET_UNARY(Erf, erf(d, x))
ET_UNARY(GeluErf, gelu(d, x))
ET_UNARY(GeluTanh, hn::Mul(hn::Mul(x, hn::Set(d, 0.5f)),
                           hn::Add(hn::Set(d, 1.0f),
                                   tanh(d, hn::Mul(hn::Set(d, 0.79788456080286536f),
                                                   hn::MulAdd(hn::Mul(hn::Mul(x, x), x), hn::Set(d, 0.044715f), x))))))
ET_UNARY(Sqrt, hn::Sqrt(x))
ET_UNARY(Rsqrt, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x)))
ET_UNARY(Reciprocal, hn::Div(hn::Set(d, 1.0f), x))
ET_UNARY(Neg, hn::Neg(x))
ET_UNARY(Abs, hn::Abs(x))
ET_UNARY(Same, x)
ET_UNARY(Square, hn::Mul(x, x))
ET_UNARY(Cube, hn::Mul(hn::Mul(x, x), x))
ET_UNARY(Fourth, hn::Mul(hn::Mul(x, x), hn::Mul(x, x)))
ET_UNARY(InverseSquare, hn::Div(hn::Set(d, 1.0f), hn::Mul(x, x)))
ET_UNARY(LeakyRelu, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, hn::Set(d, a)), x))
#undef ET_UNARY

// Of floats with 16 bits: the sign is the first bit of all of them.
void AbsOfSmall(const PointwiseBlock& block) {
  map_elements<uint16_t, uint16_t>([](uint16_t x) HWY_ATTR { return static_cast<uint16_t>(x & 0x7FFFU); }, block);
}
void NegOfSmall(const PointwiseBlock& block) {
  map_elements<uint16_t, uint16_t>([](uint16_t x) HWY_ATTR { return static_cast<uint16_t>(x ^ 0x8000U); }, block);
}

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

// clang-format off
#define ET_LOOPS(X) \
  X(Relu) X(Clamp) X(HardSigmoid) X(HardSwish) X(Sigmoid) X(Silu) X(Swish) X(Tanh) X(Exp) X(Erf) X(GeluErf) \
  X(GeluTanh) X(Sqrt) X(Rsqrt) X(Reciprocal) X(Neg) X(Abs) X(Square) X(Cube) X(Fourth) X(InverseSquare) \
  X(LeakyRelu) X(Same) X(Mish) X(HardShrink) X(SoftShrink) X(AbsOfSmall) X(NegOfSmall)
// clang-format on
#define ET_EXPORT(NAME) \
  HWY_EXPORT(NAME);     \
  static BlockFunction loop_##NAME() { return HWY_DYNAMIC_POINTER(NAME); }
ET_LOOPS(ET_EXPORT)
#undef ET_EXPORT
#undef ET_LOOPS

namespace {

/// fn(self, …, out): floats, 16-bit ones included, in one dim order.
Error choose(Arguments args, BlockFunction function, size_t cost, PointwiseOperation* operation, float a = 0,
             float b = 0) {
  if (function == nullptr || !add_floats(args, false, operation)) {
    return Error::NotSupported;
  }
  operation->function = function;
  operation->cost = cost;
  operation->a = a;
  operation->b = b;
  return Error::Ok;
}

template <BlockFunction (*Loop)(), size_t kCost>
Error choose_plain(Arguments args, PointwiseOperation* operation) {
  return choose(args, Loop(), kCost, operation);
}

/// As choose_plain, for functions of the sign, which floats of 16 bits need not be converted for.
template <BlockFunction (*Loop)(), BlockFunction (*OfSmall)()>
Error choose_sign(Arguments args, PointwiseOperation* operation) {
  ET_RETURN_IF_ERROR(choose(args, Loop(), kCheap, operation));
  if (is_small_float(args[0]->to_tensor().scalar_type())) {
    operation->function = OfSmall();
    operation->converts = false;
  }
  return Error::Ok;
}

/// As choose_plain, for functions that give floats for integers.
template <BlockFunction (*Loop)(), size_t kCost>
Error choose_promoting(Arguments args, PointwiseOperation* operation) {
  operation->function = Loop();
  operation->cost = kCost;
  return add_floats(args, true, operation) ? Error::Ok : Error::NotSupported;
}

// clamp(self, Scalar? min, Scalar? max, out) and hardtanh(self, Scalar min_val, Scalar max_val, out)
Error choose_clamp(Arguments args, PointwiseOperation* operation) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float range[2] = {-kInfinity, kInfinity};
  for (const size_t i : {0, 1}) {
    const EValue& end = *args[1 + i];
    range[i] = end.is_none() ? range[i] : number_as_float(end);
    if (range[i] != range[i]) {
      return Error::NotSupported;  // would have to reach the output, which the comparisons of `limit` do not do
    }
  }
  return choose(args, loop_Clamp(), kCheap, operation, range[0], range[1]);
}

// gelu(self, str approximate, out)
Error choose_gelu(Arguments args, PointwiseOperation* operation) {
  const bool is_tanh = args[1]->to_string_view() == "tanh";
  return choose(args, is_tanh ? loop_GeluTanh() : loop_GeluErf(), kTranscendental, operation);
}

// fn(self, Scalar number, out)
template <BlockFunction (*Loop)(), size_t kCost = kCheap>
Error choose_with_number(Arguments args, PointwiseOperation* operation) {
  return choose(args, Loop(), kCost, operation, number_as_float(*args[1]));
}

// hardshrink(self, Scalar lambd, out): the number is an element of the tensor's type.
Error choose_hardshrink(Arguments args, PointwiseOperation* operation) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  if (!is_up_to_float(dtype)) {
    return Error::NotSupported;
  }
  return choose(args, loop_HardShrink(), kCheap, operation, number_as_element(dtype, args[1]->number_as_double()));
}

// pow(self, Scalar exponent, out): exponents that are a few multiplications, else the general power.
Error choose_pow(Arguments args, PointwiseOperation* operation) {
  const struct {
    double exponent;
    BlockFunction function;
  } entries[] = {
      {1.0, loop_Same()}, {2.0, loop_Square()}, {3.0, loop_Cube()},        {4.0, loop_Fourth()},
      {0.5, loop_Sqrt()}, {-0.5, loop_Rsqrt()}, {-1.0, loop_Reciprocal()}, {-2.0, loop_InverseSquare()},
  };
  for (const auto& entry : entries) {
    if (entry.exponent == args[1]->number_as_double()) {
      return choose(args, entry.function, kDivides, operation);
    }
  }
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  const float exponent =
      is_small_float(dtype) ? number_as_element(dtype, args[1]->number_as_double()) : number_as_float(*args[1]);
  return choose(args, power_loop(), 4 * kTranscendental, operation, 0.0f, exponent);
}

template <BlockFunction (*Loop)(), size_t kCost>
constexpr Kernel plain(const Signature& signature) {
  return make_pointwise_kernel<&choose_plain<Loop, kCost>>(signature);
}
template <BlockFunction (*Loop)(), size_t kCost>
constexpr Kernel promoting(const Signature& signature) {
  return make_pointwise_kernel<&choose_promoting<Loop, kCost>>(signature);
}

constexpr Kernel kKernels[] = {
    make_pointwise_kernel<&choose_sign<&loop_Abs, &loop_AbsOfSmall>>(signature::abs_out),
    make_pointwise_kernel<&choose_clamp>(signature::clamp_out),
    promoting<&loop_Erf, kTranscendental>(signature::erf_out),
    promoting<&loop_Exp, kTranscendental>(signature::exp_out),
    make_pointwise_kernel<&choose_gelu>(signature::gelu_out),
    make_pointwise_kernel<&choose_hardshrink>(signature::hardshrink_out),
    plain<&loop_HardSigmoid, kCheap>(signature::hardsigmoid_out),
    plain<&loop_HardSwish, kCheap>(signature::hardswish_out),
    make_pointwise_kernel<&choose_clamp>(signature::hardtanh_out),
    make_pointwise_kernel<&choose_with_number<&loop_LeakyRelu>>(signature::leaky_relu_out),
    plain<&loop_Mish, kTranscendental>(signature::mish_out),
    make_pointwise_kernel<&choose_sign<&loop_Neg, &loop_NegOfSmall>>(signature::neg_out),
    make_pointwise_kernel<&choose_pow>(signature::pow_tensor_scalar_out),
    promoting<&loop_Reciprocal, kDivides>(signature::reciprocal_out),
    plain<&loop_Relu, kCheap>(signature::relu_out),
    promoting<&loop_Rsqrt, kDivides>(signature::rsqrt_out),
    promoting<&loop_Sigmoid, kTranscendental>(signature::sigmoid_out),
    plain<&loop_Silu, kTranscendental>(signature::silu_out),
    make_pointwise_kernel<&choose_with_number<&loop_SoftShrink>>(signature::softshrink_out),
    promoting<&loop_Sqrt, kDivides>(signature::sqrt_out),
    plain<&loop_Square, kCheap>(signature::square_out),
    make_pointwise_kernel<&choose_with_number<&loop_Swish, kTranscendental>>(signature::swish_out),
    promoting<&loop_Tanh, kTranscendental>(signature::tanh_out),
};

}  // namespace

ET_KERNEL_TABLE(unary, kKernels)

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
