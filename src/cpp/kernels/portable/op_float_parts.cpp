// What a floating number consists of: mantissa and exponent, angle in the complex plane; and a hash of its bits.
#include "kernels/portable/op_float_parts.h"

#include <cmath>
#include <cstring>

#include "kernels/portable/elementwise.h"
#include "kernels/portable/reduce.h"

namespace et::kernels::portable {

Error frexp_tensor_out(KernelContext& context, const Tensor& self, Tensor& mantissa, Tensor& exponent) {
  constexpr const char* kOp = "aten::frexp";
  const ScalarType dtype = self.scalar_type();
  ET_CHECK_OR_RETURN(is_floating(dtype) && exponent.scalar_type() == ScalarType::Int, InvalidType,
                     "%s: self is %s, must be floating; exponent is %s, must be torch.int32", kOp, to_string(dtype),
                     to_string(exponent.scalar_type()));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "mantissa", mantissa, self));
  return dispatch_float(dtype, [&](auto zero) {
    using C = decltype(zero);
    const auto exponent_of = [](C x) {
      int power = 0;
      static_cast<void>(std::frexp(x, &power));
      return static_cast<int64_t>(std::isfinite(x) ? power : 0);
    };
    ET_RETURN_IF_ERROR((elementwise<C, int64_t>(context, kOp, dtype, exponent, exponent_of, self)));
    const auto mantissa_of = [](C x) {
      int power = 0;
      return std::frexp(x, &power);
    };
    return elementwise<C>(context, kOp, dtype, mantissa, mantissa_of, self);
  });
}

Error hash_tensor_out(KernelContext& context, const Tensor& self, IntArrayRef dim, bool keepdim, int64_t mode,
                      Tensor& out) {
  constexpr const char* kOp = "aten::hash_tensor";
  ET_CHECK_OR_RETURN(mode == 0 && out.scalar_type() == ScalarType::UInt64, InvalidArgument,
                     "%s: mode is %" PRId64 ", must be 0; out is %s, must be torch.uint64", kOp, mode,
                     to_string(out.scalar_type()));
  Reduction reduction;
  ET_RETURN_IF_ERROR(reduction.plan(context, kOp, self, dim, keepdim, {&out}));
  // Floats as the bits of a double, integers as 64 bits; all of them together by exclusive or.
  const auto run = [&](auto zero) {
    using C = decltype(zero);
    reduction.run<C>(
        uint64_t{0},
        [](uint64_t& hash, const C* values, int64_t n) {
          for (int64_t i = 0; i < n; ++i) {
            uint64_t bits;
            static_assert(sizeof(C) == sizeof(bits));
            std::memcpy(&bits, values + i, sizeof(bits));
            hash ^= bits;
          }
        },
        [](uint64_t hash, char* const* outs) { std::memcpy(outs[0], &hash, sizeof(hash)); });
  };
  if (is_floating(self.scalar_type())) {
    run(double{});
  } else {
    run(int64_t{});
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
