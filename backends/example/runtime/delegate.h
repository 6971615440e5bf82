/// One compiled part at run time: its graph and how to run it on the tensors of a call.
///
/// For: register.cpp. Everything that depends on sizes happens at each call, which is all that dynamic shapes need:
/// outputs are resized, intermediate values live in the call's temporary memory.
#pragma once

#include "backends/example/schema/payload_generated.h"
#include "runtime/backend.h"

namespace et::backends::example {

class Delegate {
 public:
  explicit Delegate(const payload::Graph& graph) : graph_(graph) {}

  /// Checks what is known before the first call: how many arguments there are, float32, rank.
  /// Errors: InvalidProgram.
  Error check_arguments(Span<runtime::EValue* const> args) const;

  /// args: the inputs, then the outputs.
  /// Errors: InvalidArgument when sizes do not fit together; MemoryAllocationFailed; Cancelled.
  Error execute(runtime::KernelContext& context, Span<runtime::EValue* const> args) const;

 private:
  const payload::Graph& graph_;  ///< in the payload, which lives as long as the method
};

}  // namespace et::backends::example
