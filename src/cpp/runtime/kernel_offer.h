/// What a kernel's `prepare` offers before it makes a state: a cost. Several kernels may fit a call; the cheapest runs.
///
/// For: kernels from kPriorityLibrary up to below kPriorityUser, which the Method compares by their offers, and the
///      Method. One that offers nothing is taken when its turn comes, in the order of priorities. A user's kernels are
///      before all of them. Not for: what a cost is made of (runtime/host/kernel_costs.h).
///
///     Error prepare(PrepareContext& context, Span<EValue* const> args, void** state) {
///       if (!fits(args)) return Error::NotSupported;
///       ET_RETURN_IF_ERROR(offer(state, nanoseconds));  // here it ends while the Method compares
///       ... packs the weight, makes the state
///     }
#pragma once

#include "base/error.h"

namespace et::runtime {

/// Whether the build has kernels to compare. Without it they are taken by priority alone.
#ifdef ET_WITHOUT_OFFERS
constexpr bool kComparesOffers = false;
#else
constexpr bool kComparesOffers = true;
#endif

/// A Method that compares has one in the place of the state.
struct KernelOffer {
  double nanoseconds = -1;  ///< negative: none
};

/// Said by a kernel that fits, before it costs anything to say. Errors: NotSupported when the Method only compares.
inline Error offer(void** state, double nanoseconds) {
  if (*state == nullptr) {
    return Error::Ok;
  }
  static_cast<KernelOffer*>(*state)->nanoseconds = nanoseconds;
  return Error::NotSupported;
}

}  // namespace et::runtime
