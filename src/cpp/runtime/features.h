/// Parts of a program that a build's runtime knows. A build for one model leaves out what that has not, and refuses a
/// program that has it (NotSupported).
///
/// For: firmware, whose size counts; -DET_FEATURES=<sum of Feature>. Not for: hosts, which know everything.
///
///     if (!has(Feature::kDynamicShapes)) {
///       return Error::NotSupported;  // what follows is not compiled
///     }
///
/// executorch_py/firmware/features.py finds out what a program has. Included by sources only.
#pragma once

#include <cstdint>

namespace et::runtime {

enum class Feature : uint32_t {
  kDebugInfo = 1,        ///< named data "executorch_py.debug"; without it, it is not read
  kDynamicShapes = 2,    ///< tensors whose sizes change from call to call
  kDelegates = 4,        ///< calls of backends
  kExternalTensors = 8,  ///< constants that another file has
  kControlFlow = 16,     ///< jumps, moves, and memory that is given back
  kKeptMemory = 32,      ///< state that outlives an execution, or that methods share
  kSequences = 64,       ///< integer convolutions over one dimension; without it, only the plain kernel has them
};

#ifdef ET_FEATURES
inline constexpr uint32_t kFeatures = ET_FEATURES;
#else
inline constexpr uint32_t kFeatures = UINT32_MAX;
#endif

/// False in a build without texts: nothing is looked up that only a message would say.
#ifdef ET_STRIP_MESSAGES
inline constexpr bool kHasMessages = false;
#else
inline constexpr bool kHasMessages = true;
#endif

constexpr bool has(Feature feature) { return (kFeatures & static_cast<uint32_t>(feature)) != 0; }

}  // namespace et::runtime
