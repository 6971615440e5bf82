/// Two operators as the kernels of one implementation: one, and the same with limited results.
///
/// For: stateful kernels of et::convolution_clamp, et::linear_clamp and what they limit. The limits are the arguments
///      before the output.
///
///     ET_KERNEL_TABLE(pixel_linear, ClampedKernels<signature::linear_out, signature::linear_clamp_out, &prepare, &run,
///                                                  kPriorityPixels>::kTable)
#pragma once

#include <string_view>

#include "kernels/optimized/vec/fitting.h"

namespace et::kernels::optimized {

/// Plans a call, from `min` to `max` where they are not nullptr. Errors: NotSupported for one of another kind.
using PrepareClamped = Error (*)(runtime::PrepareContext& context, Arguments args, const EValue* min, const EValue* max,
                                 void** state);

/// What the kernels offer decides, among them and against a library; of equal offers the order of priorities.h.
template <const Signature& kPlain, const Signature& kClamped, PrepareClamped kPrepare, runtime::KernelRun kRun,
          uint8_t kPriority>
struct ClampedKernels {
  static constexpr size_t kMin =
      std::string_view(kClamped.letters).size() - 3;  // before the other limit and the output

  static Error plain(runtime::PrepareContext& context, Arguments args, void** state) {
    return kPrepare(context, args, nullptr, nullptr, state);
  }
  static Error clamped(runtime::PrepareContext& context, Arguments args, void** state) {
    return kPrepare(context, args, args[kMin], args[kMin + 1], state);
  }
  static constexpr Kernel kTable[] = {
      make_stateful_kernel<&plain, kRun>(kPlain, kPriority),
      make_stateful_kernel<&clamped, kRun>(kClamped, kPriority),
  };
};

}  // namespace et::kernels::optimized
