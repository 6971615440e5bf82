#include "kernels/portable/promote.h"

namespace et::kernels::portable {
namespace {

int kind(ScalarType dtype) {
  return dtype == ScalarType::Bool ? 0 : is_complex(dtype) ? 3 : is_floating(dtype) ? 2 : 1;
}

bool is_unsigned(ScalarType dtype) {
  return dtype == ScalarType::Byte || dtype == ScalarType::UInt16 || dtype == ScalarType::UInt32 ||
         dtype == ScalarType::UInt64;
}

ScalarType promote_integers(ScalarType a, ScalarType b) {
  if (is_unsigned(a) == is_unsigned(b)) {
    return element_size(a) >= element_size(b) ? a : b;
  }
  const ScalarType sign = is_unsigned(a) ? b : a;
  const size_t unsigned_size = element_size(is_unsigned(a) ? a : b);
  if (element_size(sign) > unsigned_size) {
    return sign;
  }
  return unsigned_size == 1 ? ScalarType::Short : unsigned_size == 2 ? ScalarType::Int : ScalarType::Long;
}

// `lower` matters only where it is of a higher kind than `higher`.
ScalarType combine(ScalarType higher, bool has_higher, ScalarType lower, bool has_lower) {
  if (!has_higher || !has_lower) {
    return has_higher ? higher : lower;
  }
  if (kind(higher) >= kind(lower)) {
    return higher;
  }
  if (is_complex(lower) && is_floating(higher)) {
    return higher == ScalarType::Double ? ScalarType::ComplexDouble : ScalarType::ComplexFloat;
  }
  return promote_types(higher, lower);
}

}  // namespace

ScalarType promote_types(ScalarType a, ScalarType b) {
  if (a == b) {
    return a;
  }
  if (kind(a) != kind(b)) {
    const ScalarType high = kind(a) > kind(b) ? a : b;
    const ScalarType low = kind(a) > kind(b) ? b : a;
    return high == ScalarType::ComplexFloat && low == ScalarType::Double ? ScalarType::ComplexDouble : high;
  }
  if (kind(a) == 1) {
    return promote_integers(a, b);
  }
  if (element_size(a) == element_size(b)) {
    return ScalarType::Float;  // f16 and bf16
  }
  return element_size(a) > element_size(b) ? a : b;
}

ScalarType result_type(std::initializer_list<const Tensor*> tensors) {
  ScalarType with_dims = ScalarType::Bool;
  ScalarType without_dims = ScalarType::Bool;
  bool has_with = false;
  bool has_without = false;
  for (const Tensor* tensor : tensors) {
    ScalarType& result = tensor->dim() > 0 ? with_dims : without_dims;
    bool& has = tensor->dim() > 0 ? has_with : has_without;
    result = has ? promote_types(result, tensor->scalar_type()) : tensor->scalar_type();
    has = true;
  }
  return combine(with_dims, has_with, without_dims, has_without);
}

ScalarType result_type(const Tensor& tensor, const Scalar& scalar) {
  const ScalarType number = scalar.is_floating_point() ? ScalarType::Float
                            : scalar.is_boolean()      ? ScalarType::Bool
                                                       : ScalarType::Long;
  return combine(tensor.scalar_type(), true, number, true);
}

bool can_cast(ScalarType from, ScalarType to) {
  return !(is_complex(from) && !is_complex(to)) && !(is_floating(from) && is_integral(to, true)) &&
         !(from != ScalarType::Bool && to == ScalarType::Bool);
}

Error check_can_cast(const char* op, ScalarType from, ScalarType to) {
  ET_CHECK_OR_RETURN(can_cast(from, to), InvalidArgument, "%s: the result is %s, which an output of %s cannot hold", op,
                     to_string(from), to_string(to));
  return Error::Ok;
}

}  // namespace et::kernels::portable
