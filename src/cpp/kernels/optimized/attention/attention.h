/// Attention of one call: its sizes, its mask, and how it is cut into tasks.
///
/// For: attention.cpp, of floats, and quantized/attention.cpp, which makes floats of integers that it does not
/// multiply. Not for: operands that broadcast (portable/attention.h).
///
///     ET_TRY(const AttentionShape shape, shape_of(kOp, query, key, value, attn_mask, enable_gqa));
///     ET_TRY(const AttentionMask<float> mask, mask_of<float>(context, attn_mask));
///     const AttentionTasks tasks(shape, context.pool(), kRowStep);
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>

#include "kernels/optimized/vec/float_tensors.h"
#include "threads/thread_pool.h"

namespace et::kernels::optimized::attention {

/// Keys that are treated together: their scores for a few rows stay in the first cache.
inline constexpr size_t kKeyBlock = 256;
/// Widest strip of keys or value columns: two of the longest vectors. Scores of a row are padded to it.
inline constexpr size_t kMaxStrip = 32;
inline constexpr size_t kScoreStride = kKeyBlock + kMaxStrip;

/// Tensors are [batch, heads, rows, depth]; missing leading dimensions count as 1.
struct AttentionShape {
  size_t batch, heads, key_heads, rows, keys, depth, value_depth;

  size_t all_heads() const { return batch * heads; }
  /// The head of the keys that a head of all meets.
  size_t key_head_of(size_t head) const { return head / heads * key_heads + head % heads / (heads / key_heads); }
};

/// Errors: InvalidArgument, naming `op`, for tensors that do not go together.
Result<AttentionShape> shape_of(const char* op, const Tensor& query, const Tensor& key, const Tensor& value,
                                const OptionalTensor& mask, bool enable_gqa);

/// What is added to scores, or hides them. Distances are in elements, 0 where it broadcasts.
template <typename T>
struct AttentionMask {
  const T* added;        ///< nullptr: nothing
  const uint8_t* shown;  ///< where 0, no weight; nullptr: all are shown
  int64_t column, row, head, batch;

  /// From a row of a head of all on.
  AttentionMask of_row(const AttentionShape& shape, size_t in_all, size_t first) const {
    AttentionMask moved = *this;
    const int64_t at = static_cast<int64_t>(in_all / shape.heads) * batch +
                       static_cast<int64_t>(in_all % shape.heads) * head + static_cast<int64_t>(first) * row;
    moved.added += added == nullptr ? 0 : at;
    moved.shown += shown == nullptr ? 0 : at;
    return moved;
  }
};

/// Errors: MemoryAllocationFailed.
template <typename T>
Result<AttentionMask<T>> mask_of(KernelContext& context, const OptionalTensor& mask);

/// Heads, cut into runs of rows where there are too few heads for the threads. Groups of tasks run on one thread each,
/// and share temporary memory; a single group when the work is small.
struct AttentionTasks {
  size_t rows;  ///< of a task, at most
  size_t cuts, count, groups;

  /// A task has whole steps of rows, but for the last ones of a head.
  AttentionTasks(const AttentionShape& shape, const threads::ThreadPool* pool, size_t row_step);

  /// Calls task(head, first_row) for those of a group, until it says false.
  template <typename Task>
  void for_each(size_t group, const Task& task) const {
    for (size_t index = group * count / groups; index < (group + 1) * count / groups; ++index) {
      if (!task(index / cuts, index % cuts * rows)) {
        return;
      }
    }
  }
};

/// What the rows of a task have, however their products are computed.
template <typename T>
struct AttentionRows {
  AttentionMask<T> mask;
  size_t count, first, keys;  ///< the first row is row `first` of its head
  T scale;
  bool causal;  ///< row i sees keys 0 … i
  T* scores;    ///< [rows that are treated together, kScoreStride]
  T* maximum;   ///< [count], of scores that are scaled where they have to be
  T* sum;       ///< [count]: of weights

  /// A causal task sees no key beyond its last row.
  size_t visible_keys() const { return causal ? std::min(keys, first + count) : keys; }
};

/// Row-major tensors of `shape`, [heads, rows, depth].
template <typename T>
struct AttentionOperands {
  const T *query, *key, *value;
  T* out;
};

/// softmax(query · keyᵀ · scale + mask) · value, on all threads. Errors: MemoryAllocationFailed; Cancelled.
template <typename T>
Error attend_heads(KernelContext& context, const AttentionShape& shape, const AttentionOperands<T>& operands,
                   const AttentionMask<T>& mask, bool is_causal, double scale);

/// What `scale` is where none is given.
inline double scale_of(std::optional<double> scale, const AttentionShape& shape) {
  return scale ? *scale : 1.0 / std::sqrt(static_cast<double>(shape.depth));
}

/// Query, key, value and result: row-major, of two to four dimensions, as many in each, with the same heads; those of
/// the query may share others with `enable_gqa`.
bool are_attention_operands(std::initializer_list<const EValue*> operands, bool enable_gqa);
/// None, or row-major: bool, or what `is_taken` says.
bool is_attention_mask(const EValue& mask, bool (*is_taken)(ScalarType dtype));

}  // namespace et::kernels::optimized::attention
