// Comparisons: the operands are brought to their common type, the result is bool (or what a wider output holds).
#include "kernels/portable/op_compare.h"

#include "kernels/portable/elementwise.h"

namespace et::kernels::portable {
namespace {

template <typename Fn>
Error compare(KernelContext& context, const char* op, const Tensor& self, const Tensor& other, Tensor& out,
              const Fn& fn) {
  const ScalarType common = result_type({&self, &other});
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    return elementwise<C, bool>(context, op, common, out, fn, self, other);
  });
}

template <typename Fn>
Error compare(KernelContext& context, const char* op, const Tensor& self, const Scalar& other, Tensor& out,
              const Fn& fn) {
  const ScalarType common = result_type(self, other);
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    const C number = scalar_operand<C>(common, other);
    return elementwise<C, bool>(context, op, common, out, [fn, number](C a) { return fn(a, number); }, self);
  });
}

}  // namespace

#define ET_COMPARISON(name, operation)                                                                               \
  Error name##_tensor_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {            \
    return compare(context, "aten::" #name, self, other, out, [](auto a, auto b) -> bool { return a operation b; }); \
  }                                                                                                                  \
  Error name##_scalar_out(KernelContext& context, const Tensor& self, const Scalar& other, Tensor& out) {            \
    return compare(context, "aten::" #name, self, other, out, [](auto a, auto b) -> bool { return a operation b; }); \
  }

ET_COMPARISON(eq, ==)
ET_COMPARISON(ne, !=)
ET_COMPARISON(lt, <)
ET_COMPARISON(le, <=)
ET_COMPARISON(gt, >)
ET_COMPARISON(ge, >=)

}  // namespace et::kernels::portable
