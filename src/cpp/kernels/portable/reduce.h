/// Reductions: each output element is made from the input elements along some dimensions.
///
/// For: sum, mean, amax, argmax, var, any … Not for: scans (cumsum) and normalisations, which write every element.
///
///     Reduction reduction;
///     ET_RETURN_IF_ERROR(reduction.plan(context, "aten::amax", self, dims, keepdim, {&out}));
///     reduction.run<float>(-INFINITY, [](float& m, const float* v, int64_t n) { … }, [](float m, char* const* outs) {
///     … });
///
/// Elements of an output are read in row-major order of the reduced dimensions, converted to the compute type in runs.
#pragma once

#include <initializer_list>

#include "kernels/portable/at_once.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/loop_nest.h"

namespace et::kernels::portable {

class Reduction {
 public:
  /// Works out which dimensions go, resizes the outputs (all get the same sizes) and prepares the loops.
  /// `dims` empty means all. Errors: InvalidArgument for a dim out of range or named twice; those of resize_tensor.
  Error plan(KernelContext& context, const char* op, const Tensor& self, IntArrayRef dims, bool keepdim,
             std::initializer_list<const Tensor*> outs);

  /// For complex tensors: reduces their real (0) or imaginary (1) parts, in that order, as real numbers.
  void take_part(int part);

  /// How many elements go into one output element.
  int64_t count() const { return count_; }

  /// For each output element: state = initial; step(state, values, n) for each run of values; finish(state, outs),
  /// where outs[k] is the address of the element in output k. Several threads may do this for different elements at
  /// once.
  template <typename C, typename State, typename Step, typename Finish>
  void run(const State& initial, const Step& step, const Finish& finish) {
    parallel_parts(*context_, kept_, static_cast<size_t>(count_),
                   [&](const LoopNest& kept) { run_part<C>(kept, initial, step, finish); });
  }

 private:
  /// Values of a block: elements that are neighbours in memory belong to different outputs where columns are reduced,
  /// and are read together then.
  static constexpr int64_t kColumns = kColumnsAtOnce;
  static constexpr int64_t kRows = 64;
  /// Values of a run between two looks at whether the caller asked to stop.
  static constexpr int64_t kLongRun = 1 << 20;

  template <typename C, typename State, typename Step, typename Finish>
  void run_part(const LoopNest& kept, const State& initial, const Step& step, const Finish& finish) const {
    C buffer[kColumns * kRows];
    LoopNest reduced = reduced_;
    const int64_t size = static_cast<int64_t>(element_size(dtype_));
    const int64_t stride = reduced.run_stride(0);
    const int64_t next = kept.run_stride(num_outs_);
    const bool direct = dtype_ == dtype_of<C> && (stride == size || reduced.run_length() == 1);
    const int64_t block = next == size && !direct ? kColumns : 1;
    kept.for_each_run([&](char* const* pointers, int64_t outputs) {
      for (int64_t o = 0; o < outputs; o += block) {
        const int64_t columns = outputs - o < block ? outputs - o : block;
        State states[kColumns];
        for (int64_t c = 0; c < columns; ++c) {
          states[c] = initial;
        }
        reduced.rebase(0, pointers[num_outs_] + o * next);
        reduced.for_each_run([&](char* const* in, int64_t n) {
          if (direct) {
            for (int64_t start = 0; start < n && !context_->cancelled(); start += kLongRun) {
              const int64_t some = n - start < kLongRun ? n - start : kLongRun;
              step(states[0], reinterpret_cast<const C*>(in[0]) + start, some);
            }
            return;
          }
          for (int64_t start = 0; start < n && !context_->cancelled(); start += kRows) {
            const int64_t rows = n - start < kRows ? n - start : kRows;
            load_columns(dtype_, in[0] + start * stride, stride / size, rows, columns, buffer);
            for (int64_t c = 0; c < columns; ++c) {
              step(states[c], static_cast<const C*>(buffer + c * kRows), rows);
            }
          }
        });
        for (int64_t c = 0; c < columns; ++c) {
          char* outs[LoopNest::kMaxOperands];
          for (size_t k = 0; k < num_outs_; ++k) {
            outs[k] = pointers[k] + (o + c) * kept.run_stride(k);
          }
          finish(static_cast<const State&>(states[c]), static_cast<char* const*>(outs));
        }
      }
    });
  }

  /// out[c * kRows + r] = element c of row r; columns are neighbours, rows `row_stride` elements apart.
  template <typename C>
  static void load_columns(ScalarType dtype, const char* data, int64_t row_stride, int64_t rows, int64_t columns,
                           C* out);

  LoopNest kept_{IntArrayRef()};             // operands: the outputs, then self
  LoopNest reduced_{IntArrayRef()};          // operand: self
  char* data_[LoopNest::kMaxOperands] = {};  // of the operands of kept_
  size_t num_outs_ = 0;
  int64_t count_ = 1;
  ScalarType dtype_ = ScalarType::Float;
  const KernelContext* context_ = nullptr;
};

/// Sum of `n` values, in eight partial sums so that the rounding error stays small and the loop is vectorised.
template <typename C>
inline C sum_run(const C* values, int64_t n) {
  C lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int64_t k = 0; k < 8; ++k) {
      lanes[k] += values[i + k];
    }
  }
  for (; i < n; ++i) {
    lanes[0] += values[i];
  }
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}
/// Integers wrap round.
template <>
inline int64_t sum_run(const int64_t* values, int64_t n) {
  uint64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    total += static_cast<uint64_t>(values[i]);
  }
  return static_cast<int64_t>(total);
}

/// Adds the values to a running total in the same way, in blocks, so that long sums keep their precision.
template <typename Total, typename C>
inline void add_run(Total& total, const C* values, int64_t n) {
  constexpr int64_t kBlock = 512;
  for (int64_t start = 0; start < n; start += kBlock) {
    const C part = sum_run(values + start, n - start < kBlock ? n - start : kBlock);
    if constexpr (std::is_same_v<Total, int64_t>) {
      total = static_cast<int64_t>(static_cast<uint64_t>(total) + static_cast<uint64_t>(part));
    } else {
      total += static_cast<Total>(part);
    }
  }
}

}  // namespace et::kernels::portable
