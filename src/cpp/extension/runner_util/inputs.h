/// Inputs of ones for every tensor that a method takes, at its largest sizes.
///
/// For: trying a program, as executor_runner does. Not for: results that mean something.
///
///     ET_TRY(const BufferCleanup inputs, prepare_input_tensors(*method));
///     ET_RETURN_IF_ERROR(method->execute());
#pragma once

#include <vector>

#include "extension/program/program.h"
#include "extension/tensor/tensor_ptr.h"

namespace et::extension {

/// Keeps the memory of such inputs; it must live until the method has been executed.
class BufferCleanup {
 public:
  explicit BufferCleanup(std::vector<TensorPtr> tensors) : tensors_(std::move(tensors)) {}

 private:
  std::vector<TensorPtr> tensors_;
};

/// Errors: MemoryAllocationFailed; those of Method::set_input.
Result<BufferCleanup> prepare_input_tensors(Method& method);

}  // namespace et::extension
