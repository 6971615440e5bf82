/// A payload, verified and ready to run: values, operators, and the places of intermediate values in one arena.
///
/// For: register.cpp. All memory comes from the allocator of the load; a run takes the arena from its own temporary
/// memory, so that one Graph serves several calls at once.
/// Where it stands: bytes -> Graph::load -> Graph::run for each call.
#pragma once

#include "backends/tosa/runtime/operation.h"
#include "runtime/backend.h"
#include "runtime/kernel.h"
#include "runtime/memory_allocator.h"

namespace et::backends::tosa {

class Graph {
 public:
  /// Verifies `payload` and makes its graph. The bytes must outlive the graph.
  ///
  /// After it: every name is defined once, before its uses; all shapes, types and attributes fit the operators;
  /// constants are as long as their shapes say, and aligned; no index computed from a shape overflows. Errors:
  /// InvalidProgram, saying what is wrong; NotSupported for operators that the interpreter does not have;
  ///         DelegateInvalidCompatibility for another version; MemoryAllocationFailed.
  Error load(Span<const uint8_t> payload, runtime::MemoryAllocator& allocator);

  /// Checks the values of a call: their number, dtypes and sizes. An argument in another dim order counts as the tensor
  /// whose sizes are those in memory order. Errors: InvalidArgument.
  Error check_arguments(Span<runtime::EValue* const> args) const;

  /// Runs it. args: inputs, then outputs. Errors: MemoryAllocationFailed; InvalidArgument for elements that an operator
  /// cannot use; Cancelled.
  Error run(runtime::KernelContext& context, Span<runtime::EValue* const> args) const;

  /// Bytes of temporary memory that a run takes for intermediate values.
  size_t arena_nbytes() const { return arena_nbytes_; }

 private:
  friend class GraphLoader;
  Value* values_ = nullptr;            // tensors, then shapes
  Operation* operations_ = nullptr;    // without CONST and CONST_SHAPE
  const Value** arguments_ = nullptr;  // inputs, then outputs
  uint32_t num_values_ = 0;
  uint32_t num_operations_ = 0;
  uint32_t num_inputs_ = 0;
  uint32_t num_arguments_ = 0;
  size_t arena_nbytes_ = 0;
};

}  // namespace et::backends::tosa
