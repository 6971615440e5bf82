/// Type promotion: the element type that operands of different types are computed in, as ATen decides it.
///
/// For: kernels with several operands. A tensor with dimensions counts before one without, which counts before a
/// Scalar, unless the later has a higher kind (bool < integer < floating < complex).
///
///     const ScalarType common = result_type({&self, &other});
///     ET_RETURN_IF_ERROR(check_can_cast("aten::add", common, out.scalar_type()));
///
/// Source: PyTorch documentation, "Tensor Attributes", type promotion.
#pragma once

#include <initializer_list>

#include "runtime/kernel_types.h"

namespace et::kernels::portable {

/// The smallest type that both convert to. Total: every pair of types has one (unsigned 16 to 64 bit: the wider
/// integer).
ScalarType promote_types(ScalarType a, ScalarType b);

/// Common type of tensors.
ScalarType result_type(std::initializer_list<const Tensor*> tensors);

/// Common type of a tensor and a number.
ScalarType result_type(const Tensor& tensor, const Scalar& scalar);

/// What ATen's float-only operations compute in: floating types stay, integers and bool become f32.
constexpr ScalarType to_floating(ScalarType dtype) {
  return is_floating(dtype) || is_complex(dtype) ? dtype : ScalarType::Float;
}

/// True when a result of type `from` may be written to an output of type `to`: no loss of kind.
bool can_cast(ScalarType from, ScalarType to);
/// Errors: InvalidArgument, naming the operator and both types.
Error check_can_cast(const char* op, ScalarType from, ScalarType to);

}  // namespace et::kernels::portable
