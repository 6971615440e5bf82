/// Sizes at the upper bounds, with which the runtime half loads a part: they must fit together there, too.
///
/// For: op_support.cpp. Where a program says that two sizes are equal, so do their bounds. But torch.export leaves some
/// relations unsaid ("which is not checked at run time"): a linear layer over a dynamic dimension that can only have
/// its size.
#pragma once

#include "backends/xnnpack/compiler/op_support.h"

namespace et::backends::xnnpack {

/// Why a node's tensors do not fit together at their upper bounds; "" when they do.
std::string bounds_refusal(const Question& question);

}  // namespace et::backends::xnnpack
