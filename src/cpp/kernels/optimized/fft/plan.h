/// What a Fourier transform of one length needs beside its data: its stages, their roots of unity, and for lengths with
/// a large prime factor the chirp that makes a convolution of it.
///
/// For: fft.cpp. A plan is made at each call: it costs a small part of the transforms that it serves.
/// Not for: the vector code (fft/lanes-inl.h), which reads plans only.
///
///     ET_TRY(FftPlan<float> plan, FftPlan<float>::make(context, 1000));   // stages 4, 2, 5, 5, 5
///
/// Sources: D. H. Bailey, "FFTs in external or hierarchical memory", 1990 (long transforms as two rounds of short
/// ones); L. Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", 1970.
#pragma once

#include "runtime/kernel_types.h"

namespace et::kernels::optimized::fft {

/// Prime factors above this make mixed radix slower than a convolution.
inline constexpr size_t kLargestRadix = 100;
/// Longer transforms do not stay in the second cache when those of a vector's lanes are made side by side.
inline constexpr size_t kLongestInLanes = 4096;

/// The powers of exp(-2πi / n) in double, right to about two units in the last place, from two tables of about √n
/// entries.
class RootsOfUnity {
 public:
  /// Errors: MemoryAllocationFailed.
  static Result<RootsOfUnity> make(KernelContext& context, size_t n);

  /// k in [0, n).
  ComplexDouble at(size_t k) const {
    const ComplexDouble a = high_[k >> shift_];
    const ComplexDouble b = low_[k & mask_];
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }

 private:
  const ComplexDouble* high_ = nullptr;
  const ComplexDouble* low_ = nullptr;
  size_t shift_ = 0;
  size_t mask_ = 0;
};

/// One pass over a transform: s times m butterflies of `radix` elements; s is the product of the radices before.
template <typename T>
struct FftStage {
  size_t radix, m, s;
  const T* twiddles;  // [m][radix - 1][2]
  const T* roots;     // [radix][2]: cos and sin of 2πk / radix; for odd radices
};

template <typename T>
struct FftPlan {
  /// Tables for transforms of n elements, forwards. Errors: MemoryAllocationFailed.
  static Result<FftPlan> make(KernelContext& context, size_t n);
  /// Chirp and filter only, for a convolution of m steps that is made elsewhere. Errors: MemoryAllocationFailed.
  static Result<FftPlan> make_chirp(KernelContext& context, size_t n, size_t m);

  size_t n = 1;  ///< length of a transform
  size_t m = 1;  ///< length that the stages transform: n, or that of the convolution
  size_t num_stages = 0;
  FftStage<T> stages[40];
  const T* chirp = nullptr;  ///< [n][2]: exp(-πi k² / n); nullptr when there is no convolution
  T* filter = nullptr;       ///< [m][2]: the conjugate chirp, both ways, divided by m; to be transformed by the maker
};

/// True when every prime factor of n is at most kLargestRadix.
bool is_smooth(size_t n);
/// The divisor of n next to √n from below such that it and its cofactor can be transformed in lanes; 1 when there is
/// none.
size_t split_length(size_t n);
/// A power of two of at least 2 n - 1: the length of a convolution with a chirp.
size_t convolution_length(size_t n);

}  // namespace et::kernels::optimized::fft
