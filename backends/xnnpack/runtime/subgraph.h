/// The library's form of a Model: an xnn_subgraph.
///
/// For: delegate.cpp, which makes runtimes from it. Values get the ids 0 … n - 1 of their positions in the Model.
#pragma once

#include "backends/xnnpack/runtime/unpacked_filters.h"

namespace et::backends::xnnpack {

/// A subgraph that deletes itself.
class Subgraph {
 public:
  Subgraph() = default;
  ~Subgraph() {
    if (handle_ != nullptr) {
      xnn_delete_subgraph(handle_);
    }
  }
  Subgraph(const Subgraph&) = delete;
  Subgraph& operator=(const Subgraph&) = delete;

  /// Defines all values, with `shapes` [values] as their sizes, and all nodes. The library keeps pointers to constants,
  /// which lie where `filters` says.
  /// Errors: NotSupported for what the library refuses; MemoryAllocationFailed.
  Error build(const Model& model, Span<const Shape> shapes, const UnpackedFilters& filters);
  xnn_subgraph_t get() const { return handle_; }

 private:
  xnn_subgraph_t handle_ = nullptr;
};

/// Flags for xnn_create_runtime: none, or that nothing is fused.
///
/// Where the library fuses a clamp into the node before it, it also takes the larger of the clamp's lower bound and the first
/// field of that node's parameters, and the smaller of the upper bound and the second, whatever they are: of convolutions and
/// pooling they are padding. Small integers read as floats are a little more than zero, so they come to harm where the lower
/// bound is above zero or the upper one is not.
uint32_t runtime_flags(const Model& model);

}  // namespace et::backends::xnnpack
