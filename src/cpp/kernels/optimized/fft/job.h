/// A round of Fourier transforms of one length along one dimension, as the vector code takes it.
///
/// For: between fft.cpp, which plans rounds, and fft/lanes-inl.h, which makes them. Not for: kernels of other
///      operators.
///
///     FftJob<float> job;                      // 500 transforms of the rows of a complex tensor [500, 1000]
///     job.from = FftSide<float>::complex_numbers(data, 1000, 1);
#pragma once

#include "kernels/optimized/fft/plan.h"

namespace et::kernels::optimized::fft {

/// Entries of the finer one of the two tables that `twist` multiplies.
inline constexpr size_t kFineSteps = 32;

/// What is transformed. Real sequences of even length are transformed as half as many complex numbers.
enum class FftKind : uint8_t { Complex, RealToComplex, ComplexToReal };

/// Where the transforms of a round lie in memory: transform (lane) l at l / inner * outer_step + l % inner * lane_step,
/// its elements `step` apart. All counts are of numbers of type T.
template <typename T>
struct FftSide {
  T* data = nullptr;
  size_t step = 2;
  size_t imag = 1;  // from a real part to its imaginary part; 0: there are none
  size_t inner = 1;
  size_t lane_step = 2;
  size_t outer_step = 0;

  /// A complex tensor [outer, n, inner], transformed along n.
  static FftSide complex_numbers(T* data, size_t n, size_t inner) {
    return {data, 2 * inner, 1, inner, 2, 2 * n * inner};
  }
  /// A real one; neighbours along n make a complex number if n is even.
  static FftSide real_numbers(T* data, size_t n, size_t inner) {
    const bool pairs = n % 2 == 0;
    return {data, pairs ? 2 * inner : inner, pairs ? inner : 0, inner, 1, n * inner};
  }
  T* start(size_t lane) const { return data + lane / inner * outer_step + lane % inner * lane_step; }
};

template <typename T>
struct FftJob {
  FftKind kind = FftKind::Complex;
  size_t n = 1;                         // length of the sequence
  const FftPlan<T>* plan = nullptr;     // of n, or of n / 2 for real sequences of even length
  const T* roots = nullptr;             // [n / 4 + 1][2]: exp(-2πi k / n), for real sequences of even length
  const RootsOfUnity* twist = nullptr;  // multiplies element k of lane l by power l k of these
  size_t lanes = 0;                     // transforms
  size_t loaded = 0, stored = 0;        // elements of each that are read and written
  FftSide<T> from, to;
  bool from_swapped = false, to_swapped = false;  // real and imaginary parts change places: a transform backwards
  T scale = 1;
  size_t buffer = 0;  // elements of a buffer, see set_buffer

  /// To be called when the rest is known.
  void set_buffer() {
    const size_t longest = n > plan->m ? n : plan->m;
    buffer = longest + 1;
  }
  /// Elements (of 2 numbers a lane) that a task needs beside the tensors.
  size_t scratch_elements() const { return 2 * buffer + kFineSteps + plan->n / kFineSteps + 2; }
};

}  // namespace et::kernels::optimized::fft
