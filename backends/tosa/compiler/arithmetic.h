/// Operators on int32 tensors of one rank, whose sizes are equal or 1: what integer functions are written with.
///
/// For: emit_norms.cpp.
#pragma once

#include "backends/tosa/compiler/lowering.h"

namespace et::backends::tosa::compiler {

class Arithmetic {
 public:
  explicit Arithmetic(Lowering& lowering) : lowering_(lowering) {}

  /// A number for tensors of the rank of `like`.
  TensorId number(TensorId like, int32_t value);
  TensorId add(TensorId a, TensorId b) { return lowering_.binary(payload::Op_ADD, a, b, shape_of(a, b)); }
  TensorId sub(TensorId a, TensorId b) { return lowering_.binary(payload::Op_SUB, a, b, shape_of(a, b)); }
  /// (a * b) >> shift in 64 bits, rounded half up.
  TensorId mul(TensorId a, TensorId b, int shift) {
    return lowering_.binary(payload::Op_MUL, a, b, shape_of(a, b), shift);
  }
  TensorId shift_left(TensorId a, TensorId by);
  /// Rounded half up.
  TensorId shift_right(TensorId a, TensorId by);
  TensorId leading_zeros(TensorId a);
  TensorId sum(TensorId a, int32_t axis);
  TensorId largest(TensorId a, int32_t axis);
  /// The entry of each int8; entries stand from that of -128 on.
  TensorId table(TensorId a, const std::vector<int8_t>& entries);
  /// start - x * slope, then `steps` times r = r * (target - x * r) or r = r * (target - x * r^2), as
  /// numerics/fixed_point.h has it.
  template <typename Newton>
  TensorId newton(TensorId x, int32_t target, bool is_root);

 private:
  Shape shape_of(TensorId a, TensorId b) const;
  TensorId reduced(TensorId a, payload::Op op, flatbuffers::Offset<void> attribute, int32_t axis);

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
