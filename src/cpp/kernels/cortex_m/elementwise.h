/// Two int8 tensors of one shape and dim order, element by element.
///
/// For: quantized_add.cpp, quantized_sub.cpp and quantized_mul.cpp. Not for: broadcasting, which the plain kernels do.
#pragma once

#include "kernels/cortex_m/kernels.h"
#include "kernels/cortex_m/primitives.h"

namespace et::kernels::cortex_m {

/// An operand with the parameters of its integers, as a call gives them.
struct Operand {
  const Tensor& tensor;
  double scale;
  int64_t zero_point;
};

/// A sum, or a difference, in fixed point.
Error add(KernelContext& context, const char* op, const Operand& self, const Operand& other, bool subtract,
          const quantized::OutputParameters& result, const Tensor& out);

/// fn(self, scale, zero point, other, scale, zero point, …, out) on tensors that lie alike.
bool fits_pair(Arguments args);
/// The same, where a sum can be taken in fixed point.
bool fits_sum(Arguments args);

}  // namespace et::kernels::cortex_m
