/// What the library says about the times of its operators, told as the payload's nodes.
///
/// For: delegate.cpp, where there is a tracer. The library measures whole microseconds.
#pragma once

#include <string>
#include "runtime/host/out_of_memory.h"

#include "backends/xnnpack/runtime/model.h"
#include "runtime/event_tracer.h"

namespace et::backends::xnnpack {

/// The operators of a runtime of the library that was made with XNN_FLAG_BASIC_PROFILING.
class ProfiledOperators {
 public:
  /// Reads the names of the operators, and finds the node that each stands for. Errors: Internal, the library says
  /// nothing; MemoryAllocationFailed.
  Error find(xnn_runtime_t runtime, const Model& model);
  /// Tells the tracer what the last call took, which began at `start_ns`. Errors: Internal, as find.
  Error report(xnn_runtime_t runtime, runtime::EventTracer& tracer, uint64_t start_ns);

 private:
  struct Operator {
    std::string name;           // the library's: "Convolution (NHWC, F32) GEMM"
    int32_t debug_handle = -1;  // of its node; -1: not known
  };

  List<Operator> operators_;
  List<uint64_t> durations_us_;  // [operators], of the last call
};

}  // namespace et::backends::xnnpack
