/// Elementwise kernels on complex numbers, which exist between the operators of a program only (after rfft, say).
///
/// For: the pointwise operators that models apply to spectra. Everything is computed in double, element by element.
/// Not for: real operands; elementwise.h is the fast way.
///
///     if (is_complex(common)) {
///       return complex_elementwise(context, "aten::mul", out, [](Complex a, Complex b) { return a * b; }, self,
///       other);
///     }
#pragma once

#include <complex>
#include <utility>

#include "kernels/portable/promote.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {

using Complex = std::complex<double>;

/// The compiled operation on the elements at one position.
struct ComplexFunction {
  Complex (*run)(const void* state, const Complex* inputs);
  const void* state;
};

/// Broadcasts, resizes `out` and applies the function. Real operands have no imaginary part; a real output keeps the
/// real one. Errors: InvalidArgument for shapes that do not broadcast; what resize_tensor gives.
Error run_complex(KernelContext& context, const char* op, const ComplexFunction& function,
                  Span<const Tensor* const> inputs, const Tensor& out);

namespace detail {

template <typename Fn, size_t... I>
Complex call_complex(const void* state, const Complex* inputs, std::index_sequence<I...>) {
  return Complex((*static_cast<const Fn*>(state))(inputs[I]...));
}

template <typename Fn, size_t Count>
Complex run_complex_function(const void* state, const Complex* inputs) {
  return call_complex<Fn>(state, inputs, std::make_index_sequence<Count>{});
}

}  // namespace detail

/// out = fn(inputs…); `fn` takes Complex and returns Complex or double.
template <typename Fn, typename... Inputs>
Error complex_elementwise(KernelContext& context, const char* op, const Tensor& out, const Fn& fn,
                          const Inputs&... inputs) {
  const Tensor* const list[] = {&inputs...};
  return run_complex(context, op, {&detail::run_complex_function<Fn, sizeof...(Inputs)>, &fn}, list, out);
}

}  // namespace et::kernels::portable
