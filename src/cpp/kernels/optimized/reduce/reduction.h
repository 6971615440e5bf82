/// A reduction of neighbouring dimensions: one plan (reduce.cpp), and loops for each kind of element.
///
/// For: reduce.cpp, and the files with loops: reduce_floats.cpp, reduce_integers.cpp, truth.cpp, vector_norm.cpp.
/// Not for: reductions that say where an element stands (reduce_index.cpp).
///
///     ReductionLoops loops = loops_of_floats(Reduction::kSum, ScalarType::Half, ScalarType::Half);
///     loops.rows(job, 0, job.shape.outer);
#pragma once

#include "kernels/optimized/reduce/reduction_shape.h"

namespace et::kernels::optimized::reduce {

enum class Reduction { kSum, kMean, kProd, kMax, kMin, kVariance, kDeviation, kNorm, kAny, kAll };

constexpr bool is_variance(Reduction what) { return what == Reduction::kVariance || what == Reduction::kDeviation; }

/// One call: the tensors are dense, and each result has elements.
struct ReductionJob {
  Reduction what;
  const Tensor& self;
  const Tensor& out;
  ReductionShape shape;
  double divisor;  // of a mean or variance

  template <typename T>
  const T* from() const {
    return static_cast<const T*>(self.const_data_ptr());
  }
  template <typename T>
  T* to() const {
    return static_cast<T*>(out.mutable_data_ptr());
  }
};

struct ReductionLoops {
  /// Results [begin, end), each of a row of `length` elements side by side.
  void (*rows)(const ReductionJob& job, size_t begin, size_t end) = nullptr;
  /// At most kPieceColumns results from `to` of the output on, of columns that begin side by side at element `first`.
  void (*columns)(const ReductionJob& job, size_t first, size_t to, size_t columns) = nullptr;
};

/// The loops for one kind of elements, without functions where they are for others. What they compute follows from the
/// job: `what` says here only whether they do.
using LoopsOf = ReductionLoops (*)(Reduction what, ScalarType from, ScalarType to);
ReductionLoops loops_of_floats(Reduction what, ScalarType from, ScalarType to);
ReductionLoops loops_of_integers(Reduction what, ScalarType from, ScalarType to);
ReductionLoops loops_of_truth(Reduction what, ScalarType from, ScalarType to);
ReductionLoops loops_of_norms(Reduction what, ScalarType from, ScalarType to);

}  // namespace et::kernels::optimized::reduce
