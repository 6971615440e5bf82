/// Scaled dot product attention row by row, of floats or of integers that stand for them:
/// out = softmax(query keyᵀ scale + mask) value.
///
/// For: op_attention.cpp and quantized/op_attention.cpp, which say what becomes of a row of results.
///
/// Source: A. Vaswani et al., "Attention is all you need", 2017; the semantics of torch's scaled_dot_product_attention.
#pragma once

#include <optional>

#include "runtime/kernel_types.h"

namespace et::kernels::portable {

/// [batch…, heads…, rows, columns], whose numbers are scale * (element - zero_point).
struct AttentionOperand {
  const Tensor& tensor;
  float scale = 1, zero_point = 0;
};

struct Attention {
  const char* op;  ///< for messages
  AttentionOperand query, key, value;
  const OptionalTensor& mask;  ///< bool, or floats that are added to scores
  bool is_causal;
  std::optional<double> scale;  ///< None: one over the root of the width
  bool enable_gqa;
};

/// Writes a row of n results to elements that lie `stride` apart; `how` is the caller's.
template <typename C>
using PutRow = void (*)(const void* how, const C* row, int64_t n, char* to, int64_t stride);

/// C: float or double, in which all is computed. Resizes `out`; the caller has checked dtypes. Errors: InvalidArgument
/// for shapes that do not go together; MemoryAllocationFailed; Cancelled.
template <typename C>
Error attend(KernelContext& context, const Attention& call, const void* how, PutRow<C> put, const Tensor& out);

}  // namespace et::kernels::portable
