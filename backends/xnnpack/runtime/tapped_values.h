/// Values inside a delegate, for a tracer that wants them: the library gives them as outputs beside the others.
///
/// For: delegate.cpp. The library does not fuse across such a value, so what runs then is the payload's graph node by
/// node, as slow as that is. Not for: constants, and inputs quantized at run time, which no tensor can tell.
///
///     taps.mark(model);                          // before the graph is built
///     ET_TRY(bool moved, taps.place(shapes, instance.set));
///     taps.report(shapes, tracer);        // behind the call
#pragma once

#include "runtime/host/out_of_memory.h"

#include "backends/xnnpack/runtime/model.h"
#include "runtime/event_tracer.h"

namespace et::backends::xnnpack {

class TappedValues {
 public:
  /// Marks every value that a node computes and a tensor can tell; not what is only moved.
  void mark(Model& model);
  /// Adds the marked values to what is set up, without memory.
  void add_to(List<xnn_external_value>& values) const;
  /// Gives the last of `values`, which add_to added, memory for these `shapes` [values]. True when some of it moved.
  /// Errors: MemoryAllocationFailed.
  Result<bool> place(Span<const Shape> shapes, List<xnn_external_value>& values);
  /// Tells the tracer what was computed, in the order of the nodes; tensors have the sizes as they lie in memory.
  void report(Span<const Shape> shapes, runtime::EventTracer& tracer) const;

 private:
  struct Tap {
    uint32_t value;
    int32_t debug_handle;
    ScalarType dtype;
    List<uint8_t> memory;
  };

  List<Tap> taps_;
};

}  // namespace et::backends::xnnpack
