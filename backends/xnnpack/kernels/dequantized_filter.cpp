#include "backends/xnnpack/kernels/dequantized_filter.h"

#include "ops/arguments.h"

namespace et::backends::xnnpack {

using namespace ops::arguments::et_weight_only_convolution;

Error DequantizedFilter::make(const char* op, const PrepareContext& context, Span<EValue* const> args) {
  const EValue& zero_points = *args[kWeightZeroPoints];
  if (!context.is_constant(*args[kWeight]) || !is_constant_float(context, *args[kWeightScales]) ||
      !(zero_points.is_none() || context.is_constant(zero_points)) || !context.is_constant(*args[kTransposed])) {
    return Error::NotSupported;
  }
  const Tensor input = args[kInput]->to_tensor();
  const Tensor weight = args[kWeight]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  if (weight.dim() != input.dim() || weight.dim() != out.dim() || weight.dim() < 3 || weight.numel() == 0) {
    return Error::NotSupported;
  }
  const Tensor points = zero_points.is_none() ? weight : zero_points.to_tensor();
  ET_RETURN_IF_ERROR(check_integer_filter(op, weight, args[kWeightScales]->to_tensor(),
                                          zero_points.is_none() ? nullptr : &points, {input.size(1), out.size(1)},
                                          args[kTransposed]->number_as_bool(), &integers_));
  return copy_.allocate(op, ScalarType::Float, {integers_.sizes, integers_.dim});
}

}  // namespace et::backends::xnnpack
