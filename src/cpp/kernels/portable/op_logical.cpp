// Logical and bitwise operators of two operands.
#include "kernels/portable/op_logical.h"

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/elementwise.h"

namespace et::kernels::portable {
namespace {

template <typename Fn>
Error logical(KernelContext& context, const char* op, const Tensor& self, const Tensor& other, Tensor& out,
              const Fn& fn) {
  const ScalarType common = result_type({&self, &other});
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    return elementwise<C, bool>(
        context, op, common, out, [fn](C a, C b) { return fn(is_true(a), is_true(b)); }, self, other);
  });
}

Error check_integers(const char* op, ScalarType common, const Tensor& out) {
  ET_CHECK_OR_RETURN(is_integral(common, true), InvalidType, "%s: operands are %s, must be integers or bool", op,
                     to_string(common));
  return check_can_cast(op, common, out.scalar_type());
}

template <typename Fn>
Error bitwise(KernelContext& context, const char* op, const Tensor& self, const Tensor& other, Tensor& out,
              const Fn& fn) {
  const ScalarType common = result_type({&self, &other});
  ET_RETURN_IF_ERROR(check_integers(op, common, out));
  return elementwise<int64_t>(context, op, common, out, fn, self, other);
}

template <typename Fn>
Error bitwise(KernelContext& context, const char* op, const Tensor& self, const Scalar& other, Tensor& out,
              const Fn& fn) {
  const ScalarType common = result_type(self, other);
  ET_RETURN_IF_ERROR(check_integers(op, common, out));
  const int64_t number = scalar_operand<int64_t>(common, other);
  return elementwise<int64_t>(context, op, common, out, [fn, number](int64_t a) { return fn(a, number); }, self);
}

// Shifts by a negative count, or by at least the width of the type, give 0 (or the sign, to the right).
template <typename Operand>
Error shift(KernelContext& context, const char* op, const Tensor& self, const Operand& other, Tensor& out, bool left,
            ScalarType common) {
  const int64_t width = static_cast<int64_t>(element_size(common)) * 8;
  const bool is_unsigned = common == ScalarType::Byte;
  return bitwise(context, op, self, other, out, [=](int64_t a, int64_t count) -> int64_t {
    const bool outside = count < 0 || count >= width;
    if (left) {
      return outside ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << count);
    }
    const int64_t largest = is_unsigned ? width : width - 1;
    return a >> (outside ? (largest < 63 ? largest : 63) : count);
  });
}

}  // namespace

#define ET_LOGICAL(name, expression)                                                                      \
  Error name##_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {        \
    return logical(context, "aten::" #name, self, other, out, [](bool a, bool b) { return expression; }); \
  }

ET_LOGICAL(logical_and, a&& b)
ET_LOGICAL(logical_or, a || b)
ET_LOGICAL(logical_xor, a != b)

#define ET_BITWISE(name, operation)                                                                                \
  Error name##_tensor_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {          \
    return bitwise(context, "aten::" #name, self, other, out, [](int64_t a, int64_t b) { return a operation b; }); \
  }                                                                                                                \
  Error name##_scalar_out(KernelContext& context, const Tensor& self, const Scalar& other, Tensor& out) {          \
    return bitwise(context, "aten::" #name, self, other, out, [](int64_t a, int64_t b) { return a operation b; }); \
  }

ET_BITWISE(bitwise_and, &)
ET_BITWISE(bitwise_or, |)
ET_BITWISE(bitwise_xor, ^)

#define ET_SHIFT(name, left)                                                                                     \
  Error name##_tensor_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {        \
    return shift(context, "aten::" #name, self, other, out, left, result_type({&self, &other}));                 \
  }                                                                                                              \
  Error name##_tensor_scalar_out(KernelContext& context, const Tensor& self, const Scalar& other, Tensor& out) { \
    return shift(context, "aten::" #name, self, other, out, left, result_type(self, other));                     \
  }

ET_SHIFT(bitwise_left_shift, true)
ET_SHIFT(bitwise_right_shift, false)

}  // namespace et::kernels::portable
