/// Counts, from 0 on, in whole steps. They see no overflow: base/checked_math.h does, for sizes that nobody checked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace et {

/// How many steps hold `n`.
constexpr size_t divide_up(size_t n, size_t step) { return (n + step - 1) / step; }
constexpr int64_t divide_up(int64_t n, int64_t step) { return (n + step - 1) / step; }

/// The least multiple of `step` that holds `n`.
constexpr size_t round_up(size_t n, size_t step) { return divide_up(n, step) * step; }
constexpr int64_t round_up(int64_t n, int64_t step) { return divide_up(n, step) * step; }

}  // namespace et
