/// Which kernel of this folder is tried first where several serve one operator.
///
/// For: kernels that share an operator with another file of this folder. The others have kPriorityOptimized. No two
/// built-in kernels of one operator have one priority, so the order in which tables are registered decides nothing
/// (tests/cpp/builtin). Not for: whether a kernel takes a call; its `prepare` says that.
#pragma once

#include <array>

#include "runtime/kernel_types.h"

namespace et::kernels::optimized {

/// The kernel at another priority than the first of its row.
constexpr Kernel at_priority(uint8_t priority, Kernel kernel) {
  kernel.priority = priority;
  return kernel;
}
/// The same of a table.
template <size_t kCount>
constexpr std::array<Kernel, kCount> at_priority(uint8_t priority, const Kernel (&kernels)[kCount]) {
  std::array<Kernel, kCount> table{};
  for (size_t i = 0; i < kCount; ++i) {
    table[i] = at_priority(priority, kernels[i]);
  }
  return table;
}

// By priority alone. Most of these tell themselves apart by the element type; then the order is of no consequence.
inline constexpr uint8_t kPriorityIntegers = runtime::kPriorityOptimized + 2;     ///< of up to 32 bits
inline constexpr uint8_t kPriorityImages = runtime::kPriorityOptimized + 4;       ///< channels innermost, before planes
inline constexpr uint8_t kPriorityWholeImages = runtime::kPriorityOptimized + 5;  ///< one result a channel

/// Kernels that offer what they cost, and are compared by it with all others that do (runtime/kernel_offer.h).
inline constexpr uint8_t kPriorityOffering = 150;

// Names of those kernels, and the order of those that offer the same or nothing: what needs the fewest multiplications
// first, then what is for a special form, and windows, which take any, last.
inline constexpr uint8_t kPriorityWindows = kPriorityOffering;
inline constexpr uint8_t kPriorityPixels = kPriorityOffering + 1;
inline constexpr uint8_t kPriorityTransposed = kPriorityOffering + 2;
inline constexpr uint8_t kPriorityDepthwise = kPriorityOffering + 3;
inline constexpr uint8_t kPriorityWinograd = kPriorityOffering + 4;
inline constexpr uint8_t kPriorityGroups = kPriorityOffering + 6;
/// A product of one row, which reads its weight in place; other linear layers are products of pixels.
inline constexpr uint8_t kPriorityOneRow = kPriorityOffering + 2;

}  // namespace et::kernels::optimized
