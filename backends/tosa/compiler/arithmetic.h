/// Operators on tensors of int32 or floats of one rank, whose sizes are equal or 1: what functions are written with.
///
/// For: emit_norms.cpp and real_*.cpp.
#pragma once

#include "backends/tosa/compiler/lowering.h"

namespace et::backends::tosa::compiler {

class Arithmetic {
 public:
  explicit Arithmetic(Lowering& lowering) : lowering_(lowering) {}

  const Shape& shape(TensorId a) const { return lowering_.writer.shape_of(a); }
  /// A number for tensors of the rank of `like`.
  TensorId number(TensorId like, int32_t value);
  /// The same of its type, which has floats, or of another.
  TensorId real(TensorId like, double value) { return real(like, lowering_.writer.type_of(like), value); }
  TensorId real(TensorId like, payload::DType type, double value);
  TensorId add(TensorId a, TensorId b) { return lowering_.binary(payload::Op_ADD, a, b, shape_of(a, b)); }
  TensorId sub(TensorId a, TensorId b) { return lowering_.binary(payload::Op_SUB, a, b, shape_of(a, b)); }
  /// (a * b) >> shift in 64 bits, rounded half up.
  TensorId mul(TensorId a, TensorId b, int shift = 0) {
    return lowering_.binary(payload::Op_MUL, a, b, shape_of(a, b), shift);
  }
  TensorId scaled(TensorId a, double factor) { return factor == 1 ? a : mul(a, real(a, factor)); }
  TensorId shifted(TensorId a, double by) { return by == 0 ? a : add(a, real(a, by)); }
  /// Any other operator of two; comparisons give BOOL.
  TensorId binary(payload::Op op, TensorId a, TensorId b) { return lowering_.binary(op, a, b, shape_of(a, b)); }
  /// Any operator of one whose attribute has no content: EXP, LOGICAL_NOT.
  TensorId unary(payload::Op op, TensorId a);
  TensorId negate(TensorId a);
  TensorId clamp(TensorId a, double low, double high) { return lowering_.clamp(a, low, high); }
  /// a where the condition is true, else b.
  TensorId select(TensorId condition, TensorId a, TensorId b);
  TensorId cast(TensorId a, payload::DType type);

  TensorId shift_left(TensorId a, TensorId by);
  /// Rounded half up, or down.
  TensorId shift_right(TensorId a, TensorId by) { return shift_right(a, by, true); }
  TensorId floor_shift(TensorId a, TensorId by) { return shift_right(a, by, false); }
  TensorId leading_zeros(TensorId a);
  TensorId sum(TensorId a, int32_t axis);
  TensorId largest(TensorId a, int32_t axis);
  /// REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_PRODUCT, REDUCE_ALL or REDUCE_ANY; the axis stays, with one element.
  TensorId reduce(payload::Op op, TensorId a, int32_t axis);
  /// The entry of each int8; entries stand from that of -128 on.
  TensorId table(TensorId a, const std::vector<int8_t>& entries);
  /// start - x * slope, then `steps` times r = r * (target - x * r) or r = r * (target - x * r^2), as
  /// numerics/fixed_point.h has it.
  template <typename Newton>
  TensorId newton(TensorId x, int32_t target, bool is_root);

 private:
  TensorId shift_right(TensorId a, TensorId by, bool rounds);
  Shape shape_of(TensorId a, TensorId b) const;

  Lowering& lowering_;
};

template <typename Newton>
TensorId Arithmetic::newton(TensorId x, int32_t target, bool is_root) {
  TensorId r = sub(number(x, Newton::kStart), mul(x, number(x, Newton::kSlope), 31));
  for (int i = 0; i < Newton::kSteps; ++i) {
    const TensorId product = mul(x, is_root ? mul(r, r, 30) : r, 31);
    r = mul(r, sub(number(x, target), product), 29);
  }
  return r;
}

}  // namespace et::backends::tosa::compiler
