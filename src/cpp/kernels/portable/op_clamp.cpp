#include "kernels/portable/op_clamp.h"

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/elementwise.h"

namespace et::kernels::portable {

using OptionalScalar = std::optional<Scalar>;

Error clamp_out(KernelContext& context, const Tensor& self, const OptionalScalar& min, const OptionalScalar& max,
                Tensor& out) {
  ET_CHECK_OR_RETURN(min.has_value() || max.has_value(), InvalidArgument, "aten::clamp: neither min nor max is given");
  ScalarType common = self.scalar_type();
  for (const OptionalScalar* bound : {&min, &max}) {
    if (bound->has_value()) {
      const ScalarType with_bound = result_type(self, **bound);
      common = promote_types(common, with_bound);
    }
  }
  ET_RETURN_IF_ERROR(check_can_cast("aten::clamp", common, out.scalar_type()));
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    const C low = min.has_value() ? scalar_to<C>(*min) : C(0);
    const C high = max.has_value() ? scalar_to<C>(*max) : C(0);
    const bool has_low = min.has_value();
    const bool has_high = max.has_value();
    return elementwise<C>(
        context, "aten::clamp", common, out,
        [=](C x) {
          const C at_least = has_low ? maximum(x, low) : x;
          return has_high ? minimum(at_least, high) : at_least;
        },
        self);
  });
}

Error clamp_tensor_out(KernelContext& context, const Tensor& self, const OptionalTensor& min, const OptionalTensor& max,
                       Tensor& out) {
  ET_CHECK_OR_RETURN(min.has_value() || max.has_value(), InvalidArgument, "aten::clamp: neither min nor max is given");
  const Tensor& low = min.has_value() ? *min : *max;
  const Tensor& high = max.has_value() ? *max : *min;
  const ScalarType common = result_type({&self, &low, &high});
  ET_RETURN_IF_ERROR(check_can_cast("aten::clamp", common, out.scalar_type()));
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    if (!max.has_value()) {
      return elementwise<C>(
          context, "aten::clamp", common, out, [](C x, C bound) { return maximum(x, bound); }, self, low);
    }
    if (!min.has_value()) {
      return elementwise<C>(
          context, "aten::clamp", common, out, [](C x, C bound) { return minimum(x, bound); }, self, high);
    }
    return elementwise<C>(
        context, "aten::clamp", common, out, [](C x, C a, C b) { return minimum(maximum(x, a), b); }, self, low, high);
  });
}

Error clamp_min_out(KernelContext& context, const Tensor& self, const Scalar& min, Tensor& out) {
  return clamp_out(context, self, min, std::nullopt, out);
}

Error clamp_max_out(KernelContext& context, const Tensor& self, const Scalar& max, Tensor& out) {
  return clamp_out(context, self, std::nullopt, max, out);
}

}  // namespace et::kernels::portable
