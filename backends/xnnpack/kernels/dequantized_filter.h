/// An integer filter (numerics/integer_filter.h) as floats, for as long as an operator is made from it.
///
/// For: convolutions of floats. Not for: running on; the library packs a copy.
#pragma once

#include "backends/xnnpack/kernels/weight_copy.h"
#include "numerics/integer_filter.h"

namespace et::backends::xnnpack {

class DequantizedFilter {
 public:
  /// Reads the arguments of et::weight_only_convolution. Errors: NotSupported when the filter is no constant;
  /// MemoryAllocationFailed; those of check_integer_filter.
  Error make(const char* op, const PrepareContext& context, Span<EValue* const> args);

  /// Makes the floats, once it is known that they will be packed. Requires make.
  void fill() { dequantize(integers_, copy_.data<float>()); }

  const IntegerFilter& integers() const { return integers_; }
  /// The filter with its own sizes, row-major, without numbers before fill; lives as long as this object.
  Tensor tensor() { return copy_.tensor(); }

 private:
  IntegerFilter integers_;
  WeightCopy copy_;
};

}  // namespace et::backends::xnnpack
