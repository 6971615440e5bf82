/// Where the arguments of the convolutions of ops.yaml stand, functional forms and out variants alike.
///
/// For: kernels that look at boxed arguments, passes and backends that look at a node's. Not for: code that is given an
/// operator's arguments one by one.
///
///     using namespace ops::convolution_arguments;
///     if (args[kTransposed]->number_as_bool()) { … }
#pragma once

#include <cstddef>

namespace et::ops {

/// aten::convolution and et::convolution_clamp, which differ in what follows kGroups.
namespace convolution_arguments {
enum : size_t {
  kInput,
  kWeight,
  kBias,
  kStride,
  kPadding,
  kDilation,
  kTransposed,
  kOutputPadding,
  kGroups,
  kMin,
  kMax
};
}

/// et::weight_only_convolution
namespace weight_only_convolution_arguments {
enum : size_t {
  kInput,
  kWeight,
  kScales,
  kZeroPoints,
  kBias,
  kStride,
  kPadding,
  kDilation,
  kTransposed,
  kOutputPadding,
  kGroups,
  kMin,
  kMax,
  kOut
};
}

/// et::quantized_convolution
namespace quantized_convolution_arguments {
enum : size_t {
  kInput,
  kInputScale,
  kInputZeroPoint,
  kWeight,
  kWeightScales,
  kBias,
  kStride,
  kPadding,
  kDilation,
  kTransposed,
  kOutputPadding,
  kGroups,
  kOutputScale,
  kOutputZeroPoint,
  kOutputMin,
  kOutputMax,
  kOut
};
}

/// et::separable_convolution
namespace separable_convolution_arguments {
enum : size_t {
  kInput,
  kExpandWeight,
  kExpandBias,
  kExpandMin,
  kExpandMax,
  kWeight,
  kBias,
  kStride,
  kPadding,
  kMin,
  kMax,
  kProjectWeight,
  kProjectBias,
  kProjectMin,
  kProjectMax,
  kOut
};
}

}  // namespace et::ops
