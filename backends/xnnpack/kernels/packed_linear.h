/// Running a matrix product whose weight the library has packed: rows of K numbers to rows of N.
///
/// For: linear.cpp, quantized_linear.cpp and dynamic_linear.cpp, which differ in how they make the operator, and one in
/// what it does to its input. Not for: two computed matrices (matmul.cpp).
///
///     ET_TRY(PackedLinear* const made, make_linear(context, kLibrary, in_features, out_features));
///     return keep_state(made, xnn_create_fully_connected_…(…, made->op.receive()), state);
#pragma once

#include "backends/xnnpack/kernels/library.h"

namespace et::backends::xnnpack {

/// What the library calls the two steps of a run, for one combination of types.
struct LinearLibrary {
  const char* op;       ///< ours, for messages
  const char* call;     ///< the library's, for its errors
  int64_t picoseconds;  ///< of a multiplication, for pool_for
  xnn_status (*reshape)(xnn_operator_t op, size_t rows, pthreadpool_t pool);
  /// `parameters`: one for each row of a quantized input, nullptr for others.
  xnn_status (*setup)(xnn_operator_t op, const void* input, void* out, const xnn_quantization_params* parameters);
};

/// LinearLibrary::setup from the library's function for an input that has its parameters, if any, in the operator …
template <typename In, typename Out, xnn_status (*Setup)(xnn_operator_t, const In*, Out*)>
xnn_status setup_linear(xnn_operator_t op, const void* input, void* out, const xnn_quantization_params* /*none*/) {
  return Setup(op, static_cast<const In*>(input), static_cast<Out*>(out));
}
/// … and for one quantized row by row.
template <xnn_status (*Setup)(xnn_operator_t, const int8_t*, float*, const xnn_quantization_params*)>
xnn_status setup_dynamic_linear(xnn_operator_t op, const void* input, void* out,
                                const xnn_quantization_params* parameters) {
  return Setup(op, static_cast<const int8_t*>(input), static_cast<float*>(out), parameters);
}

/// The state of such a kernel.
struct PackedLinear {
  Operator op;
  const LinearLibrary* library = nullptr;
  int64_t in_features = 0;   // K
  int64_t out_features = 0;  // N

  /// Resizes `out` to [..., N] for `input` [..., K] and returns how many rows that are. Errors: InvalidArgument when
  /// the input has other rows.
  Result<int64_t> resize(KernelContext& context, const Tensor& input, const Tensor& out) const;
  /// The product of `rows` rows; nothing for none.
  Error run(KernelContext& context, int64_t rows, const void* input, void* out,
            const xnn_quantization_params* parameters = nullptr);
};

Result<PackedLinear*> make_linear(PrepareContext& context, const LinearLibrary& library, int64_t in_features,
                                  int64_t out_features);

/// The `run` of a kernel that takes its input as it is, with the state PackedLinear.
Error run_linear(KernelContext& context, const Tensor& input, const Tensor& out, void* state);

}  // namespace et::backends::xnnpack
