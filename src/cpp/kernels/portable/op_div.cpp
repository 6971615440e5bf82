#include "kernels/portable/op_div.h"

#include <cmath>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/complex_elementwise.h"
#include "kernels/portable/elementwise.h"
#include "kernels/portable/loop_nest.h"

namespace et::kernels::portable {
namespace {

using StringOrNone = std::optional<std::string_view>;

// The divisor is a tensor or a number; an operator is written once over both.
struct Divisor {
  const Tensor* tensor = nullptr;
  const Scalar* number = nullptr;

  ScalarType common_with(const Tensor& self) const {
    return tensor != nullptr ? result_type({&self, tensor}) : result_type(self, *number);
  }
};

/// Not of all elements where the caller asked to stop.
bool has_zero(const KernelContext& context, const Tensor& tensor) {
  bool found = false;
  LoopNest nest(tensor.sizes());
  nest.add(tensor.const_data_ptr(), tensor.strides(), tensor.element_size());
  nest.simplify();
  nest.for_each_run([&](char* const* pointers, int64_t n) {
    constexpr int64_t kLook = 4096;  // elements between two looks
    for (int64_t i = 0; i < n && !found && (i % kLook != 0 || !context.cancelled()); ++i) {
      found = load_one<int64_t>(tensor.scalar_type(), pointers[0] + i * nest.run_stride(0)) == 0;
    }
  });
  return found;
}

// Refuses an integer division by zero before anything is written.
Error check_divisor(const KernelContext& context, const char* op, ScalarType common, const Divisor& divisor) {
  if (!is_integral(common, true)) {
    return Error::Ok;
  }
  // A number may wrap to zero in the type that is computed in.
  const bool zero = divisor.tensor != nullptr ? has_zero(context, *divisor.tensor)
                                              : scalar_operand<int64_t>(common, *divisor.number) == 0;
  ET_CHECK_OR_RETURN(!zero, InvalidArgument, "%s: integer division by zero", op);
  return Error::Ok;
}

template <LastNumber last_number, typename Fn>
Error apply(KernelContext& context, const char* op, ScalarType common, const Tensor& self, const Divisor& divisor,
            Tensor& out, const Fn& fn) {
  ET_RETURN_IF_ERROR(check_can_cast(op, common, out.scalar_type()));
  ET_RETURN_IF_ERROR(check_divisor(context, op, common, divisor));
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    if (divisor.tensor != nullptr) {
      return elementwise<C, C, last_number>(context, op, common, out, fn, self, *divisor.tensor);
    }
    const C number = last_number == LastNumber::kExact ? exact_operand<C>(common, *divisor.number)
                                                       : scalar_operand<C>(common, *divisor.number);
    return elementwise<C>(context, op, common, out, [fn, number](C a) { return fn(a, number); }, self);
  });
}

Error divide(KernelContext& context, const Tensor& self, const Divisor& divisor, StringOrNone mode, Tensor& out) {
  const ScalarType common = divisor.common_with(self);
  if (!mode.has_value()) {
    const ScalarType floating = to_floating(common);
    ET_RETURN_IF_ERROR(check_can_cast("aten::div", floating, out.scalar_type()));
    if (is_complex(floating)) {
      if (divisor.tensor != nullptr) {
        return complex_elementwise(
            context, "aten::div", out, [](Complex a, Complex b) { return a / b; }, self, *divisor.tensor);
      }
      const double number = divisor.number->to<double>();
      return complex_elementwise(context, "aten::div", out, [number](Complex a) { return a / number; }, self);
    }
    return dispatch_float(floating, [&](auto zero) {
      using C = decltype(zero);
      if (divisor.tensor != nullptr) {
        return elementwise<C, C, LastNumber::kExact>(
            context, "aten::div", floating, out, [](C a, C b) { return a / b; }, self, *divisor.tensor);
      }
      const C number = scalar_to<C>(*divisor.number);
      return elementwise<C>(context, "aten::div", floating, out, [number](C a) { return a / number; }, self);
    });
  }
  const bool truncates = *mode == "trunc";
  ET_CHECK_OR_RETURN(truncates || *mode == "floor", InvalidArgument,
                     "aten::div: rounding_mode is '%.*s', not 'trunc' or 'floor'", static_cast<int>(mode->size()),
                     mode->data());
  if (is_small_float(common) && divisor.tensor != nullptr && divisor.tensor->numel() != 1) {
    // By tensors, ATen divides in the type itself: each step is rounded.
    ET_RETURN_IF_ERROR(check_can_cast("aten::div", common, out.scalar_type()));
    const auto round = [common](float x) { return rounded_to(common, x); };
    const auto quotient = [truncates, &round](float a, float b) {
      return truncates ? std::trunc(round(a / b)) : div_floor_in_steps(a, b, round);
    };
    return elementwise<float>(context, "aten::div", common, out, quotient, self, *divisor.tensor);
  }
  if (truncates) {
    return apply<LastNumber::kExact>(context, "aten::div", common, self, divisor, out,
                                     [](auto a, auto b) { return div_trunc(a, b); });
  }
  return apply<LastNumber::kExact>(context, "aten::div", common, self, divisor, out,
                                   [](auto a, auto b) { return div_floor(a, b); });
}

Error remainder(KernelContext& context, const Tensor& self, const Divisor& divisor, Tensor& out) {
  return apply<LastNumber::kRounded>(context, "aten::remainder", divisor.common_with(self), self, divisor, out,
                                     [](auto a, auto b) { return remainder_of(a, b); });
}

Error fmod(KernelContext& context, const Tensor& self, const Divisor& divisor, Tensor& out) {
  return apply<LastNumber::kRounded>(context, "aten::fmod", divisor.common_with(self), self, divisor, out,
                                     [](auto a, auto b) { return fmod_of(a, b); });
}

}  // namespace

Error div_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return divide(context, self, {&other, nullptr}, std::nullopt, out);
}

Error div_scalar_out(KernelContext& context, const Tensor& self, const Scalar& other, Tensor& out) {
  return divide(context, self, {nullptr, &other}, std::nullopt, out);
}

Error div_out_mode(KernelContext& context, const Tensor& self, const Tensor& other, StringOrNone rounding_mode,
                   Tensor& out) {
  return divide(context, self, {&other, nullptr}, rounding_mode, out);
}

Error div_scalar_mode_out(KernelContext& context, const Tensor& self, const Scalar& other, StringOrNone rounding_mode,
                          Tensor& out) {
  return divide(context, self, {nullptr, &other}, rounding_mode, out);
}

Error floor_divide_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return divide(context, self, {&other, nullptr}, "floor", out);
}

Error floor_divide_scalar_out(KernelContext& context, const Tensor& self, const Scalar& other, Tensor& out) {
  return divide(context, self, {nullptr, &other}, "floor", out);
}

Error remainder_tensor_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return remainder(context, self, {&other, nullptr}, out);
}

Error remainder_scalar_out(KernelContext& context, const Tensor& self, const Scalar& other, Tensor& out) {
  return remainder(context, self, {nullptr, &other}, out);
}

Error fmod_tensor_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return fmod(context, self, {&other, nullptr}, out);
}

Error fmod_scalar_out(KernelContext& context, const Tensor& self, const Scalar& other, Tensor& out) {
  return fmod(context, self, {nullptr, &other}, out);
}

}  // namespace et::kernels::portable
