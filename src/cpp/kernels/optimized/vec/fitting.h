/// Kernels that look at their arguments at load and step aside when those do not fit.
///
/// For: every kernel of this folder. Its table entry is made from two functions: the kernel itself, as for portable
/// ones, and a predicate over the boxed arguments. Where the predicate is false the Method takes the next best kernel.
///
///     constexpr Kernel kKernels[] = {make_fitting_kernel<&mean_out, &fits>("aten::mean.out")};
///
/// A predicate may use what never changes: dtypes, ranks, dim orders, numbers and lists of the program. Sizes of
/// dynamic tensors are at their bounds then, so a kernel takes every size.
#pragma once

#include "runtime/kernel_types.h"
#include "runtime/stateful_kernel.h"

namespace et::kernels::optimized {

using ops::Signature;
using runtime::make_stateful_kernel;
using Arguments = Span<EValue* const>;

template <bool (*Fits)(Arguments)>
Error prepare_if_fitting(runtime::PrepareContext&, Arguments args, void** state) {
  *state = nullptr;
  return Fits(args) ? Error::Ok : Error::NotSupported;
}

/// The table entry of `Function` (see runtime::make_kernel) for arguments that `Fits` accepts.
template <auto Function, bool (*Fits)(Arguments), uint32_t InPlace = 0>
constexpr Kernel make_fitting_kernel(const char* name) {
  Kernel kernel = runtime::make_kernel<Function, InPlace>(name, runtime::kPriorityOptimized);
  kernel.prepare = &prepare_if_fitting<Fits>;
  return kernel;
}

/// True for a float tensor.
inline bool is_float(const EValue& value) {
  return value.is_tensor() && value.to_tensor().scalar_type() == ScalarType::Float;
}
/// True for the numbers that kernels compute with: integers of up to 64 bits that are signed or bytes, and floats.
inline bool is_number(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Short:
    case ScalarType::Int:
    case ScalarType::Long:
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::Float:
    case ScalarType::Double: return true;
    default: return false;
  }
}
/// True for floats of 16 or 32 bits.
inline bool is_up_to_float(ScalarType dtype) { return dtype == ScalarType::Float || is_small_float(dtype); }
/// True for a tensor of them.
inline bool is_up_to_float(const EValue& value) {
  return value.is_tensor() && is_up_to_float(value.to_tensor().scalar_type());
}
/// True for a float tensor or None.
inline bool is_float_or_none(const EValue& value) { return value.is_none() || is_float(value); }
/// True for two tensors whose elements lie in the same order.
inline bool same_dim_order(const EValue& a, const EValue& b) {
  return equal(runtime::dim_order(a.to_tensor()), runtime::dim_order(b.to_tensor()));
}
inline bool is_row_major(const EValue& value) {
  return runtime::is_contiguous_dim_order(runtime::dim_order(value.to_tensor()));
}

inline bool is_channels_last(const EValue& value) {
  return runtime::is_channels_last_dim_order(runtime::dim_order(value.to_tensor()));
}

}  // namespace et::kernels::optimized
