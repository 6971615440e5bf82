/// Which convolutions, poolings and resizings the delegate takes: the checks of their rows in op_support.cpp.
///
/// Each gives the reason of a refusal, "" for what is taken.
#pragma once

#include "backends/xnnpack/compiler/op_support.h"

namespace et::backends::xnnpack {

size_t num_dynamic(const ir::TensorType& type);

std::string convolution(const Question& q);
std::string max_pool(const Question& q);
std::string avg_pool(const Question& q);
std::string mean(const Question& q);
std::string resize(const Question& q);
std::string nearest(const Question& q);

}  // namespace et::backends::xnnpack
