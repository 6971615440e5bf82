/// Kernels whose output may overlap an input at more places than where both begin.
///
/// For: kernels/cortex_m, whose programs are planned so that a convolution writes over its own input. Letter x beside
/// those of unboxing.h: T that a written tensor may overlap where the kernel's `prepare` takes the call. Both tensors
/// have fixed sizes and get their memory at load; elsewhere x is T.
///
///     Kernel kernel = make_overlapped_kernel<&blur_out, 0, 0b1>("my::blur.out", kPriorityUser);
///     kernel.prepare = &refuses_what_it_would_read_later;
#pragma once

#include "runtime/kernel.h"

namespace et::runtime {

/// find_overlap of a call that `prepare` sees next: what lies over an argument with the letter x is left to it.
bool find_overlap_before_prepare(const char* signature, Span<EValue* const> args, Overlap* found);

namespace detail {

template <uint32_t InPlace, uint32_t Overlapped, typename Boxed>
constexpr auto make_overlapped_letters() {
  auto letters = make_in_place_letters<InPlace, Boxed>();
  for (size_t i = 0; letters.text[i] != '\0'; ++i) {
    letters.text[i] = has_bit(Overlapped, i) && letters.text[i] == 'T' ? 'x' : letters.text[i];
  }
  return letters;
}
template <uint32_t InPlace, uint32_t Overlapped, typename Boxed>
inline constexpr auto overlapped_letters = make_overlapped_letters<InPlace, Overlapped, Boxed>();

}  // namespace detail

/// make_kernel, where an output may overlap the parameters of `Overlapped` as `prepare`, which it must have, allows.
template <auto Function, uint32_t InPlace, uint32_t Overlapped>
constexpr Kernel make_overlapped_kernel(const char* name, uint8_t priority) {
  using Boxed = detail::Boxed<Function>;
  Kernel kernel = make_kernel<Function, InPlace>(name, priority);
  kernel.signature = detail::overlapped_letters<InPlace, Overlapped, Boxed>.text;
  return kernel;
}

}  // namespace et::runtime
