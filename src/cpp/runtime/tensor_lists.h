/// The tensors of an argument, be it one tensor or a list of them. Internal to runtime.
#pragma once

#include "runtime/evalue.h"

namespace et::runtime {

/// True when `test(const Tensor&)` is true of a tensor, or of each in a list; None and numbers have none.
template <typename Test>
bool all_tensors(const EValue& value, Test test) {
  if (value.is_tensor()) {
    return test(value.to_tensor());
  }
  if (value.is_tensor_list()) {
    for (const Tensor& tensor : value.to_tensor_list()) {
      if (!test(tensor)) {
        return false;
      }
    }
  } else if (value.is_optional_tensor_list()) {
    for (const std::optional<Tensor>& tensor : value.to_optional_tensor_list()) {
      if (tensor.has_value() && !test(*tensor)) {
        return false;
      }
    }
  }
  return true;
}

/// Items of a list of tensors, 0 for anything else. Does not look at them.
inline size_t list_length(const EValue& value) {
  return value.is_tensor_list()            ? value.tensor_list_items().size
         : value.is_optional_tensor_list() ? value.optional_tensor_list_items().size
                                           : 0;
}

}  // namespace et::runtime
