/// Rotations of the rows of a matrix that are kept until there are many, then applied to some columns after others.
///
/// For: the vectors of QL and QR steps (linalg/eigen.cpp, linalg/singular.cpp): one step's rotations read and write all
/// of a matrix that no cache holds. Not for: rows whose new values the next rotation's angle depends on.
///
///     ET_TRY(Rotations<float> rotations, Rotations<float>::make(work, rows));
///     rotations.append(work, first, count, cosines, sines);
///     rotations.flush(work);
#pragma once

#include "base/rounding.h"
#include "kernels/optimized/linalg/dense.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::linalg {

template <typename T>
class Rotations {
 public:
  Rotations() = default;
  static Result<Rotations> make(DenseWork<T>& work, const Dense<T>& rows) {
    Rotations made;
    made.rows_ = rows;
    ET_TRY(made.cosines_, work.vector(kRotationNumbers));
    made.sines_ = made.cosines_ + kRotationNumbers / 2;
    return made;
  }

  /// Rows k and k + 1 become c x_k + s x_(k+1) and c x_(k+1) - s x_k, for k = first + count - 1 … first, or with
  /// `downward` from first on.
  void append(DenseWork<T>& work, int64_t first, int64_t count, const double* c, const double* s,
              bool downward = false) {
    while (count > 0) {
      if (steps_ == kSteps || used_ == kRotationNumbers / 2) {
        flush(work);
      }
      const int64_t taken = std::min(count, kRotationNumbers / 2 - used_);
      const int64_t skipped = downward ? 0 : count - taken;  // the first that are applied
      for (int64_t k = 0; k < taken; ++k) {
        cosines_[used_ + k] = static_cast<T>(c[skipped + k]);
        sines_[used_ + k] = static_cast<T>(s[skipped + k]);
      }
      step_[steps_++] = {first + skipped, taken, used_, downward};
      used_ += taken;
      count -= taken;
      first += downward ? taken : 0;
      c += downward ? taken : 0;
      s += downward ? taken : 0;
    }
  }

  /// Applies what has been kept.
  void flush(DenseWork<T>& work) {
    constexpr int64_t kColumns = 256 / sizeof(T);
    const auto chunks = static_cast<size_t>(divide_up(rows_.cols, kColumns));
    const auto elements = static_cast<size_t>(kColumns * used_ / 16);
    threads::parallel_for(work.context().pool(), chunks, threads::grain_for(elements), [&](size_t begin, size_t end) {
      for (size_t chunk = begin; chunk < end; ++chunk) {
        const int64_t column = static_cast<int64_t>(chunk) * kColumns;
        const int64_t width = std::min(kColumns, rows_.cols - column);
        for (int64_t i = 0; i < steps_; ++i) {
          const Step& step = step_[i];
          work.lines.rotate(rows_[step.first] + column, rows_.stride, width, cosines_ + step.at, sines_ + step.at,
                            step.count, step.downward);
        }
      }
    });
    steps_ = used_ = 0;
  }

 private:
  struct Step {
    int64_t first, count, at;
    bool downward;
  };
  static constexpr int64_t kSteps = 128;

  Dense<T> rows_;
  T *cosines_ = nullptr, *sines_ = nullptr;
  Step step_[kSteps] = {};
  int64_t steps_ = 0, used_ = 0;
};

}  // namespace et::kernels::optimized::linalg
