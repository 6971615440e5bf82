/// Elementwise kernels: out[i] = fn(a[i], b[i], …) over broadcast operands of any element type and dim order.
///
/// For: pointwise operators. The operation is compiled for the three compute types only; operands are converted in runs
/// of kChunk elements on the stack, and not at all when they are contiguous and of the compute type already. Not for:
/// reductions (reduce.h), copies (strided_copy.h).
///
///     const ScalarType common = result_type({&self, &other});
///     return dispatch_compute(common, [&](auto zero) {
///       using C = decltype(zero);
///       return elementwise<C>(context, "aten::maximum", common, out, [](C a, C b) { return a > b ? a : b; }, self,
///       other);
///     });
///
/// The output may share the memory of an input that has its dtype, sizes and strides.
#pragma once

#include "kernels/portable/convert.h"
#include "kernels/portable/promote.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {

/// What a last operand of one element is to an operator that computes in floats of 16 bits. It is rounded to them, as
/// all other operands are, or it stays the number it was (products and quotients in ATen).
enum class LastNumber { kRounded, kExact };

/// The compiled inner loop of an operation and the types it works on.
struct ElementwiseLoop {
  /// Computes `n` contiguous outputs from contiguous inputs.
  void (*run)(const void* state, const void* const* inputs, void* output, int64_t n);
  const void* state;
  ScalarType common;          ///< type that operands are converted to, in ATen's sense
  ScalarType output_compute;  ///< C++ type that `run` writes: Float, Double, Long or Bool
  LastNumber last_number = LastNumber::kRounded;
};

/// Broadcasts, resizes `out` and runs the loop. Inputs are converted to compute_dtype(loop.common).
/// Errors: InvalidArgument for shapes that do not broadcast; what resize_tensor gives.
Error run_elementwise(KernelContext& context, const char* op, const ElementwiseLoop& loop,
                      Span<const Tensor* const> inputs, const Tensor& out);

namespace detail {

template <size_t, typename C>
using Repeat = C;

template <typename C, typename R, typename Fn, size_t... I>
void elementwise_loop(const void* state, const void* const* inputs, void* output, int64_t n) {
  const Fn& fn = *static_cast<const Fn*>(state);
  const C* const in[] = {static_cast<const C*>(inputs[I])...};
  R* out = static_cast<R*>(output);
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<R>(fn(in[I][i]...));
  }
}

template <typename C, typename R, typename Fn, size_t... I>
constexpr auto elementwise_loop_of(std::index_sequence<I...>) {
  return &elementwise_loop<C, R, Fn, I...>;
}

}  // namespace detail

/// out = fn(inputs…). C: the type `fn` takes; R: the type it returns (C, or bool for comparisons). The caller has
/// checked that the result's type can be cast to out's.
template <typename C, typename R = C, LastNumber last_number = LastNumber::kRounded, typename Fn, typename... Inputs>
Error elementwise(KernelContext& context, const char* op, ScalarType common, const Tensor& out, const Fn& fn,
                  const Inputs&... inputs) {
  const Tensor* const list[] = {&inputs...};
  const ElementwiseLoop loop{detail::elementwise_loop_of<C, R, Fn>(std::make_index_sequence<sizeof...(Inputs)>{}), &fn,
                             common, dtype_of<R>, last_number};
  return run_elementwise(context, op, loop, list, out);
}

/// out = fn(self) for operators that compute in floating types whatever they are given (exp, sin, …). `fn` is generic.
template <typename Fn>
Error float_unary(KernelContext& context, const char* op, const Tensor& self, Tensor& out, const Fn& fn) {
  const ScalarType common = to_floating(self.scalar_type());
  ET_RETURN_IF_ERROR(check_can_cast(op, common, out.scalar_type()));
  return dispatch_float(common, [&](auto zero) {
    using C = decltype(zero);
    return elementwise<C>(context, op, common, out, fn, self);
  });
}

/// out = fn(self) for operators that keep the type of their input (neg, abs, …).
template <typename Fn>
Error same_type_unary(KernelContext& context, const char* op, const Tensor& self, Tensor& out, const Fn& fn) {
  const ScalarType common = self.scalar_type();
  ET_RETURN_IF_ERROR(check_can_cast(op, common, out.scalar_type()));
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    return elementwise<C>(context, op, common, out, fn, self);
  });
}

}  // namespace et::kernels::portable
