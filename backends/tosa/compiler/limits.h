/// What checks of operators on integers and on floats share: TOSA's level 8K, an accelerator's limits, and what must be
/// known at compile time. Each gives a reason, "" = none.
///
/// For: op_support.cpp, float_*.cpp.
#pragma once

#include "backends/tosa/compiler/convolution.h"
#include "backends/tosa/compiler/op_support.h"

namespace et::backends::tosa::compiler {

inline constexpr int64_t kMaxKernel = 8192;  ///< of kernels, strides and paddings

/// Of windows that move. A maximum's may move by any stride: steps of a smaller one.
std::string window_refusal(const Question& q, const Windows& windows, bool is_pool);
/// Of a pooling whose windows these arguments say, and of an adaptive one.
std::string pool_refusal(const Question& q, size_t kernel_size, size_t stride, size_t padding);
std::string adaptive_pool_refusal(const Question& q);
std::string convolution_refusal(const Question& q, const ConvolutionArguments& at);
/// Of arguments that are None or constants.
std::string constants_refusal(const Question& q, const std::vector<size_t>& positions);

}  // namespace et::backends::tosa::compiler
