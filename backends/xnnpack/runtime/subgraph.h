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
  /// Errors: NotSupported for what the library refuses, with the debug handle of that node in `*failed`;
  /// MemoryAllocationFailed.
  Error build(const Model& model, Span<const Shape> shapes, const UnpackedFilters& filters, int32_t* failed);
  /// One product of `model` alone, whose input and output are the graph's. Errors: NotSupported.
  Error build_product(const Model& model, const Node& node, Span<const Shape> shapes);
  xnn_subgraph_t get() const { return handle_; }

 private:
  xnn_subgraph_t handle_ = nullptr;
};

}  // namespace et::backends::xnnpack
