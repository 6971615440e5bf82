/// Broadcasting as few, long, regular loops.
///
/// For: pointwise operators of two or three tensors, of any shapes and dim orders. The plan walks the output in memory
/// order; each operand gets a stride for every loop, 0 where it is broadcast. Dimensions that every operand steps through
/// evenly are merged, so that equal shapes give one loop, a bias on rows two.
/// Not for: copies (strided_copy.h).
///
///     BroadcastPlan plan;
///     ET_RETURN_IF_ERROR(plan_broadcast(context, "aten::add", {&self, &other}, out, &plan));      // resizes out
///     plan.for_each_block(pool, cost, [&](int64_t out_offset, const int64_t* offsets, size_t rows, size_t columns) { … });
#pragma once

#include "runtime/kernel_types.h"
#include "threads/parallel.h"

namespace et::kernels::optimized {

/// The two innermost loops of the output are a block, given to the caller as a whole: [rows, columns] contiguous outputs,
/// operand k at offsets[k] + row * row_stride[k] + column * column_stride[k]. Offsets and strides count elements.
struct BroadcastPlan {
  static constexpr size_t kMaxOperands = 3;

  size_t operands = 0;
  size_t columns = 1;
  size_t rows = 1;
  int64_t column_stride[kMaxOperands] = {};
  int64_t row_stride[kMaxOperands] = {};
  size_t outer_rank = 0;  // loops around the block, outermost first
  size_t outer_size[runtime::kMaxRank] = {};
  int64_t outer_stride[kMaxOperands][runtime::kMaxRank] = {};
  size_t blocks = 1;  // product of outer_size; 0 when there is nothing to do

  /// Calls body(first output element, first element of each operand, rows, columns) for blocks or parts of them: fewer
  /// rows, or a piece of the only row. `cost`: simple instructions an element takes.
  template <typename Body>
  void for_each_block(threads::ThreadPool* pool, size_t cost, Body&& body) const {
    if (blocks == 0 || rows == 0 || columns == 0) {
      return;
    }
    if (blocks * rows == 1) {  // one long loop: equal shapes, or a number on one side
      threads::parallel_for(pool, columns, threads::grain_for(cost), [&](size_t begin, size_t end) {
        int64_t offsets[kMaxOperands];
        for (size_t k = 0; k < operands; ++k) {
          offsets[k] = static_cast<int64_t>(begin) * column_stride[k];
        }
        body(static_cast<int64_t>(begin), static_cast<const int64_t*>(offsets), size_t{1}, end - begin);
      });
      return;
    }
    // Work is shared by rows: row r of all belongs to block r / rows.
    threads::parallel_for(pool, blocks * rows, threads::grain_for(columns * cost), [&](size_t begin, size_t end) {
      while (begin < end) {
        const size_t block = begin / rows;
        const size_t row = begin % rows;
        const size_t count = end - begin < rows - row ? end - begin : rows - row;
        int64_t offsets[kMaxOperands];
        block_offsets(block, offsets);
        for (size_t k = 0; k < operands; ++k) {
          offsets[k] += static_cast<int64_t>(row) * row_stride[k];
        }
        body(static_cast<int64_t>(begin * columns), static_cast<const int64_t*>(offsets), count, columns);
        begin += count;
      }
    });
  }

  /// The first element of each operand in a block.
  void block_offsets(size_t block, int64_t* offsets) const;
};

/// Broadcasts, resizes `out` and plans. Errors: InvalidArgument for shapes that do not fit; those of resize_tensor.
Error plan_broadcast(KernelContext& context, const char* op, Span<const Tensor* const> operands, const Tensor& out,
                     BroadcastPlan* plan);

}  // namespace et::kernels::optimized
