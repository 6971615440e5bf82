// Binary functions of two numbers: maximum, pow, atan2 and their like.
#include "kernels/portable/op_binary.h"

#include <cstring>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/elementwise.h"

namespace et::kernels::portable {
namespace {

template <typename Fn>
Error binary(KernelContext& context, const char* op, const Tensor& a, const Tensor& b, Tensor& out, const Fn& fn) {
  const ScalarType common = result_type({&a, &b});
  ET_RETURN_IF_ERROR(check_can_cast(op, common, out.scalar_type()));
  return dispatch_compute(common,
                          [&](auto zero) { return elementwise<decltype(zero)>(context, op, common, out, fn, a, b); });
}

// Integers are computed in float.
template <typename Fn>
Error float_binary(KernelContext& context, const char* op, const Tensor& a, const Tensor& b, Tensor& out,
                   const Fn& fn) {
  const ScalarType common = to_floating(result_type({&a, &b}));
  ET_RETURN_IF_ERROR(check_can_cast(op, common, out.scalar_type()));
  return dispatch_float(common,
                        [&](auto zero) { return elementwise<decltype(zero)>(context, op, common, out, fn, a, b); });
}

template <typename C>
C greatest_common_divisor(C a, C b) {
  while (b != 0) {
    const C rest = b == -1 ? 0 : a % b;
    a = b;
    b = rest;
  }
  return a < 0 ? negate(a) : a;
}

// nextafter in a 16-bit type: neighbours differ by one in their bits.
template <typename T>
float next_narrow(float a, float b) {
  if (is_nan(a) || is_nan(b) || a == b) {
    return a == b ? b : a + b;
  }
  T x(a);
  uint16_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  bits = static_cast<uint16_t>(a == 0.0f ? (b > 0.0f ? 0x0001 : 0x8001) : bits + ((b > a) == (a > 0.0f) ? 1 : -1));
  std::memcpy(static_cast<void*>(&x), &bits, sizeof(bits));
  return x;
}

}  // namespace

Error maximum_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return binary(context, "aten::maximum", self, other, out, [](auto a, auto b) { return maximum(a, b); });
}

Error minimum_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return binary(context, "aten::minimum", self, other, out, [](auto a, auto b) { return minimum(a, b); });
}

Error lcm_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  const ScalarType common = result_type({&self, &other});
  ET_CHECK_OR_RETURN(is_integral(common, false), InvalidType, "aten::lcm: operands are %s, must be integers",
                     to_string(common));
  ET_RETURN_IF_ERROR(check_can_cast("aten::lcm", common, out.scalar_type()));
  return elementwise<int64_t>(
      context, "aten::lcm", common, out,
      [is_int = common == ScalarType::Int](int64_t a, int64_t b) {
        const int64_t divisor = greatest_common_divisor(a, b);
        int64_t multiple = divisor == 0 ? 0 : wrapping_mul(div_trunc(a, divisor), b);
        if (is_int) {  // overflows before its sign is taken, as ATen's does
          multiple = static_cast<int32_t>(multiple);
        }
        return multiple < 0 ? negate(multiple) : multiple;
      },
      self, other);
}

// A number wins over NaN.
Error fmax_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return binary(context, "aten::fmax", self, other, out,
                [](auto a, auto b) { return is_nan(a) || (!is_nan(b) && b > a) ? b : a; });
}

Error fmin_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return binary(context, "aten::fmin", self, other, out,
                [](auto a, auto b) { return is_nan(a) || (!is_nan(b) && b < a) ? b : a; });
}

Error gcd_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  const ScalarType common = result_type({&self, &other});
  ET_CHECK_OR_RETURN(is_integral(common, false), InvalidType, "aten::gcd: operands are %s, must be integers",
                     to_string(common));
  ET_RETURN_IF_ERROR(check_can_cast("aten::gcd", common, out.scalar_type()));
  return elementwise<int64_t>(
      context, "aten::gcd", common, out, [](int64_t a, int64_t b) { return greatest_common_divisor(a, b); }, self,
      other);
}

#define ET_FLOAT_BINARY(name, kernel, expression)                                              \
  Error kernel(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) { \
    return float_binary(context, "aten::" #name, self, other, out, [](auto a, auto b) {        \
      using C = decltype(a);                                                                   \
      return static_cast<C>(expression);                                                       \
    });                                                                                        \
  }

ET_FLOAT_BINARY(atan2, atan2_out, std::atan2(a, b))
ET_FLOAT_BINARY(copysign, copysign_out, std::copysign(a, b))
ET_FLOAT_BINARY(hypot, hypot_out, std::hypot(a, b))
ET_FLOAT_BINARY(xlogy, xlogy_outtensor, is_nan(b) ? b : a == C(0) ? C(0) : a * std::log(b))
ET_FLOAT_BINARY(logaddexp, logaddexp_out,
                std::isinf(a) && a == b ? a : maximum(a, b) + std::log1p(std::exp(-std::fabs(a - b))))

Error nextafter_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  const ScalarType common = result_type({&self, &other});
  if (common == ScalarType::Half) {
    return float_binary(context, "aten::nextafter", self, other, out,
                        [](auto a, auto b) { return next_narrow<Half>(static_cast<float>(a), static_cast<float>(b)); });
  }
  if (common == ScalarType::BFloat16) {
    return float_binary(context, "aten::nextafter", self, other, out, [](auto a, auto b) {
      return next_narrow<BFloat16>(static_cast<float>(a), static_cast<float>(b));
    });
  }
  return float_binary(context, "aten::nextafter", self, other, out,
                      [](auto a, auto b) { return std::nextafter(a, b); });
}

Error heaviside_out(KernelContext& context, const Tensor& self, const Tensor& values, Tensor& out) {
  return binary(context, "aten::heaviside", self, values, out, [](auto a, auto b) {
    using C = decltype(a);
    return a == C(0) ? b : static_cast<C>(a > C(0) ? 1 : 0);
  });
}

Error pow_tensor_tensor_out(KernelContext& context, const Tensor& self, const Tensor& exponent, Tensor& out) {
  return binary(context, "aten::pow", self, exponent, out, [](auto a, auto b) { return power(a, b); });
}

Error pow_tensor_scalar_out(KernelContext& context, const Tensor& self, const Scalar& exponent, Tensor& out) {
  const ScalarType common = result_type(self, exponent);
  ET_RETURN_IF_ERROR(check_can_cast("aten::pow", common, out.scalar_type()));
  ET_CHECK_OR_RETURN(!is_integral(common, true) || exponent.to<int64_t>() >= 0, InvalidArgument,
                     "aten::pow: an integer tensor to the power of the negative integer %" PRId64,
                     exponent.to<int64_t>());
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    const C b = is_floating(common) ? scalar_operand<C>(common, exponent) : scalar_to<C>(exponent);
    if (b == C(2)) {
      return elementwise<C>(context, "aten::pow", common, out, [](C a) { return wrapping_mul(a, a); }, self);
    }
    return elementwise<C>(context, "aten::pow", common, out, [b](C a) { return power(a, b); }, self);
  });
}

Error pow_scalar_out(KernelContext& context, const Scalar& self, const Tensor& exponent, Tensor& out) {
  const ScalarType common = result_type(exponent, self);
  ET_RETURN_IF_ERROR(check_can_cast("aten::pow", common, out.scalar_type()));
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    const C a = is_floating(common) ? scalar_operand<C>(common, self) : scalar_to<C>(self);
    return elementwise<C>(context, "aten::pow", common, out, [a](C b) { return power(a, b); }, exponent);
  });
}

}  // namespace et::kernels::portable
