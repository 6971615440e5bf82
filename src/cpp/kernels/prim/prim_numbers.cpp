#include <algorithm>
#include <cmath>

#include "kernels/prim/prim_kernels.h"

namespace et::kernels::prim {
namespace {

using runtime::EValue;
using runtime::KernelContext;

/// Applies `on_ints` when both operands are ints or bools, else `on_doubles`; replaces the result.
template <typename OnInts, typename OnDoubles>
Error binary(Args args, OnInts on_ints, OnDoubles on_doubles) {
  const EValue& a = *args[0];
  const EValue& b = *args[1];
  *args[2] = a.is_double() || b.is_double() ? EValue(on_doubles(a.number_as_double(), b.number_as_double()))
                                            : EValue(on_ints(a.number_as_int(), b.number_as_int()));
  return Error::Ok;
}

/// Integer arithmetic that wraps, without the undefined behaviour of signed overflow.
int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }
uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == -1) {
    return wrap(-bits(a));  // the smallest integer has no negative
  }
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) {
    return 0;
  }
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double floor_mod(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/// Applies `to_integral` to a double, and gives the int it makes; ints stay.
template <typename ToIntegral>
Error to_int(Args args, ToIntegral to_integral) {
  const EValue& a = *args[0];
  if (!a.is_double()) {
    *args[1] = EValue(a.number_as_int());
    return Error::Ok;
  }
  const double value = to_integral(a.to_double());
  ET_CHECK_OR_RETURN(value >= -9223372036854775808.0 && value < 9223372036854775808.0, InvalidArgument,
                     "%g has no integer value", value);
  *args[1] = EValue(static_cast<int64_t>(value));
  return Error::Ok;
}

Error check_divisor(const EValue& divisor) {
  ET_CHECK_OR_RETURN(divisor.is_double() ? divisor.to_double() != 0 : divisor.number_as_int() != 0, InvalidArgument,
                     "division of a size or number by zero");
  return Error::Ok;
}

}  // namespace

Error add(KernelContext&, Args args, void*) {
  return binary(
      args, [](int64_t a, int64_t b) { return wrap(bits(a) + bits(b)); }, [](double a, double b) { return a + b; });
}
Error sub(KernelContext&, Args args, void*) {
  return binary(
      args, [](int64_t a, int64_t b) { return wrap(bits(a) - bits(b)); }, [](double a, double b) { return a - b; });
}
Error mul(KernelContext&, Args args, void*) {
  return binary(
      args, [](int64_t a, int64_t b) { return wrap(bits(a) * bits(b)); }, [](double a, double b) { return a * b; });
}
Error floordiv(KernelContext&, Args args, void*) {
  ET_RETURN_IF_ERROR(check_divisor(*args[1]));
  return binary(
      args, [](int64_t a, int64_t b) { return floor_divide(a, b); },
      [](double a, double b) { return std::floor(a / b); });
}
Error truediv(KernelContext&, Args args, void*) {
  ET_RETURN_IF_ERROR(check_divisor(*args[1]));
  *args[2] = EValue(args[0]->number_as_double() / args[1]->number_as_double());
  return Error::Ok;
}
Error mod(KernelContext&, Args args, void*) {
  ET_RETURN_IF_ERROR(check_divisor(*args[1]));
  return binary(
      args, [](int64_t a, int64_t b) { return floor_mod(a, b); }, [](double a, double b) { return floor_mod(a, b); });
}
Error sym_max(KernelContext&, Args args, void*) {
  return binary(
      args, [](int64_t a, int64_t b) { return a > b ? a : b; }, [](double a, double b) { return b > a ? b : a; });
}
Error sym_min(KernelContext&, Args args, void*) {
  return binary(
      args, [](int64_t a, int64_t b) { return a < b ? a : b; }, [](double a, double b) { return b < a ? b : a; });
}

Error eq(KernelContext&, Args args, void*) {
  return binary(args, [](int64_t a, int64_t b) { return a == b; }, [](double a, double b) { return a == b; });
}
Error gt(KernelContext&, Args args, void*) {
  return binary(args, [](int64_t a, int64_t b) { return a > b; }, [](double a, double b) { return a > b; });
}
Error ge(KernelContext&, Args args, void*) {
  return binary(args, [](int64_t a, int64_t b) { return a >= b; }, [](double a, double b) { return a >= b; });
}
Error lt(KernelContext&, Args args, void*) {
  return binary(args, [](int64_t a, int64_t b) { return a < b; }, [](double a, double b) { return a < b; });
}
Error le(KernelContext&, Args args, void*) {
  return binary(args, [](int64_t a, int64_t b) { return a <= b; }, [](double a, double b) { return a <= b; });
}

Error neg(KernelContext&, Args args, void*) {
  const EValue& a = *args[0];
  *args[1] = a.is_double() ? EValue(-a.to_double()) : EValue(wrap(-bits(a.number_as_int())));
  return Error::Ok;
}
Error sym_not(KernelContext&, Args args, void*) {
  *args[1] = EValue(!args[0]->number_as_bool());
  return Error::Ok;
}
Error sym_ite(KernelContext&, Args args, void*) {
  *args[3] = args[0]->number_as_bool() ? *args[1] : *args[2];
  return Error::Ok;
}

Error sym_float(KernelContext&, Args args, void*) {
  *args[1] = EValue(args[0]->number_as_double());
  return Error::Ok;
}
Error sym_int(KernelContext&, Args args, void*) {
  return to_int(args, [](double a) { return std::trunc(a); });
}
Error ceil(KernelContext&, Args args, void*) {
  return to_int(args, [](double a) { return std::ceil(a); });
}
Error round(KernelContext&, Args args, void*) {
  // To even, as Python's round(), whatever the rounding mode of the processor is.
  return to_int(args, [](double a) {
    const double below = std::floor(a);
    const double rest = a - below;
    return rest > 0.5 || (rest == 0.5 && std::fmod(below, 2.0) != 0) ? below + 1 : below;
  });
}
Error trunc(KernelContext&, Args args, void*) {
  return to_int(args, [](double a) { return std::trunc(a); });
}
Error assert_true(KernelContext&, Args args, void*) {
  const std::string_view message = args[1]->to_string_view();
  ET_CHECK_OR_RETURN(args[0]->number_as_bool(), InvalidArgument, "a check of the model failed: %.*s",
                     static_cast<int>(std::min<size_t>(message.size(), 400)), message.data());
  return Error::Ok;
}

}  // namespace et::kernels::prim
