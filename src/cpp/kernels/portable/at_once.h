/// How many elements a kernel converts at one time, into arrays on the stack.
///
/// For: kernels whose results do not depend on it. Not for: sums, whose order it would change.
/// Firmware sets ET_SMALL_STACK: an addition takes 3 KB of stack then, instead of 8.
#pragma once

#include <cstdint>

namespace et::kernels::portable {

#ifdef ET_SMALL_STACK
inline constexpr int64_t kElementsAtOnce = 32;
inline constexpr int64_t kColumnsAtOnce = 2;  ///< of neighbours in memory that are reduced apart from each other
#else
inline constexpr int64_t kElementsAtOnce = 128;
inline constexpr int64_t kColumnsAtOnce = 16;
#endif

}  // namespace et::kernels::portable
