/// Tensors by their names in the model: parameters, gradients, what an optimizer remembers.
///
/// A NamedTensors holds handles. The memory behind them belongs to whoever made it: a method, an optimizer, the caller.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/tensor.h"

namespace et::training {

/// Name -> tensor, ordered by name.
using NamedTensors = std::map<std::string, runtime::Tensor, std::less<>>;

/// "a, b, c": the names of at most eight tensors, and how many more there are.
std::string names_of(const NamedTensors& tensors);

/// "torch.float32 (3, 4)".
std::string type_of(const runtime::Tensor& tensor);

/// Checks that two tensors have one element type, one shape and one memory order. `what` and `other` name them in the
/// message. Errors: InvalidArgument, naming both sides.
Error check_same_type(const std::string& what, const runtime::Tensor& tensor, const std::string& other,
                      const runtime::Tensor& expected);

}  // namespace et::training
