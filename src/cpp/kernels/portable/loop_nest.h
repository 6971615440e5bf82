/// LoopNest: nested loops over the elements of several tensors at once, as runs of the innermost loop.
///
/// For: whatever walks over tensors with strides (broadcasting, other dim orders, slices, reversed axes).
/// Not for: deciding what happens to the elements.
///
///     LoopNest nest(out.sizes());
///     nest.add(out.mutable_data_ptr(), out.strides(), out.element_size());
///     nest.add(self.const_data_ptr(), strides, self.element_size());
///     nest.simplify();                       // drops size-1 loops, orders by the first operand, merges neighbours
///     nest.for_each_run([&](char* const* pointers, int64_t n) { … });
#pragma once

#include "kernels/portable/shape.h"
#include "threads/parallel.h"

namespace et::kernels::portable {

class LoopNest {
 public:
  static constexpr size_t kMaxOperands = 6;

  explicit LoopNest(IntArrayRef sizes) : sizes_(sizes) {}

  /// Adds an operand: a pointer and its strides in elements of `element_size` bytes. Strides that are fewer than the
  ///                  loops belong to the last ones (as in broadcasting).
  void add(const void* data, IntArrayRef strides, size_t element_size);
  /// Adds a tensor that broadcasts to the sizes of the nest.
  void add_broadcast(const Tensor& tensor);
  /// Drops loops of one iteration, puts loops in the memory order of the first operand and merges loops that all
  /// operands walk without a gap. Only for work that does not depend on the order of elements.
  void simplify();
  /// As simplify, but runs come in row-major order of the sizes (for work that looks at positions).
  void merge();
  /// Points an operand at other memory.
  void rebase(size_t operand, char* data) { data_[operand] = data; }

  bool empty() const;
  /// Iterations of a loop, 0 being the outermost one; 1 for a nest without loops.
  int64_t loop_size(size_t loop) const { return sizes_.size() == 0 ? 1 : sizes_[static_cast<int64_t>(loop)]; }
  /// Iterations of all loops together.
  int64_t steps() const { return sizes_.numel(); }
  /// The loop that parallel_parts cuts: the outermost one, or the longest where an iteration of that takes long.
  size_t loop_to_share(size_t cost) const;
  /// The nest with iterations [begin, end) of one loop only.
  LoopNest part(size_t loop, int64_t begin, int64_t end) const;
  /// Length of the innermost loop; 1 for a nest without loops.
  int64_t run_length() const { return sizes_.size() == 0 ? 1 : sizes_[static_cast<int64_t>(sizes_.size()) - 1]; }
  /// Byte stride of an operand in the innermost loop; 0 for a nest without loops.
  int64_t run_stride(size_t operand) const {
    return sizes_.size() == 0 ? 0 : strides_[operand][static_cast<int64_t>(sizes_.size()) - 1];
  }

  size_t loops() const { return sizes_.size(); }
  /// Byte stride of an operand in a loop.
  int64_t stride(size_t operand, size_t loop) const { return strides_[operand][static_cast<int64_t>(loop)]; }

  /// Calls `f(char* const* pointers, int64_t n)` for each run: n steps of run_stride(k) bytes from pointers[k]. With
  /// kInner = 2 only for the first run of the loop around: f walks over that, too.
  template <int kInner = 1, typename F>
  void for_each_run(F&& f) const {
    if (empty()) {
      return;
    }
    char* pointers[kMaxOperands];
    for (size_t k = 0; k < operands_; ++k) {
      pointers[k] = data_[k];
    }
    int64_t index[kMaxRank] = {};
    const int64_t n = run_length();
    for (;;) {
      f(static_cast<char* const*>(pointers), n);
      int64_t d = static_cast<int64_t>(sizes_.size()) - 1 - kInner;
      for (; d >= 0; --d) {
        for (size_t k = 0; k < operands_; ++k) {
          pointers[k] += strides_[k][d];
        }
        if (++index[d] < sizes_[d]) {
          break;
        }
        for (size_t k = 0; k < operands_; ++k) {
          pointers[k] -= strides_[k][d] * sizes_[d];
        }
        index[d] = 0;
      }
      if (d < 0) {
        return;
      }
    }
  }

 private:
  void drop_unit_loops();
  void move_loop(size_t from, size_t to);

  Sizes sizes_;
  char* data_[kMaxOperands] = {};
  Sizes strides_[kMaxOperands];  // bytes
  size_t operands_ = 0;
};

/// Calls f(part) for parts of a nest that together are all of it, shared among the threads of the call's pool, until
/// the caller asks to stop. `cost`: simple instructions that a step of the innermost loop takes.
template <typename F>
void parallel_parts(const KernelContext& context, const LoopNest& nest, size_t cost, F&& f) {
  if (nest.empty()) {
    return;
  }
  const size_t loop = nest.loop_to_share(cost);
  const auto size = static_cast<size_t>(nest.loop_size(loop));
  const size_t work = static_cast<size_t>(nest.steps()) / size * cost;
  threads::parallel_for(context, size, threads::grain_for(work), [&](size_t begin, size_t end) {
    if (end - begin == size) {
      f(nest);
    } else {
      f(nest.part(loop, static_cast<int64_t>(begin), static_cast<int64_t>(end)));
    }
  });
}

}  // namespace et::kernels::portable
