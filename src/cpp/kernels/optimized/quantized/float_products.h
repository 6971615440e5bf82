/// Products of rows of floats with a constant integer weight, for kernels that have one as a part of theirs.
///
/// For: dynamic_linear.cpp and weight_only_linear.cpp, which define them, and float_recurrent.cpp, whose steps have one
///      each. Not for: products that give integers.
///
/// A product is described by the arguments of its operator, and computes what that operator's kernel does, bit for bit.
///
///     ET_RETURN_IF_ERROR(kDynamicProduct.prepare(context, arguments, &state));             // at load: packs the
///     weight ET_TRY(void* const started, kDynamicProduct.start(context, op, arguments, state, {rows, columns,
///     outputs})); ET_RETURN_IF_ERROR(kDynamicProduct.multiply(context, started, x, out));              // once or more
///     often
#pragma once

#include "kernels/optimized/vec/fitting.h"
#include "runtime/kernel.h"

namespace et::kernels::optimized::quantized {

struct ProductSize {
  size_t rows, columns, outputs;
};

struct FloatProduct {
  size_t num_arguments;  ///< of the operator, with input and out

  /// Errors: NotSupported, silently, for arguments that do not fit. Memory: the method's, and the program's cache.
  Error (*prepare)(runtime::PrepareContext& context, Arguments args, void** state);
  /// What is the same in several products of a call. Memory: until the end of the instruction.
  /// Errors: InvalidArgument, naming `op`, for sizes and numbers that do not fit.
  Result<void*> (*start)(KernelContext& context, const char* op, Arguments args, const void* state, ProductSize size);
  /// x [rows, columns] -> out [rows, outputs]. Errors: InvalidArgument for numbers that have no integers.
  Error (*multiply)(KernelContext& context, void* started, const float* x, float* out);
};

/// Of et::dynamic_linear and et::weight_only_linear.
extern const FloatProduct kDynamicProduct, kWeightOnlyProduct;

}  // namespace et::kernels::optimized::quantized
