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

// Below a library. Most of these tell themselves apart by the element type; then the order is of no consequence.
inline constexpr uint8_t kPriorityIntegers = runtime::kPriorityOptimized + 2;     ///< of up to 32 bits
inline constexpr uint8_t kPriorityImages = runtime::kPriorityOptimized + 4;       ///< channels innermost, before planes
inline constexpr uint8_t kPriorityWholeImages = runtime::kPriorityOptimized + 5;  ///< one result a channel

/// What these cost decides, among them and against a library (runtime/kernel_offer.h).
inline constexpr uint8_t kPriorityBeforeLibrary = 150;

// Names of those kernels, and the order of those that offer the same or nothing: what needs the fewest multiplications
// first, then what is for a special form, and windows, which take any, last.
inline constexpr uint8_t kPriorityWindows = kPriorityBeforeLibrary;
inline constexpr uint8_t kPriorityPixels = kPriorityBeforeLibrary + 1;
inline constexpr uint8_t kPriorityTransposed = kPriorityBeforeLibrary + 2;
inline constexpr uint8_t kPriorityDepthwise = kPriorityBeforeLibrary + 3;
inline constexpr uint8_t kPriorityWinograd = kPriorityBeforeLibrary + 4;
inline constexpr uint8_t kPriorityGroups = kPriorityBeforeLibrary + 6;
inline constexpr uint8_t kPriorityTiles = kPriorityBeforeLibrary + 5;
/// A product of one row, which reads its weight in place; other linear layers are products of pixels.
inline constexpr uint8_t kPriorityOneRow = kPriorityBeforeLibrary + 2;

}  // namespace et::kernels::optimized
