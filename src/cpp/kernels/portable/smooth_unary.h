/// Unary operators whose function is smooth but dear: Bessel functions, polygamma, inverse error functions.
///
/// For: functions of one number that are given in double and take far longer than a polynomial. Tensors with many
/// elements are computed by polynomials that are made from the function itself while the kernel runs, one for each
/// short interval that enough elements fall into. A polynomial is used only where it is as good as the type can tell: a
/// float; for doubles within some units in the last place, and never around a zero of the function. Everything else,
/// small tensors included, calls the function. Not for: functions that <cmath> or a vector loop computes quickly.
///
///     return smooth_unary(context, "aten::lgamma", self, out, [](double x) { return std::lgamma(x); });
#pragma once

#include <type_traits>

#include "runtime/kernel_types.h"

namespace et::kernels::portable {

/// A function of a double, and what it needs to know beside it.
struct SmoothFunction {
  double (*call)(const void* state, double x);
  const void* state;

  double operator()(double x) const { return call(state, x); }
};

/// out = function(self) for every dtype; integers compute in float. Threads: the function is called on several.
/// Errors: InvalidType for complex numbers and for outputs that cannot hold the result. The polynomials are temporary
/// memory (98 kB a task, 148 for doubles); where there is no room, the function is called.
Error smooth_unary(KernelContext& context, const char* op, const Tensor& self, Tensor& out, SmoothFunction function);

/// The same for a functor, which must live as long as the call.
template <typename Fn, typename = std::enable_if_t<!std::is_same_v<Fn, SmoothFunction>>>
Error smooth_unary(KernelContext& context, const char* op, const Tensor& self, Tensor& out, const Fn& fn) {
  const auto call = [](const void* state, double x) -> double { return (*static_cast<const Fn*>(state))(x); };
  return smooth_unary(context, op, self, out, SmoothFunction{call, &fn});
}

}  // namespace et::kernels::portable
